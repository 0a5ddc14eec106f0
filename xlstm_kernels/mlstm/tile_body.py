"""The Metal of `tiles`: what its kernels have in common, and where they differ.

A threadgroup of four simdgroups computes 32 rows (steps) by 64 columns of a chunk, a simdgroup 8 of
the rows. It goes over the state in slabs of 32, then over steps of the chunk, 32 at a time:
products of q and k in slabs of their width, the weights, then v. m is in the gates, so nothing has
to be rescaled on the way, as it is in attention. Tiles come through threadgroup memory as floats;
sums over a row are kept by lane, and added across lanes at last.
"""

from __future__ import annotations

from xlstm_kernels.mlstm.tiles import Factor, Tiles


def tile_body(tiles: Tiles) -> str:
    """The statements of the kernel of `tiles`; its header is `msl.PAIRS` and `msl.STAGING`."""
    root = f"metal::precise::rsqrt(static_cast<float>({_key_width(tiles)}))"
    return "".join(
        (
            _START,
            f"    const float root = {root};",
            _row_numbers(tiles),
            _state_products(tiles) if tiles.carried else "",
            _pair_products(tiles),
            _end(tiles),
        )
    )


_START = """
    constexpr uint TILE = 32;
    constexpr uint COLUMNS = 64;
    constexpr uint STRIDE = 36;
    constexpr uint WIDE_STRIDE = 68;
    constexpr uint FRAGMENT = 8;
    threadgroup float row_tile[TILE * STRIDE];
    threadgroup float weight_tile[TILE * STRIDE];
    threadgroup float wide_tile[COLUMNS * STRIDE];  // of the state, of k, of v, or the result
    threadgroup float row_factor[TILE];
    threadgroup float state_factor[TILE];
    threadgroup float column_factor[TILE];
    threadgroup float sum_factor[TILE];
    threadgroup float ones[COLUMNS];
    threadgroup float row_prefix[TILE];
    threadgroup float row_prefix_rest[TILE];
    threadgroup float row_number[TILE];  // what the weights or the normaliser need of the row
    threadgroup float vector_factor[TILE];
    threadgroup float own_weight[TILE];  // of a row and its own step

    const uint member = thread_index_in_threadgroup;
    const uint members = threads_per_threadgroup.x;
    const uint lane = thread_index_in_simdgroup;
    const uint own = simdgroup_index_in_threadgroup * FRAGMENT;
    const uint heads = q_shape[1];
    const uint steps = q_shape[2];
    const uint inner_width = q_shape[3];
    const uint result_width = v_shape[3];
    const uint sequence = threadgroup_position_in_grid.z;
    const uint first_column = threadgroup_position_in_grid.x * COLUMNS;
    const uint column_count = metal::min(COLUMNS, result_width - first_column);
    const uint tiles = (chunk_size + TILE - 1) / TILE;
    const uint chunk = threadgroup_position_in_grid.y / tiles;
    const uint begin = chunk * chunk_size;
    const uint end = metal::min(begin + chunk_size, steps);
    const uint first = begin + threadgroup_position_in_grid.y % tiles * TILE;
    if (first >= end) {
        return;  // The last chunk is shorter: all threads of the group leave.
    }
    const uint count = metal::min(TILE, end - first);
    const auto row_start = q + (sequence / heads) * q_strides[0]
        + (sequence % heads) * q_strides[1] + first * q_strides[2];
    const auto column_start = k + (sequence / heads) * k_strides[0]
        + (sequence % heads) * k_strides[1];
    const auto sum_start = v + (sequence / heads) * v_strides[0]
        + (sequence % heads) * v_strides[1] + first_column * v_strides[3];
    const size_t gate_start = static_cast<size_t>(sequence) * steps;
    metal::simdgroup_float8x8 result_tile[COLUMNS / FRAGMENT];
    #pragma unroll
    for (uint column = 0; column < COLUMNS / FRAGMENT; ++column) {
        result_tile[column] = metal::simdgroup_float8x8(0.0f);
    }
    float row_sum[FRAGMENT];
    #pragma unroll
    for (uint row = 0; row < FRAGMENT; ++row) {
        row_sum[row] = 0.0f;
    }
"""


def _key_width(tiles: Tiles) -> str:
    """DK is the width of q in products of queries and keys, of the result elsewhere."""
    return "inner_width" if Factor.QUERY in {tiles.rows, tiles.columns} else "result_width"


def _row_numbers(tiles: Tiles) -> str:
    """Factors of the rows, and their weights in the state."""
    if tiles.past:
        weight = "metal::precise::exp(here.x)"
        number = "bias[step]" if tiles.bias == "row" else "least_normaliser[step]"
    else:
        weight = "metal::precise::exp(admitted[step] + xlstm_pair_difference(total, here))"
        number = "admitted[step]"
    vector = "weight * bias[step]" if tiles.bias == "row" else "weight"
    return f"""
    if (member < TILE) {{
        const bool inside = member < count;
        const size_t step = gate_start + first + (inside ? member : 0);
        const float2 here = float2(prefix[step], prefix_rest[step]);
        const float2 total =
            float2(prefix[gate_start + end - 1], prefix_rest[gate_start + end - 1]);
        const float weight = {weight};
        row_prefix[member] = here.x;
        row_prefix_rest[member] = here.y;
        row_number[member] = {number};
        row_factor[member] = inside ? {tiles.rows.value} : 0.0f;
        state_factor[member] = row_factor[member] * weight;
        vector_factor[member] = {vector};
    }}
    if (member < COLUMNS) {{
        ones[member] = 1.0f;
    }}
"""


def _state_products(tiles: Tiles) -> str:
    """Products of the rows with the state before or after the chunk."""
    if tiles.transposed:
        stage = """
        xlstm_stage<COLUMNS, TILE, STRIDE>(
            wide_tile, slab + first_column * size_t(inner_width) + first_inner,
            inner_width, 1, column_count, inner_count, ones, member, members);"""
        load = """simdgroup_load(right, wide_tile + column * FRAGMENT * STRIDE + inner, STRIDE,
                            ulong2(0), true);"""
    else:
        stage = """
        xlstm_stage<TILE, COLUMNS, WIDE_STRIDE>(
            wide_tile, slab + first_inner * size_t(result_width) + first_column,
            result_width, 1, inner_count, column_count, ones, member, members);"""
        load = """simdgroup_load(right,
                            wide_tile + inner * WIDE_STRIDE + column * FRAGMENT, WIDE_STRIDE);"""
    normaliser = """
        const size_t vector = state * inner_width + first_inner + lane;
        const float n = lane < inner_count ? vectors[vector] : 0.0f;
        #pragma unroll
        for (uint row = 0; row < FRAGMENT; ++row) {
            row_sum[row] += row_tile[(own + row) * STRIDE + lane] * n;
        }"""
    return f"""
    const size_t state = sequence * size_t(states_shape[2]) + chunk + {0 if tiles.past else 1};
    const auto slab = states + state * inner_width * result_width;
    for (uint first_inner = 0; first_inner < inner_width; first_inner += TILE) {{
        const uint inner_count = metal::min(TILE, inner_width - first_inner);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        xlstm_stage<TILE, TILE, STRIDE>(
            row_tile, row_start + first_inner * q_strides[3], q_strides[2],
            q_strides[3], count, inner_count, state_factor, member, members);{stage}
        threadgroup_barrier(mem_flags::mem_threadgroup);{normaliser if tiles.normaliser else ""}
        #pragma unroll
        for (uint inner = 0; inner < TILE; inner += FRAGMENT) {{
            if (inner < inner_count) {{
                metal::simdgroup_float8x8 left;
                simdgroup_load(left, row_tile + own * STRIDE + inner, STRIDE);
                #pragma unroll
                for (uint column = 0; column < COLUMNS / FRAGMENT; ++column) {{
                    if (column * FRAGMENT < column_count) {{
                        metal::simdgroup_float8x8 right;
                        {load}
                        simdgroup_multiply_accumulate(
                            result_tile[column], left, right, result_tile[column]);
                    }}
                }}
            }}
        }}
    }}
"""


def _pair_products(tiles: Tiles) -> str:
    """What the rows have of other steps of the chunk."""
    if tiles.past:
        steps, met = (
            "uint from = begin; from < first + count",
            "from + lane <= first + own + row",
        )
        exponent = "other_admitted + xlstm_pair_difference(here, there)"
    else:
        steps, met = (
            "uint from = first; from < end",
            "there_is && from + lane >= first + own + row",
        )
        exponent = "row_number[own + row] + xlstm_pair_difference(there, here)"
    bias = {
        "": "",
        "row": " + row_number[own + row]",
        "column": " + other_bias",
    }[tiles.bias]
    # Kept apart: the gates' gradients are sums from which it drops out.
    own_step = """
            if (from + lane == first + own + row) {
                own_weight[own + row] = weight;
                weight = 0.0f;
            }"""
    other_admitted = "const float other_admitted = there_is ? admitted[other] : -INFINITY;"
    other_bias = "const float other_bias = there_is ? bias[other] : 0.0f;"
    return f"""
    for ({steps}; from += TILE) {{
        const uint from_count = metal::min(TILE, end - from);
        metal::simdgroup_float8x8 products[TILE / FRAGMENT];
        #pragma unroll
        for (uint column = 0; column < TILE / FRAGMENT; ++column) {{
            products[column] = metal::simdgroup_float8x8(0.0f);
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (member < TILE) {{
            const bool inside = member < from_count;
            const size_t step = gate_start + from + (inside ? member : 0);
            column_factor[member] = inside ? {tiles.columns.value} : 0.0f;
            sum_factor[member] = inside ? {tiles.sums.value} : 0.0f;
        }}
        for (uint first_inner = 0; first_inner < inner_width; first_inner += TILE) {{
            const uint inner_count = metal::min(TILE, inner_width - first_inner);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            xlstm_stage<TILE, TILE, STRIDE>(
                row_tile, row_start + first_inner * q_strides[3], q_strides[2],
                q_strides[3], count, inner_count, row_factor, member, members);
            xlstm_stage<TILE, TILE, STRIDE>(
                wide_tile, column_start + from * k_strides[2]
                    + first_inner * k_strides[3],
                k_strides[2], k_strides[3], from_count, inner_count,
                column_factor, member, members);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            #pragma unroll
            for (uint inner = 0; inner < TILE; inner += FRAGMENT) {{
                if (inner < inner_count) {{
                    metal::simdgroup_float8x8 left;
                    simdgroup_load(left, row_tile + own * STRIDE + inner, STRIDE);
                    #pragma unroll
                    for (uint column = 0; column < TILE / FRAGMENT; ++column) {{
                        metal::simdgroup_float8x8 right;
                        simdgroup_load(right, wide_tile + column * FRAGMENT * STRIDE + inner,
                            STRIDE, ulong2(0), true);
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
        const bool there_is = lane < from_count;
        const size_t other = gate_start + from + (there_is ? lane : 0);
        const float2 there = float2(prefix[other], prefix_rest[other]);
        {other_admitted if tiles.past else ""}
        {other_bias if tiles.bias == "column" else ""}
        #pragma unroll
        for (uint row = 0; row < FRAGMENT; ++row) {{
            const float2 here = float2(row_prefix[own + row], row_prefix_rest[own + row]);
            float weight = 0.0f;
            if ({met}) {{
                weight = (weight_tile[(own + row) * STRIDE + lane]{bias})
                    * metal::precise::exp({exponent});
            }}
{own_step if tiles.dotted else ""}
            weight_tile[(own + row) * STRIDE + lane] = weight;
            row_sum[row] += weight;
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        xlstm_stage<TILE, COLUMNS, WIDE_STRIDE>(
            wide_tile, sum_start + from * v_strides[2], v_strides[2],
            v_strides[3], from_count, column_count, sum_factor, member, members);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (uint step = 0; step < TILE; step += FRAGMENT) {{
            if (step < from_count) {{
                metal::simdgroup_float8x8 left;
                simdgroup_load(left, weight_tile + own * STRIDE + step, STRIDE);
                #pragma unroll
                for (uint column = 0; column < COLUMNS / FRAGMENT; ++column) {{
                    if (column * FRAGMENT < column_count) {{
                        metal::simdgroup_float8x8 right;
                        simdgroup_load(right,
                            wide_tile + step * WIDE_STRIDE + column * FRAGMENT, WIDE_STRIDE);
                        simdgroup_multiply_accumulate(
                            result_tile[column], left, right, result_tile[column]);
                    }}
                }}
            }}
        }}
    }}
"""


def _end(tiles: Tiles) -> str:
    """Divide, scale, add and write; a simdgroup its own rows, lanes along the columns."""
    value = "wide_tile[row * WIDE_STRIDE + column]"
    if tiles.vector:
        value += " + vector_factor[row] * vectors[state * result_width + first_column + column]"
    if tiles.normaliser:
        value += " / row_number[row]"
    scale = " * root" if tiles.scaled else ""
    if tiles.scaled:
        value = f"({value}){scale}"
    normaliser = """
        const float sum = simd_sum(row_sum[line]);
        if (lane == 0) {
            row_number[row] = metal::max(metal::abs(sum), row_number[row]) + epsilon;
            if (threadgroup_position_in_grid.x == 0 && row < count) {
                row_sums[gate_start + first + row] = sum;
            }
        }
        simdgroup_barrier(mem_flags::mem_threadgroup);"""
    dotted_start = """
    const auto dotted_start = primal + (sequence / heads) * primal_strides[0]
        + (sequence % heads) * primal_strides[1] + first * primal_strides[2]
        + first_column * primal_strides[3];"""
    own_start = f"""
        float dot = 0.0f;
        float own_dot = 0.0f;
        const size_t step = gate_start + first + metal::min(row, count - 1);
        const float own_factor = own_weight[row] * ({tiles.sums.value}){scale};"""
    dot = """
                float own_value = 0.0f;
                if (own_factor != 0.0f) {
                    own_value = own_factor * static_cast<float>(sum_start[(first + row)
                        * v_strides[2] + column * v_strides[3]]);
                }
                if (row_factor[row] != 0.0f) {
                    const float other = static_cast<float>(dotted_start[
                        row * primal_strides[2] + column * primal_strides[3]]);
                    dot += value * other;
                    own_dot += own_value * other;
                }"""
    dots = """
        dot = simd_sum(dot);
        own_dot = simd_sum(own_dot);
        if (lane == 0 && row < count) {
            const size_t tile = threadgroup_position_in_grid.x;
            const size_t sequences = q_shape[0] * heads;
            const size_t place = (tile * sequences + sequence) * steps + first + row;
            row_dots[place] = dot;
            own_dots[place] = own_dot;
        }"""
    return f"""
    threadgroup_barrier(mem_flags::mem_threadgroup);
    #pragma unroll
    for (uint column = 0; column < COLUMNS / FRAGMENT; ++column) {{
        simdgroup_store(
            result_tile[column], wide_tile + own * WIDE_STRIDE + column * FRAGMENT, WIDE_STRIDE);
    }}
    simdgroup_barrier(mem_flags::mem_threadgroup);{dotted_start if tiles.dotted else ""}
    const size_t result_start = (gate_start + first) * result_width + first_column;
    #pragma unroll
    for (uint line = 0; line < FRAGMENT; ++line) {{
        const uint row = own + line;{normaliser if tiles.normaliser else ""}
        {own_start if tiles.dotted else ""}
        for (uint column = lane; column < COLUMNS; column += 32) {{
            if (row < count && column < column_count) {{
                const float value = {value};{dot if tiles.dotted else ""}
                result[result_start + row * size_t(result_width) + column] =
                    static_cast<T>({"value + own_value" if tiles.dotted else "value"});
            }}
        }}{dots if tiles.dotted else ""}
    }}
"""
