"""Bugs: barriers and SIMD functions that not all threads reach."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, count, floats, halves, integers, kernel

_SHARE = """
template <typename T>
inline T share(threadgroup T* cell, T v, bool mine) {
  if (mine) *cell = v;
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);  // <- divergent-barrier
  return *cell;
}
"""

BUGS = (
    kernel("guard_returns_before_the_barrier", (64, 32))(
        x=floats(50), n=np.uint32(50), y=Out(50)
    )("""
        threadgroup float tile[32];
        if (i >= uint(n)) return;
        tile[lid] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        uint last = min(31u, n - 1 - (i - lid));
        y[i] = tile[last - lid];
    """),
    kernel("barrier_for_half_of_the_threads", 64)(x=integers(0, 9, 64), y=Out(64, "int32"))("""
        threadgroup int work[64];
        work[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 32) {
          work[lid] += work[lid + 32];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        }
        y[lid] = lid < 32 ? work[lid] : 0;
    """),
    kernel("tree_with_its_barrier_inside_the_condition", 128)(x=floats(128), y=Out(1))("""
        threadgroup float work[128];
        work[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 64; s > 0; s >>= 1) {
          if (lid < s) {
            work[lid] = max(work[lid], work[lid + s]);
            threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          }
        }
        if (lid == 0) y[0] = work[0];
    """),
    kernel("rows_of_different_length", 40)(x=floats(16), lengths=integers(1, 6, 40), y=Out(40))("""
        threadgroup float line[40];
        float acc = 0;
        for (int k = 0; k < lengths[lid]; ++k) {
          line[lid] = acc + x[k];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          acc += line[lid];
        }
        y[lid] = acc;
    """),
    kernel("each_branch_has_a_barrier_of_its_own", 64)(x=floats(64), y=Out(64))("""
        threadgroup float left[32], right[32];
        uint k = lid & 31;
        if (lid < 32) {
          left[k] = x[lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        } else {
          right[k] = x[lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        }
        y[lid] = left[k] - right[k];
    """),
    kernel("helper_with_a_barrier_called_by_some", 64, header=_SHARE)(
        x=np.where(np.arange(64) % 5 == 3, -1.0, 1.0).astype(np.float32), y=Out(64)
    )("""
        threadgroup float cell;
        float v = x[lid];
        if (v > 0) v -= share(&cell, v, lid == 0);
        y[lid] = v;
    """),
    kernel("converged_threads_leave_the_loop", 48)(x=floats(48) * 3, y=Out(48))("""
        threadgroup float cells[48];
        float v = x[lid];
        for (int step = 0; step < 20; ++step) {
          cells[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          v = 0.5f * v;
          if (abs(v) < 0.1f) break;
        }
        y[lid] = v;
    """),
    kernel("skipped_by_continue", 64)(x=halves(3, 64), y=Out(64, "float16"))("""
        threadgroup half tile[64];
        half s = 0;
        for (int t = 0; t < 3; ++t) {
          half v = x[t * 64 + lid];
          if (v < 0) continue;
          tile[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          s += tile[lid];
        }
        y[lid] = s;
    """),
    kernel("roles_in_a_switch", 96)(x=integers(1, 9, 12), y=Out(96, "int32"))("""
        threadgroup int box[3];
        uint role = simdgroup_index_in_threadgroup;
        int v = 0;
        switch (role) {
          case 0:
            if (lid == 0) box[0] = x[0];
            threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
            v = 1;
            break;
          case 1:
            threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
            v = box[0];
            break;
          default:
            v = 2;
        }
        y[lid] = v;
    """),
    kernel("short_circuit_skips_the_barrier", 70, header=_SHARE)(
        x=np.where(np.arange(70) > 66, -2.0, 2.0).astype(np.float32), y=Out(70)
    )("""
        threadgroup float cell;
        bool big = x[lid] > 0 && share(&cell, x[lid], lid == 0) > 0;
        y[lid] = big ? 1.0f : 0.0f;
    """),
    kernel("simdgroup_barrier_of_the_even_lanes", 32)(x=floats(32), y=Out(32))("""
        threadgroup float pair[32];
        pair[lane] = x[lane];
        if ((lane & 1) == 0) {
          simdgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          pair[lane] = -pair[lane];
        }
        y[lane] = pair[lane];
    """),
    kernel("guard_only_bites_in_the_last_row", ((8, 12), (8, 4)))(x=floats(10, 8), y=Out(10, 8))("""
        threadgroup float tile[4][8];
        uint3 g = thread_position_in_grid, t = thread_position_in_threadgroup;
        uint rows = x_shape[0];
        if (g.y < rows) {
          tile[t.y][t.x] = x[g.y * 8 + t.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          y[g.y * 8 + t.x] = tile[t.y][7 - t.x];
        }
    """),
    kernel("shuffle_from_lanes_outside_the_branch", 32)(x=floats(32), y=Out(32))("""
        float v = x[lane];
        if (lane < 16) v += simd_shuffle(v, ushort(lane + 16));  // <- divergent-simd
        y[lane] = v;
    """),
    kernel("broadcast_from_the_lane_that_stayed_out", 64)(x=floats(64), y=Out(64))("""
        float v = x[thread_position_in_grid.x], r = v;
        if (lane != 0) r = v - simd_broadcast(v, 0);  // <- divergent-simd
        y[thread_position_in_grid.x] = r;
    """),
    kernel("butterfly_among_the_positive", 32)(
        x=np.where(np.arange(32) % 3 == 0, -1.0, 1.0 + np.arange(32)).astype("f4"), y=Out(32)
    )("""
        float v = x[lane];
        if (v > 0) {
          for (ushort m = 16; m > 0; m >>= 1)
            v = max(v, simd_shuffle_xor(v, m));  // <- divergent-simd
        }
        y[lane] = v;
    """),
    kernel("shuffle_down_after_some_have_returned", 32)(x=floats(20), y=Out(20))("""
        if (i >= 20) return;
        float v = x[i];
        float next = simd_shuffle_down(v, 1);  // <- divergent-simd
        y[i] = next - v;
    """),
    kernel("pair_sums_in_a_loop_of_uneven_length", 32)(x=floats(45), y=Out(32))("""
        float total = 0;
        for (uint c = lane; c < 45; c += 32)
          total += x[c] + simd_shuffle_xor(x[c], 1);  // <- divergent-simd
        y[lane] = total;
    """),
    kernel("matrix_product_of_half_a_simdgroup", 32)(
        x=floats(8, 8), w=floats(8, 8, seed=1), y=Out(8, 8)
    )("""
        simdgroup_float8x8 a, b, c;
        simdgroup_load(a, x, 8);
        simdgroup_load(b, w, 8);
        c = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        if (thread_index_in_simdgroup < 16)
          simdgroup_multiply_accumulate(c, a, b, c);  // <- divergent-simd
        simdgroup_store(c, y, 8);
    """),
    kernel("matrix_load_guarded_by_lane", 32)(
        x=halves(8, 8), n=np.uint32(30), y=Out(8, 8, "float16")
    )("""
        simdgroup_half8x8 m = make_filled_simdgroup_matrix<half, 8, 8>(0.0h);
        if (i < n) simdgroup_load(m, x, 8);  // <- divergent-simd
        simdgroup_store(m, y, 8);
    """),
    kernel("matrix_in_a_simdgroup_of_sixteen", 48, also="unwritten-output")(
        x=floats(2, 64), y=Out(2, 64)
    )("""
        simdgroup_float8x8 m;
        simdgroup_load(m, x + 64 * sg, 8);  // <- divergent-simd
        simdgroup_store(m, y + 64 * sg, 8);  // <- divergent-simd
    """),
    kernel("shuffle_while_lengths_differ", 32)(
        x=integers(0, 9, 32), steps=1 + count(32) // 11, y=Out(32, "int32")
    )("""
        int v = x[lane];
        for (int k = 0; k < steps[lane]; ++k)
          v += simd_shuffle(v, ushort((lane + 1) % 32));  // <- divergent-simd
        y[lane] = v;
    """),
    kernel("quad_neighbour_that_is_masked", (40, 8))(
        x=floats(40), mask=np.arange(40) % 7 != 2, y=Out(40)
    )("""
        float v = x[i];
        if (mask[i])
          v = v - quad_shuffle_xor(v, 1);  // <- divergent-simd
        y[i] = v;
    """),
    kernel("last_lane_of_a_short_simdgroup", (72, 36))(x=integers(1, 5, 72), y=Out(72, "int32"))("""
        int total = simd_broadcast(simd_prefix_inclusive_sum(x[i]), 31);  // <- divergent-simd
        y[i] = total;
    """),
    kernel("shuffle_to_the_lane_after_the_last", 32)(x=halves(32), y=Out(32, "float16"))("""
        half v = x[lane];
        half next = simd_shuffle(v, ushort(lane + 1));  // <- divergent-simd
        y[lane] = next - v;
    """),
    kernel("minimum_with_missing_lanes", 20)(
        x=integers(5, 99, 20, dtype="uint32"), y=Out(20, "uint32")
    )("""
        uint v = x[thread_position_in_grid.x];
        for (ushort m = 16; m; m >>= 1) v = min(v, simd_shuffle_xor(v, m));  // <- divergent-simd
        y[thread_position_in_grid.x] = v;
    """),
)
