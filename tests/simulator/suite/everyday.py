"""Bugs: the everyday ones, as reviews find them, in memory."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import LINELESS, Array, Case, Out, floats, integers

_ORDER = frozenset({"order-dependent"})

_PRIVATE = LINELESS | {"uninitialized-read"}

_SCALE = """
template <typename T>
inline T last_scale(const constant T* scales, uint count) {
  return scales[count];  // <- out-of-bounds
}
"""


BUGS = (
    Case(
        "bias_after_the_last_row",
        """
        uint3 g = thread_position_in_grid;
        float acc = 0;
        for (uint k = 0; k < 6; ++k) {
          acc += x[g.x * 6 + k] + bias[rows];  // <- out-of-bounds
        }
        y[g.x] = acc;
        """,
        {
            "x": Array(floats(9, 6)),
            "bias": Array(floats(9, seed=1)),
            "rows": Array(np.uint32(9)),
        },
        {"y": Out((9,))},
        (9, 1, 1),
        (9, 1, 1),
    ),
    Case(
        "scale_by_its_count",
        """
        uint i = thread_position_in_grid.x;
        y[i] = x[i] * last_scale(scales, 5);
        """,
        {"x": Array(floats(24)), "scales": Array(floats(5))},
        {"y": Out((24,))},
        (24, 1, 1),
        (24, 1, 1),
        header=_SCALE,
    ),
    Case(
        "rows_and_columns_swapped",
        """
        uint3 g = thread_position_in_grid;
        uint rows = x_shape[0], columns = x_shape[1];
        if (g.x >= rows || g.y >= columns) return;
        float v = x[g.y * columns + g.x];  // <- out-of-bounds
        y[g.x * columns + g.y] = v;
        """,
        {"x": Array(floats(5, 21))},
        {"y": Out((5, 21))},
        (32, 32, 1),
        (8, 8, 1),
    ),
    Case(
        "one_row_more_than_the_tile",
        """
        threadgroup float tile[8][8];
        uint3 t = thread_position_in_threadgroup;
        tile[t.y][t.x] = x[t.y * 8 + t.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float below = tile[t.y + 1][t.x];  // <- out-of-bounds
        y[t.y * 8 + t.x] = below - tile[t.y][t.x];
        """,
        {"x": Array(floats(8, 8))},
        {"y": Out((8, 8))},
        (8, 8, 1),
        (8, 8, 1),
    ),
    Case(
        "right_neighbour_in_one_of_two_branches",
        """
        uint i = thread_position_in_grid.x;
        float v;
        if (i % 3 == 0) {
          v = x[i];
        } else {
          v = x[i + 1];  // <- out-of-bounds
        }
        y[i] = v;
        """,
        {"x": Array(floats(30))},
        {"y": Out((30,))},
        (30, 1, 1),
        (30, 1, 1),
    ),
    Case(
        "stores_of_both_branches_go_too_far",
        """
        uint i = thread_position_in_grid.x;
        if (x[i] > 0) {
          y[i] = 1.0f;
        } else {
          y[i + 8] = -x[i];  // <- out-of-bounds
        }
        """,
        {"x": Array(-np.abs(floats(24)))},
        {"y": Out((24,))},
        (24, 1, 1),
        (24, 1, 1),
        init_value=0,
    ),
    Case(
        "choice_of_two_neighbours",
        """
        uint i = thread_position_in_grid.x;
        bool left = x[i] < 0;
        float v = left
            ? x[i - 1]  // <- out-of-bounds
            : x[min(i + 1, 19u)];
        y[i] = v;
        """,
        {"x": Array(-np.abs(floats(20)))},
        {"y": Out((20,))},
        (20, 1, 1),
        (4, 1, 1),
    ),
    Case(
        "one_slot_for_two_branches",
        """
        threadgroup float slot[2];
        uint lid = thread_position_in_threadgroup.x;
        if (lid < 2) slot[lid] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float v = x[lid];
        if (v > 0) {
          slot[0] = v;  // <- threadgroup-race
        } else {
          slot[1] = -1;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = slot[0];
        """,
        {"x": Array(np.where(np.arange(64) % 32 == 9, np.arange(64), -1).astype(np.float32))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=_ORDER,
    ),
    Case(
        "wide_batch_offset_in_32_bits",
        """
        uint i = thread_position_in_grid.x;
        int offset = int(i) * batch_stride;
        y[i] = x[offset + 1];  // <- out-of-bounds
        """,
        {"x": Array(floats(40)), "batch_stride": Array(np.int32(100_000_000))},
        {"y": Out((8,))},
        (8, 1, 1),
        (8, 1, 1),
    ),
    Case(
        "sum_without_a_start",
        """
        uint row = thread_position_in_grid.x;
        float acc;
        for (uint k = 0; k < 7; ++k) {
          acc += x[row * 7 + k];  // <- uninitialized-read
        }
        y[row] = acc;  // <- uninitialized-read
        """,
        {"x": Array(floats(8, 7))},
        {"y": Out((8,))},
        (8, 1, 1),
        (8, 1, 1),
        lineless=_PRIVATE,
    ),
    Case(
        "private_histogram_without_a_start",
        """
        uint row = thread_position_in_grid.x;
        int bins[4];
        for (uint k = 0; k < 9; ++k) {
          bins[keys[row * 9 + k] & 3]++;  // <- uninitialized-read
        }
        for (uint b = 0; b < 4; ++b) y[row * 4 + b] = bins[b];  // <- uninitialized-read
        """,
        {"keys": Array(integers(0, 50, 6, 9))},
        {"y": Out((6, 4), "int32")},
        (6, 1, 1),
        (6, 1, 1),
        lineless=_PRIVATE,
    ),
    Case(
        "maximum_of_threads_that_took_no_part",
        """
        threadgroup half tops[64];
        uint lid = thread_position_in_threadgroup.x;
        half v = x[thread_position_in_grid.x];
        if (v > half(0)) tops[lid] = v;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 32; s > 0; s >>= 1) {
          if (lid < s) tops[lid] = max(tops[lid], tops[lid + s]);  // <- uninitialized-read
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (lid == 0) y[threadgroup_position_in_grid.x] = tops[0];
        """,
        {"x": Array(floats(128).astype(np.float16))},
        {"y": Out((2,), "float16")},
        (128, 1, 1),
        (64, 1, 1),
    ),
)
