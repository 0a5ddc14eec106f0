"""Bugs: barriers that not all threads reach."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, floats, halves, integers, kernel

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
        threadgroup float left[32];
        threadgroup float right[32];
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
        uint3 g = thread_position_in_grid;
        uint3 t = thread_position_in_threadgroup;
        uint rows = x_shape[0];
        if (g.y < rows) {
          tile[t.y][t.x] = x[g.y * 8 + t.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          y[g.y * 8 + t.x] = tile[t.y][7 - t.x];
        }
    """),
)
