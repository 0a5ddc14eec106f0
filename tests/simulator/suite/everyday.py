"""Everyday bugs, in memory and in order."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, count, floats, halves, integers, kernel

BUGS = (
    kernel("bias_after_the_last_row", 9)(
        x=floats(9, 6), bias=floats(9, seed=1), rows=np.uint32(9), y=Out(9)
    )("""
        uint3 g = thread_position_in_grid;
        float acc = 0;
        for (uint k = 0; k < 6; ++k) acc += x[g.x * 6 + k] + bias[rows];  // <- out-of-bounds
        y[g.x] = acc;
    """),
    kernel("scale_by_its_count", 24)(x=floats(24), scales=floats(5), y=Out(24))("""
        template <typename T>
        inline T last_scale(const constant T* scales, uint count) {
          return scales[count];  // <- out-of-bounds
        }
        // body
        y[i] = x[i] * last_scale(scales, 5);
    """),
    kernel("rows_and_columns_swapped", ((32, 32), (8, 8)))(x=floats(5, 21), y=Out(5, 21))("""
        uint3 g = thread_position_in_grid;
        uint rows = x_shape[0], columns = x_shape[1];
        if (g.x >= rows || g.y >= columns) return;
        float v = x[g.y * columns + g.x];  // <- out-of-bounds
        y[g.x * columns + g.y] = v;
    """),
    kernel("one_row_more_than_the_tile", ((8, 8), (8, 8)))(x=floats(8, 8), y=Out(8, 8))("""
        threadgroup float tile[8][8];
        uint3 t = thread_position_in_threadgroup;
        tile[t.y][t.x] = x[t.y * 8 + t.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float below = tile[t.y + 1][t.x];  // <- out-of-bounds
        y[t.y * 8 + t.x] = below - tile[t.y][t.x];
    """),
    kernel("right_neighbour_in_one_of_two_branches", 30)(x=floats(30), y=Out(30))("""
        float v;
        if (i % 3 == 0) {
          v = x[i];
        } else {
          v = x[i + 1];  // <- out-of-bounds
        }
        y[i] = v;
    """),
    kernel("stores_of_both_branches_go_too_far", 24, init=0)(x=-np.abs(floats(24)), y=Out(24))("""
        if (x[i] > 0) {
          y[i] = 1.0f;
        } else {
          y[i + 8] = -x[i];  // <- out-of-bounds
        }
    """),
    kernel("choice_of_two_neighbours", (20, 4))(x=-np.abs(floats(20)), y=Out(20))("""
        bool left = x[i] < 0;
        float v = left
            ? x[i - 1]  // <- out-of-bounds
            : x[min(i + 1, 19u)];
        y[i] = v;
    """),
    kernel("one_slot_for_two_branches", 64)(
        x=np.where(np.arange(64) % 32 == 9, np.arange(64), -1).astype(np.float32), y=Out(64)
    )("""
        threadgroup float slot[2];
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
    """),
    kernel("wide_batch_offset_in_32_bits", 8)(
        x=floats(40), batch_stride=np.int32(100_000_000), y=Out(8)
    )("""
        int offset = int(i) * batch_stride;
        y[i] = x[offset + 1];  // <- out-of-bounds
    """),
    kernel("sum_without_a_start", 8, lineless="uninitialized-read")(x=floats(8, 7), y=Out(8))("""
        uint row = thread_position_in_grid.x;
        float acc;
        for (uint k = 0; k < 7; ++k) acc += x[row * 7 + k];  // <- uninitialized-read
        y[row] = acc;  // <- uninitialized-read
    """),
    kernel("private_histogram_without_a_start", 6, lineless="uninitialized-read")(
        keys=integers(0, 50, 6, 9), y=Out(6, 4, "int32")
    )("""
        uint row = thread_position_in_grid.x;
        int bins[4];
        for (uint k = 0; k < 9; ++k) bins[keys[row * 9 + k] & 3]++;  // <- uninitialized-read
        for (uint b = 0; b < 4; ++b) y[row * 4 + b] = bins[b];  // <- uninitialized-read
    """),
    kernel("maximum_of_threads_that_took_no_part", (128, 64))(
        x=halves(128), y=Out(2, "float16")
    )("""
        threadgroup half tops[64];
        half v = x[thread_position_in_grid.x];
        if (v > half(0)) tops[lid] = v;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 32; s > 0; s >>= 1) {
          if (lid < s) tops[lid] = max(tops[lid], tops[lid + s]);  // <- uninitialized-read
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (lid == 0) y[threadgroup_position_in_grid.x] = tops[0];
    """),
    kernel("counter_cleared_while_others_count", 96)(x=floats(96), y=Out(1, "int32"))("""
        threadgroup int seen;
        if (lid == 0) seen = 0;  // <- threadgroup-race
        if (x[lid] > 0) seen++;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) y[0] = seen;
    """),
    kernel("second_stage_before_the_first_is_done", 128)(x=floats(128), y=Out(1))("""
        threadgroup float sums[32];
        if (lid < 32) sums[lid] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float s = simd_sum(x[lid]);
        if (thread_index_in_simdgroup == 0)
          sums[simdgroup_index_in_threadgroup] = s;  // <- threadgroup-race
        if (simdgroup_index_in_threadgroup == 0) {
          float all = simd_sum(sums[thread_index_in_simdgroup]);  // <- threadgroup-race
          if (lid == 0) y[0] = all;
        }
    """),
    kernel("tile_struct_reloaded_without_a_barrier", 64)(x=floats(3, 64), y=Out(64))("""
        template <typename T, int ROWS, int COLUMNS>
        struct Tile {
          threadgroup T* cells;
          threadgroup T& at(int r, int c) { return cells[r * COLUMNS + c]; }
          void load(const device T* from, uint lid, uint threads) {
            for (uint k = lid; k < ROWS * COLUMNS; k += threads)
              cells[k] = from[k];  // <- threadgroup-race
          }
        };
        // body
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
    """),
    kernel("symmetric_matrix_filled_from_both_sides", ((12, 12), (12, 12)))(
        x=floats(12, 12), y=Out(12, 12)
    )("""
        uint r = thread_position_in_grid.y, c = thread_position_in_grid.x;
        float v = x[r * 12 + c];
        y[r * 12 + c] = v;  // <- device-race
        y[c * 12 + r] = v;  // <- device-race
    """),
    kernel("minimum_by_comparing_first", (64, 32), init=3)(
        x=-count(64, "float32"), least=Out(1)
    )("""
        if (x[i] < least[0]) {  // <- device-race
          least[0] = x[i];  // <- device-race
        }
    """),
    kernel("odd_even_sort_on_the_output", 48)(x=integers(0, 999, 96), y=Out(96, "int32"))("""
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
    """),
    kernel("barrier_inside_the_bounds_check", (128, 64))(x=floats(100), y=Out(100))("""
        threadgroup float tile[64];
        if (i < uint(x_shape[0])) {
          tile[lid] = x[i];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          y[i] = tile[lid] + tile[0];
        }
    """),
    kernel("waits_for_its_own_data", 64)(x=np.abs(floats(64)) * 4, y=Out(64))("""
        threadgroup float cell[64];
        float v = x[lid];
        while (v > 1.0f) {
          v *= 0.5f;
          cell[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        }
        y[lid] = v;
    """),
    kernel("up_shuffle_in_an_odd_branch", 32)(x=halves(32), y=Out(32, "float16"))("""
        half v = x[lane];
        if (lane % 2 == 1) v -= simd_shuffle_up(v, 1);  // <- divergent-simd
        y[lane] = v;
    """),
    kernel("step_that_never_meets_one", 8)(x=floats(8), y=Out(8))("""
        float s = 0;
        for (float t = 0; t != 1.0f; t += 0.1f) {  // <- timeout
          s += x[i] * t;  // <- timeout
        }
        y[i] = s;
    """),
    kernel("recursion_without_a_floor", 8)(x=floats(8), y=Out(8))("""
        inline float tower(float x, int depth) {  // <- crash
          volatile float kept[64];  // <- crash
          kept[depth & 63] = x;  // <- crash
          float rest = tower(x * 0.5f, depth + 1);  // <- crash
          return rest + kept[depth & 63];
        }
        // body
        y[i] = tower(x[i], 0);
    """),
    kernel("ties_broken_by_whoever_comes", (8, 2), init=0)(
        scores=np.array([3, 9, 2, 9, 1, 9, 4, 9], dtype=np.uint32), best=Out(2, "uint32")
    )("""
        device atomic_uint* top = (device atomic_uint*)best;
        uint score = scores[i], old = atomic_fetch_max_explicit(top, score, memory_order_relaxed);
        if (score > old) {
          device atomic_uint* where = top + 1;
          atomic_store_explicit(where, i, memory_order_relaxed);  // <- order-dependent
        }
    """),
    kernel("writes_through_a_vector_view_of_an_input", 16)(x=halves(32), y=Out(16, "float16"))("""
        device half2* pairs = (device half2*)x;
        half2 p = pairs[i];
        pairs[i] = p.yx;  // <- write-to-input
        y[i] = p.x + p.y;
    """),
    kernel("last_group_of_a_strided_copy", (24, 8))(x=floats(40), y=Out(48))("""
        uint g = threadgroup_position_in_grid.x;
        for (uint k = thread_position_in_threadgroup.x; k < 16; k += 8) {
          if (g * 16 + k < 40) y[g * 20 + k] = x[g * 16 + k];  // <- unwritten-output
        }
    """),
)
