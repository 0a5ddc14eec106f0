"""Gradients through the normaliser of the mLSTM, step by step.

h = numerator / (max(|a|, floor) + eps), where the numerator and a are linear in q.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import lane_pack
from xlstm_kernels.msl import PACKS

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.chunked.gates import LogGates


class NormalizerGradients(NamedTuple):
    """Of every step, (B, NH, NC, L) float32.

    Attributes:
        inverse: 1 / normaliser, zero where h is zero whatever comes.
        bias: da, the gradient in the sums before their bound.
        by_eps: the gradient in m, which scales all but eps.
    """

    inverse: mx.array
    bias: mx.array
    by_eps: mx.array


def normalizer_gradients(
    h: mx.array,
    cotangent: mx.array,
    sums: mx.array,
    gates: LogGates,
    eps: float,
    *,
    normalize: bool,
    through: bool,
    backend: str,
) -> NormalizerGradients:
    """Gradients through the normaliser, from the cotangent of h.

    Args:
        h: (B, NH, NC, L, DV), as it lies.
        cotangent: of h.
        sums: a, (B, NH, NC, L) float32.
        gates: of the steps.
        eps: added to the normaliser.
        normalize: whether h was divided.
        through: whether the gradient flows through the normaliser.
        backend: as `executors.resolve` returned it.
    """
    nothing = mx.zeros_like(sums)
    live = mx.isfinite(gates.floor)
    if not normalize:
        return NormalizerGradients(live.astype(mx.float32), nothing, nothing)
    size, smallest = mx.abs(sums), mx.array(eps, dtype=sums.dtype)
    divisor = mx.maximum(size, gates.floor) + smallest
    inverse = mx.where(live, mx.reciprocal(divisor), nothing)
    if not through:
        return NormalizerGradients(inverse, nothing, nothing)
    pulled = mx.where(live, row_dots(h, cotangent, backend=backend), nothing) * inverse
    bias = mx.where(size > gates.floor, mx.negative(pulled) * mx.sign(sums), nothing)
    return NormalizerGradients(inverse, bias, mx.negative(pulled * smallest))


def row_dots(a: mx.array, b: mx.array, *, backend: str) -> mx.array:
    """Dot products of rows, (..., D) twice to (...), summed in float32."""
    if backend == executors.NATIVE:
        return mx.sum(a.astype(mx.float32) * b.astype(mx.float32), axis=-1)
    (dots,) = DOTS(a, b, backend=backend)
    return dots


# --- Metal -------------------------------------------------------------------------------------

# A simdgroup takes a row, a lane packs of it.

_ROWS = 8


def _launch(first: mx.array, _second: mx.array) -> Launch:
    batch, heads, chunks, rows, width = first.shape
    return Launch(
        grid=(32, math.ceil(rows / _ROWS) * _ROWS, batch * heads * chunks),
        threadgroup=(32, _ROWS, 1),
        output_shapes=(first.shape[:-1],),
        output_dtypes=(mx.float32,),
        template=(("PACK", min(8, lane_pack(width))),),
    )


DOTS = Kernel(
    name="xlstm_mlstm_row_dots",
    inputs=("first", "second"),
    outputs=("dots",),
    launch=_launch,
    contiguous_inputs=False,
    header=PACKS,
    body="""
    // first, second (B, NH, NC, R, D): strided; dots (B, NH, NC, R).
    const uint lane = thread_index_in_simdgroup;
    const uint heads = first_shape[1];
    const uint chunks = first_shape[2];
    const uint rows = first_shape[3];
    const uint width = first_shape[4];
    const uint row = thread_position_in_grid.y;
    const uint place = threadgroup_position_in_grid.z;
    const uint chunk = place % chunks;
    const uint head = place / chunks % heads;
    const uint batch = place / chunks / heads;
    if (row >= rows) {
        return;
    }
    const auto a = first + batch * first_strides[0] + head * first_strides[1]
        + chunk * first_strides[2] + row * first_strides[3];
    const auto b = second + batch * second_strides[0] + head * second_strides[1]
        + chunk * second_strides[2] + row * second_strides[3];
    float sum = 0.0f;
    for (uint column = lane * PACK; column < width; column += 32 * PACK) {
        const uint left = metal::min(width - column, uint(PACK));
        const auto one = xlstm_load<PACK>(a + column * first_strides[4], first_strides[4], left);
        const auto other =
            xlstm_load<PACK>(b + column * second_strides[4], second_strides[4], left);
        for (uint k = 0; k < PACK; ++k) {
            sum += one.at[k] * other.at[k];
        }
    }
    sum = simd_sum(sum);
    if (lane == 0) {
        dots[static_cast<size_t>(place) * rows + row] = sum;
    }
    """,
)
