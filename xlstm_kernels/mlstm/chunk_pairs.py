"""Gradients between the steps of a chunk, for each pair of a query and an earlier key.

With P of `chunk_rows`, w_t = 1 / normaliser, da_t the gradient in the normaliser's sum, and
q_t / sqrt(DK) for q_t,

    A_ts = P_ts (q_t . k_s) w_t               (dv_s = sum_t A_ts dh_t + ...)
    E_ts = P_ts (w_t dh_t . v_s + da_t)       (dq_t = sum_s E_ts k_s + ..., dk_s = sum_t E_ts q_t)

both with the factor 1 / sqrt(DK) of the queries. For the gates' sake the dot product of each key
with what it gets of later queries, sum_{t > s} E_ts (q_t . k_s), and with what of its own, is
returned too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunks import weights_within
from xlstm_kernels.msl import PAIRS

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.gates import LogGates

_SIMDGROUPS = 8


class ChunkPairs(NamedTuple):
    """Of each pair of steps of a chunk.

    Attributes:
        values: A, (B, NH, NC, L, L), t before s.
        scores: E, likewise.
        key_dots: dot products of keys and what they get of later queries, (B, NH, NC, L) float32.
        own_dots: of their own query, likewise.
    """

    values: mx.array
    scores: mx.array
    key_dots: mx.array
    own_dots: mx.array


def chunk_pairs(
    scores: mx.array,
    pulled: mx.array,
    gates: LogGates,
    inverse: mx.array,
    bias: mx.array,
    key_width: int,
    dtype: mx.Dtype,
    *,
    backend: str,
) -> ChunkPairs:
    """Gradients of a chunk's pairs of steps.

    Args:
        scores: q k^T, (B, NH, NC, L, L).
        pulled: dh v^T, likewise.
        gates: of the steps.
        inverse: w, (B, NH, NC, L) float32.
        bias: da, likewise.
        key_width: DK.
        dtype: of A and E.
        backend: as `executors.resolve` returned it.
    """
    root = mx.array(key_width**-0.5, dtype=mx.float32)
    if backend == executors.NATIVE:
        return chunk_pairs_reference(scores, pulled, gates, inverse, bias, root, dtype)
    gated = (gates.prefix, gates.prefix_rest, gates.admitted, inverse, bias)
    return ChunkPairs(*_PAIRS(scores, pulled, *gated, root, backend=backend, dtype=dtype))


def chunk_pairs_reference(
    scores: mx.array,
    pulled: mx.array,
    gates: LogGates,
    inverse: mx.array,
    bias: mx.array,
    root: mx.array,
    dtype: mx.Dtype,
) -> ChunkPairs:
    """`chunk_pairs` in MLX operations."""
    scores = scores.astype(mx.float32)
    weights = weights_within(gates) * root
    of_row = mx.expand_dims(inverse, axis=-1)
    values = weights * scores * of_row
    slopes = weights * (of_row * pulled.astype(mx.float32) + mx.expand_dims(bias, axis=-1))
    products = slopes * scores
    own = mx.diagonal(products, axis1=-2, axis2=-1)
    others = mx.where(mx.eye(scores.shape[-1], dtype=mx.bool_), mx.zeros_like(products), products)
    return ChunkPairs(values.astype(dtype), slopes.astype(dtype), mx.sum(others, axis=-2), own)


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup takes 32 columns of a chunk, a lane a column, which so sums what it gets of the
# rows; the simdgroups share the rows.


def _launch(scores: mx.array, *_others: mx.array, dtype: mx.Dtype) -> Launch:
    batch, heads, chunks, steps, _ = scores.shape
    return Launch(
        grid=(math.ceil(steps / 32) * 32, chunks * _SIMDGROUPS, batch * heads),
        threadgroup=(32, _SIMDGROUPS, 1),
        output_shapes=(scores.shape, scores.shape, scores.shape[:4], scores.shape[:4]),
        output_dtypes=(dtype, dtype, mx.float32, mx.float32),
        template=(("T", dtype), ("SIMDGROUPS", _SIMDGROUPS)),
    )


_PAIRS = Kernel(
    name="xlstm_mlstm_chunk_pairs",
    inputs=(
        *("scores", "pulled", "prefix", "prefix_rest", "admitted"),
        *("inverse", "bias", "root"),
    ),
    outputs=("values", "slopes", "key_dots", "own_dots"),
    launch=_launch,
    header=PAIRS,
    body="""
    // scores, pulled, values, slopes (B, NH, NC, L, L); all others but root (B, NH, NC, L).
    threadgroup float part[SIMDGROUPS * 32];
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = simdgroup_index_in_threadgroup;
    const uint steps = scores_shape[3];
    const uint column = threadgroup_position_in_grid.x * 32 + lane;
    const size_t place =
        static_cast<size_t>(threadgroup_position_in_grid.z) * scores_shape[2]
        + threadgroup_position_in_grid.y;
    const size_t first = place * steps;
    float dot = 0.0f;
    if (column < steps) {
        const float2 past = float2(prefix[first + column], prefix_rest[first + column]);
        const float gate = admitted[first + column];
        for (uint row = simdgroup; row < steps; row += SIMDGROUPS) {
            const size_t step = first + row;
            const size_t pair = step * steps + column;
            float value = 0.0f;
            float slope = 0.0f;
            if (column <= row) {
                const float2 here = float2(prefix[step], prefix_rest[step]);
                const float weight =
                    root * metal::precise::exp(gate + xlstm_pair_difference(here, past));
                const float score = static_cast<float>(scores[pair]);
                value = weight * score * inverse[step];
                slope = weight * (inverse[step] * static_cast<float>(pulled[pair]) + bias[step]);
                if (column == row) {
                    own_dots[step] = slope * score;
                } else {
                    dot += slope * score;
                }
            }
            values[pair] = static_cast<T>(value);
            slopes[pair] = static_cast<T>(slope);
        }
    }
    part[simdgroup * 32 + lane] = dot;
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (simdgroup == 0 && column < steps) {
        for (uint other = 1; other < SIMDGROUPS; ++other) {
            dot += part[other * 32 + lane];
        }
        key_dots[first + column] = dot;
    }
    """,
)
