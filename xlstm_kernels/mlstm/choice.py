"""The form that computes an mLSTM, and its chunk: one table, from measurements.

`mLSTMBackend` asks it for a form, and every operator without a `chunk_size`, under its own name or
one of the registry, for a chunk. `executors.resolve` chooses the backend before: kernels where they
can run.

GPU: an H200, bfloat16 (docs/performance.md). CPU: two x86 cores, float32 and bfloat16. There, from
(4, 4, 128, 64, 64) to (1, 2, 1024, 256, 512) and (1, 1, 8192, 64, 64), chunks of 64 steps take 1.04
to 1.3 times as long as those of 32, with backward 0.94 to 1.3 times. A step takes 0.7 to 0.95 of
the time of a chunk of one; 2 to 16 steps one by one take 0.92 to 4.6 times as long as a chunk.
There are no rows by dtype: on the CPU both have the same, on a GPU no chunks of float32 were
measured.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels import executors

STEP, SEQUENCE, CHUNKWISE = "step", "sequence", "chunkwise"
GREATEST = 256  # steps of a chunk


class Row(NamedTuple):
    """A form, and the calls that it is for: up to `steps`; None matches both."""

    form: str
    steps: float = math.inf
    chunk_size: int = 1
    masked: bool | None = None
    by_kernels: bool | None = None
    on_gpu: bool | None = None  # by kernels or MLX operations


TABLE = (
    Row(STEP, steps=1, masked=False),
    Row(SEQUENCE, steps=1),
    Row(SEQUENCE, steps=16, by_kernels=True),
    Row(CHUNKWISE, steps=2047, chunk_size=64, on_gpu=True),
    Row(CHUNKWISE, steps=8191, chunk_size=128, on_gpu=True),
    Row(CHUNKWISE, chunk_size=256, on_gpu=True),
    Row(CHUNKWISE, chunk_size=32),
)


def chosen(steps: int, backend: str, *, masked: bool = False, form: str | None = None) -> Row:
    """The first row of the table for a call.

    Args:
        steps: S, at least 1.
        backend: as `executors.resolve` returned it.
        masked: whether there is a mask.
        form: the only one to consider, None for all.
    """
    by_kernels = backend != executors.NATIVE
    call = (masked, by_kernels, by_kernels or mx.default_device() == mx.gpu)
    return next(
        row
        for row in TABLE
        if form in (None, row.form)
        and steps <= row.steps
        and all(asked in (None, given) for asked, given in zip(row[3:], call, strict=True))
    )
