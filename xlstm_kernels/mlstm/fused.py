"""The chunkwise mLSTM in one kernel, for inference.

C stays in registers from the first step to the last, and no state between chunks is ever written.
The equations are those of `chunk_states` and `chunk_outputs`, in chunks of 16 steps.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import PAIRS, STAGING

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.arguments import States
    from xlstm_kernels.mlstm.gates import LogGates

#: Steps of a chunk, which `gates` have to be in.
TIME = 16
#: The greatest DK, by registers.
KEY_WIDTH_LIMIT = 512
_SIMD_WIDTH = 32
_FRAGMENT = 8
_VALUES = 32


def fused_outputs(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    gates: LogGates,
    states: States,
    eps: mx.array,
    *,
    backend: str,
) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """The outputs h (B, NH, S, DV) in the dtype of v, the last C and n, and the sums.

    The sums are what the normaliser bounds from below, (B, NH, S); all but h are float32.

    Args:
        q: (B, NH, S, DK), DK at most `KEY_WIDTH_LIMIT`, read through its strides.
        k: (B, NH, S, DK), read through its strides.
        v: (B, NH, S, DV), read through its strides.
        gates: of the S steps, in chunks of `TIME`.
        states: before the first step.
        eps: 0-d float32, added to the normaliser.
        backend: name of an executor.
    """
    gated = (gates.prefix, gates.prefix_rest, gates.admitted, gates.floor)
    initial = mx.contiguous(states.c), mx.contiguous(states.n)
    h, c, n, sums = _KERNEL(q, k, v, *gated, *initial, eps, backend=backend)
    return h, c, n, sums


# A threadgroup keeps 32 columns of C, simdgroup s of them the rows 8 s .. 8 s + 7 of every slab of
# 8 x SIMDGROUPS rows (of DK). Queries and keys come slab by slab; each simdgroup multiplies its
# own rows; the partial products are summed through threadgroup memory, where n is too.


def _launch(queries: mx.array, _keys: mx.array, values: mx.array, *_others: mx.array) -> Launch:
    batch, heads, _, key_width = queries.shape
    value_width = values.shape[-1]
    simdgroups = 4 if key_width <= KEY_WIDTH_LIMIT // 2 else 8
    threads = simdgroups * _SIMD_WIDTH
    return Launch(
        grid=(math.ceil(value_width / _VALUES) * threads, batch * heads, 1),
        threadgroup=(threads, 1, 1),
        output_shapes=(
            values.shape,
            (batch, heads, key_width, value_width),
            (batch, heads, key_width),
            values.shape[:3],
        ),
        output_dtypes=(values.dtype, mx.float32, mx.float32, mx.float32),
        template=(
            ("T", values.dtype),
            ("SIMDGROUPS", simdgroups),
            ("SLABS", math.ceil(key_width / (_FRAGMENT * simdgroups))),
        ),
    )


_KERNEL = Kernel(
    name="xlstm_mlstm_fused",
    inputs=(
        *("queries", "keys", "values", "prefix", "prefix_rest", "admitted"),
        *("least_normaliser", "c_initial", "n_initial", "epsilon"),
    ),
    outputs=("outputs", "c_last", "n_last", "row_sums"),
    launch=_launch,
    contiguous_inputs=False,
    header=PAIRS + STAGING,
    body=f"""
    // queries, keys (B, NH, S, DK), values (B, NH, S, DV): strided. Contiguous: prefix,
    // prefix_rest, admitted, least_normaliser (B, NH, S), c_initial, c_last (B, NH, DK, DV),
    // n_initial, n_last (B, NH, DK), outputs (B, NH, S, DV).
    constexpr uint TIME = {TIME};
    constexpr uint VALUES = {_VALUES};
    constexpr uint FRAGMENT = {_FRAGMENT};
    constexpr uint SLAB = FRAGMENT * SIMDGROUPS;
    constexpr uint SLAB_STRIDE = SLAB + 4;
    constexpr uint STRIDE = VALUES + 4;
    constexpr uint PARTS = 2 * SIMDGROUPS;  // threads that share a row
    threadgroup float pool[SIMDGROUPS * TIME * VALUES];  // slabs of queries, keys; partial sums
    threadgroup float* query_slab = pool;
    threadgroup float* key_slab = pool + TIME * SLAB_STRIDE;
    threadgroup float read_tile[TIME * STRIDE];
    threadgroup float value_tile[TIME * STRIDE];
    threadgroup float weight_tile[TIME * TIME];
    threadgroup float n_state[SLAB * SLABS];
    threadgroup float n_read[TIME * PARTS];
    threadgroup float scale[TIME];
    threadgroup float live[TIME];
    threadgroup float to_end[TIME];
    threadgroup float row_decay[TIME];
    threadgroup float row_admitted[TIME];
    threadgroup float row_prefix[TIME];
    threadgroup float row_prefix_rest[TIME];
    threadgroup float row_floor[TIME];
    threadgroup float row_divisor[TIME];

    const uint member = thread_index_in_threadgroup;
    const uint members = threads_per_threadgroup.x;
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = simdgroup_index_in_threadgroup;
    const uint heads = queries_shape[1];
    const uint steps = queries_shape[2];
    const uint key_width = queries_shape[3];
    const uint value_width = values_shape[3];
    const uint sequence = threadgroup_position_in_grid.y;
    const uint first_value = threadgroup_position_in_grid.x * VALUES;
    const uint value_count = metal::min(VALUES, value_width - first_value);
    const auto query_start = queries + (sequence / heads) * queries_strides[0]
        + (sequence % heads) * queries_strides[1];
    const auto key_start = keys + (sequence / heads) * keys_strides[0]
        + (sequence % heads) * keys_strides[1];
    const auto value_start = values + (sequence / heads) * values_strides[0]
        + (sequence % heads) * values_strides[1] + first_value * values_strides[3];
    const size_t gate_start = static_cast<size_t>(sequence) * steps;
    const size_t n_start = static_cast<size_t>(sequence) * key_width;
    const size_t c_start = n_start * value_width + first_value;
    const float root = metal::precise::rsqrt(static_cast<float>(key_width));

    for (uint key = member; key < SLAB * SLABS; key += members) {{
        n_state[key] = key < key_width ? n_initial[n_start + key] : 0.0f;
    }}
    metal::simdgroup_float8x8 c[SLABS][VALUES / FRAGMENT];
    threadgroup float* corner = pool + simdgroup * FRAGMENT * VALUES;
    #pragma unroll
    for (uint slab = 0; slab < SLABS; ++slab) {{
        const uint first_key = slab * SLAB + simdgroup * FRAGMENT;
        for (uint row = 0; row < FRAGMENT; ++row) {{
            const bool inside = first_key + row < key_width && lane < value_count;
            corner[row * VALUES + lane] = inside
                ? c_initial[c_start + static_cast<size_t>(first_key + row) * value_width + lane]
                : 0.0f;
        }}
        simdgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
            simdgroup_load(c[slab][column], corner + column * FRAGMENT, VALUES);
        }}
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }}
    for (uint first = 0; first < steps; first += TIME) {{
        const uint count = metal::min(TIME, steps - first);
        const size_t last = gate_start + first + count - 1;
        const float2 total = float2(prefix[last], prefix_rest[last]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (member < TIME) {{
            const bool inside = member < count;
            const size_t step = gate_start + first + (inside ? member : 0);
            const float2 here = float2(prefix[step], prefix_rest[step]);
            const float gate = inside ? admitted[step] : -INFINITY;
            row_prefix[member] = here.x;
            row_prefix_rest[member] = here.y;
            row_admitted[member] = gate;
            row_floor[member] = least_normaliser[step];
            row_decay[member] = metal::precise::exp(here.x);
            to_end[member] = metal::precise::exp(gate + xlstm_pair_difference(total, here));
            live[member] = gate > -INFINITY ? 1.0f : 0.0f;
            scale[member] = inside && metal::isfinite(least_normaliser[step]) ? root : 0.0f;
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);

        // Products of the queries with C, with n and with the keys; over this simdgroup's rows.
        metal::simdgroup_float8x8 reads[2][VALUES / FRAGMENT];
        metal::simdgroup_float8x8 products[2][2];
        #pragma unroll
        for (uint half_row = 0; half_row < 2; ++half_row) {{
            #pragma unroll
            for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
                reads[half_row][column] = metal::simdgroup_float8x8(0.0f);
            }}
            #pragma unroll
            for (uint column = 0; column < 2; ++column) {{
                products[half_row][column] = metal::simdgroup_float8x8(0.0f);
            }}
        }}
        float n_part = 0.0f;
        #pragma unroll
        for (uint slab = 0; slab < SLABS; ++slab) {{
            const uint first_key = slab * SLAB;
            const uint key_count = metal::min(SLAB, key_width - first_key);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            xlstm_stage<TIME, SLAB, SLAB_STRIDE>(
                query_slab,
                query_start + first * queries_strides[2] + first_key * queries_strides[3],
                queries_strides[2], queries_strides[3], count, key_count, scale, member, members);
            xlstm_stage<TIME, SLAB, SLAB_STRIDE>(
                key_slab, key_start + first * keys_strides[2] + first_key * keys_strides[3],
                keys_strides[2], keys_strides[3], count, key_count, live, member, members);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint key = member / TIME; key < key_count; key += PARTS) {{
                n_part += query_slab[member % TIME * SLAB_STRIDE + key] * n_state[first_key + key];
            }}
            #pragma unroll
            for (uint half_row = 0; half_row < 2; ++half_row) {{
                metal::simdgroup_float8x8 left;
                simdgroup_load(left, query_slab + half_row * FRAGMENT * SLAB_STRIDE
                    + simdgroup * FRAGMENT, SLAB_STRIDE);
                #pragma unroll
                for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
                    simdgroup_multiply_accumulate(
                        reads[half_row][column], left, c[slab][column], reads[half_row][column]);
                }}
                #pragma unroll
                for (uint column = 0; column < 2; ++column) {{
                    metal::simdgroup_float8x8 right;
                    simdgroup_load(right, key_slab + column * FRAGMENT * SLAB_STRIDE
                        + simdgroup * FRAGMENT, SLAB_STRIDE, ulong2(0), true);
                    simdgroup_multiply_accumulate(
                        products[half_row][column], left, right, products[half_row][column]);
                }}
            }}
        }}
        // Summed over the simdgroups: first what was read of C, then the products with the keys.
        n_read[member] = n_part;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (uint half_row = 0; half_row < 2; ++half_row) {{
            #pragma unroll
            for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
                simdgroup_store(reads[half_row][column], pool + simdgroup * TIME * VALUES
                    + half_row * FRAGMENT * VALUES + column * FRAGMENT, VALUES);
            }}
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint element = member; element < TIME * VALUES; element += members) {{
            const uint row = element / VALUES;
            float sum = 0.0f;
            for (uint part = 0; part < SIMDGROUPS; ++part) {{
                sum += pool[part * TIME * VALUES + element];
            }}
            read_tile[row * STRIDE + element % VALUES] = sum * row_decay[row];
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (uint half_row = 0; half_row < 2; ++half_row) {{
            #pragma unroll
            for (uint column = 0; column < 2; ++column) {{
                simdgroup_store(products[half_row][column], pool + simdgroup * TIME * TIME
                    + half_row * FRAGMENT * TIME + column * FRAGMENT, TIME);
            }}
        }}
        xlstm_stage<TIME, VALUES, STRIDE>(
            value_tile, value_start + first * values_strides[2], values_strides[2],
            values_strides[3], count, value_count, live, member, members);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint element = member; element < TIME * TIME; element += members) {{
            const uint row = element / TIME;
            const uint column = element % TIME;
            float weight = 0.0f;
            if (column <= row) {{
                for (uint part = 0; part < SIMDGROUPS; ++part) {{
                    weight += pool[part * TIME * TIME + element];
                }}
                const float2 here = float2(row_prefix[row], row_prefix_rest[row]);
                const float2 past = float2(row_prefix[column], row_prefix_rest[column]);
                weight *= metal::precise::exp(
                    row_admitted[column] + xlstm_pair_difference(here, past));
            }}
            weight_tile[element] = weight;
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (member < TIME) {{
            float sum = 0.0f;
            for (uint part = 0; part < PARTS; ++part) {{
                sum += n_read[part * TIME + member];
            }}
            sum *= row_decay[member];
            for (uint column = 0; column < TIME; ++column) {{
                sum += weight_tile[member * TIME + column];
            }}
            row_divisor[member] = metal::max(metal::abs(sum), row_floor[member]) + epsilon;
            if (member < count && threadgroup_position_in_grid.x == 0) {{
                row_sums[gate_start + first + member] = sum;
            }}
        }}
        for (uint unit = simdgroup; unit < 2 * VALUES / FRAGMENT; unit += SIMDGROUPS) {{
            const uint row = unit / (VALUES / FRAGMENT) * FRAGMENT;
            const uint column = unit % (VALUES / FRAGMENT) * FRAGMENT;
            metal::simdgroup_float8x8 h;
            simdgroup_load(h, read_tile + row * STRIDE + column, STRIDE);
            #pragma unroll
            for (uint step = 0; step < TIME; step += FRAGMENT) {{
                metal::simdgroup_float8x8 left;
                metal::simdgroup_float8x8 right;
                simdgroup_load(left, weight_tile + row * TIME + step, TIME);
                simdgroup_load(right, value_tile + step * STRIDE + column, STRIDE);
                simdgroup_multiply_accumulate(h, left, right, h);
            }}
            simdgroup_store(h, read_tile + row * STRIDE + column, STRIDE);
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint element = member; element < TIME * VALUES; element += members) {{
            const uint row = element / VALUES;
            const uint column = element % VALUES;
            if (row < count && column < value_count) {{
                const size_t step = gate_start + first + row;
                outputs[step * value_width + first_value + column] =
                    static_cast<T>(read_tile[row * STRIDE + column] / row_divisor[row]);
            }}
        }}

        // The state after these steps.
        const float decay = metal::precise::exp(total.x + total.y);
        metal::simdgroup_float8x8 decayed(decay);
        #pragma unroll
        for (uint slab = 0; slab < SLABS; ++slab) {{
            const uint first_key = slab * SLAB;
            const uint key_count = metal::min(SLAB, key_width - first_key);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            xlstm_stage<TIME, SLAB, SLAB_STRIDE>(
                key_slab, key_start + first * keys_strides[2] + first_key * keys_strides[3],
                keys_strides[2], keys_strides[3], count, key_count, to_end, member, members);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (member < SLAB) {{
                float sum = n_state[first_key + member] * decay;
                for (uint step = 0; step < TIME; ++step) {{
                    sum += key_slab[step * SLAB_STRIDE + member];
                }}
                n_state[first_key + member] = sum;
            }}
            #pragma unroll
            for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
                simdgroup_multiply(c[slab][column], decayed, c[slab][column]);
                #pragma unroll
                for (uint step = 0; step < TIME; step += FRAGMENT) {{
                    metal::simdgroup_float8x8 left;
                    metal::simdgroup_float8x8 right;
                    simdgroup_load(left, key_slab + step * SLAB_STRIDE + simdgroup * FRAGMENT,
                        SLAB_STRIDE, ulong2(0), true);
                    simdgroup_load(right, value_tile + step * STRIDE + column * FRAGMENT, STRIDE);
                    simdgroup_multiply_accumulate(c[slab][column], left, right, c[slab][column]);
                }}
            }}
        }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    #pragma unroll
    for (uint slab = 0; slab < SLABS; ++slab) {{
        const uint first_key = slab * SLAB + simdgroup * FRAGMENT;
        #pragma unroll
        for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
            simdgroup_store(c[slab][column], corner + column * FRAGMENT, VALUES);
        }}
        simdgroup_barrier(mem_flags::mem_threadgroup);
        for (uint row = 0; row < FRAGMENT; ++row) {{
            if (first_key + row < key_width && lane < value_count) {{
                c_last[c_start + static_cast<size_t>(first_key + row) * value_width + lane] =
                    corner[row * VALUES + lane];
            }}
        }}
        simdgroup_barrier(mem_flags::mem_threadgroup);
    }}
    if (threadgroup_position_in_grid.x == 0) {{
        for (uint key = member; key < key_width; key += members) {{
            n_last[n_start + key] = n_state[key];
        }}
    }}
    """,
)
