"""State recurrence of the chunkwise mLSTM: the states between chunks, one chunk after another.

With G the prefix sum of log f' within a chunk of L steps and log i' of `gates.LogGates`,

    C_k = exp(G_L) C_{k-1} + sum_s exp(log i'_s + G_L - G_s) k_s v_s^T,

and n_k likewise with 1 for v (Beck et al., "Tiled Flash Linear Attention", 2025, section 3). All
factors are at most one; what the states are scaled by, exp(-m), is in the gates already.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import executors, pairs
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.mlstm.chunks import admitted_rows, in_chunks, totals, weights_to_end
from xlstm_kernels.msl import PAIRS, STAGING

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.gates import LogGates

_KEYS = 64
_VALUES = 64
_THREADS = 128


def chunk_states(
    k: mx.array,
    v: mx.array,
    gates: LogGates,
    c_initial: mx.array,
    n_initial: mx.array,
    *,
    chunk_size: int,
    backend: str,
) -> tuple[mx.array, mx.array]:
    """The states before every chunk, and after the last.

    Args:
        k: (B, NH, S, DK), read through its strides.
        v: (B, NH, S, DV), read through its strides.
        gates: of the S steps, in chunks of `chunk_size`.
        c_initial: (B, NH, DK, DV) float32.
        n_initial: (B, NH, DK) float32.
        chunk_size: L; the last chunk may be shorter.
        backend: as `executors.resolve` returned it.

    Returns:
        C (B, NH, NC + 1, DK, DV) and n (B, NH, NC + 1, DK), float32, NC the number of chunks.
    """
    if backend == executors.NATIVE:
        return chunk_states_reference(k, v, gates, c_initial, n_initial, chunk_size=chunk_size)
    c, n = _STATES(
        k,
        v,
        gates.prefix,
        gates.prefix_rest,
        mx.contiguous(c_initial),
        mx.contiguous(n_initial),
        mx.array(chunk_size, dtype=mx.uint32),
        gates.admitted,
        backend=backend,
        chunks=math.ceil(k.shape[2] / chunk_size),
    )
    return c, n


def chunk_states_reference(
    k: mx.array,
    v: mx.array,
    gates: LogGates,
    c_initial: mx.array,
    n_initial: mx.array,
    *,
    chunk_size: int,
) -> tuple[mx.array, mx.array]:
    """`chunk_states` in MLX operations."""
    weights = mx.expand_dims(weights_to_end(gates, chunk_size), axis=-1)
    keys = in_chunks(admitted_rows(k, gates), chunk_size) * weights
    values = in_chunks(admitted_rows(v, gates), chunk_size)
    c_added = mx.swapaxes(keys, -1, -2) @ values
    n_added = mx.sum(keys, axis=-2)
    decay = pairs.exp(totals(gates, chunk_size))
    c, n = [c_initial], [n_initial]
    for chunk in range(c_added.shape[2]):
        kept = mx.expand_dims(decay[:, :, chunk], axis=-1)
        n.append(kept * n[-1] + n_added[:, :, chunk])
        c.append(mx.expand_dims(kept, axis=-1) * c[-1] + c_added[:, :, chunk])
    return mx.stack(c, axis=2), mx.stack(n, axis=2)


# --- Metal -------------------------------------------------------------------------------------

# A threadgroup of four simdgroups holds 64 x 64 elements of C in registers, 16 rows (of DK) a
# simdgroup, and walks along the chunks. Keys and values come through threadgroup memory, 32 steps
# at a time; the same memory serves to write C, whose edge need not be a multiple of 8. The
# threadgroups of the first columns keep n as well: a thread a row.


def _launch(keys: mx.array, values: mx.array, *_others: mx.array, chunks: int) -> Launch:
    batch, heads, _, key_width = keys.shape
    value_width = values.shape[-1]
    return Launch(
        grid=(
            math.ceil(value_width / _VALUES) * _THREADS,
            math.ceil(key_width / _KEYS),
            batch * heads,
        ),
        threadgroup=(_THREADS, 1, 1),
        output_shapes=(
            (batch, heads, chunks + 1, key_width, value_width),
            (batch, heads, chunks + 1, key_width),
        ),
        output_dtypes=(mx.float32, mx.float32),
    )


# Forward, a step adds its key by its weight at the chunk's end; backward, its query by its weight
# at the chunk's start, times the cotangent over the normaliser.
_FORWARD_FACTORS = """
                    const float2 here = float2(prefix[step], prefix_rest[step]);
                    const float key_factor = metal::precise::exp(
                        admitted[step] + xlstm_pair_difference(total, here));
                    const float value_factor = key_factor == 0.0f ? 0.0f : 1.0f;
                    const float n_factor = 1.0f;"""
_BACKWARD_FACTORS = """
                    const float value_factor = inverse[step];
                    const float key_factor = value_factor == 0.0f
                        ? 0.0f
                        : root * metal::precise::exp(prefix[step]);
                    const float n_factor = bias[step];"""

_INPUTS = (
    *(
        "keys",
        "values",
        "prefix",
        "prefix_rest",
        "c_initial",
        "n_initial",
        "chunk_size",
    ),
    "admitted",
)
_GRADIENT_INPUTS = (*_INPUTS[:-1], "inverse", "bias")


def _kernel(name: str, inputs: tuple[str, ...], *, backward: bool) -> Kernel:
    factors = _BACKWARD_FACTORS if backward else _FORWARD_FACTORS
    root = "    const float root = metal::precise::rsqrt(static_cast<float>(key_width));\n"
    if not backward:
        root = ""
    return Kernel(
        name=name,
        inputs=inputs,
        outputs=("c_states", "n_states"),
        launch=_launch,
        contiguous_inputs=False,
        header=PAIRS + STAGING,
        body=f"""
    // keys (B, NH, S, DK), values (B, NH, S, DV): strided; contiguous: prefix, prefix_rest,
    // admitted (B, NH, S), c_initial (B, NH, DK, DV), n_initial (B, NH, DK);
    // c_states (B, NH, NC + 1, DK, DV), n_states (B, NH, NC + 1, DK).
    constexpr uint TIME = 32;
    constexpr uint KEYS = 64;
    constexpr uint VALUES = 64;
    constexpr uint STRIDE = 68;
    constexpr uint FRAGMENT = 8;
    threadgroup float tile[KEYS * STRIDE];  // keys, then values; or a tile of C
    threadgroup float* key_tile = tile;
    threadgroup float* value_tile = tile + TIME * STRIDE;
    threadgroup float weight[TIME];
    threadgroup float live[TIME];
    threadgroup float n_weight[TIME];

    const uint member = thread_index_in_threadgroup;
    const uint members = threads_per_threadgroup.x;
    const uint heads = keys_shape[1];
    const uint steps = keys_shape[2];
    const uint key_width = keys_shape[3];
    const uint value_width = values_shape[3];
    const uint sequence = threadgroup_position_in_grid.z;
    const uint first_key = threadgroup_position_in_grid.y * KEYS;
    const uint first_value = threadgroup_position_in_grid.x * VALUES;
    const uint key_count = metal::min(KEYS, key_width - first_key);
    const uint value_count = metal::min(VALUES, value_width - first_value);
    const uint chunks = (steps + chunk_size - 1) / chunk_size;
    const bool keeps_n = threadgroup_position_in_grid.x == 0 && member < key_count;
    const uint row = simdgroup_index_in_threadgroup * 2 * FRAGMENT;

    const auto key_start = keys + (sequence / heads) * keys_strides[0]
        + (sequence % heads) * keys_strides[1] + first_key * keys_strides[3];
    const auto value_start = values + (sequence / heads) * values_strides[0]
        + (sequence % heads) * values_strides[1] + first_value * values_strides[3];
    const size_t gate_start = static_cast<size_t>(sequence) * steps;
    const size_t width = static_cast<size_t>(key_width) * value_width;
{root}    const size_t corner = static_cast<size_t>(first_key) * value_width + first_value;

    metal::simdgroup_float8x8 c[2][VALUES / FRAGMENT];
    const size_t n_start = static_cast<size_t>(sequence) * key_width + first_key;
    float n = keeps_n ? n_initial[n_start + member] : 0.0f;
    {{
        const size_t start = sequence * width + corner;
        for (uint element = member; element < KEYS * VALUES; element += members) {{
            const uint key = element / VALUES;
            const uint column = element % VALUES;
            const bool inside = key < key_count && column < value_count;
            tile[key * STRIDE + column] =
                inside ? c_initial[start + static_cast<size_t>(key) * value_width + column] : 0.0f;
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (uint half_row = 0; half_row < 2; ++half_row) {{
            #pragma unroll
            for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
                simdgroup_load(c[half_row][column],
                    tile + (row + half_row * FRAGMENT) * STRIDE + column * FRAGMENT, STRIDE);
            }}
        }}
    }}
    for (uint round = 0; round <= chunks; ++round) {{
        // What is in registers is the state between two chunks.
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (uint half_row = 0; half_row < 2; ++half_row) {{
            #pragma unroll
            for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
                simdgroup_store(c[half_row][column],
                    tile + (row + half_row * FRAGMENT) * STRIDE + column * FRAGMENT, STRIDE);
            }}
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        const size_t state = sequence * static_cast<size_t>(chunks + 1)
            + {"(chunks - round)" if backward else "round"};
        const size_t start = state * width + corner;
        for (uint element = member; element < KEYS * VALUES; element += members) {{
            const uint key = element / VALUES;
            const uint column = element % VALUES;
            if (key < key_count && column < value_count) {{
                c_states[start + static_cast<size_t>(key) * value_width + column] =
                    tile[key * STRIDE + column];
            }}
        }}
        if (keeps_n) {{
            n_states[state * key_width + first_key + member] = n;
        }}
        if (round == chunks) {{
            break;
        }}
        const uint begin = {"(chunks - 1 - round)" if backward else "round"} * chunk_size;
        const uint end = metal::min(begin + chunk_size, steps);
        const float2 total =
            float2(prefix[gate_start + end - 1], prefix_rest[gate_start + end - 1]);
        const float decay = metal::precise::exp(total.x + total.y);
        metal::simdgroup_float8x8 decayed(decay);
        n *= decay;
        #pragma unroll
        for (uint half_row = 0; half_row < 2; ++half_row) {{
            #pragma unroll
            for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
                simdgroup_multiply(c[half_row][column], decayed, c[half_row][column]);
            }}
        }}
        for (uint first = begin; first < end; first += TIME) {{
            const uint count = metal::min(TIME, end - first);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (member < TIME) {{
                weight[member] = 0.0f;
                live[member] = 0.0f;
                n_weight[member] = 0.0f;
                if (member < count) {{
                    const size_t step = gate_start + first + member;{factors}
                    weight[member] = key_factor;
                    live[member] = value_factor;
                    n_weight[member] = n_factor;
                }}
            }}
            threadgroup_barrier(mem_flags::mem_threadgroup);
            xlstm_stage<TIME, KEYS, STRIDE>(
                key_tile, key_start + first * keys_strides[2], keys_strides[2], keys_strides[3],
                count, key_count, weight, member, members);
            xlstm_stage<TIME, VALUES, STRIDE>(
                value_tile, value_start + first * values_strides[2], values_strides[2],
                values_strides[3], count, value_count, live, member, members);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (keeps_n) {{
                for (uint step = 0; step < count; ++step) {{
                    n += key_tile[step * STRIDE + member] * n_weight[step];
                }}
            }}
            #pragma unroll
            for (uint step = 0; step < TIME; step += FRAGMENT) {{
                #pragma unroll
                for (uint half_row = 0; half_row < 2; ++half_row) {{
                    const uint key = row + half_row * FRAGMENT;
                    if (key < key_count && step < count) {{
                        metal::simdgroup_float8x8 left;
                        simdgroup_load(
                            left, key_tile + step * STRIDE + key, STRIDE, ulong2(0), true);
                        #pragma unroll
                        for (uint column = 0; column < VALUES / FRAGMENT; ++column) {{
                            if (column * FRAGMENT < value_count) {{
                                metal::simdgroup_float8x8 right;
                                simdgroup_load(right,
                                    value_tile + step * STRIDE + column * FRAGMENT, STRIDE);
                                simdgroup_multiply_accumulate(
                                    c[half_row][column], left, right, c[half_row][column]);
                            }}
                        }}
                    }}
                }}
            }}
        }}
    }}
    """,
    )


_STATES = _kernel("xlstm_mlstm_chunk_states", _INPUTS, backward=False)
STATE_GRADIENTS = _kernel("xlstm_mlstm_chunk_state_gradients", _GRADIENT_INPUTS, backward=True)
