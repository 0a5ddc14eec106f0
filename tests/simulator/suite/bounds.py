"""Bugs: accesses beyond device buffers and shape tables."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_HELPERS = """
template <typename P>
inline float window_mean(P row, int width) {
  float total = 0;
  for (int k = 0; k <= width; ++k) {
    total += row[k];  // <- out-of-bounds
  }
  return total / width;
}
"""

_PAIR = """
struct Pair {
  float key;
  float weight;
};
"""


BUGS = (
    Case(
        "difference_reads_one_past_the_end",
        """
        uint i = thread_position_in_grid.x;
        float here = x[i];
        float next = x[i + 1];  // <- out-of-bounds
        y[i] = next - here;
        """,
        {"x": Array(floats(48))},
        {"y": Out((48,))},
        (48, 1, 1),
        (16, 1, 1),
    ),
    Case(
        "gather_far_outside",
        """
        uint i = thread_position_in_grid.x;
        long row = rows[i];
        for (uint c = 0; c < 4; ++c) {
          y[i * 4 + c] = table[row * 4 + c];  // <- out-of-bounds
        }
        """,
        {
            "rows": Array(np.array([0, 3, 1, 4, 5, 3_000_000, 2, 0, 1], dtype=np.int64)),
            "table": Array(floats(6, 4)),
        },
        {"y": Out((9, 4))},
        (9, 1, 1),
        (9, 1, 1),
    ),
    Case(
        "left_neighbour_of_the_first",
        """
        int i = thread_position_in_grid.x;
        y[i] = T(0.5f) * (x[i] + x[i - 1]);  // <- out-of-bounds
        """,
        {"x": Array(floats(33).astype(np.float16))},
        {"y": Out((33,), "float16")},
        (33, 1, 1),
        (11, 1, 1),
        template=(("T", "float16"),),
    ),
    Case(
        "unsigned_index_wraps",
        """
        uint i = thread_position_in_grid.x;
        uint before = i - 1;
        if (before >= 0) {
          y[i] = x[before];  // <- out-of-bounds
        } else {
          y[i] = 0;
        }
        """,
        {"x": Array(integers(-9, 9, 20))},
        {"y": Out((20,), "int32")},
        (20, 1, 1),
        (20, 1, 1),
    ),
    Case(
        "grid_rounded_up_without_a_guard",
        """
        uint i = thread_position_in_grid.x;
        y[i] = 2.0f * alpha;  // <- out-of-bounds
        """,
        {"alpha": Array(np.float32(0.25))},
        {"y": Out((100,))},
        (128, 1, 1),
        (64, 1, 1),
    ),
    Case(
        "store_scaled_by_the_wrong_stride",
        """
        uint3 at = thread_position_in_grid;
        uint columns = x_shape[1];
        float v = x[at.y * columns + at.x];
        y[at.y * columns * 2 + at.x] = v;  // <- out-of-bounds
        """,
        {"x": Array(floats(6, 10))},
        {"y": Out((6, 10))},
        (10, 6, 1),
        (5, 2, 1),
        also=frozenset({"unwritten-output"}),
    ),
    Case(
        "one_tap_too_many_of_a_small_input",
        """
        uint i = thread_position_in_grid.x;
        float acc = 0;
        for (uint k = 0; k < TAPS; ++k) {
          acc += taps[k] * x[i + k];  // <- out-of-bounds
        }
        y[i] = acc;
        """,
        {"x": Array(floats(40)), "taps": Array(floats(3, seed=1))},
        {"y": Out((36,))},
        (36, 1, 1),
        (36, 1, 1),
        template=(("TAPS", 4),),
    ),
    Case(
        "scalar_taken_for_a_list",
        """
        uint i = thread_position_in_grid.x;
        auto range = &limit;
        float low = -range[0];
        float high = range[1];  // <- out-of-bounds
        y[i] = metal::clamp(x[i], low, high);
        """,
        {"x": Array(floats(16)), "limit": Array(np.float32(0.5))},
        {"y": Out((16,))},
        (16, 1, 1),
        (16, 1, 1),
    ),
    Case(
        "third_axis_of_a_matrix",
        """
        uint i = thread_position_in_grid.x;
        int depth = x_shape[2];  // <- out-of-bounds
        y[i] = depth > 1 ? x[i] : -x[i];
        """,
        {"x": Array(floats(4, 8))},
        {"y": Out((4, 8))},
        (32, 1, 1),
        (8, 1, 1),
    ),
    Case(
        "helper_reads_past_the_row",
        """
        uint row = thread_position_in_grid.x;
        y[row] = window_mean(x + row * 12, 12);
        """,
        {"x": Array(floats(5, 12))},
        {"y": Out((5,))},
        (5, 1, 1),
        (5, 1, 1),
        header=_HELPERS,
    ),
    Case(
        "float4_load_over_the_tail",
        """
        uint i = thread_position_in_grid.x;
        float4 v = ((const device float4*)x)[i];  // <- out-of-bounds
        float4 w = v * v;
        for (uint k = 0; k < 4 && 4 * i + k < 30; ++k) {
          y[4 * i + k] = w[k];
        }
        """,
        {"x": Array(floats(30))},
        {"y": Out((30,))},
        (8, 1, 1),
        (8, 1, 1),
    ),
    Case(
        "char4_store_over_the_tail",
        """
        uint i = thread_position_in_grid.x;
        uchar4 v;
        for (int k = 0; k < 4; ++k) {
          v[k] = uchar(min(4 * i + k, 61u));
        }
        *(device uchar4*)(y + 4 * i) = v + shift[0];  // <- out-of-bounds
        """,
        {"shift": Array(np.array([3], dtype=np.uint8))},
        {"y": Out((62,), "uint8")},
        (16, 1, 1),
        (16, 1, 1),
    ),
    Case(
        "packed_triples_of_an_odd_array",
        """
        uint i = thread_position_in_grid.x;
        const device packed_float3* points = (const device packed_float3*)x;
        float3 p = points[i];  // <- out-of-bounds
        y[i] = length(p);
        """,
        {"x": Array(floats(31))},
        {"y": Out((11,))},
        (11, 1, 1),
        (11, 1, 1),
    ),
    Case(
        "struct_behind_an_odd_array",
        """
        uint i = thread_position_in_grid.x;
        const device Pair* pairs = reinterpret_cast<const device Pair*>(x);
        float w = pairs[i].weight;  // <- out-of-bounds
        y[i] = w + pairs[i].key;
        """,
        {"x": Array(floats(25))},
        {"y": Out((13,))},
        (13, 1, 1),
        (13, 1, 1),
        header=_PAIR,
    ),
)
