"""Bugs of all kinds in rarer clothes: what threads do to each other."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_ORDER = frozenset({"order-dependent"})
_LOOSE = frozenset({"order-dependent", "uninitialized-read"})
_ANY = _LOOSE | {"threadgroup-race", "unwritten-output"}

_SYNC = """
#define LOCAL_SYNC threadgroup_barrier(mem_flags::mem_device)

inline void publish(threadgroup float* slot, float v, bool mine) {
  if (mine) *slot = v;
  metal::threadgroup_barrier(metal::mem_flags::mem_none);  // <- wrong-mem-flags
}
"""

BUGS = (
    Case(
        "bins_reused_while_they_are_flushed",
        """
        threadgroup atomic_uint bins[8];
        uint lid = thread_position_in_threadgroup.x;
        for (uint chunk = 0; chunk < 2; ++chunk) {
          if (lid < 8) {
            atomic_store_explicit(&bins[lid], 0u, memory_order_relaxed);  // <- threadgroup-race
          }
          threadgroup_barrier(mem_flags::mem_threadgroup);
          uint key = keys[chunk * 96 + lid];
          atomic_fetch_add_explicit(&bins[key], 1u, memory_order_relaxed);
          threadgroup_barrier(mem_flags::mem_threadgroup);
          threadgroup uint* plain = (threadgroup uint*)bins;
          if (lid >= 88) y[chunk * 8 + lid - 88] = plain[lid - 88];  // <- threadgroup-race
        }
        """,
        {"keys": Array(integers(0, 8, 192, dtype="uint8"))},
        {"y": Out((16,), "uint32")},
        (96, 1, 1),
        (96, 1, 1),
        also=_ORDER,
    ),
    Case(
        "arena_seen_as_another_type",
        """
        threadgroup uchar arena[512];
        threadgroup float* values = (threadgroup float*)arena;
        threadgroup int* ranks = (threadgroup int*)(arena + 128);
        uint lid = thread_position_in_threadgroup.x;
        values[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float other = values[(lid + 40) % 64];  // <- threadgroup-race
        ranks[lid] = int(other * 100);  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = ranks[63 - lid];
        """,
        {"x": Array(floats(64))},
        {"y": Out((64,), "int32")},
        (64, 1, 1),
        (64, 1, 1),
        also=_ORDER,
    ),
    Case(
        "next_panel_over_the_matrix_that_is_read",
        """
        threadgroup half panel[64];
        uint lid = thread_index_in_threadgroup;
        uint sg = simdgroup_index_in_threadgroup;
        simdgroup_half8x8 m, sum = make_filled_simdgroup_matrix<half, 8, 8>(0.0h), one(1.0h);
        for (uint t = 0; t < 3; ++t) {
          panel[lid] = x[t * 64 + lid];  // <- threadgroup-race
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (sg == 1) {
            simdgroup_load(m, panel, 8);  // <- threadgroup-race
            simdgroup_multiply_accumulate(sum, m, one, sum);
          }
        }
        if (sg == 1) simdgroup_store(sum, y, 8);
        """,
        {"x": Array(floats(3, 64).astype(np.float16))},
        {"y": Out((8, 8), "float16")},
        (64, 1, 1),
        (64, 1, 1),
        also=_ORDER,
    ),
    Case(
        "flag_cleared_before_all_have_seen_it",
        """
        threadgroup int changed;
        threadgroup int labels[64];
        uint lid = thread_position_in_threadgroup.x;
        labels[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        while (true) {
          int left = labels[(lid + 63) % 64], mine = labels[lid];
          if (lid == 0) changed = 0;  // <- threadgroup-race
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (left > mine) {
            labels[lid] = left;
            changed = 1;
          }
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (changed == 0) break;  // <- threadgroup-race
        }
        y[lid] = labels[lid];
        """,
        {"x": Array(np.where(np.arange(64) < 60, 9, 1).astype(np.int32))},
        {"y": Out((64,), "int32")},
        (64, 1, 1),
        (64, 1, 1),
        also=_ORDER | {"divergent-barrier"},
    ),
    Case(
        "offsets_chained_through_the_output",
        """
        uint g = threadgroup_position_in_grid.x;
        uint lid = thread_position_in_threadgroup.x;
        int total = simd_sum(x[g * 32 + lid]);
        if (lid == 0) {
          offsets[g + 1] = offsets[g] + total;  // <- device-race
        }
        """,
        {"x": Array(integers(0, 9, 96))},
        {"offsets": Out((4,), "int32")},
        (96, 1, 1),
        (32, 1, 1),
        init_value=0,
        also=_ORDER,
    ),
    Case(
        "words_and_halves_of_words",
        """
        uint i = thread_position_in_grid.x;
        if (i < 32) {
          y[i] = x[i];  // <- device-race
        } else {
          device ushort* halves = (device ushort*)y;
          halves[2 * (i - 32) + 1] = 7;  // <- device-race
        }
        """,
        {"x": Array(integers(0, 1 << 30, 64, dtype="uint32"))},
        {"y": Out((32,), "uint32")},
        (64, 1, 1),
        (64, 1, 1),
        also=_ORDER,
    ),
    Case(
        "normalises_what_neighbours_still_read",
        """
        uint lid = thread_position_in_threadgroup.x;
        device float* row = y + threadgroup_position_in_grid.x * 70;
        row[lid] = exp(x[threadgroup_position_in_grid.x * 70 + lid]);
        threadgroup_barrier(mem_flags::mem_device);
        float s = 0;
        for (uint k = 0; k < 70; ++k) s += row[k];  // <- device-race
        row[lid] /= s;  // <- device-race
        """,
        {"x": Array(floats(2, 70))},
        {"y": Out((2, 70))},
        (140, 1, 1),
        (70, 1, 1),
        also=_ORDER,
    ),
    Case(
        "barrier_in_a_loop_that_starts_at_the_thread",
        """
        threadgroup float acc[40];
        uint lid = thread_position_in_threadgroup.x;
        acc[lid] = 0;
        for (uint k = lid; k < 60; k += 40) {
          acc[lid] += x[k];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        }
        y[lid] = acc[lid];
        """,
        {"x": Array(floats(60))},
        {"y": Out((40,))},
        (40, 1, 1),
        (40, 1, 1),
        also=_ANY,
    ),
    Case(
        "do_while_the_thread_has_not_converged",
        """
        threadgroup half stage[33];
        uint lid = thread_position_in_threadgroup.x;
        half v = x[lid];
        do {
          stage[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          v = stage[lid] * 0.5h;
        } while (v > 0.25h);
        y[lid] = v;
        """,
        {"x": Array(np.linspace(0.1, 4, 33).astype(np.float16))},
        {"y": Out((33,), "float16")},
        (33, 1, 1),
        (33, 1, 1),
        also=_ANY,
    ),
    Case(
        "idle_simdgroups_go_home_early",
        """
        threadgroup float parts[4];
        uint sg = simdgroup_index_in_threadgroup;
        uint lid = thread_position_in_threadgroup.x;
        if (sg >= 3) return;
        float s = simd_sum(x[lid]);
        if (simd_is_first()) parts[sg] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        if (lid == 0) y[0] = parts[0] + parts[1] + parts[2];
        """,
        {"x": Array(floats(128))},
        {"y": Out((1,))},
        (128, 1, 1),
        (128, 1, 1),
        also=_ANY,
    ),
    Case(
        "finished_rows_leave_the_tile_loop",
        """
        threadgroup float tile[16];
        uint lid = thread_position_in_threadgroup.x;
        float acc = 0;
        for (uint t = 0; t < 4; ++t) {
          tile[lid] = x[t * 16 + lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          for (uint k = 0; k < 16; ++k) acc += tile[k];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          if (acc > bound[lid]) {
            y[lid] = t;
            return;
          }
        }
        y[lid] = -1;
        """,
        {
            "x": Array(np.abs(floats(4, 16))),
            "bound": Array(np.where(np.arange(16) < 4, 1, 99).astype(np.float32)),
        },
        {"y": Out((16,))},
        (16, 1, 1),
        (16, 1, 1),
        also=_ANY,
    ),
    Case(
        "broadcast_by_the_thread_of_the_group",
        """
        uint lid = thread_index_in_threadgroup;
        float v = x[lid];
        float own = simd_broadcast(v, ushort(lid));  // <- divergent-simd
        y[lid] = own;
        """,
        {"x": Array(floats(64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=_LOOSE,
    ),
    Case(
        "quad_leader_that_was_masked",
        """
        uint i = thread_position_in_grid.x;
        int v = x[i];
        if (v > 2) v -= quad_broadcast(v, 0);  // <- divergent-simd
        y[i] = v;
        """,
        {"x": Array(np.arange(32, dtype=np.int32) % 5)},
        {"y": Out((32,), "int32")},
        (32, 1, 1),
        (32, 1, 1),
        also=_LOOSE,
    ),
    Case(
        "matrix_stored_by_the_first_lane",
        """
        simdgroup_float8x8 m;
        simdgroup_load(m, x, 8);
        if (thread_index_in_simdgroup == 0) {
          simdgroup_store(m, y, 8);  // <- divergent-simd
        }
        """,
        {"x": Array(floats(8, 8))},
        {"y": Out((8, 8))},
        (32, 1, 1),
        (32, 1, 1),
        also=_LOOSE | {"unwritten-output"},
    ),
    Case(
        "search_that_some_lanes_have_left",
        """
        uint lane = thread_index_in_simdgroup;
        int v = x[lane], seen = 0;
        for (int r = 0; r < 5; ++r) {
          if (v > 40) break;
          seen += simd_shuffle_down(v, 2);  // <- divergent-simd
          v += 12;
        }
        y[lane] = seen;
        """,
        {"x": Array(np.arange(32, dtype=np.int32))},
        {"y": Out((32,), "int32")},
        (32, 1, 1),
        (32, 1, 1),
        also=_LOOSE,
    ),
    Case(
        "helper_that_publishes_without_memory",
        """
        threadgroup float slot;
        uint lid = thread_position_in_threadgroup.x;
        publish(&slot, x[0], lid == 0);
        y[lid] = x[lid] - slot;
        """,
        {"x": Array(floats(48))},
        {"y": Out((48,))},
        (48, 1, 1),
        (48, 1, 1),
        header=_SYNC,
        also=_LOOSE,
    ),
    Case(
        "macro_that_names_the_wrong_memory",
        """
        threadgroup float row[80];
        uint lid = thread_position_in_threadgroup.x;
        row[lid] = x[lid];
        LOCAL_SYNC;  // <- wrong-mem-flags
        y[lid] = row[79 - lid];
        """,
        {"x": Array(floats(80))},
        {"y": Out((80,))},
        (80, 1, 1),
        (80, 1, 1),
        header=_SYNC,
        also=_LOOSE,
    ),
    Case(
        "remaining_budget_handed_out",
        """
        uint i = thread_position_in_grid.x;
        int asked = wants[i];
        int left = atomic_fetch_sub_explicit(&budget[40], asked, memory_order_relaxed);
        int got = left >= asked ? asked : 0;
        atomic_store_explicit(&budget[i], got, memory_order_relaxed);  // <- order-dependent
        """,
        {"wants": Array(integers(1, 9, 40))},
        {"budget": Out((41,), "int32")},
        (40, 1, 1),
        (8, 1, 1),
        init_value=100,
        atomic_outputs=True,
    ),
)
