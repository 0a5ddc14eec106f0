"""Bugs: races in threadgroup memory, in the rarer forms."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, floats, halves, integers, kernel

BUGS = (
    kernel("scan_in_place_with_one_barrier_a_step", 128)(x=floats(128), y=Out(128))("""
        threadgroup float sums[128];
        sums[lid] = x[lid];
        for (uint d = 1; d < 128; d *= 2) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (lid >= d) sums[lid] += sums[lid - d];  // <- threadgroup-race
        }
        y[lid] = sums[lid];
    """),
    kernel("simdgroup_barrier_for_a_whole_threadgroup", 96)(x=halves(96), y=Out(96, "float16"))("""
        threadgroup half tile[96];
        tile[lid] = x[lid];  // <- threadgroup-race
        simdgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = tile[(lid + 40) % 96];  // <- threadgroup-race
    """),
    kernel("second_pass_reuses_the_tile", ((16, 16), (16, 16)))(x=floats(32, 16), y=Out(32, 16))("""
        threadgroup float tile[16][17];
        uint3 t = thread_position_in_threadgroup;
        for (uint pass = 0; pass < 2; ++pass) {
          tile[t.y][t.x] = x[(pass * 16 + t.y) * 16 + t.x];  // <- threadgroup-race
          threadgroup_barrier(mem_flags::mem_threadgroup);
          y[(pass * 16 + t.y) * 16 + t.x] = tile[t.x][t.y];  // <- threadgroup-race
        }
    """),
    kernel("vector_stores_and_scalar_loads", 40)(x=floats(160), y=Out(40))("""
        threadgroup float row[160];
        ((threadgroup float4*)row)[lid] = ((const device float4*)x)[lid];  // <- threadgroup-race
        float s = 0;
        for (uint k = 0; k < 4; ++k) s += row[lid + 40 * k];  // <- threadgroup-race
        y[lid] = s;
    """),
    kernel("halo_loaded_after_the_barrier", (128, 64))(x=floats(136), y=Out(128))("""
        threadgroup float tile[72];
        uint base = threadgroup_position_in_grid.x * 64;
        tile[lid + 4] = x[base + lid + 4];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 4) {
          tile[lid] = x[base + lid];  // <- threadgroup-race
          tile[lid + 68] = x[base + lid + 68];  // <- threadgroup-race
        }
        float s = 0;
        for (uint k = 0; k < 9; ++k) s += tile[lid + k];  // <- threadgroup-race
        y[base + lid] = s;
    """),
    kernel("atomic_count_read_plainly_without_a_barrier", 64)(x=floats(64), y=Out(64, "int32"))("""
        threadgroup atomic_int found;
        if (lid == 0) atomic_store_explicit(&found, 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (x[lid] > 0)
          atomic_fetch_add_explicit(&found, 1, memory_order_relaxed);  // <- threadgroup-race
        y[lid] = *(threadgroup int*)&found;  // <- threadgroup-race
    """),
    kernel("bins_cleared_plainly_beside_the_counting", 96)(
        keys=integers(0, 1000, 96, dtype="uint32"), y=Out(16, "uint32")
    )("""
        threadgroup uint bins[16];
        if (lid >= 64 && lid < 80) bins[lid - 64] = 0;  // <- threadgroup-race
        threadgroup atomic_uint* counts = (threadgroup atomic_uint*)bins;
        uint key = keys[lid] % 16;
        atomic_fetch_add_explicit(&counts[key], 1u, memory_order_relaxed);  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 16) y[lid] = bins[lid];
    """),
    kernel("partials_summed_too_soon", 256)(x=floats(256), y=Out(1))("""
        threadgroup float partial[8];
        uint lid = thread_index_in_threadgroup;
        float s = simd_sum(x[lid] * x[lid]);
        if (thread_index_in_simdgroup == 0)
          partial[simdgroup_index_in_threadgroup] = s;  // <- threadgroup-race
        if (lid == 128) {
          float total = 0;
          for (uint k = 0; k < simdgroups_per_threadgroup; ++k)
            total += partial[k];  // <- threadgroup-race
          y[0] = sqrt(total);
        }
    """),
    kernel("argmax_keeps_state_in_one_struct", 96)(
        x=np.concatenate([np.arange(48), -np.arange(48)]).astype(np.float32), y=Out(1, "int32")
    )("""
        struct Running {
          float best;
          int at;
        };
        // body
        threadgroup Running state;
        if (lid == 0) {
          state.best = -INFINITY;
          state.at = -1;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float v = x[lid];
        if (v > state.best) {  // <- threadgroup-race
          state.best = v;  // <- threadgroup-race
          state.at = lid;  // <- threadgroup-race
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) y[0] = state.at;
    """),
    kernel("only_negative_numbers_race", 64)(
        x=np.where(np.isin(np.arange(64), (7, 60)), -1.5 - np.arange(64), 1.0).astype("f4"),
        y=Out(64),
    )("""
        threadgroup float sink[64];
        float v = x[lid];
        uint slot = v < 0 ? 5u : lid;
        sink[slot] = v;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = v < 0 ? sink[5] : sink[lid];
    """),
    kernel("matrix_tile_handed_over_without_a_barrier", 64)(x=floats(2, 64), y=Out(64))("""
        threadgroup float tile[2][64];
        uint lid = thread_index_in_threadgroup;
        simdgroup_float8x8 m;
        simdgroup_load(m, x + 64 * sg, 8);
        simdgroup_store(m, tile[sg], 8);  // <- threadgroup-race
        y[lid] = tile[0][lid] + tile[1][63 - lid];  // <- threadgroup-race
    """),
    kernel("bitonic_sort_with_the_barrier_in_the_outer_loop", 128)(
        x=integers(0, 1000, 128), y=Out(128, "int32")
    )("""
        threadgroup int keys[128];
        keys[lid] = x[lid];
        for (uint k = 2; k <= 128; k <<= 1) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint j = k >> 1; j > 0; j >>= 1) {
            uint other = lid ^ j;
            if (other > lid) {
              int a = keys[lid];  // <- threadgroup-race
              int b = keys[other];  // <- threadgroup-race
              bool up = (lid & k) == 0;
              if ((a > b) == up) {
                keys[lid] = b;  // <- threadgroup-race
                keys[other] = a;  // <- threadgroup-race
              }
            }
          }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = keys[lid];
    """),
    kernel("double_buffer_swapped_by_pointers_too_late", 64)(ROUNDS=3, x=floats(64), y=Out(64))("""
        threadgroup float ping[64];
        threadgroup float pong[64];
        threadgroup float* from = ping;
        threadgroup float* into = pong;
        from[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int r = 0; r < ROUNDS; ++r) {
          into[lid] = max(from[lid], from[(lid + 33) % 64]);  // <- threadgroup-race
          threadgroup float* t = from;
          from = into;
          into = t;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = from[lid];
    """),
)
