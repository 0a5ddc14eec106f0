"""Weights of what the steps of a chunk read: of its earlier steps, and of the state before it.

With P_ts = exp(log i'_s + G_t - G_s) for s <= t, else 0 (G, log i' and the floor of
`gates.LogGates`), n the state before the chunk, and q_t / sqrt(DK) for q_t,

    a_t = sum_s P_ts (q_t . k_s) + exp(G_t) q_t . n
    A_ts = P_ts (q_t . k_s) / (max(|a_t|, floor_t) + eps)
    R_t = exp(G_t) q_t / (max(|a_t|, floor_t) + eps)

so that h = A v + R C (Beck et al., "Tiled Flash Linear Attention", 2025, section 3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import lane_pack, weights_from_start, weights_within
from xlstm_kernels.msl import PACKS, PAIRS

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.chunked.gates import LogGates

_SIMDGROUPS = 8


class ChunkRows(NamedTuple):
    """Weights of what the steps of a chunk read.

    Attributes:
        within: A, (B, NH, NC, L, L).
        of_state: R, (B, NH, NC, L, DK).
        sums: a, (B, NH, NC, L) float32.
    """

    within: mx.array
    of_state: mx.array
    sums: mx.array


def chunk_rows(
    scores: mx.array,
    q: mx.array,
    n: mx.array,
    gates: LogGates,
    eps: mx.array,
    dtype: mx.Dtype,
    *,
    normalize: bool,
    backend: str,
) -> ChunkRows:
    """Normalised weights of what each step reads.

    Args:
        scores: q k^T, (B, NH, NC, L, L).
        q: (B, NH, NC, L, DK), as it lies.
        n: the state before each chunk, (B, NH, NC, DK) float32.
        gates: of the steps.
        eps: 0-d float32, added to the normaliser.
        dtype: of A and R.
        normalize: whether to divide at all.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        return chunk_rows_reference(scores, q, n, gates, eps, dtype, normalize=normalize)
    gated = (*gates.exponents, gates.floor)
    kernel = KERNELS[normalize]
    return ChunkRows(*kernel(scores, q, n, *gated, eps, backend=backend, dtype=dtype))


def chunk_rows_reference(
    scores: mx.array,
    q: mx.array,
    n: mx.array,
    gates: LogGates,
    eps: mx.array,
    dtype: mx.Dtype,
    *,
    normalize: bool,
) -> ChunkRows:
    """`chunk_rows` in MLX operations."""
    weights = weights_from_start(gates)
    root = mx.array(q.shape[-1] ** -0.5, dtype=weights.dtype)
    within = scores.astype(mx.float32) * weights_within(gates, root)
    read = q.astype(mx.float32) * mx.expand_dims(weights * root, axis=-1)
    sums = mx.sum(within, axis=-1) + mx.squeeze(read @ mx.expand_dims(n, axis=-1), axis=-1)
    divisor = mx.ones_like(sums)
    live = mx.isfinite(gates.floor)
    if normalize:
        # The derivative of the derivative of 1 / inf would be NaN.
        floor = mx.where(live, gates.floor, divisor)
        divisor = mx.maximum(mx.abs(sums), floor) + eps
    inverse = mx.where(live, mx.reciprocal(divisor), mx.zeros_like(sums))
    inverse = mx.expand_dims(inverse, axis=-1)
    return ChunkRows((within * inverse).astype(dtype), (read * inverse).astype(dtype), sums)


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup takes a chunk, a simdgroup a row at a time, a lane a pack of its columns.


def _launch(scores: mx.array, q: mx.array, *_others: mx.array, dtype: mx.Dtype) -> Launch:
    batch, heads, chunks, steps, _ = scores.shape
    pack = min(4, lane_pack(steps))
    return Launch(
        grid=(32, chunks * _SIMDGROUPS, batch * heads),
        threadgroup=(32, _SIMDGROUPS, 1),
        output_shapes=(scores.shape, q.shape, (batch, heads, chunks, steps)),
        output_dtypes=(dtype, dtype, mx.float32),
        template=(
            ("SIMDGROUPS", _SIMDGROUPS),
            ("PACK", pack),
            ("GROUPS", lane_pack(steps) // pack),
            ("KEYS", min(8, lane_pack(q.shape[-1]))),
        ),
    )


def _kernel(normalize: bool) -> Kernel:
    divisor = "metal::max(metal::abs(sum), least) + epsilon" if normalize else "1.0f"
    return Kernel(
        name="xlstm_mlstm_chunk_rows" + "_raw" * (not normalize),
        inputs=(
            *("scores", "queries", "n_states"),
            *("prefix", "prefix_rest", "admitted", "admitted_rest", "least_normaliser", "epsilon"),
        ),
        outputs=("within", "of_state", "row_sums"),
        launch=_launch,
        contiguous_inputs=False,
        header=PAIRS + PACKS,
        body=f"""
    // queries (B, NH, NC, L, DK): strided; all others contiguous: scores, within (B, NH, NC, L, L),
    // n_states (B, NH, NC, DK), of_state (B, NH, NC, L, DK); what belongs to steps (B, NH, NC, L).
    const uint lane = thread_index_in_simdgroup;
    const uint heads = queries_shape[1];
    const uint chunks = queries_shape[2];
    const uint steps = queries_shape[3];
    const uint width = queries_shape[4];
    const uint chunk = threadgroup_position_in_grid.y;
    const uint sequence = threadgroup_position_in_grid.z;
    const auto source = queries + (sequence / heads) * queries_strides[0]
        + (sequence % heads) * queries_strides[1] + chunk * queries_strides[2];
    const size_t place = static_cast<size_t>(sequence) * chunks + chunk;
    const size_t first = place * steps;
    const float root = metal::precise::rsqrt(static_cast<float>(width));
    // Each lane has packs of every 32nd group of columns, so that what is beyond the diagonal costs
    // nothing. What does not depend on the row goes into their exponents.
    float2 exponents[GROUPS * PACK];
    #pragma clang loop unroll(full)
    for (uint group = 0; group < GROUPS; ++group) {{
        const uint column = (group * 32 + lane) * PACK;
        const uint left = column < steps ? metal::min(steps - column, uint(PACK)) : 0;
        const auto past = xlstm_load<PACK>(prefix + first + column, 1, left);
        const auto past_rest = xlstm_load<PACK>(prefix_rest + first + column, 1, left);
        const auto gate = xlstm_load<PACK>(admitted + first + column, 1, left);
        const auto gate_rest = xlstm_load<PACK>(admitted_rest + first + column, 1, left);
        for (uint k = 0; k < PACK; ++k) {{
            exponents[group * PACK + k] = xlstm_pair_sum(
                float2(gate.at[k], gate_rest.at[k]), float2(-past.at[k], -past_rest.at[k]));
        }}
    }}
    for (uint row = simdgroup_index_in_threadgroup; row < steps; row += SIMDGROUPS) {{
        const size_t step = first + row;
        const float2 here = float2(prefix[step], prefix_rest[step]);
        const float least = least_normaliser[step];
        const float decay = root * metal::precise::exp(here.x);
        xlstm_pack<float, PACK> weights[GROUPS] = {{}};
        float sum = 0.0f;
        #pragma clang loop unroll(full)
        for (uint group = 0; group < GROUPS; ++group) {{
            const uint column = (group * 32 + lane) * PACK;
            // Beyond the diagonal there may be nothing; before it, a pack is whole.
            if (column <= row) {{
                weights[group] = xlstm_load<PACK>(scores + step * steps + column, 1,
                    metal::min(steps - column, uint(PACK)));
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    const float weight = root * xlstm_pair_exp(here, exponents[group * PACK + k]);
                    const float score = weights[group].at[k];
                    weights[group].at[k] = column + k <= row ? weight * score : 0.0f;
                    sum += weights[group].at[k];
                }}
            }}
        }}
        for (uint key = lane * KEYS; key < width; key += 32 * KEYS) {{
            const uint keys = metal::min(width - key, uint(KEYS));
            const auto query = xlstm_load<KEYS>(
                source + row * queries_strides[3] + key * queries_strides[4],
                queries_strides[4], keys);
            const auto n = xlstm_load<KEYS>(n_states + place * width + key, 1, keys);
            for (uint k = 0; k < KEYS; ++k) {{
                sum += decay * query.at[k] * n.at[k];
            }}
        }}
        sum = simd_sum(sum);
        const float inverse = metal::isfinite(least) ? 1.0f / ({divisor}) : 0.0f;
        #pragma clang loop unroll(full)
        for (uint group = 0; group < GROUPS; ++group) {{
            const uint column = (group * 32 + lane) * PACK;
            for (uint k = 0; k < PACK; ++k) {{
                weights[group].at[k] *= inverse;
            }}
            if (column < steps) {{
                xlstm_store(within + step * steps + column, weights[group], steps - column);
            }}
        }}
        for (uint key = lane * KEYS; key < width; key += 32 * KEYS) {{
            const uint keys = metal::min(width - key, uint(KEYS));
            auto query = xlstm_load<KEYS>(
                source + row * queries_strides[3] + key * queries_strides[4],
                queries_strides[4], keys);
            for (uint k = 0; k < KEYS; ++k) {{
                query.at[k] *= decay * inverse;
            }}
            xlstm_store(of_state + step * width + key, query, keys);
        }}
        if (lane == 0) {{
            row_sums[step] = sum;
        }}
    }}
    """,
    )


KERNELS = {normalize: _kernel(normalize) for normalize in (False, True)}
