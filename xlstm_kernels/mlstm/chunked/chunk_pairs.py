"""Gradients between the steps of a chunk, for each pair of a query and an earlier key.

With P of `chunk_rows`, w_t = 1 / normaliser, da_t the gradient in the normaliser's sum, and
q_t / sqrt(DK) for q_t,

    A_ts = P_ts (q_t . k_s) w_t               (dv_s = sum_t A_ts dh_t + ...)
    E_ts = P_ts (w_t dh_t . v_s + da_t)       (dq_t = sum_s E_ts k_s + ..., dk_s = sum_t E_ts q_t)

both with the factor 1 / sqrt(DK) of the queries. The products E_ts (q_t . k_s) are the gradients in
the exponents of P: the gates' gradients are sums of them, and those are made here, term by term, as
differences of bigger sums would lose digits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import COLUMN_EXPONENTS, weights_within, whole_pack
from xlstm_kernels.mlstm.chunked.gates import LogGates
from xlstm_kernels.msl import PACKS, PAIRS

_SIMDGROUPS = 8


class ChunkPairs(NamedTuple):
    """Of each pair of steps of a chunk.

    Attributes:
        values: A, (B, NH, NC, L, L), t before s.
        scores: E, likewise.
        key_dots: sum over t >= s of E_ts (q_t . k_s), the gradient in log i', (B, NH, NC, L)
            float32.
        past_dots: sum over r >= t > s of E_rs (q_r . k_s), the gradient in log f', likewise.
    """

    values: mx.array
    scores: mx.array
    key_dots: mx.array
    past_dots: mx.array


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
    if backend != executors.NATIVE:
        gated = (*gates.exponents, inverse, bias)
        return ChunkPairs(*CHUNK_PAIRS(scores, pulled, *gated, root, backend=backend, dtype=dtype))
    scores = scores.astype(mx.float32)
    weights = weights_within(gates, root)
    of_row = mx.expand_dims(inverse, axis=-1)
    values = weights * of_row * scores
    slopes = weights * (of_row * pulled.astype(mx.float32) + mx.expand_dims(bias, axis=-1))
    products = slopes * scores
    # Of row r and column t: the terms of earlier columns than t; they are zero beyond the diagonal.
    earlier = mx.cumsum(products, axis=-1, inclusive=False)
    sums = (mx.sum(array, axis=-2) for array in (products, mx.tril(earlier)))
    return ChunkPairs(values.astype(dtype), slopes.astype(dtype), *sums)


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup takes a chunk, a simdgroup a row at a time, a lane packs of its columns, whose sums
# over the rows it keeps.


def _launch(scores: mx.array, *_others: mx.array, dtype: mx.Dtype) -> Launch:
    batch, heads, chunks, steps, _ = scores.shape
    pack = whole_pack(steps, 4)
    return Launch(
        grid=(32, chunks * _SIMDGROUPS, batch * heads),
        threadgroup=(32, _SIMDGROUPS, 1),
        output_shapes=(scores.shape, scores.shape, scores.shape[:4], scores.shape[:4]),
        output_dtypes=(dtype, dtype, mx.float32, mx.float32),
        template=(
            ("SIMDGROUPS", _SIMDGROUPS),
            ("PACK", pack),
            ("GROUPS", math.ceil(steps / (32 * pack))),
        ),
    )


CHUNK_PAIRS = Kernel(
    name="xlstm_mlstm_chunk_pairs",
    inputs=(
        *("scores", "pulled", "prefix", "prefix_rest", "admitted", "admitted_rest"),
        *("inverse", "bias", "root"),
    ),
    outputs=("values", "slopes", "key_dots", "past_dots"),
    launch=_launch,
    resident_threadgroups=2,
    header=PAIRS + PACKS,
    body="""
    // scores, pulled, values, slopes (B, NH, NC, L, L); all others but root (B, NH, NC, L).
    constexpr uint COLUMNS = 32 * GROUPS * PACK;
    threadgroup float part[2 * SIMDGROUPS * COLUMNS];
    constexpr uint LANES = 32;
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = simdgroup_index_in_threadgroup;
    const uint steps = scores_shape[3];
    const size_t place =
        static_cast<size_t>(threadgroup_position_in_grid.z) * scores_shape[2]
        + threadgroup_position_in_grid.y;
    const size_t first = place * steps;
    """
    + COLUMN_EXPONENTS
    + """
    xlstm_packs<float, GROUPS, PACK> key_sums = {};
    xlstm_packs<float, GROUPS, PACK> past_sums = {};
    for (uint row = simdgroup; row < steps; row += SIMDGROUPS) {
        const size_t step = first + row;
        // All that is read is under way before anything is computed. Beyond the diagonal there may
        // be nothing to read; before it, a pack is whole.
        const uint known = column <= row ? (row - column) / (32 * PACK) + 1 : 0;
        auto score = xlstm_load_packs<GROUPS, PACK>(
            scores + step * steps + column, 32 * PACK, 1, known);
        auto slope = xlstm_load_packs<GROUPS, PACK>(
            pulled + step * steps + column, 32 * PACK, 1, known);
        const float2 here = float2(prefix[step], prefix_rest[step]);
        const float of_row = inverse[step];
        const float bias_of_row = bias[step];
        float before_group = 0.0f;
        #pragma clang loop unroll(full)
        for (uint group = 0; group < GROUPS; ++group) {
            if (group * 32 * PACK <= row) {
                float of_lane = 0.0f;
                xlstm_pack<float, PACK> earlier;
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {
                    thread float& slope_of_pair = slope.at[group].at[k];
                    thread float& score_of_pair = score.at[group].at[k];
                    const float weight = root * xlstm_chunk_exp(here, exponents[group * PACK + k]);
                    const bool is_past = column + group * 32 * PACK + k <= row;
                    slope_of_pair =
                        is_past ? weight * (of_row * slope_of_pair + bias_of_row) : 0.0f;
                    const float product = is_past ? slope_of_pair * score_of_pair : 0.0f;
                    score_of_pair = is_past ? weight * score_of_pair * of_row : 0.0f;
                    key_sums.at[group].at[k] += product;
                    earlier.at[k] = of_lane;
                    of_lane += product;
                }
                const float before = before_group + simd_prefix_exclusive_sum(of_lane);
                before_group = simd_broadcast(before + of_lane, 31);
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {
                    const bool is_past = column + group * 32 * PACK + k <= row;
                    past_sums.at[group].at[k] += is_past ? before + earlier.at[k] : 0.0f;
                }
            }
            if (group < present) {
                const size_t to = step * steps + column + group * 32 * PACK;
                xlstm_store(values + to, score.at[group]);
                xlstm_store(slopes + to, slope.at[group]);
            }
        }
    }
    #pragma clang loop unroll(full)
    for (uint group = 0; group < GROUPS; ++group) {
        for (uint k = 0; k < PACK; ++k) {
            const uint at = (group * 32 + lane) * PACK + k;
            part[simdgroup * COLUMNS + at] = key_sums.at[group].at[k];
            part[(SIMDGROUPS + simdgroup) * COLUMNS + at] = past_sums.at[group].at[k];
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint own = simdgroup * 32 + lane; own < steps; own += SIMDGROUPS * 32) {
        float key_dot = 0.0f;
        float past_dot = 0.0f;
        for (uint other = 0; other < SIMDGROUPS; ++other) {
            key_dot += part[other * COLUMNS + own];
            past_dot += part[(SIMDGROUPS + other) * COLUMNS + own];
        }
        key_dots[first + own] = key_dot;
        past_dots[first + own] = past_dot;
    }
    """,
)
