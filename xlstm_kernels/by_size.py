"""Where MLX's own operations take less time than the pack's: one table, from measurements.

An operator asks it before a call that names no backend: a name is an order. Whatever it answers,
results have the operator's dtype, shape and gradients. The rows for CUDA are of an H200, in
`mx.compile` (docs/performance.md), those for `"native"` of two x86 cores. No Apple GPU was timed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels import executors


class Row(NamedTuple):
    """Sizes for which MLX's own operations are faster, of one operator on one backend."""

    operator: str  # the name; with "_gradient" for the backward pass, "quantized_..." by rows
    backend: str  # as `executors.resolve` returns it
    most: float = math.inf  # the last size, in elements
    half: bool | None = None  # of float16 and bfloat16, or of float32 alone; None for all


CUDA = executors.CudaExecutor.name
TABLE = (
    Row("soft_cap", CUDA, most=2**26 - 1),
    Row("soft_cap_gradient", CUDA, most=2**23 - 1),
    # Of one row; two to seven; eight and more.
    Row("quantized_row", CUDA, most=2**20),
    Row("quantized_row", executors.NATIVE, half=False),
    Row("quantized_rows", CUDA, most=2**18),
    Row("quantized_rows", executors.NATIVE, half=False),
    Row("quantized_tiles", executors.NATIVE, half=False),
)


def by_mlx(operator: str, backend: str | None, size: int, dtype: mx.Dtype) -> bool:
    """Return True if MLX's own operations are faster for a call of this size and dtype.

    These are of its greatest array; `operator` is as in the table, `backend` the argument of the
    call.
    """
    if executors.named(backend):
        return False
    resolved = executors.resolve(None)
    return any(
        row.operator == operator
        and row.backend == resolved
        and size <= row.most
        and row.half in (None, dtype != mx.float32)
        for row in TABLE
    )


def chosen(operator: str, backend: str | None, array: mx.array) -> str:
    """The backend of a call, which is "native" where that is faster for so many elements."""
    faster = by_mlx(operator, backend, array.size, array.dtype)
    return executors.NATIVE if faster else executors.resolve(backend)
