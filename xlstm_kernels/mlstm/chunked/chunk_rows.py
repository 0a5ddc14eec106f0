"""Weights of what the steps of a chunk read: of its earlier steps, and of the state before it.

With P_ts = exp(log i'_s + G_t - G_s) for s <= t, else 0 (G, log i' and the floor of
`gates.LogGates`), n the state before the chunk, and q_t / sqrt(DK) for q_t,

    a_t = sum_s P_ts (q_t . k_s) + exp(G_t) q_t . n
    A_ts = P_ts (q_t . k_s) / (max(|a_t|, floor_t) + eps)
    R_t = exp(G_t) q_t / (max(|a_t|, floor_t) + eps)

so that h = A v + R C (Beck et al., "Tiled Flash Linear Attention", 2025, section 3).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunked.chunks import (
    COLUMN_EXPONENTS,
    weights_from_start,
    weights_within,
    whole_pack,
)
from xlstm_kernels.mlstm.chunked.gates import LogGates
from xlstm_kernels.msl import PACKS, PAIRS

_SIMDGROUPS = 8
_FULL = 512  # threadgroups


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
    if backend != executors.NATIVE:
        gated = (*gates.exponents, gates.floor)
        kernel = KERNELS[normalize]
        return ChunkRows(*kernel(scores, q, n, *gated, eps, backend=backend, dtype=dtype))
    weights = weights_from_start(gates)
    root = mx.array(q.shape[-1] ** -0.5, dtype=weights.dtype)
    # What a step does not read may be NaN.
    within = mx.tril(scores.astype(mx.float32)) * weights_within(gates, root)
    read = q.astype(mx.float32) * mx.expand_dims(weights * root, axis=-1)
    sums = mx.sum(within, axis=-1) + mx.squeeze(read @ mx.expand_dims(n, axis=-1), axis=-1)
    divisor = mx.ones_like(sums)
    live = mx.isfinite(gates.floor)
    if normalize:
        # The derivative of the derivative of 1 / inf would be NaN.
        floor = mx.where(live, gates.floor, divisor)
        divisor = mx.maximum(mx.abs(sums), floor) + eps
    # Zero where a step is masked, and NaN where its floor is.
    inverse = mx.where(live, mx.reciprocal(divisor), mx.stop_gradient(mx.reciprocal(gates.floor)))
    inverse = mx.expand_dims(inverse, axis=-1)
    return ChunkRows((within * inverse).astype(dtype), (read * inverse).astype(dtype), sums)


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup takes rows of a chunk, LANES lanes one at a time, a lane packs of its columns. A
# simdgroup has several short rows at once: most of its instructions do not depend on the length.


def _launch(scores: mx.array, q: mx.array, *_others: mx.array, dtype: mx.Dtype) -> Launch:
    batch, heads, chunks, steps, _ = scores.shape
    width = q.shape[-1]
    lanes = next(lanes for lanes in (8, 16, 32) if lanes == 32 or max(steps, width) <= 4 * lanes)
    pack, keys = whole_pack(steps, 4, lanes), whole_pack(width, 8, lanes)
    # A step takes long: few chunks share out their rows, so that a GPU is full.
    rows = 2 * _SIMDGROUPS * (32 // lanes)
    shares = max(1, min(steps // rows, _FULL // max(1, batch * heads * chunks)))
    return Launch(
        grid=(32, chunks * shares * _SIMDGROUPS, batch * heads),
        threadgroup=(32, _SIMDGROUPS, 1),
        output_shapes=(scores.shape, q.shape, (batch, heads, chunks, steps)),
        output_dtypes=(dtype, dtype, mx.float32),
        template=(
            ("SIMDGROUPS", _SIMDGROUPS),
            ("ROWS", 32 // lanes),
            ("PACK", pack),
            ("GROUPS", math.ceil(steps / (lanes * pack))),
            ("KEYS", keys),
            ("KEY_GROUPS", math.ceil(width / (lanes * keys))),
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
    constexpr uint LANES = 32 / ROWS;
    const uint lane = thread_index_in_simdgroup % LANES;
    const uint heads = queries_shape[1];
    const uint chunks = queries_shape[2];
    const uint steps = queries_shape[3];
    const uint width = queries_shape[4];
    const uint shares = threadgroups_per_grid.y / chunks;
    const uint chunk = threadgroup_position_in_grid.y / shares;
    const uint share = threadgroup_position_in_grid.y % shares;
    const uint sequence = threadgroup_position_in_grid.z;
    const auto source = queries + (sequence / heads) * queries_strides[0]
        + (sequence % heads) * queries_strides[1] + chunk * queries_strides[2];
    const size_t place = static_cast<size_t>(sequence) * chunks + chunk;
    const size_t first = place * steps;
    const float root = metal::precise::rsqrt(static_cast<float>(width));
    {COLUMN_EXPONENTS}
    const uint key = lane * KEYS;
    const uint packs_of_keys = key < width ? (width - key + LANES * KEYS - 1) / (LANES * KEYS) : 0;
    const auto n = xlstm_load_packs<KEY_GROUPS, KEYS>(
        n_states + place * width + key, LANES * KEYS, 1, packs_of_keys);
    for (uint start = (simdgroup_index_in_threadgroup * shares + share) * ROWS; start < steps;
         start += SIMDGROUPS * shares * ROWS) {{
        const uint own = start + (ROWS > 1 ? thread_index_in_simdgroup / LANES : 0);
        const bool is_row = ROWS == 1 || own < steps;
        const uint row = is_row ? own : start;
        const size_t step = first + row;
        // All that is read is under way before anything is computed. Beyond the diagonal there may
        // be nothing to read; before it, a pack is whole.
        const uint known = column <= row ? (row - column) / (LANES * PACK) + 1 : 0;
        auto weights = xlstm_load_packs<GROUPS, PACK>(
            scores + step * steps + column, LANES * PACK, 1, known);
        const auto query = xlstm_read_packs<KEY_GROUPS, KEYS>(
            source + row * queries_strides[3] + key * queries_strides[4],
            LANES * KEYS * queries_strides[4], queries_strides[4], packs_of_keys);
        const float2 here = float2(prefix[step], prefix_rest[step]);
        const float least = least_normaliser[step];
        const float decay = root * metal::precise::exp(here.x);
        float sum = 0.0f;
        #pragma clang loop unroll(full)
        for (uint group = 0; group < GROUPS; ++group) {{
            if (group * LANES * PACK <= row) {{
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    const float weight = root * xlstm_chunk_exp(here, exponents[group * PACK + k]);
                    const bool is_past = column + group * LANES * PACK + k <= row;
                    weights.at[group].at[k] = is_past ? weight * weights.at[group].at[k] : 0.0f;
                    sum += weights.at[group].at[k];
                }}
            }}
        }}
        #pragma clang loop unroll(full)
        for (uint group = 0; group < KEY_GROUPS; ++group) {{
            #pragma clang loop unroll(full)
            for (uint k = 0; k < KEYS; ++k) {{
                sum += decay * query.number(group, k) * n.at[group].at[k];
            }}
        }}
        if (ROWS == 1) {{
            sum = simd_sum(sum);
        }} else {{
            #pragma clang loop unroll(full)
            for (uint distance = LANES / 2; distance > 0; distance /= 2) {{
                sum += simd_shuffle_xor(sum, distance);
            }}
        }}
        const float inverse = 1.0f / (metal::isfinite(least) ? {divisor} : least);
        #pragma clang loop unroll(full)
        for (uint group = 0; group < GROUPS; ++group) {{
            #pragma clang loop unroll(full)
            for (uint k = 0; k < PACK; ++k) {{
                weights.at[group].at[k] *= inverse;
            }}
            if (is_row && group < present) {{
                xlstm_store(within + step * steps + column + group * LANES * PACK,
                    weights.at[group]);
            }}
        }}
        #pragma clang loop unroll(full)
        for (uint group = 0; group < KEY_GROUPS; ++group) {{
            if (is_row && group < packs_of_keys) {{
                xlstm_pack<float, KEYS> read;
                #pragma clang loop unroll(full)
                for (uint k = 0; k < KEYS; ++k) {{
                    read.at[k] = decay * inverse * query.number(group, k);
                }}
                xlstm_store(of_state + step * width + key + group * LANES * KEYS, read);
            }}
        }}
        if (is_row && lane == 0) {{
            row_sums[step] = sum;
        }}
    }}
    """,
    )


KERNELS = {normalize: _kernel(normalize) for normalize in (False, True)}
