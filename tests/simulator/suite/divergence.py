"""Bugs: barriers and simdgroup operations that not all threads reach, and wrong memory flags."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_ANY = frozenset({"order-dependent", "uninitialized-read", "threadgroup-race", "unwritten-output"})
_VALUES = frozenset({"order-dependent", "uninitialized-read"})

_SHARE = """
template <typename T>
inline T share(threadgroup T* cell, T v, bool mine) {
  if (mine) *cell = v;
  metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);  // <- divergent-barrier
  return *cell;
}
"""

_BARRIERS = (
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

_SIMD = (
    Case(
        "shuffle_from_lanes_outside_the_branch",
        """
        uint lane = thread_index_in_simdgroup;
        float v = x[lane];
        if (lane < 16) {
          v += simd_shuffle(v, ushort(lane + 16));  // <- divergent-simd
        }
        y[lane] = v;
        """,
        {"x": Array(floats(32))},
        {"y": Out((32,))},
        (32, 1, 1),
        (32, 1, 1),
        also=_VALUES,
    ),
    Case(
        "broadcast_from_the_lane_that_stayed_out",
        """
        uint lane = thread_index_in_simdgroup;
        float v = x[thread_position_in_grid.x];
        float r = v;
        if (lane != 0) {
          r = v - simd_broadcast(v, 0);  // <- divergent-simd
        }
        y[thread_position_in_grid.x] = r;
        """,
        {"x": Array(floats(64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=_VALUES,
    ),
    Case(
        "butterfly_among_the_positive",
        """
        uint lane = thread_index_in_simdgroup;
        float v = x[lane];
        if (v > 0) {
          for (ushort m = 16; m > 0; m >>= 1) {
            v = max(v, simd_shuffle_xor(v, m));  // <- divergent-simd
          }
        }
        y[lane] = v;
        """,
        {"x": Array(np.where(np.arange(32) % 3 == 0, -1.0, 1.0 + np.arange(32)).astype("f4"))},
        {"y": Out((32,))},
        (32, 1, 1),
        (32, 1, 1),
        also=_VALUES,
    ),
    Case(
        "shuffle_down_after_some_have_returned",
        """
        uint i = thread_position_in_grid.x;
        if (i >= 20) return;
        float v = x[i];
        float next = simd_shuffle_down(v, 1);  // <- divergent-simd
        y[i] = next - v;
        """,
        {"x": Array(floats(20))},
        {"y": Out((20,))},
        (32, 1, 1),
        (32, 1, 1),
        also=_VALUES,
    ),
    Case(
        "mean_taken_in_both_branches",
        """
        uint lane = thread_index_in_simdgroup;
        float v = x[thread_position_in_grid.x];
        float r;
        if (lane < 16) {
          r = v - simd_sum(v) / 32;  // <- divergent-simd
        } else {
          r = v + simd_sum(v) / 32;  // <- divergent-simd
        }
        y[thread_position_in_grid.x] = r;
        """,
        {"x": Array(floats(64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (32, 1, 1),
        also=_VALUES,
    ),
    Case(
        "row_sum_in_a_loop_of_uneven_length",
        """
        uint lane = thread_index_in_simdgroup;
        float total = 0;
        for (uint c = lane; c < 45; c += 32) {
          total += simd_sum(x[c]);  // <- divergent-simd
        }
        y[lane] = total;
        """,
        {"x": Array(floats(45))},
        {"y": Out((32,))},
        (32, 1, 1),
        (32, 1, 1),
        also=_VALUES,
    ),
    Case(
        "matrix_product_of_half_a_simdgroup",
        """
        simdgroup_float8x8 a, b, c;
        simdgroup_load(a, x, 8);
        simdgroup_load(b, w, 8);
        c = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        if (thread_index_in_simdgroup < 16) {
          simdgroup_multiply_accumulate(c, a, b, c);  // <- divergent-simd
        }
        simdgroup_store(c, y, 8);
        """,
        {"x": Array(floats(8, 8)), "w": Array(floats(8, 8, seed=1))},
        {"y": Out((8, 8))},
        (32, 1, 1),
        (32, 1, 1),
        also=_VALUES,
    ),
    Case(
        "matrix_load_guarded_by_lane",
        """
        simdgroup_half8x8 m = make_filled_simdgroup_matrix<half, 8, 8>(0.0h);
        uint i = thread_position_in_grid.x;
        if (i < n) {
          simdgroup_load(m, x, 8);  // <- divergent-simd
        }
        simdgroup_store(m, y, 8);
        """,
        {"x": Array(floats(8, 8).astype(np.float16)), "n": Array(np.uint32(30))},
        {"y": Out((8, 8), "float16")},
        (32, 1, 1),
        (32, 1, 1),
        also=_VALUES,
    ),
    Case(
        "matrix_in_a_simdgroup_of_sixteen",
        """
        uint sg = simdgroup_index_in_threadgroup;
        simdgroup_float8x8 m;
        simdgroup_load(m, x + 64 * sg, 8);  // <- divergent-simd
        simdgroup_store(m, y + 64 * sg, 8);  // <- divergent-simd
        """,
        {"x": Array(floats(2, 64))},
        {"y": Out((2, 64))},
        (48, 1, 1),
        (48, 1, 1),
        also=_VALUES | {"unwritten-output"},
    ),
    Case(
        "shuffle_while_lengths_differ",
        """
        uint lane = thread_index_in_simdgroup;
        int v = x[lane];
        for (int k = 0; k < steps[lane]; ++k) {
          v += simd_shuffle(v, ushort((lane + 1) % 32));  // <- divergent-simd
        }
        y[lane] = v;
        """,
        {"x": Array(integers(0, 9, 32)), "steps": Array(1 + np.arange(32, dtype=np.int32) // 11)},
        {"y": Out((32,), "int32")},
        (32, 1, 1),
        (32, 1, 1),
        also=_VALUES,
    ),
    Case(
        "quad_neighbour_that_is_masked",
        """
        uint i = thread_position_in_grid.x;
        float v = x[i];
        if (mask[i]) {
          v = v - quad_shuffle_xor(v, 1);  // <- divergent-simd
        }
        y[i] = v;
        """,
        {"x": Array(floats(40)), "mask": Array(np.arange(40) % 7 != 2)},
        {"y": Out((40,))},
        (40, 1, 1),
        (8, 1, 1),
        also=_VALUES,
    ),
    Case(
        "last_lane_of_a_short_simdgroup",
        """
        uint i = thread_position_in_grid.x;
        int total = simd_broadcast(simd_prefix_inclusive_sum(x[i]), 31);  // <- divergent-simd
        y[i] = total;
        """,
        {"x": Array(integers(1, 5, 72))},
        {"y": Out((72,), "int32")},
        (72, 1, 1),
        (36, 1, 1),
        also=_VALUES,
    ),
    Case(
        "shuffle_to_the_lane_after_the_last",
        """
        uint lane = thread_index_in_simdgroup;
        half v = x[lane];
        half next = simd_shuffle(v, ushort(lane + 1));  // <- divergent-simd
        y[lane] = next - v;
        """,
        {"x": Array(floats(32).astype(np.float16))},
        {"y": Out((32,), "float16")},
        (32, 1, 1),
        (32, 1, 1),
        also=_VALUES,
    ),
)

_RACES = frozenset({"order-dependent", "uninitialized-read"})

_FLAGS = (
    Case(
        "mem_none_between_store_and_load",
        """
        threadgroup float tile[64];
        uint lid = thread_position_in_threadgroup.x;
        tile[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lid] = tile[63 - lid];
        """,
        {"x": Array(floats(64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=_RACES,
    ),
    Case(
        "device_flag_for_threadgroup_memory",
        """
        threadgroup float partial[4];
        uint lid = thread_position_in_threadgroup.x;
        float s = simd_sum(x[lid]);
        if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = s;
        threadgroup_barrier(mem_flags::mem_device);  // <- wrong-mem-flags
        y[lid] = partial[0] + partial[1] + partial[2] + partial[3];
        """,
        {"x": Array(floats(128))},
        {"y": Out((128,))},
        (128, 1, 1),
        (128, 1, 1),
        also=_RACES,
    ),
    Case(
        "threadgroup_flag_for_device_memory",
        """
        uint lid = thread_position_in_threadgroup.x;
        uint base = threadgroup_position_in_grid.x * 96;
        scratch[base + lid] = x[base + lid] * 2;
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- wrong-mem-flags
        y[base + lid] = scratch[base + (lid + 48) % 96];
        """,
        {"x": Array(floats(192))},
        {"scratch": Out((192,)), "y": Out((192,))},
        (192, 1, 1),
        (96, 1, 1),
        also=_RACES,
    ),
    Case(
        "mem_none_for_device_memory",
        """
        uint lid = thread_position_in_threadgroup.x;
        if (lid == 0) scale[0] = half(rsqrt(float(x[0]) * float(x[0]) + 1.0f));
        threadgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lid] = x[lid] * scale[0];
        """,
        {"x": Array(floats(64).astype(np.float16))},
        {"scale": Out((1,), "float16"), "y": Out((64,), "float16")},
        (64, 1, 1),
        (64, 1, 1),
        also=_RACES,
    ),
    Case(
        "only_threadgroup_flag_though_both_move",
        """
        threadgroup float tile[64];
        uint lid = thread_position_in_threadgroup.x;
        tile[lid] = x[lid];
        stage[lid] = x[lid] + 1;
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- wrong-mem-flags
        y[lid] = tile[63 - lid] + stage[63 - lid];
        """,
        {"x": Array(floats(64))},
        {"stage": Out((64,)), "y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=_RACES,
    ),
    Case(
        "texture_flag_in_a_loop",
        """
        threadgroup int cells[2][64];
        uint lid = thread_position_in_threadgroup.x;
        int v = x[lid];
        for (int r = 0; r < 4; ++r) {
          cells[r & 1][lid] = v;
          threadgroup_barrier(mem_flags::mem_texture);  // <- wrong-mem-flags
          v += cells[r & 1][(lid + 32) % 64];
        }
        y[lid] = v;
        """,
        {"x": Array(integers(0, 9, 64))},
        {"y": Out((64,), "int32")},
        (64, 1, 1),
        (64, 1, 1),
        also=_RACES,
    ),
    Case(
        "simdgroup_barrier_without_memory",
        """
        threadgroup float swap[32];
        uint lane = thread_index_in_simdgroup;
        swap[lane] = x[lane];
        simdgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lane] = swap[31 - lane];
        """,
        {"x": Array(floats(32))},
        {"y": Out((32,))},
        (32, 1, 1),
        (32, 1, 1),
        also=_RACES,
    ),
)

BUGS = _BARRIERS + _SIMD + _FLAGS
