"""Speed of ours, for `language_model`: random weights in bfloat16 and in 4 bits."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import mlx.core as mx
from mlx import nn
from mlx.utils import tree_flatten

from tests.benchmarks.gpu.check import report
from tests.benchmarks.gpu.phases import DECODE, OURS, PREFILL, SIZES, Call, Device, Phase, Size, run
from xlstm_kernels.checkpoints.quantization import quantize
from xlstm_kernels.differentiation import inference
from xlstm_kernels.mlx_lm import Model
from xlstm_kernels.nn import xLSTM, xLSTMConfig

BITS, GROUP_SIZE = 4, 64
#: What a compiled prompt may use besides the weights: called directly, its blocks bound it.
PROMPT_BYTES = 3 * 2**29
DEVICE = Device(mx.synchronize, mx.reset_peak_memory, mx.get_peak_memory)


def phases(size: Size) -> Iterator[Phase]:
    """Ours in bfloat16, then in 4 bits; eager, then inside `mx.compile`."""
    model = Model(xLSTMConfig(**size.shape))
    model.set_dtype(mx.bfloat16)
    for name in (OURS, f"{OURS}, {BITS} bits"):
        if name != OURS:
            quantize(model, BITS, GROUP_SIZE)
        evaluate(model)
        weights = tree_flatten(model.parameters())
        report(f"{name}: {sum(array.nbytes for _, array in weights) / 1e9:.2f} GB of weights")
        for compiled in (False, True):
            full = f"{name}, compiled" if compiled else name
            for batch in size.batches:
                start = partial(decoding, model, size, batch, compiled)
                yield Phase(full, DECODE, batch, size.steps, start)
            for tokens in size.prompts:
                yield Phase(full, PREFILL, 1, tokens, partial(prefilling, model, tokens, compiled))


def evaluate(model: nn.Module) -> None:
    """Evaluate layer by layer: what a layer is made from is freed before the next one."""
    for _, layer in tree_flatten(model.leaf_modules(), is_leaf=nn.Module.is_module):
        mx.eval(layer.parameters())
    mx.eval(model.parameters())
    mx.clear_cache()


def prefilling(model: Model, tokens: int, compiled: bool) -> Call:
    """Return a call that computes the states after a prompt and the token that follows."""
    prompt = mx.random.randint(0, model.config.vocab_size, (1, tokens))

    def following(prompt: mx.array, states: Sequence[Any]) -> tuple[mx.array, list[Any]]:
        hidden, after = model.backbone(prompt, states)
        return mx.argmax(model.lm_head(hidden[:, -1:]), axis=-1), after

    def limited() -> None:
        limit = mx.set_memory_limit(mx.get_active_memory() + PROMPT_BYTES)
        mx.eval(predict(prompt, model.init_cache(1)))
        mx.set_memory_limit(limit)

    predict = mx.compile(following) if compiled else following
    return limited if compiled else lambda: mx.eval(predict(prompt, model.init_cache(1)))


def decoding(model: Model, size: Size, batch: int, compiled: bool) -> Call:
    """Return a call that decodes greedily, one step ahead of the host as mlx-lm's generation."""
    tokens = mx.random.randint(0, size.vocabulary, (batch, 1))
    cache, states = model.make_cache(), model.init_cache(batch)

    def following(tokens: mx.array, states: list[Any]) -> tuple[mx.array, list[Any]]:
        logits = xLSTM.__call__(model, tokens, states)
        return mx.argmax(logits, axis=-1), states

    predict = mx.compile(following)

    def step() -> mx.array:
        nonlocal states
        if not compiled:
            return mx.argmax(model(tokens, cache), axis=-1)
        after, states = predict(tokens, states)
        return after

    def call() -> None:
        nonlocal tokens
        for _ in range(size.steps):
            after = step()
            mx.async_eval(after)
            mx.eval(tokens)
            tokens = after

    return call


def main(name: str, deadline: str) -> None:
    """Print a line for each phase, of the size of this name."""
    with inference():
        run(phases(SIZES[name]), DEVICE, float(deadline))


if __name__ == "__main__":
    main(*sys.argv[1:])
