"""Bugs: the everyday ones, as reviews find them, among threads."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_ORDER = frozenset({"order-dependent"})

_LOOSE = frozenset({"order-dependent", "uninitialized-read"})

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
