"""Bugs: the everyday ones of all kinds, as reviews find them."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import LINELESS, Array, Case, Out, floats, integers

_ORDER = frozenset({"order-dependent"})
_LOOSE = frozenset({"order-dependent", "uninitialized-read"})
_PRIVATE = LINELESS | {"uninitialized-read"}

_SCALE = """
template <typename T>
inline T last_scale(const constant T* scales, uint count) {
  return scales[count];  // <- out-of-bounds
}
"""

_TILE = """
template <typename T, int ROWS, int COLUMNS>
struct Tile {
  threadgroup T* cells;
  threadgroup T& at(int r, int c) { return cells[r * COLUMNS + c]; }
  void load(const device T* from, uint lid, uint threads) {
    for (uint k = lid; k < ROWS * COLUMNS; k += threads) {
      cells[k] = from[k];  // <- threadgroup-race
    }
  }
};
"""

_FACTORIAL = """
inline float tower(float x, int depth) {  // <- crash
  volatile float kept[64];  // <- crash
  kept[depth & 63] = x;  // <- crash
  float rest = tower(x * 0.5f, depth + 1);  // <- crash
  return rest + kept[depth & 63];
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
    Case(
        "counter_cleared_while_others_count",
        """
        threadgroup int seen;
        uint lid = thread_position_in_threadgroup.x;
        if (lid == 0) seen = 0;  // <- threadgroup-race
        if (x[lid] > 0) seen++;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) y[0] = seen;
        """,
        {"x": Array(floats(96))},
        {"y": Out((1,), "int32")},
        (96, 1, 1),
        (96, 1, 1),
        also=_LOOSE,
    ),
    Case(
        "second_stage_before_the_first_is_done",
        """
        threadgroup float sums[32];
        uint lid = thread_position_in_threadgroup.x;
        if (lid < 32) sums[lid] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float s = simd_sum(x[lid]);
        if (thread_index_in_simdgroup == 0) {
          sums[simdgroup_index_in_threadgroup] = s;  // <- threadgroup-race
        }
        if (simdgroup_index_in_threadgroup == 0) {
          float all = simd_sum(sums[thread_index_in_simdgroup]);  // <- threadgroup-race
          if (lid == 0) y[0] = all;
        }
        """,
        {"x": Array(floats(128))},
        {"y": Out((1,))},
        (128, 1, 1),
        (128, 1, 1),
        also=_ORDER,
    ),
    Case(
        "tile_struct_reloaded_without_a_barrier",
        """
        threadgroup float storage[64];
        Tile<float, 8, 8> tile{storage};
        uint lid = thread_index_in_threadgroup;
        float acc = 0;
        for (int t = 0; t < 3; ++t) {
          tile.load(x + 64 * t, lid, 64);
          threadgroup_barrier(mem_flags::mem_threadgroup);
          acc += tile.at(lid % 8, lid / 8);  // <- threadgroup-race
        }
        y[lid] = acc;
        """,
        {"x": Array(floats(3, 64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        header=_TILE,
        also=_ORDER,
    ),
    Case(
        "symmetric_matrix_filled_from_both_sides",
        """
        uint r = thread_position_in_grid.y, c = thread_position_in_grid.x;
        float v = x[r * 12 + c];
        y[r * 12 + c] = v;  // <- device-race
        y[c * 12 + r] = v;  // <- device-race
        """,
        {"x": Array(floats(12, 12))},
        {"y": Out((12, 12))},
        (12, 12, 1),
        (12, 12, 1),
        also=_ORDER,
    ),
    Case(
        "minimum_by_comparing_first",
        """
        uint i = thread_position_in_grid.x;
        if (x[i] < least[0]) {  // <- device-race
          least[0] = x[i];  // <- device-race
        }
        """,
        {"x": Array(-np.arange(64, dtype=np.float32))},
        {"least": Out((1,))},
        (64, 1, 1),
        (32, 1, 1),
        init_value=3,
        also=_ORDER,
    ),
    Case(
        "odd_even_sort_on_the_output",
        """
        uint i = thread_position_in_grid.x;
        y[2 * i] = x[2 * i];  // <- device-race
        y[2 * i + 1] = x[2 * i + 1];  // <- device-race
        for (uint pass = 0; pass < 4; ++pass) {
          uint a = 2 * i + (pass & 1);
          if (a + 1 < 96 && y[a] > y[a + 1]) {  // <- device-race
            int t = y[a];  // <- device-race
            y[a] = y[a + 1];  // <- device-race
            y[a + 1] = t;  // <- device-race
          }
        }
        """,
        {"x": Array(integers(0, 999, 96))},
        {"y": Out((96,), "int32")},
        (48, 1, 1),
        (48, 1, 1),
        also=_LOOSE,
    ),
    Case(
        "barrier_inside_the_bounds_check",
        """
        threadgroup float tile[64];
        uint i = thread_position_in_grid.x, lid = thread_position_in_threadgroup.x;
        if (i < uint(x_shape[0])) {
          tile[lid] = x[i];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          y[i] = tile[lid] + tile[0];
        }
        """,
        {"x": Array(floats(100))},
        {"y": Out((100,))},
        (128, 1, 1),
        (64, 1, 1),
        also=frozenset({"threadgroup-race", "order-dependent", "uninitialized-read"}),
    ),
    Case(
        "waits_for_its_own_data",
        """
        threadgroup float cell[64];
        uint lid = thread_position_in_threadgroup.x;
        float v = x[lid];
        while (v > 1.0f) {
          v *= 0.5f;
          cell[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        }
        y[lid] = v;
        """,
        {"x": Array(np.abs(floats(64)) * 4)},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=frozenset({"threadgroup-race", "order-dependent", "uninitialized-read"}),
    ),
    Case(
        "up_shuffle_in_an_odd_branch",
        """
        uint lane = thread_index_in_simdgroup;
        half v = x[lane];
        if (lane % 2 == 1) {
          v -= simd_shuffle_up(v, 1);  // <- divergent-simd
        }
        y[lane] = v;
        """,
        {"x": Array(floats(32).astype(np.float16))},
        {"y": Out((32,), "float16")},
        (32, 1, 1),
        (32, 1, 1),
        also=_LOOSE,
    ),
    Case(
        "step_that_never_meets_one",
        """
        uint i = thread_position_in_grid.x;
        float s = 0;
        for (float t = 0; t != 1.0f; t += 0.1f) {  // <- timeout
          s += x[i] * t;  // <- timeout
        }
        y[i] = s;
        """,
        {"x": Array(floats(8))},
        {"y": Out((8,))},
        (8, 1, 1),
        (8, 1, 1),
        also=frozenset({"unwritten-output", "order-dependent"}),
    ),
    Case(
        "recursion_without_a_floor",
        """
        uint i = thread_position_in_grid.x;
        y[i] = tower(x[i], 0);
        """,
        {"x": Array(floats(8))},
        {"y": Out((8,))},
        (8, 1, 1),
        (8, 1, 1),
        header=_FACTORIAL,
        also=frozenset({"unwritten-output", "order-dependent"}),
    ),
    Case(
        "ties_broken_by_whoever_comes",
        """
        uint i = thread_position_in_grid.x;
        device atomic_uint* top = (device atomic_uint*)best;
        uint score = scores[i];
        uint old = atomic_fetch_max_explicit(top, score, memory_order_relaxed);
        if (score > old) {
          device atomic_uint* where = top + 1;
          atomic_store_explicit(where, i, memory_order_relaxed);  // <- order-dependent
        }
        """,
        {"scores": Array(np.array([3, 9, 2, 9, 1, 9, 4, 9], dtype=np.uint32))},
        {"best": Out((2,), "uint32")},
        (8, 1, 1),
        (2, 1, 1),
        init_value=0,
    ),
    Case(
        "writes_through_a_vector_view_of_an_input",
        """
        uint i = thread_position_in_grid.x;
        device half2* pairs = (device half2*)x;
        half2 p = pairs[i];
        pairs[i] = p.yx;  // <- write-to-input
        y[i] = p.x + p.y;
        """,
        {"x": Array(floats(32).astype(np.float16))},
        {"y": Out((16,), "float16")},
        (16, 1, 1),
        (16, 1, 1),
    ),
    Case(
        "last_group_of_a_strided_copy",
        """
        uint g = threadgroup_position_in_grid.x;
        for (uint k = thread_position_in_threadgroup.x; k < 16; k += 8) {
          if (g * 16 + k < 40) {
            y[g * 20 + k] = x[g * 16 + k];  // <- unwritten-output
          }
        }
        """,
        {"x": Array(floats(40))},
        {"y": Out((48,))},
        (24, 1, 1),
        (8, 1, 1),
    ),
)
