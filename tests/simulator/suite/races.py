"""Bugs: races in threadgroup memory, in reductions, scans and tiles."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, count, floats, kernel

BUGS = (
    kernel("reversal_without_a_barrier", (128, 64))(x=floats(128), y=Out(128))("""
        threadgroup float tile[64];
        tile[lid] = x[thread_position_in_grid.x];  // <- threadgroup-race
        y[thread_position_in_grid.x] = tile[63 - lid];  // <- threadgroup-race
    """),
    kernel("sums_over_maxima_still_read", 128)(x=floats(128), y=Out(128))("""
        threadgroup float shared[4];
        float m = simd_max(x[i]);
        if (lane == 0) shared[sg] = m;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        m = max(max(shared[0], shared[1]), max(shared[2], shared[3]));  // <- threadgroup-race
        float e = exp(x[i] - m);
        float s = simd_sum(e);
        if (lane == 0) shared[sg] = s;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        s = shared[0] + shared[1] + shared[2] + shared[3];
        y[i] = e / s;
    """),
    kernel("two_simdgroups_share_slots", 64)(x=count(64), y=Out(64, "int32"))("""
        threadgroup int slot[32];
        uint lid = thread_index_in_threadgroup;
        slot[lid % 32] = x[lid] * 2;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = slot[lid % 32];
    """),
    kernel("tree_with_its_barrier_after_the_loop", (256, 128))(x=floats(256), y=Out(2))("""
        template <typename T>
        inline T reduce_sum(threadgroup T* work, uint lid, uint n) {
          for (uint s = n / 2; s > 0; s >>= 1) {
            if (lid < s) work[lid] += work[lid + s];  // <- threadgroup-race
          }
          metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
          return work[0];
        }
        // body
        threadgroup float work[128];
        work[lid] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float total = reduce_sum(work, lid, 128u);
        if (lid == 0) y[threadgroup_position_in_grid.x] = total;
    """),
    kernel("tree_that_drops_its_barrier_too_early", 256)(x=floats(256), y=Out(1))("""
        threadgroup float work[256];
        work[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 128; s > 0; s >>= 1) {
          if (lid < s) work[lid] += work[lid + s];  // <- threadgroup-race
          if (s > 64) threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (lid == 0) y[0] = work[0];
    """),
    kernel("no_barrier_in_the_last_iteration", 96)(
        x=floats(96), steps=np.array([4], dtype=np.int32), y=Out(96)
    )("""
        threadgroup float row[96];
        float v = x[lid];
        const int rounds = steps[0];
        for (int r = 0; r < rounds; ++r) {
          row[lid] = v;  // <- threadgroup-race
          if (r + 1 < rounds) threadgroup_barrier(mem_flags::mem_threadgroup);
          float left = row[(lid + 95) % 96];  // <- threadgroup-race
          if (r + 1 < rounds) threadgroup_barrier(mem_flags::mem_threadgroup);
          v = 0.5f * (v + left);
        }
        y[lid] = v;
    """),
    kernel("double_buffer_with_one_barrier_for_two_tiles", 64)(x=floats(6, 64), y=Out(64))("""
        threadgroup float buf[2][64];
        float acc = 0;
        buf[0][lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint t = 0; t < 6; ++t) {
          if (t + 1 < 6) buf[(t + 1) & 1][lid] = x[(t + 1) * 64 + lid];  // <- threadgroup-race
          acc += buf[t & 1][(lid + 1) & 63];  // <- threadgroup-race
          if (t & 1) threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[lid] = acc;
    """),
    kernel("matmul_tile_reloaded_while_in_use", ((16, 8), (8, 8)))(
        a=floats(8, 24), b=floats(24, 16, seed=1), c=Out(8, 16)
    )("""
        threadgroup float A[8][8];
        threadgroup float B[8][8];
        uint3 t = thread_position_in_threadgroup;
        uint row = thread_position_in_grid.y;
        uint column = thread_position_in_grid.x;
        uint K = a_shape[1], N = b_shape[1];
        float acc = 0;
        for (uint k0 = 0; k0 < K; k0 += 8) {
          A[t.y][t.x] = a[row * K + k0 + t.x];
          B[t.y][t.x] = b[(k0 + t.y) * N + column];  // <- threadgroup-race
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint k = 0; k < 8; ++k) acc += A[t.y][k] * B[k][t.x];  // <- threadgroup-race
        }
        c[row * N + column] = acc;
    """),
    kernel("broadcast_from_the_first_simdgroup", (240, 80))(x=floats(3, 80), y=Out(3, 80))("""
        threadgroup float mean;
        uint row = threadgroup_position_in_grid.x;
        if (simdgroup_index_in_threadgroup == 0) {
          float s = 0;
          for (uint c = lid; c < 80; c += 32) s += x[row * 80 + c];
          s = simd_sum(s);
          if (lid == 0) mean = s / 80;  // <- threadgroup-race
        }
        y[row * 80 + lid] = x[row * 80 + lid] - mean;  // <- threadgroup-race
    """),
    kernel("only_the_short_group_takes_the_shortcut", (176, 64))(x=floats(176), y=Out(176))("""
        threadgroup float work[64];
        uint n = threads_per_threadgroup.x;
        work[lid] = x[thread_position_in_grid.x];  // <- threadgroup-race
        if (n == 64) threadgroup_barrier(mem_flags::mem_threadgroup);
        y[thread_position_in_grid.x] = work[n - 1 - lid];  // <- threadgroup-race
    """),
    kernel("flag_of_many_writers_that_mostly_agree", 64)(
        x=np.where(np.arange(64) == 37, 2.0, 0.5).astype(np.float32), y=Out(64, "int32")
    )("""
        threadgroup int clipped;
        clipped = x[lid] > 1.0f ? 1 : 0;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = clipped;
    """),
)
