"""Generate text with an xLSTM: `python -m xlstm_kernels.generate --model PATH --prompt TEXT`.

The text goes to stdout as it is generated; speed and peak memory go to stderr. Exit code 2 is for
arguments and checkpoints that can't be used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import mlx.core as mx
from mlx_lm.tokenizer_utils import TokenizerWrapper

from xlstm_kernels.checkpoints.loading import CheckpointError, find_folder, load, read_config
from xlstm_kernels.differentiation import inference
from xlstm_kernels.mlstm.backend import DTYPES
from xlstm_kernels.mlx_lm import create_language_model

_PRECISIONS = (2, 3, 4, 5, 6, 8)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        self.exit(2, f"Error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, or with those of the process."""
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        from mlx_lm import stream_generate
        from mlx_lm.sample_utils import make_sampler
    except ImportError as error:
        parser.error(f"mlx-lm is needed: pip install 'embercoach[lm]' ({error})")
    try:
        folder = find_folder(options.model)
        tokenizer = _tokenizer(folder)
        model = load(
            folder,
            dtype=DTYPES.get(options.dtype),
            bits=options.quantize,
            group_size=options.group_size,
            create=create_language_model,
        )
    except CheckpointError as error:
        parser.error(str(error))
    prompt = tokenizer.encode(options.prompt)
    if not prompt:
        parser.error("--prompt must have at least one token")
    last, size = max(prompt), model.args.vocab_size
    if last >= size:  # MLX would read past the embeddings
        parser.error(f"{folder}: token {last} of the tokenizer must be below vocab_size = {size}")
    if options.seed is not None:
        mx.random.seed(options.seed)
    with inference():
        for response in stream_generate(
            model,
            tokenizer,
            prompt,
            max_tokens=options.max_tokens,
            sampler=make_sampler(temp=options.temp),
            prefill_step_size=options.chunk,
        ):
            print(response.text, end="", flush=True)
    print()
    print(
        f"prompt: {response.prompt_tokens} tokens, {response.prompt_tps:.3g} tokens/s; "
        f"text: {response.generation_tokens} tokens, {response.generation_tps:.3g} tokens/s; "
        f"peak memory {response.peak_memory:.3f} GB",
        file=sys.stderr,
    )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m xlstm_kernels.generate", description="Generate text.")
    parser.add_argument("--model", required=True, help="folder, or repository owner/name")
    parser.add_argument("--prompt", required=True, help="text to continue")
    parser.add_argument("--max-tokens", type=_count, default=256, help="default: 256")
    parser.add_argument("--temp", type=_temperature, default=0.0, help="default: 0, greedy")
    parser.add_argument("--seed", type=int, help="of the random numbers, for --temp above 0")
    parser.add_argument("--quantize", type=int, choices=_PRECISIONS, help="bits of a weight")
    parser.add_argument("--group-size", type=int, choices=(32, 64, 128), default=64)
    parser.add_argument("--dtype", choices=DTYPES, help="default: that of the files")
    parser.add_argument(
        "--chunk", type=_count, default=2048, help="prompt tokens at once, default: 2048"
    )
    return parser


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {number}")
    return number


def _temperature(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"must be 0 or more, got {text}")
    return number


def _tokenizer(folder: Path) -> TokenizerWrapper:
    from mlx_lm.utils import load_config, load_tokenizer

    config = read_config(folder)
    if not any(folder.glob("tokenizer*")):
        raise CheckpointError(f"{folder}: no tokenizer files, such as tokenizer.json")
    try:
        if (folder / "config.json").exists():
            config = load_config(folder)  # with generation_config.json
        tokenizer: TokenizerWrapper = load_tokenizer(
            folder, eos_token_ids=config.get("eos_token_id")
        )
    except Exception as error:  # of transformers, which has many readers
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise CheckpointError(f"{folder}: no usable tokenizer: {reason}") from error
    return tokenizer


if __name__ == "__main__":
    raise SystemExit(main())
