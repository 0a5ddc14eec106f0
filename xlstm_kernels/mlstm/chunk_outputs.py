"""Outputs of the chunkwise mLSTM: what the steps of a chunk read of its past and of each other.

With G, log i' and the floor of `gates.LogGates`, and C, n the states before the chunk,

    P_ts = exp(log i'_s + G_t - G_s) for s <= t, else 0
    A = P * (q k^T) / sqrt(DK)
    a_t = exp(G_t) q_t n / sqrt(DK) + sum_s A_ts
    h_t = (exp(G_t) q_t C / sqrt(DK) + (A v)_t) / (max(|a_t|, floor_t) + eps)

(Beck et al., "Tiled Flash Linear Attention", 2025, section 3). The parallel form is this one with a
single chunk.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm import pairs
from xlstm_kernels.mlstm.chunks import (
    admitted_rows,
    chunked_prefix,
    in_chunks,
    rows_where,
    weights_within,
)
from xlstm_kernels.msl import PAIRS, STAGING

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.gates import LogGates

_ROWS = 32
_VALUES = 64
_THREADS = 128


def chunk_outputs(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    gates: LogGates,
    states: tuple[mx.array, mx.array] | None,
    eps: mx.array,
    *,
    chunk_size: int,
    normalize: bool,
    backend: str,
) -> mx.array:
    """The outputs h (B, NH, S, DV), in the dtype of v.

    Args:
        q: (B, NH, S, DK), read through its strides.
        k: (B, NH, S, DK), read through its strides.
        v: (B, NH, S, DV), read through its strides.
        gates: of the S steps, in chunks of `chunk_size`.
        states: C (B, NH, NC or more, DK, DV) and n (B, NH, as many, DK) before every chunk,
            float32; None if all of them are zero.
        eps: 0-d float32, added to the normaliser.
        chunk_size: L; the last chunk may be shorter.
        normalize: whether to divide at all.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        return chunk_outputs_reference(
            q, k, v, gates, states, eps, chunk_size=chunk_size, normalize=normalize
        )
    gated = (gates.prefix, gates.prefix_rest, gates.admitted, gates.floor)
    size = mx.array(chunk_size, dtype=mx.uint32)
    kernel = _KERNELS[states is not None, normalize]
    (h,) = kernel(
        q, k, v, *gated, eps, size, *(states or ()), backend=backend, chunk_size=chunk_size
    )
    return h


def chunk_outputs_reference(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    gates: LogGates,
    states: tuple[mx.array, mx.array] | None,
    eps: mx.array,
    *,
    chunk_size: int,
    normalize: bool,
) -> mx.array:
    """`chunk_outputs` in MLX operations."""
    steps, key_width = q.shape[2:]
    rows = rows_where(q, mx.isfinite(gates.floor)), admitted_rows(k, gates), admitted_rows(v, gates)
    queries, keys, values = (in_chunks(array, chunk_size) for array in rows)
    queries = queries * mx.array(key_width**-0.5, dtype=queries.dtype)
    floor = in_chunks(gates.floor, chunk_size)
    weights = (queries @ mx.swapaxes(keys, -1, -2)) * weights_within(gates, chunk_size)
    numerator = weights @ values
    normaliser = mx.sum(weights, axis=-1)
    if states is not None:
        c, n = (state[:, :, : queries.shape[2]] for state in states)
        decay = pairs.exp(chunked_prefix(gates, chunk_size))
        decayed = queries * mx.expand_dims(decay, axis=-1)
        numerator = numerator + decayed @ c
        normaliser = normaliser + mx.squeeze(decayed @ mx.expand_dims(n, axis=-1), axis=-1)
    h = numerator
    if normalize:
        h = numerator / mx.expand_dims(mx.maximum(mx.abs(normaliser), floor) + eps, axis=-1)
    else:
        h = mx.where(
            mx.expand_dims(mx.isfinite(floor), axis=-1), numerator, mx.zeros_like(numerator)
        )
    return mx.flatten(h, 2, 3)[:, :, :steps].astype(v.dtype)


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup of four simdgroups computes 32 rows (steps) by 64 columns (of DV) of a chunk, a
# simdgroup 8 of the rows. It goes over C in slabs of 32 rows, then over the chunk's steps up to its
# own, 32 at a time: products of queries and keys in slabs of DK, their weights, then the values. m
# is in the gates, so nothing has to be rescaled on the way, as it is in attention. Tiles come
# through threadgroup memory as floats; the normaliser is summed by lane, and across lanes at last.

_CARRIED = """
    // What the steps read of the state before the chunk.
    for (uint first_key = 0; first_key < key_width; first_key += TILE) {
        const uint key_count = metal::min(TILE, key_width - first_key);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        xlstm_stage<TILE, TILE, STRIDE>(
            query_tile, query_start + first_key * queries_strides[3], queries_strides[2],
            queries_strides[3], count, key_count, decayed_scale, member, members);
        xlstm_stage<TILE, VALUES, WIDE_STRIDE>(
            wide_tile, c_states + c_start + static_cast<size_t>(first_key) * value_width,
            value_width, 1, key_count, value_count, ones, member, members);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        const float n = lane < key_count ? n_states[n_start + first_key + lane] : 0.0f;
        #pragma unroll
        for (uint row = 0; row < FRAGMENT; ++row) {
            normaliser[row] += query_tile[(own + row) * STRIDE + lane] * n;
        }
        #pragma unroll
        for (uint key = 0; key < TILE; key += FRAGMENT) {
            if (key < key_count) {
                metal::simdgroup_float8x8 left;
                simdgroup_load(left, query_tile + own * STRIDE + key, STRIDE);
                #pragma unroll
                for (uint column = 0; column < VALUES / FRAGMENT; ++column) {
                    if (column * FRAGMENT < value_count) {
                        metal::simdgroup_float8x8 right;
                        simdgroup_load(
                            right, wide_tile + key * WIDE_STRIDE + column * FRAGMENT, WIDE_STRIDE);
                        simdgroup_multiply_accumulate(h[column], left, right, h[column]);
                    }
                }
            }
        }
    }
"""

_CARRIED_START = """
    const uint state = sequence * static_cast<uint>(n_states_shape[2]) + chunk;
    const size_t n_start = static_cast<size_t>(state) * key_width;
    const size_t c_start = n_start * value_width + first_value;
"""

_NORMALISER = """
            const float sum = simd_sum(normaliser[row]);
            const float divisor = metal::max(metal::abs(sum), row_floor[own + row]) + epsilon;
"""


def _launch(
    queries: mx.array, _keys: mx.array, values: mx.array, *_others: mx.array, chunk_size: int
) -> Launch:
    batch, heads, steps, value_width = values.shape
    tiles = math.ceil(steps / chunk_size) * math.ceil(chunk_size / _ROWS)
    return Launch(
        grid=(math.ceil(value_width / _VALUES) * _THREADS, tiles, batch * heads),
        threadgroup=(_THREADS, 1, 1),
        output_shapes=(values.shape,),
        output_dtypes=(values.dtype,),
        template=(("T", queries.dtype),),
    )


def _kernel(carried: bool, normalize: bool) -> Kernel:
    name = "xlstm_mlstm_chunk_outputs" + "_carried" * carried + "_raw" * (not normalize)
    return Kernel(
        name=name,
        inputs=(
            "queries",
            "keys",
            "values",
            "prefix",
            "prefix_rest",
            "admitted",
            "least_normaliser",
            "epsilon",
            "chunk_size",
            *(("c_states", "n_states") if carried else ()),
        ),
        outputs=("outputs",),
        launch=_launch,
        contiguous_inputs=False,
        header=PAIRS + STAGING,
        body=f"""
    // queries, keys (B, NH, S, DK), values (B, NH, S, DV): strided. Contiguous: prefix,
    // prefix_rest, admitted, least_normaliser (B, NH, S), c_states (B, NH, NC.., DK, DV),
    // n_states (B, NH, NC.., DK), outputs (B, NH, S, DV).
    constexpr uint TILE = 32;
    constexpr uint VALUES = 64;
    constexpr uint STRIDE = 36;
    constexpr uint WIDE_STRIDE = 68;
    constexpr uint FRAGMENT = 8;
    threadgroup float query_tile[TILE * STRIDE];
    threadgroup float weight_tile[TILE * STRIDE];
    threadgroup float wide_tile[TILE * WIDE_STRIDE];  // rows of C, keys, values, or outputs
    threadgroup float scale[TILE];
    threadgroup float decayed_scale[TILE];
    threadgroup float ones[TILE];
    threadgroup float live[TILE];
    threadgroup float row_prefix[TILE];
    threadgroup float row_prefix_rest[TILE];
    threadgroup float row_floor[TILE];
    threadgroup float row_divisor[TILE];

    const uint member = thread_index_in_threadgroup;
    const uint members = threads_per_threadgroup.x;
    const uint lane = thread_index_in_simdgroup;
    const uint own = simdgroup_index_in_threadgroup * FRAGMENT;
    const uint heads = queries_shape[1];
    const uint steps = queries_shape[2];
    const uint key_width = queries_shape[3];
    const uint value_width = values_shape[3];
    const uint sequence = threadgroup_position_in_grid.z;
    const uint first_value = threadgroup_position_in_grid.x * VALUES;
    const uint value_count = metal::min(VALUES, value_width - first_value);
    const uint tiles = (chunk_size + TILE - 1) / TILE;
    const uint chunk = threadgroup_position_in_grid.y / tiles;
    const uint begin = chunk * chunk_size;
    const uint end = metal::min(begin + chunk_size, steps);
    const uint first = begin + threadgroup_position_in_grid.y % tiles * TILE;
    if (first >= end) {{
        return;  // The last chunk is shorter: all threads of the group leave.
    }}
    const uint count = metal::min(TILE, end - first);
    const auto query_start = queries + (sequence / heads) * queries_strides[0]
        + (sequence % heads) * queries_strides[1] + first * queries_strides[2];
    const auto key_start = keys + (sequence / heads) * keys_strides[0]
        + (sequence % heads) * keys_strides[1];
    const auto value_start = values + (sequence / heads) * values_strides[0]
        + (sequence % heads) * values_strides[1] + first_value * values_strides[3];
    const size_t gate_start = static_cast<size_t>(sequence) * steps;
{_CARRIED_START if carried else ""}
    if (member < TILE) {{
        const bool inside = member < count;
        const size_t step = gate_start + first + (inside ? member : 0);
        row_prefix[member] = prefix[step];
        row_prefix_rest[member] = prefix_rest[step];
        row_floor[member] = least_normaliser[step];
        // A masked step, and one whose m is below all floats, reads nothing.
        const bool reads = inside && metal::isfinite(least_normaliser[step]);
        const float root = metal::precise::rsqrt(static_cast<float>(key_width));
        scale[member] = reads ? root : 0.0f;
        decayed_scale[member] = reads ? root * metal::precise::exp(prefix[step]) : 0.0f;
        ones[member] = 1.0f;
    }}
    metal::simdgroup_float8x8 h[VALUES / FRAGMENT];
    #pragma unroll
    for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
        h[column] = metal::simdgroup_float8x8(0.0f);
    }}
    float normaliser[FRAGMENT];
    #pragma unroll
    for (uint row = 0; row < FRAGMENT; ++row) {{
        normaliser[row] = 0.0f;
    }}
{_CARRIED if carried else ""}
    // What they read of each other.
    for (uint from = begin; from < first + count; from += TILE) {{
        const uint from_count = metal::min(TILE, end - from);
        metal::simdgroup_float8x8 products[TILE / FRAGMENT];
        #pragma unroll
        for (uint column = 0; column < TILE / FRAGMENT; ++column) {{
            products[column] = metal::simdgroup_float8x8(0.0f);
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (member < TILE) {{
            const bool inside = member < from_count;
            const float gate = inside ? admitted[gate_start + from + member] : -INFINITY;
            live[member] = gate > -INFINITY ? 1.0f : 0.0f;
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint first_key = 0; first_key < key_width; first_key += TILE) {{
            const uint key_count = metal::min(TILE, key_width - first_key);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            xlstm_stage<TILE, TILE, STRIDE>(
                query_tile, query_start + first_key * queries_strides[3], queries_strides[2],
                queries_strides[3], count, key_count, scale, member, members);
            xlstm_stage<TILE, TILE, STRIDE>(
                wide_tile, key_start + from * keys_strides[2] + first_key * keys_strides[3],
                keys_strides[2], keys_strides[3], from_count, key_count, live, member, members);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            #pragma unroll
            for (uint key = 0; key < TILE; key += FRAGMENT) {{
                if (key < key_count) {{
                    metal::simdgroup_float8x8 left;
                    simdgroup_load(left, query_tile + own * STRIDE + key, STRIDE);
                    #pragma unroll
                    for (uint column = 0; column < TILE / FRAGMENT; ++column) {{
                        metal::simdgroup_float8x8 right;
                        simdgroup_load(right, wide_tile + column * FRAGMENT * STRIDE + key, STRIDE,
                            ulong2(0), true);
                        simdgroup_multiply_accumulate(
                            products[column], left, right, products[column]);
                    }}
                }}
            }}
        }}
        // Each simdgroup weights its own rows, a lane a column.
        #pragma unroll
        for (uint column = 0; column < TILE / FRAGMENT; ++column) {{
            simdgroup_store(
                products[column], weight_tile + own * STRIDE + column * FRAGMENT, STRIDE);
        }}
        simdgroup_barrier(mem_flags::mem_threadgroup);
        const bool counts = lane < from_count;
        const size_t past = gate_start + from + (counts ? lane : 0);
        const float2 past_prefix = float2(prefix[past], prefix_rest[past]);
        const float past_admitted = counts ? admitted[past] : -INFINITY;
        #pragma unroll
        for (uint row = 0; row < FRAGMENT; ++row) {{
            const float2 here = float2(row_prefix[own + row], row_prefix_rest[own + row]);
            float weight = 0.0f;
            if (from + lane <= first + own + row) {{
                weight = weight_tile[(own + row) * STRIDE + lane] * metal::precise::exp(
                    past_admitted + xlstm_pair_difference(here, past_prefix));
            }}
            weight_tile[(own + row) * STRIDE + lane] = weight;
            normaliser[row] += weight;
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        xlstm_stage<TILE, VALUES, WIDE_STRIDE>(
            wide_tile, value_start + from * values_strides[2], values_strides[2],
            values_strides[3], from_count, value_count, live, member, members);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (uint step = 0; step < TILE; step += FRAGMENT) {{
            if (step < from_count) {{
                metal::simdgroup_float8x8 left;
                simdgroup_load(left, weight_tile + own * STRIDE + step, STRIDE);
                #pragma unroll
                for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
                    if (column * FRAGMENT < value_count) {{
                        metal::simdgroup_float8x8 right;
                        simdgroup_load(
                            right, wide_tile + step * WIDE_STRIDE + column * FRAGMENT, WIDE_STRIDE);
                        simdgroup_multiply_accumulate(h[column], left, right, h[column]);
                    }}
                }}
            }}
        }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    #pragma unroll
    for (uint row = 0; row < FRAGMENT; ++row) {{
        {_NORMALISER if normalize else "const float divisor = 1.0f;"}
        if (lane == 0) {{
            row_divisor[own + row] = divisor;
        }}
    }}
    #pragma unroll
    for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
        simdgroup_store(h[column], wide_tile + own * WIDE_STRIDE + column * FRAGMENT, WIDE_STRIDE);
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const size_t output_start = (gate_start + first) * value_width + first_value;
    for (uint element = member; element < TILE * VALUES; element += members) {{
        const uint row = element / VALUES;
        const uint column = element % VALUES;
        if (row < count && column < value_count) {{
            outputs[output_start + static_cast<size_t>(row) * value_width + column] =
                static_cast<T>(wide_tile[row * WIDE_STRIDE + column] / row_divisor[row]);
        }}
    }}
    """,
    )


_KERNELS = {
    (carried, normalize): _kernel(carried, normalize)
    for carried in (False, True)
    for normalize in (False, True)
}
