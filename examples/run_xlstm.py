"""Build a small xLSTM, read a prompt with it, and generate token by token.

    python examples/run_xlstm.py

The model has blocks of both kinds and random weights, so its text means nothing. The point: reading
one token at a time, each with the state after the previous one, gives the logits of the whole
sequence. On a Mac it runs on Metal, elsewhere in MLX's operations.
"""

from __future__ import annotations

import argparse

import mlx.core as mx
from mlx.utils import tree_flatten
from xlstm_kernels.nn import xLSTM, xLSTMConfig

CONFIG = xLSTMConfig(
    vocab_size=256,  # bytes
    hidden_size=128,
    num_hidden_layers=4,
    num_heads=4,
    slstm_at=(1,),
)
TOLERANCE = 1e-5


def generate(model: xLSTM, prompt: mx.array, count: int) -> tuple[mx.array, mx.array]:
    """The tokens (1, S + count); the logits (1, 1 + count, V) after the prompt and each new one.

    The prompt is read at once, whatever its length; then the model sees only the last token.
    """
    cache = model.init_cache(1)
    logits = model(prompt, cache)
    tokens, predicted = [prompt], [logits[:, -1:]]
    for _ in range(count):
        token = mx.argmax(predicted[-1], axis=-1)
        logits = model(token, cache)
        mx.async_eval(logits, cache)  # the next step is built while this one runs
        tokens.append(token)
        predicted.append(logits)
    return mx.concatenate(tokens, axis=1), mx.concatenate(predicted, axis=1)


def main() -> int:
    parser = argparse.ArgumentParser(description="Generate with a small xLSTM.")
    parser.add_argument("--prompt", default="An xLSTM reads this once, and keeps a state.")
    parser.add_argument("--tokens", type=int, default=32, help="how many to generate")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    if not options.prompt or options.tokens < 1:
        parser.error("there must be a prompt, and at least one token to generate")

    mx.random.seed(options.seed)
    model = xLSTM(CONFIG)
    sizes = [array.size for _, array in tree_flatten(model.parameters())]
    kinds = [type(block).__name__ for block in model.backbone.blocks]
    print(f"{sum(sizes):,} parameters; blocks: {', '.join(kinds)}")

    prompt = mx.array([list(options.prompt.encode())])
    tokens, stepwise = generate(model, prompt, options.tokens)
    print(
        f"read {prompt.size} tokens, generated {tokens.size - prompt.size}:",
        tokens[0, prompt.size :][-8:].tolist(),
    )

    whole = model(tokens)[:, prompt.size - 1 :]
    error = mx.linalg.norm(stepwise - whole) / mx.linalg.norm(whole)
    print(f"step by step against the whole: relative error {error.item():.1e}")
    if error.item() > TOLERANCE:
        print("they differ!")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
