"""Rows without their numbers that are not finite, and how large each row is: in one pass."""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.mlstm.chunked.row_kernels import row_kernel


def finite_rows(rows: mx.array, *, backend: str) -> tuple[mx.array, mx.array]:
    """`rows` with zeros for NaN and infinity, and the largest magnitude of each row.

    Args:
        rows: (B, NH, S, D), as it lies.
        backend: as `executors.resolve` returned it.

    Returns:
        Rows (B, NH, S, D) in the dtype of `rows`, and magnitudes (B, NH, S) float32: infinity for a
        row that was not finite.
    """
    if backend == executors.NATIVE:
        return mx.where(mx.isfinite(rows), rows, mx.zeros_like(rows)), magnitudes(rows)
    clean, greatest = KERNEL(mx.expand_dims(rows, axis=2), backend=backend)
    return mx.squeeze(clean, axis=2), mx.squeeze(greatest, axis=2)


def magnitudes(rows: mx.array) -> mx.array:
    """The largest magnitude of each row (..., D), float32: infinity if it is not finite."""
    rows = mx.stop_gradient(rows).astype(mx.float32)
    nowhere = mx.array(math.inf, dtype=mx.float32)
    return mx.max(mx.where(mx.isfinite(rows), mx.abs(rows), nowhere), axis=-1)


KERNEL = row_kernel(
    "xlstm_mlstm_finite_rows",
    ("rows",),
    (),
    ("clean", "greatest"),
    """
        for (uint k = 0; k < PACK; ++k) {
            const float size = metal::abs(rows_pack.at[k]);
            rows_pack.at[k] = metal::isfinite(size) ? rows_pack.at[k] : 0.0f;
            number = metal::max(number, metal::isfinite(size) ? size : INFINITY);
        }
        xlstm_store(clean + step * width + column, rows_pack, left);""",
    reduced="simd_max",
)
