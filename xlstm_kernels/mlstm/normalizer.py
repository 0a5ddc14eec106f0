"""Gradients through the normaliser of the mLSTM, step by step.

h = numerator / (max(|a|, floor) + eps), where the numerator and a are linear in q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.gates import LogGates


class NormalizerGradients(NamedTuple):
    """Of every step, (B, NH, NC, L) float32.

    Attributes:
        inverse: 1 / normaliser, zero where h is zero whatever comes.
        bias: da, the gradient in the sums before their bound.
        by_eps: the gradient in m, which scales all but eps.
        q_dot: q . dq. It needs no dq: what a sum that is not bounded adds takes all of it away
            again but for the share of eps.
    """

    inverse: mx.array
    bias: mx.array
    by_eps: mx.array
    q_dot: mx.array


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
    """What the cotangent of h is to the normaliser.

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
    read = mx.where(live, row_dots(h, cotangent, backend=backend), nothing)
    if not normalize:
        return NormalizerGradients(live.astype(mx.float32), nothing, nothing, read)
    size, smallest = mx.abs(sums), mx.array(eps, dtype=sums.dtype)
    divisor = mx.maximum(size, gates.floor) + smallest
    inverse = mx.where(live, mx.reciprocal(divisor), nothing)
    if not through:
        return NormalizerGradients(inverse, nothing, nothing, read)
    free = size > gates.floor
    pulled = read * inverse
    bias = mx.where(free, mx.negative(pulled) * mx.sign(sums), nothing)
    of_eps = pulled * smallest
    q_dot = mx.where(free, of_eps, read)
    return NormalizerGradients(inverse, bias, mx.negative(of_eps), q_dot)


def row_dots(a: mx.array, b: mx.array, *, backend: str) -> mx.array:
    """Dot products of rows, (..., D) twice to (...), summed in float32."""
    if backend == executors.NATIVE:
        return mx.sum(a.astype(mx.float32) * b.astype(mx.float32), axis=-1)
    (dots,) = _DOTS(a, b, backend=backend)
    return dots


# --- Metal -------------------------------------------------------------------------------------

_ROWS = 8


def _launch(first: mx.array, _second: mx.array) -> Launch:
    *leading, _ = first.shape
    batch, heads, chunks, steps = leading
    return Launch(
        grid=(32, -(-steps // _ROWS) * _ROWS, batch * heads * chunks),
        threadgroup=(32, _ROWS, 1),
        output_shapes=(tuple(leading),),
        output_dtypes=(mx.float32,),
    )


_DOTS = Kernel(
    name="xlstm_mlstmrow_dots",
    inputs=("first", "second"),
    outputs=("dots",),
    launch=_launch,
    contiguous_inputs=False,
    body="""
    // first, second (B, NH, NC, L, D): strided; dots (B, NH, NC, L). A simdgroup takes a row.
    const uint lane = thread_index_in_simdgroup;
    const uint heads = first_shape[1];
    const uint chunks = first_shape[2];
    const uint steps = first_shape[3];
    const uint width = first_shape[4];
    const uint row = thread_position_in_grid.y;
    const uint place = threadgroup_position_in_grid.z;
    const uint chunk = place % chunks;
    const uint head = place / chunks % heads;
    const uint batch = place / chunks / heads;
    if (row >= steps) {
        return;
    }
    const auto a = first + batch * first_strides[0] + head * first_strides[1]
        + chunk * first_strides[2] + row * first_strides[3];
    const auto b = second + batch * second_strides[0] + head * second_strides[1]
        + chunk * second_strides[2] + row * second_strides[3];
    float sum = 0.0f;
    for (uint column = lane; column < width; column += 32) {
        sum += static_cast<float>(a[column * first_strides[4]])
            * static_cast<float>(b[column * second_strides[4]]);
    }
    sum = simd_sum(sum);
    if (lane == 0) {
        dots[static_cast<size_t>(place) * steps + row] = sum;
    }
    """,
)
