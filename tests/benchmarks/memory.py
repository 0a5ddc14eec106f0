"""Memory that gradients of the mLSTM take: ``python -m tests.benchmarks.memory``.

Peak memory of MLX for one gradient in all inputs, in its own operations, as a ratio to the same
gradient where every state is stored: what MLX derives from the step by step reference. And what
waits between forward and backward: the inputs, h and a number a step, beside all states between
chunks, which are computed again.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels.mlstm.chunkwise import mlstm_chunkwise
from xlstm_kernels.mlstm.sequence import mlstm_sequence_reference

if TYPE_CHECKING:
    from collections.abc import Callable

HEADS, KEYS, VALUES = 4, 64, 64
CHUNK_SIZE = 64


def inputs(steps: int) -> list[mx.array]:
    """q, k, v, i and f of one sequence."""
    mx.random.seed(0)
    widths = (KEYS, KEYS, VALUES)
    arrays = [mx.random.normal((1, HEADS, steps, width)) for width in widths]
    arrays += [mx.random.normal((1, HEADS, steps)) for _ in "if"]
    mx.eval(arrays)
    return arrays


def peak(call: Callable[..., mx.array], arrays: list[mx.array]) -> int:
    """Bytes above what the inputs take."""
    gradient = mx.grad(lambda *given: mx.sum(mx.square(call(*given))), argnums=tuple(range(5)))
    mx.clear_cache()
    mx.reset_peak_memory()
    before = mx.get_active_memory()
    mx.eval(gradient(*arrays))
    return mx.get_peak_memory() - before


def main() -> int:
    """Print the table."""
    chunkwise = functools.partial(mlstm_chunkwise, chunk_size=CHUNK_SIZE, backend="native")
    for steps in (256, 1024, 4096):
        arrays = inputs(steps)
        ours = peak(chunkwise, arrays)
        line = f"{steps:>5} steps: gradient {ours / 2**20:7.1f} MiB"
        if steps <= 1024:
            stored = peak(lambda *given: mlstm_sequence_reference(*given)[0], arrays)
            line += f", all states stored {stored / 2**20:7.1f} MiB: {ours / stored:.3f}"
        kept = HEADS * steps * 4 * (2 * KEYS + 2 * VALUES + 3)
        states = HEADS * (steps // CHUNK_SIZE + 1) * 4 * (KEYS * VALUES + KEYS)
        line += f"; kept {kept / 2**20:.2f} MiB, states would add {states / kept:.2f} of it\n"
        sys.stdout.write(line)
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
