"""Bugs in rarer clothes: memory that is out of bounds."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import LOST, Array, Case, Out, floats

STATS = """
struct Stat {
  half low;
  half high;
};

template <typename T, int N>
void gather(thread T (&into)[N], const device T* from, int count) {
  for (int k = 0; k < count; ++k) into[k] = from[k];
}
"""


BUGS = (
    Case(
        "vector_view_past_a_private_array",
        """
        uint row = thread_position_in_grid.x;
        float acc[6];
        for (int k = 0; k < 6; ++k) acc[k] = x[row * 6 + k];
        int from = start[row];
        float2 pair = *(thread float2*)(acc + from);  // <- out-of-bounds
        y[row] = pair.x * pair.y;
        """,
        {"x": Array(floats(8, 6)), "start": Array(np.array([0, 2, 4, 6, 2, 0, 2, 4], "int32"))},
        {"y": Out((8,))},
        (8, 1, 1),
        (8, 1, 1),
        also=frozenset({"uninitialized-read"}),
    ),
    Case(
        "float4_of_a_short_constant_input",
        """
        uint i = thread_position_in_grid.x;
        float4 last = ((const constant float4*)w)[1];  // <- out-of-bounds
        y[i] = x[i] * last.x + last.w;
        """,
        {"x": Array(floats(16)), "w": Array(floats(7))},
        {"y": Out((16,))},
        (16, 1, 1),
        (16, 1, 1),
    ),
    Case(
        "index_from_another_lane",
        """
        uint i = thread_position_in_grid.x;
        int next = simd_shuffle_xor(rows[i], 1);
        y[i] = table[next];  // <- out-of-bounds
        """,
        {
            "rows": Array(np.where(np.arange(32) == 20, 64, np.arange(32)).astype(np.int32)),
            "table": Array(floats(64)),
        },
        {"y": Out((32,))},
        (32, 1, 1),
        (32, 1, 1),
    ),
    Case(
        "second_output_is_shorter",
        """
        uint i = thread_position_in_grid.x;
        value[i] = x[i] * 2;
        mean[i] = x[i] / 4;  // <- out-of-bounds
        """,
        {"x": Array(floats(20))},
        {"value": Out((20,)), "mean": Out((5,))},
        (20, 1, 1),
        (20, 1, 1),
    ),
    Case(
        "planes_of_an_oblong_volume",
        """
        uint3 g = thread_position_in_grid;
        uint H = x_shape[1], W = x_shape[2];
        float v = x[g.z * H * W + g.y * H + g.x];  // <- out-of-bounds
        y[(g.z * H + g.y) * W + g.x] = v;
        """,
        {"x": Array(floats(2, 9, 4))},
        {"y": Out((2, 9, 4))},
        (4, 9, 2),
        (4, 9, 1),
    ),
    Case(
        "countdown_from_the_length",
        """
        uint row = thread_position_in_grid.x;
        int n = x_shape[1];
        float s = 0;
        for (int k = n; k >= 0; --k) {
          s = s * 0.5f + x[row * n + k];  // <- out-of-bounds
        }
        y[row] = s;
        """,
        {"x": Array(floats(6, 5))},
        {"y": Out((6,))},
        (6, 1, 1),
        (2, 1, 1),
    ),
    Case(
        "stride_of_the_axis_after_the_last",
        """
        uint i = thread_position_in_grid.x;
        long step = x_strides[x_ndim];  // <- out-of-bounds
        y[i] = step > 1 ? x[i] : -x[i];
        """,
        {"x": Array(floats(3, 8))},
        {"y": Out((24,))},
        (24, 1, 1),
        (24, 1, 1),
        ensure_row_contiguous=False,
    ),
    Case(
        "eight_bfloats_at_a_time",
        """
        uint i = thread_position_in_grid.x;
        uint4 words = ((const device uint4*)x)[i];  // <- out-of-bounds
        uint s = words.x ^ words.y ^ words.z ^ words.w;
        y[i] = s;
        """,
        {"x": Array(floats(36), dtype="bfloat16")},
        {"y": Out((5,), "uint32")},
        (5, 1, 1),
        (5, 1, 1),
    ),
    Case(
        "structs_on_chip_by_the_wrong_count",
        """
        threadgroup Stat stats[12];
        uint lid = thread_index_in_threadgroup;
        Stat s{x[lid], half(x[lid] + 1.0h)};
        stats[lid].low = s.low;  // <- out-of-bounds
        if (lid < 12) stats[lid].high = s.high;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint at = lid % 12;
        y[lid] = stats[at].high - stats[at].low;
        """,
        {"x": Array(floats(13).astype(np.float16))},
        {"y": Out((13,), "float16")},
        (13, 1, 1),
        (13, 1, 1),
        header=STATS,
    ),
    Case(
        "pointer_far_beyond_everything",
        """
        uint i = thread_position_in_grid.x;
        ulong far = ulong(jump) << 40;
        y[i] = x[far + i];  // <- crash|out-of-bounds
        """,
        {"x": Array(floats(9)), "jump": Array(np.int32(7))},
        {"y": Out((9,))},
        (9, 1, 1),
        (9, 1, 1),
        also=LOST,
    ),
    Case(
        "left_of_its_own_output",
        """
        int i = thread_position_in_grid.x * 8;
        for (int k = 0; k < 8; ++k) {
          y[i + k] = x[i + k] + (k > 0 ? y[i + k - 1] : y[i - 1 - k]);  // <- out-of-bounds
        }
        """,
        {"x": Array(floats(8))},
        {"y": Out((8,))},
        (1, 1, 1),
        (1, 1, 1),
    ),
)
