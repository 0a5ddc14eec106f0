"""Bugs: barriers that not all threads reach."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_ANY = frozenset({"order-dependent", "uninitialized-read", "threadgroup-race", "unwritten-output"})

_SHARE = """
template <typename T>
inline T share(threadgroup T* cell, T v, bool mine) {
  if (mine) *cell = v;
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);  // <- divergent-barrier
  return *cell;
}
"""


BUGS = (
    Case(
        "guard_returns_before_the_barrier",
        """
        threadgroup float tile[32];
        uint i = thread_position_in_grid.x;
        uint lid = thread_position_in_threadgroup.x;
        if (i >= uint(n)) return;
        tile[lid] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        uint last = min(31u, n - 1 - (i - lid));
        y[i] = tile[last - lid];
        """,
        {"x": Array(floats(50)), "n": Array(np.uint32(50))},
        {"y": Out((50,))},
        (64, 1, 1),
        (32, 1, 1),
        also=_ANY,
    ),
    Case(
        "barrier_for_half_of_the_threads",
        """
        threadgroup int work[64];
        uint lid = thread_position_in_threadgroup.x;
        work[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 32) {
          work[lid] += work[lid + 32];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        }
        y[lid] = lid < 32 ? work[lid] : 0;
        """,
        {"x": Array(integers(0, 9, 64))},
        {"y": Out((64,), "int32")},
        (64, 1, 1),
        (64, 1, 1),
        also=_ANY,
    ),
    Case(
        "tree_with_its_barrier_inside_the_condition",
        """
        threadgroup float work[128];
        uint lid = thread_position_in_threadgroup.x;
        work[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 64; s > 0; s >>= 1) {
          if (lid < s) {
            work[lid] = max(work[lid], work[lid + s]);
            threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          }
        }
        if (lid == 0) y[0] = work[0];
        """,
        {"x": Array(floats(128))},
        {"y": Out((1,))},
        (128, 1, 1),
        (128, 1, 1),
        also=_ANY,
    ),
    Case(
        "rows_of_different_length",
        """
        threadgroup float line[40];
        uint lid = thread_position_in_threadgroup.x;
        float acc = 0;
        for (int k = 0; k < lengths[lid]; ++k) {
          line[lid] = acc + x[k];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          acc += line[lid];
        }
        y[lid] = acc;
        """,
        {"x": Array(floats(16)), "lengths": Array(integers(1, 6, 40))},
        {"y": Out((40,))},
        (40, 1, 1),
        (40, 1, 1),
        also=_ANY,
    ),
    Case(
        "each_branch_has_a_barrier_of_its_own",
        """
        threadgroup float left[32];
        threadgroup float right[32];
        uint lid = thread_position_in_threadgroup.x;
        uint k = lid & 31;
        if (lid < 32) {
          left[k] = x[lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        } else {
          right[k] = x[lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        }
        y[lid] = left[k] - right[k];
        """,
        {"x": Array(floats(64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=_ANY,
    ),
    Case(
        "helper_with_a_barrier_called_by_some",
        """
        threadgroup float cell;
        uint lid = thread_position_in_threadgroup.x;
        float v = x[lid];
        if (v > 0) {
          v -= share(&cell, v, lid == 0);
        }
        y[lid] = v;
        """,
        {"x": Array(np.where(np.arange(64) % 5 == 3, -1.0, 1.0).astype(np.float32))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        header=_SHARE,
        also=_ANY,
    ),
    Case(
        "converged_threads_leave_the_loop",
        """
        threadgroup float cells[48];
        uint lid = thread_position_in_threadgroup.x;
        float v = x[lid];
        for (int step = 0; step < 20; ++step) {
          cells[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          v = 0.5f * v;
          if (abs(v) < 0.1f) break;
        }
        y[lid] = v;
        """,
        {"x": Array(floats(48) * 3)},
        {"y": Out((48,))},
        (48, 1, 1),
        (48, 1, 1),
        also=_ANY,
    ),
    Case(
        "skipped_by_continue",
        """
        threadgroup half tile[64];
        uint lid = thread_position_in_threadgroup.x;
        half s = 0;
        for (int t = 0; t < 3; ++t) {
          half v = x[t * 64 + lid];
          if (v < 0) continue;
          tile[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          s += tile[lid];
        }
        y[lid] = s;
        """,
        {"x": Array(floats(3, 64).astype(np.float16))},
        {"y": Out((64,), "float16")},
        (64, 1, 1),
        (64, 1, 1),
        also=_ANY,
    ),
    Case(
        "roles_in_a_switch",
        """
        threadgroup int box[3];
        uint lid = thread_position_in_threadgroup.x;
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
        """,
        {"x": Array(integers(1, 9, 12))},
        {"y": Out((96,), "int32")},
        (96, 1, 1),
        (96, 1, 1),
        also=_ANY,
    ),
    Case(
        "short_circuit_skips_the_barrier",
        """
        threadgroup float cell;
        uint lid = thread_position_in_threadgroup.x;
        bool big = x[lid] > 0 && share(&cell, x[lid], lid == 0) > 0;
        y[lid] = big ? 1.0f : 0.0f;
        """,
        {"x": Array(np.where(np.arange(70) > 66, -2.0, 2.0).astype(np.float32))},
        {"y": Out((70,))},
        (70, 1, 1),
        (70, 1, 1),
        header=_SHARE,
        also=_ANY,
    ),
    Case(
        "simdgroup_barrier_of_the_even_lanes",
        """
        threadgroup float pair[32];
        uint lane = thread_index_in_simdgroup;
        pair[lane] = x[lane];
        if ((lane & 1) == 0) {
          simdgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          pair[lane] = -pair[lane];
        }
        y[lane] = pair[lane];
        """,
        {"x": Array(floats(32))},
        {"y": Out((32,))},
        (32, 1, 1),
        (32, 1, 1),
        also=_ANY,
    ),
    Case(
        "guard_only_bites_in_the_last_row",
        """
        threadgroup float tile[4][8];
        uint3 g = thread_position_in_grid;
        uint3 t = thread_position_in_threadgroup;
        uint rows = x_shape[0];
        if (g.y < rows) {
          tile[t.y][t.x] = x[g.y * 8 + t.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          y[g.y * 8 + t.x] = tile[t.y][7 - t.x];
        }
        """,
        {"x": Array(floats(10, 8))},
        {"y": Out((10, 8))},
        (8, 12, 1),
        (8, 4, 1),
        also=_ANY,
    ),
)
