"""The form that computes an mLSTM, and its chunk: one table, from measurements.

`mLSTMBackend` asks it for a form, and every operator without a `chunk_size`, under its own name or
one of the registry, for a chunk. `executors.resolve` chooses the backend before: kernels where they
can run.

GPU: an H200, bfloat16 (docs/performance.md). CPU: two x86 cores, twelve shapes from (4, 4, 128, 64,
64) to (1, 2, 1024, 256, 512) and (1, 1, 8192, 64, 64), float32 and bfloat16 alike. There, chunks of
64 take 1.0 to 1.3 times as long as those of 32, forward and with backward, up to states of 128 x
256, and at 256 x 512 0.91 to 0.96 of the time and 0.6 of the memory. A step takes 0.7 to 0.95 of
the time of a chunk of one, 2 to 16 steps one by one 0.92 to 4.6 times that of a chunk. There are no
rows by dtype: on a GPU no chunks of float32 were measured.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels import executors

STEP, SEQUENCE, CHUNKWISE = "step", "sequence", "chunkwise"
GREATEST = 256  # steps of a chunk


class Row(NamedTuple):
    """A form, and the calls that it is for: up to `steps` and `state`; None matches both."""

    form: str
    steps: float = math.inf
    state: float = math.inf  # DK * DV
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
    Row(CHUNKWISE, state=128 * 256, chunk_size=32),
    Row(CHUNKWISE, chunk_size=64),
)


def chosen(
    q: mx.array, v: mx.array, backend: str, *, masked: bool = False, form: str | None = None
) -> Row:
    """The first row of the table for a call with q (B, NH, S, DK) and v (B, NH, S, DV), S >= 1.

    `backend` is what `executors.resolve` returned; `form` is the only one to consider, None for
    all.
    """
    by_kernels = backend != executors.NATIVE
    call = (masked, by_kernels, by_kernels or mx.default_device() == mx.gpu)
    return next(
        row
        for row in TABLE
        if form in (None, row.form)
        and q.shape[2] <= row.steps
        and q.shape[-1] * v.shape[-1] <= row.state
        and all(asked in (None, given) for asked, given in zip(row[4:], call, strict=True))
    )
