"""Rows without their numbers that are not finite, and how large each row is: in one pass."""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import lane_pack
from xlstm_kernels.msl import PACKS

_ROWS = 8


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
    clean, greatest = KERNEL(rows, backend=backend)
    return clean, greatest


def magnitudes(rows: mx.array) -> mx.array:
    """The largest magnitude of each row (..., D), float32: infinity if it is not finite."""
    rows = mx.stop_gradient(rows).astype(mx.float32)
    nowhere = mx.array(math.inf, dtype=mx.float32)
    return mx.max(mx.where(mx.isfinite(rows), mx.abs(rows), nowhere), axis=-1)


# --- Metal -------------------------------------------------------------------------------------

# A simdgroup takes a row, a lane packs of it.


def _launch(rows: mx.array) -> Launch:
    batch, heads, steps, width = rows.shape
    return Launch(
        grid=(32, math.ceil(steps / _ROWS) * _ROWS, batch * heads),
        threadgroup=(32, _ROWS, 1),
        output_shapes=(rows.shape, rows.shape[:3]),
        output_dtypes=(rows.dtype, mx.float32),
        template=(("PACK", min(8, lane_pack(width))),),
    )


KERNEL = Kernel(
    name="xlstm_mlstm_finite_rows",
    inputs=("rows",),
    outputs=("clean", "greatest"),
    launch=_launch,
    contiguous_inputs=False,
    header=PACKS,
    body="""
    // rows (B, NH, S, D): strided; clean (B, NH, S, D), greatest (B, NH, S).
    const uint lane = thread_index_in_simdgroup;
    const uint heads = rows_shape[1];
    const uint steps = rows_shape[2];
    const uint width = rows_shape[3];
    const uint row = thread_position_in_grid.y;
    const uint sequence = threadgroup_position_in_grid.z;
    if (row >= steps) {
        return;
    }
    const auto source = rows + sequence / heads * rows_strides[0]
        + sequence % heads * rows_strides[1] + row * rows_strides[2];
    const size_t step = static_cast<size_t>(sequence) * steps + row;
    float size = 0.0f;
    for (uint column = lane * PACK; column < width; column += 32 * PACK) {
        const uint left = metal::min(width - column, uint(PACK));
        auto values = xlstm_load<PACK>(source + column * rows_strides[3], rows_strides[3], left);
        for (uint k = 0; k < PACK; ++k) {
            const bool is_finite = metal::isfinite(values.at[k]);
            size = metal::max(size, is_finite ? metal::abs(values.at[k]) : INFINITY);
            values.at[k] = is_finite ? values.at[k] : 0.0f;
        }
        xlstm_store(clean + step * width + column, values, left);
    }
    size = simd_max(size);
    if (lane == 0) {
        greatest[step] = size;
    }
    """,
)
