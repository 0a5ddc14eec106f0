"""Bugs: accesses beyond threadgroup and private arrays."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, floats, halves, integers, kernel

BUGS = (
    kernel("stencil_past_the_tile", (128, 64))(x=floats(128), y=Out(128))("""
        threadgroup float tile[64];
        tile[lid] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float right = tile[lid + 1];  // <- out-of-bounds
        y[i] = right - tile[lid];
    """),
    kernel("scan_before_the_first", 32)(x=integers(0, 9, 32), y=Out(32, "int32"))("""
        threadgroup int sums[32];
        int lid = thread_index_in_threadgroup;
        sums[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int before = sums[lid - 1];  // <- out-of-bounds
        y[lid] = before;
    """),
    kernel("partials_for_too_few_simdgroups", (192, 96))(x=floats(192), y=Out(2))("""
        threadgroup float partial[2];
        uint group = simdgroup_index_in_threadgroup;
        float s = simd_sum(x[thread_position_in_grid.x]);
        if (lane == 0) partial[group] = s;  // <- out-of-bounds
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (thread_position_in_threadgroup.x == 0)
          y[threadgroup_position_in_grid.x] = partial[0] + partial[1];
    """),
    kernel("column_runs_into_the_next_row", ((4, 8), (4, 8)))(
        x=halves(8, 12), y=Out(8, 4, "float16")
    )("""
        threadgroup half tile[8][12];
        uint3 t = thread_position_in_threadgroup;
        for (uint c = t.x; c < 12; c += 4) tile[t.y][c] = x[t.y * 12 + c];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        half s = 0;
        for (uint k = 0; k < 6; ++k) s += tile[t.y][3 * t.x + k];  // <- out-of-bounds
        y[t.y * 4 + t.x] = t.y == 7 ? half(0) : s;
    """),
    kernel("stride_of_a_transpose_without_its_padding", ((32, 16), (16, 16)))(
        x=floats(16, 32), y=Out(32, 16)
    )("""
        threadgroup float tile[16 * 16];
        uint3 t = thread_position_in_threadgroup;
        uint width = x_shape[1];
        uint3 g = thread_position_in_grid;
        tile[t.y * 17 + t.x] = x[g.y * width + g.x];  // <- out-of-bounds
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint column = threadgroup_position_in_grid.y * 16 + t.x;
        uint row = threadgroup_position_in_grid.x * 16 + t.y;
        y[row * x_shape[0] + column] = tile[t.x * 17 + t.y];  // <- out-of-bounds
    """),
    kernel("helper_stores_past_the_row", 32)(x=floats(32), y=Out(32))("""
        inline void put(threadgroup float* row, uint at, float v) {
          row[at] = v;  // <- out-of-bounds
        }
        // body
        threadgroup float row[24];
        put(row, lid, x[lid]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = row[23 - min(lid, 23u)];
    """),
    kernel("threadgroup_bin_from_unchecked_data", 41)(
        keys=np.array([*range(8)] * 5 + [8], dtype=np.uint8), y=Out(8, "uint32")
    )("""
        threadgroup atomic_uint bins[8];
        if (lid < 8) atomic_store_explicit(&bins[lid], 0u, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        atomic_fetch_add_explicit(&bins[keys[lid]], 1u, memory_order_relaxed);  // <- out-of-bounds
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 8) y[lid] = atomic_load_explicit(&bins[lid], memory_order_relaxed);
    """),
    kernel("vector_load_past_a_threadgroup_array", 40)(x=floats(36), y=Out(10))("""
        threadgroup float row[36];
        uint lid = thread_index_in_threadgroup;
        if (lid < 36) row[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 10) {
          float4 v = *(threadgroup float4*)(row + 4 * lid);  // <- out-of-bounds
          y[lid] = v.x + v.w;
        }
    """),
    kernel("private_accumulators_counted_one_too_far", 9)(
        x=floats(9, 4), n=np.int32(8), y=Out(9)
    )("""
        float acc[4] = {0, 0, 0, 0};
        int used = int(n) - 3;
        for (int k = 0; k < used; ++k) acc[k] += x[i * 4 + (k & 3)];  // <- out-of-bounds
        y[i] = acc[0] + acc[1] + acc[2] + acc[3];
    """),
    kernel("private_bins_from_data", (6, 3))(
        labels=integers(0, 6, 6, 16, seed=3, dtype="uint8"), mode=Out(6, "uint16")
    )("""
        uint row = thread_position_in_grid.x;
        ushort count[5];
        for (uint b = 0; b < 5; ++b) count[b] = 0;
        for (uint k = 0; k < 16; ++k) count[labels[row * 16 + k]]++;  // <- out-of-bounds
        ushort best = 0;
        for (uint b = 1; b < 5; ++b) best = count[b] > count[best] ? b : best;
        mode[row] = best;
    """),
    kernel("top_k_insert_before_the_front", 4, also="uninitialized-read")(
        x=np.sort(floats(4, 10), axis=1), y=Out(4, 3)
    )("""
        uint row = thread_position_in_grid.x;
        float top[3] = {-INFINITY, -INFINITY, -INFINITY};
        for (int c = 0; c < 10; ++c) {
          float v = x[row * 10 + c];
          if (v > top[2]) {
            int at = 2;
            while (v > top[at - 1]) {  // <- out-of-bounds
              top[at] = top[at - 1];  // <- out-of-bounds
              --at;
              if (at < 0) break;
            }
            top[max(at, 0)] = v;
          }
        }
        for (int k = 0; k < 3; ++k) y[row * 3 + k] = top[k];
    """),
    kernel("constant_table_in_the_header", 64)(
        codes=integers(0, 17, 64, seed=5, dtype="uint8"), y=Out(64)
    )("""
        constant float kLevels[16] = {-1.0f, -0.7f, -0.5f, -0.4f, -0.3f, -0.2f, -0.1f, 0.0f,
                                      0.1f,  0.2f,  0.3f,  0.4f,  0.5f,  0.6f,  0.7f,  1.0f};
        // body
        y[i] = kLevels[codes[i]];  // <- out-of-bounds
    """),
)
