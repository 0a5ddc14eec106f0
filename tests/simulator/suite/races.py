"""Bugs: races in threadgroup memory, in reductions, scans and tiles."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats

_ORDER = frozenset({"order-dependent"})

_REDUCE = """
template <typename T>
inline T reduce_sum(threadgroup T* work, uint lid, uint n) {
  for (uint s = n / 2; s > 0; s >>= 1) {
    if (lid < s) {
      work[lid] += work[lid + s];  // <- threadgroup-race
    }
  }
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
  return work[0];
}
"""


BUGS = (
    Case(
        "reversal_without_a_barrier",
        """
        threadgroup float tile[64];
        uint lid = thread_position_in_threadgroup.x;
        tile[lid] = x[thread_position_in_grid.x];  // <- threadgroup-race
        y[thread_position_in_grid.x] = tile[63 - lid];  // <- threadgroup-race
        """,
        {"x": Array(floats(128))},
        {"y": Out((128,))},
        (128, 1, 1),
        (64, 1, 1),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
    Case(
        "sums_over_maxima_still_read",
        """
        threadgroup float shared[4];
        uint lane = thread_index_in_simdgroup;
        uint sg = simdgroup_index_in_threadgroup;
        uint i = thread_position_in_grid.x;
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
        """,
        {"x": Array(floats(128))},
        {"y": Out((128,))},
        (128, 1, 1),
        (128, 1, 1),
        also=_ORDER,
    ),
    Case(
        "two_simdgroups_share_slots",
        """
        threadgroup int slot[32];
        uint lid = thread_index_in_threadgroup;
        slot[lid % 32] = x[lid] * 2;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = slot[lid % 32];
        """,
        {"x": Array(np.arange(64, dtype=np.int32))},
        {"y": Out((64,), "int32")},
        (64, 1, 1),
        (64, 1, 1),
        also=_ORDER,
    ),
    Case(
        "tree_with_its_barrier_after_the_loop",
        """
        threadgroup float work[128];
        uint lid = thread_position_in_threadgroup.x;
        work[lid] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float total = reduce_sum(work, lid, 128u);
        if (lid == 0) y[threadgroup_position_in_grid.x] = total;
        """,
        {"x": Array(floats(256))},
        {"y": Out((2,))},
        (256, 1, 1),
        (128, 1, 1),
        header=_REDUCE,
        also=_ORDER,
    ),
    Case(
        "tree_that_drops_its_barrier_too_early",
        """
        threadgroup float work[256];
        uint lid = thread_position_in_threadgroup.x;
        work[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 128; s > 0; s >>= 1) {
          if (lid < s) {
            work[lid] += work[lid + s];  // <- threadgroup-race
          }
          if (s > 64) threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (lid == 0) y[0] = work[0];
        """,
        {"x": Array(floats(256))},
        {"y": Out((1,))},
        (256, 1, 1),
        (256, 1, 1),
        also=_ORDER,
    ),
    Case(
        "no_barrier_in_the_last_iteration",
        """
        threadgroup float row[96];
        uint lid = thread_position_in_threadgroup.x;
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
        """,
        {"x": Array(floats(96)), "steps": Array(np.array([4], dtype=np.int32))},
        {"y": Out((96,))},
        (96, 1, 1),
        (96, 1, 1),
        also=_ORDER,
    ),
    Case(
        "double_buffer_with_one_barrier_for_two_tiles",
        """
        threadgroup float buf[2][64];
        uint lid = thread_position_in_threadgroup.x;
        float acc = 0;
        buf[0][lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint t = 0; t < 6; ++t) {
          if (t + 1 < 6) {
            buf[(t + 1) & 1][lid] = x[(t + 1) * 64 + lid];  // <- threadgroup-race
          }
          acc += buf[t & 1][(lid + 1) & 63];  // <- threadgroup-race
          if (t & 1) threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[lid] = acc;
        """,
        {"x": Array(floats(6, 64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
    Case(
        "matmul_tile_reloaded_while_in_use",
        """
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
          for (uint k = 0; k < 8; ++k) {
            acc += A[t.y][k] * B[k][t.x];  // <- threadgroup-race
          }
        }
        c[row * N + column] = acc;
        """,
        {"a": Array(floats(8, 24)), "b": Array(floats(24, 16, seed=1))},
        {"c": Out((8, 16))},
        (16, 8, 1),
        (8, 8, 1),
        also=_ORDER,
    ),
    Case(
        "broadcast_from_the_first_simdgroup",
        """
        threadgroup float mean;
        uint lid = thread_position_in_threadgroup.x;
        uint row = threadgroup_position_in_grid.x;
        if (simdgroup_index_in_threadgroup == 0) {
          float s = 0;
          for (uint c = lid; c < 80; c += 32) s += x[row * 80 + c];
          s = simd_sum(s);
          if (lid == 0) mean = s / 80;  // <- threadgroup-race
        }
        y[row * 80 + lid] = x[row * 80 + lid] - mean;  // <- threadgroup-race
        """,
        {"x": Array(floats(3, 80))},
        {"y": Out((3, 80))},
        (240, 1, 1),
        (80, 1, 1),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
    Case(
        "only_the_short_group_takes_the_shortcut",
        """
        threadgroup float work[64];
        uint lid = thread_position_in_threadgroup.x;
        uint n = threads_per_threadgroup.x;
        work[lid] = x[thread_position_in_grid.x];  // <- threadgroup-race
        if (n == 64) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[thread_position_in_grid.x] = work[n - 1 - lid];  // <- threadgroup-race
        """,
        {"x": Array(floats(176))},
        {"y": Out((176,))},
        (176, 1, 1),
        (64, 1, 1),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
    Case(
        "flag_of_many_writers_that_mostly_agree",
        """
        threadgroup int clipped;
        uint lid = thread_position_in_threadgroup.x;
        clipped = x[lid] > 1.0f ? 1 : 0;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = clipped;
        """,
        {"x": Array(np.where(np.arange(64) == 37, 2.0, 0.5).astype(np.float32))},
        {"y": Out((64,), "int32")},
        (64, 1, 1),
        (64, 1, 1),
        also=_ORDER,
    ),
)
