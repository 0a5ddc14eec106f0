"""The kernel of `xlstm_kernels.mlstm.sequence`, with and without initial states and a mask."""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import LOG_SIGMOID, MLSTM_GATES, PAIRS

_SIMD_WIDTH = 32
_MAX_SIMDGROUPS = 16
_MAX_ROWS = 32

# A threadgroup has some columns of C, from the first step to the last one, in the registers of its
# threads. Each simdgroup has some of the rows. Where DK is not too big, a lane has a column: `ROWS`
# numbers. Where it is, `PARTS` lanes share one: fewer columns, and more rows a simdgroup.
#
# At each step a lane has the query, the key and the normaliser's state of one row or a few of its
# simdgroup's, and broadcasts them to the others in turn. Sums over the simdgroups go
# through threadgroup memory, by turns in one of two places, so that one barrier a step will do: who
# writes to a place has passed the barrier that its reader reached after reading. What a step needs
# is read during the one before.
#
# The gates are taken 32 steps at a time, a lane a step. Two spans of steps, in which m becomes
# max(m + a, b) and max(m + a', b'), make one with (a + a', max(b + a', b')), so a scan in five
# rounds gives each lane the m of its step.


def _launch(query: mx.array, _key: mx.array, value: mx.array, *_others: mx.array) -> Launch:
    batch, heads, _, keys = query.shape
    values = value.shape[3]
    rows = 8 if keys <= 8 * _MAX_SIMDGROUPS else _MAX_ROWS
    parts = 1
    while parts * rows * _MAX_SIMDGROUPS < keys:
        parts *= 2
    if parts > _SIMD_WIDTH:
        greatest = _SIMD_WIDTH * _MAX_ROWS * _MAX_SIMDGROUPS
        raise ValueError(
            f"mlstm_sequence: the Metal kernel takes a DK of up to {greatest}, got {keys}; "
            "use backend='native'"
        )
    tiles = math.ceil(values * parts / _SIMD_WIDTH)
    simdgroups = math.ceil(keys / (rows * parts))
    leading = (batch, heads)
    return Launch(
        grid=(tiles * _SIMD_WIDTH, heads * simdgroups, batch),
        threadgroup=(_SIMD_WIDTH, simdgroups, 1),
        output_shapes=(value.shape, (*leading, keys, values), (*leading, keys), (*leading, 1)),
        output_dtypes=(value.dtype, mx.float32, mx.float32, mx.float32),
        template=(
            ("T", value.dtype),
            ("ROWS", rows),
            ("PARTS", parts),
            ("MAX_SIMDGROUPS", _MAX_SIMDGROUPS),
        ),
    )


def _kernel(initial: bool, masked: bool) -> Kernel:
    states = ("c_before", "n_before", "m_before") if initial else ()
    return Kernel(
        name="xlstm_mlstm_sequence" + "_initial" * initial + "_masked" * masked,
        inputs=(
            "query",
            "key",
            "value",
            "input_gate",
            "forget_gate",
            *states,
            *(("mask",) if masked else ()),
            "epsilon",
        ),
        outputs=("h", "c_after", "n_after", "m_after"),
        launch=_launch,
        contiguous_inputs=False,
        header=LOG_SIGMOID + PAIRS + MLSTM_GATES,
        body=_BEGIN + (_INITIAL if initial else "") + _over_time(masked) + _END,
    )


_BEGIN = """
    // query, key: (B, NH, S, DK); value: (B, NH, S, DV); input_gate, forget_gate: (B, NH, S);
    // c_before: (B, NH, DK, DV); n_before: (B, NH, DK); m_before: (B, NH, 1); mask: (B, S): all as
    // they lie; epsilon: 0-d. h, c_after, n_after, m_after: contiguous.
    constexpr uint COLUMNS = 32 / PARTS;
    constexpr uint ROWS_OF_SIMDGROUP = ROWS * PARTS;
    constexpr uint ROWS_OF_LANE = (ROWS_OF_SIMDGROUP + 31) / 32;
    threadgroup float read_sums[2 * MAX_SIMDGROUPS * 32];
    threadgroup float inner_sums[2 * MAX_SIMDGROUPS];
    const uint lane = thread_index_in_simdgroup;
    const uint simdgroup = simdgroup_index_in_threadgroup;
    const uint simdgroups = simdgroups_per_threadgroup;
    const uint heads = query_shape[1];
    const uint steps = query_shape[2];
    const uint keys = query_shape[3];
    const uint values = value_shape[3];
    const uint head = threadgroup_position_in_grid.y;
    const uint batch = threadgroup_position_in_grid.z;
    const size_t sequence = static_cast<size_t>(batch) * heads + head;
    const bool first_tile = threadgroup_position_in_grid.x == 0;
    const uint part = lane / COLUMNS;
    const uint column_in_tile = lane % COLUMNS;
    const uint column = threadgroup_position_in_grid.x * COLUMNS + column_in_tile;
    const bool present = column < values;
    const uint first_row = simdgroup * ROWS_OF_SIMDGROUP;
    auto queries = query + batch * query_strides[0] + head * query_strides[1];
    auto keys_of_head = key + batch * key_strides[0] + head * key_strides[1];
    auto values_of_head = value + batch * value_strides[0] + head * value_strides[1];
    auto input_gates = input_gate + batch * input_gate_strides[0] + head * input_gate_strides[1];
    auto forget_gates =
        forget_gate + batch * forget_gate_strides[0] + head * forget_gate_strides[1];

    // Row j of a thread is first_row + j * PARTS + part, row s of a lane first_row + s * 32 + lane.
    float c_own[ROWS] = {};
    float n_own[ROWS_OF_LANE] = {};
    float2 m = float2(0.0f, 0.0f);
"""

_INITIAL = """
    auto c_old = c_before + batch * c_before_strides[0] + head * c_before_strides[1];
    auto n_old = n_before + batch * n_before_strides[0] + head * n_before_strides[1];
    _Pragma("clang loop unroll(full)")
    for (uint j = 0; j < ROWS; ++j) {
        const uint row = first_row + j * PARTS + part;
        if (present && row < keys) {
            c_own[j] = c_old[row * c_before_strides[2] + column * c_before_strides[3]];
        }
    }
    _Pragma("clang loop unroll(full)")
    for (uint s = 0; s < ROWS_OF_LANE; ++s) {
        const uint own = s * 32 + lane;
        if (own < ROWS_OF_SIMDGROUP && first_row + own < keys) {
            n_own[s] = n_old[(first_row + own) * n_before_strides[2]];
        }
    }
    float m_first = 0.0f;
    if (lane == 0) {
        m_first = m_before[batch * m_before_strides[0] + head * m_before_strides[1]];
    }
    m.x = simd_broadcast(m_first, 0);
"""


def _over_time(masked: bool) -> str:
    unmasked = "mask[batch * mask_strides[0] + own * mask_strides[1]]" if masked else "true"
    return f"""
    const float scale = metal::precise::rsqrt(static_cast<float>(keys));
    float query_next[ROWS_OF_LANE] = {{}};
    float key_next[ROWS_OF_LANE] = {{}};
    float value_next = 0.0f;
    float live_own = 0.0f;
    float forget_own = 0.0f;
    float admit_own = 0.0f;
    float floor_own = 0.0f;
    uint reader = 0;
    for (uint ahead = 0; ahead <= steps; ++ahead) {{
        float query_own[ROWS_OF_LANE];
        float key_own[ROWS_OF_LANE];
        const float value_own = value_next;
        _Pragma("clang loop unroll(full)")
        for (uint s = 0; s < ROWS_OF_LANE; ++s) {{
            const uint own = s * 32 + lane;
            const uint row = first_row + own;
            query_own[s] = query_next[s];
            key_own[s] = key_next[s];
            const bool there = ahead < steps && own < ROWS_OF_SIMDGROUP && row < keys;
            query_next[s] = there
                ? static_cast<float>(queries[ahead * query_strides[2] + row * query_strides[3]])
                : 0.0f;
            key_next[s] = there
                ? static_cast<float>(keys_of_head[ahead * key_strides[2] + row * key_strides[3]])
                : 0.0f;
        }}
        if (ahead < steps && present) {{
            value_next = static_cast<float>(
                values_of_head[ahead * value_strides[2] + column * value_strides[3]]);
        }}
        if (ahead == 0) {{
            continue;
        }}

        const uint step = ahead - 1;
        const uint turn = step % 32;
        if (turn == 0) {{
            const uint own = step + lane;
            // What is no step keeps all and admits nothing.
            const bool live = own < steps && {unmasked};
            float2 kept = float2(0.0f, 0.0f);
            float2 admitted = float2(-INFINITY, 0.0f);
            if (live) {{
                kept = xlstm_log_sigmoid_pair(
                    static_cast<float>(forget_gates[own * forget_gate_strides[2]]));
                admitted.x = static_cast<float>(input_gates[own * input_gate_strides[2]]);
            }}
            float2 sum = kept;
            float2 greatest = admitted;
            for (uint distance = 1; distance < 32; distance *= 2) {{
                const float2 sum_before = simd_shuffle_up(sum, distance);
                const float2 greatest_before = simd_shuffle_up(greatest, distance);
                if (lane >= distance) {{
                    greatest = xlstm_pair_max(xlstm_pair_sum(greatest_before, sum), greatest);
                    sum = xlstm_pair_sum(sum_before, sum);
                }}
            }}
            const float2 m_own = xlstm_pair_max(xlstm_pair_sum(m, sum), greatest);
            const float2 m_up = simd_shuffle_up(m_own, 1);
            kept = xlstm_pair_sum(lane == 0 ? m : m_up, kept);
            live_own = live ? 1.0f : 0.0f;
            forget_own = live ? xlstm_gate(kept, m_own) : 1.0f;
            admit_own = xlstm_gate(admitted, m_own);
            floor_own = xlstm_floor(m_own);
            m = simd_broadcast(m_own, 31);
        }}
        const bool live = simd_broadcast(live_own, turn) != 0.0f;
        const float forget = simd_broadcast(forget_own, turn);
        const float admit = simd_broadcast(admit_own, turn);
        const float floor = simd_broadcast(floor_own, turn);

        float inner = 0.0f;
        _Pragma("clang loop unroll(full)")
        for (uint s = 0; s < ROWS_OF_LANE; ++s) {{
            key_own[s] = live ? admit * key_own[s] : 0.0f;
            n_own[s] = forget * n_own[s] + key_own[s];
            inner += query_own[s] * n_own[s];
        }}
        const float value_live = live ? value_own : 0.0f;
        float read = 0.0f;
        _Pragma("clang loop unroll(full)")
        for (uint j = 0; j < ROWS; ++j) {{
            const uint source = (j * PARTS) % 32 + part;
            const float key_row = simd_shuffle(key_own[(j * PARTS) / 32], source);
            const float query_row = simd_shuffle(query_own[(j * PARTS) / 32], source);
            c_own[j] = forget * c_own[j] + key_row * value_live;
            read += query_row * c_own[j];
        }}

        inner = simd_sum(inner);
        const uint place = (step % 2) * MAX_SIMDGROUPS;
        read_sums[(place + simdgroup) * 32 + lane] = read;
        if (lane == 0) {{
            inner_sums[place + simdgroup] = inner;
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (simdgroup == reader && lane < COLUMNS && present) {{
            float read_sum = 0.0f;
            float inner_sum = 0.0f;
            for (uint other = 0; other < simdgroups; ++other) {{
                inner_sum += inner_sums[place + other];
                for (uint p = 0; p < PARTS; ++p) {{
                    read_sum += read_sums[(place + other) * 32 + p * COLUMNS + column_in_tile];
                }}
            }}
            const float normaliser = metal::max(metal::abs(scale * inner_sum), floor);
            h[(sequence * steps + step) * values + column] =
                static_cast<T>(live ? scale * read_sum / (normaliser + epsilon) : 0.0f);
        }}
        reader = reader + 1 < simdgroups ? reader + 1 : 0;
    }}
"""


_END = """
    // m is stored as one float, and it is that by which C and n are scaled.
    const float gauge = metal::precise::exp(m.y);
    _Pragma("clang loop unroll(full)")
    for (uint j = 0; j < ROWS; ++j) {
        const uint row = first_row + j * PARTS + part;
        if (present && row < keys) {
            c_after[(sequence * keys + row) * values + column] = gauge * c_own[j];
        }
    }
    if (first_tile) {
        _Pragma("clang loop unroll(full)")
        for (uint s = 0; s < ROWS_OF_LANE; ++s) {
            const uint own = s * 32 + lane;
            if (own < ROWS_OF_SIMDGROUP && first_row + own < keys) {
                n_after[sequence * keys + first_row + own] = gauge * n_own[s];
            }
        }
        if (simdgroup == 0 && lane == 0) {
            m_after[sequence] = m.x;
        }
    }
"""

# Indexed by whether there are initial states, and a mask.
KERNELS = tuple(
    tuple(_kernel(initial, masked) for masked in (False, True)) for initial in (False, True)
)
