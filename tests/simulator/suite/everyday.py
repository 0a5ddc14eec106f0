"""Bugs: the everyday ones, as reviews find them, in memory."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, floats, halves, integers, kernel

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
)
