"""Bugs of all kinds in rarer clothes: what threads do to each other."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, count, floats, halves, integers, kernel

_SYNC = """
#define LOCAL_SYNC threadgroup_barrier(mem_flags::mem_device)

inline void publish(threadgroup float* slot, float v, bool mine) {
  if (mine) *slot = v;
  metal::threadgroup_barrier(metal::mem_flags::mem_none);  // <- wrong-mem-flags
}
"""

BUGS = (
    kernel("bins_reused_while_they_are_flushed", 96)(
        keys=integers(0, 8, 192, dtype="uint8"), y=Out(16, "uint32")
    )("""
        threadgroup atomic_uint bins[8];
        for (uint chunk = 0; chunk < 2; ++chunk) {
          if (lid < 8)
            atomic_store_explicit(&bins[lid], 0u, memory_order_relaxed);  // <- threadgroup-race
          threadgroup_barrier(mem_flags::mem_threadgroup);
          uint key = keys[chunk * 96 + lid];
          atomic_fetch_add_explicit(&bins[key], 1u, memory_order_relaxed);
          threadgroup_barrier(mem_flags::mem_threadgroup);
          threadgroup uint* plain = (threadgroup uint*)bins;
          if (lid >= 88) y[chunk * 8 + lid - 88] = plain[lid - 88];  // <- threadgroup-race
        }
    """),
    kernel("arena_seen_as_another_type", 64)(x=floats(64), y=Out(64, "int32"))("""
        threadgroup uchar arena[512];
        threadgroup float* values = (threadgroup float*)arena;
        threadgroup int* ranks = (threadgroup int*)(arena + 128);
        values[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float other = values[(lid + 40) % 64];  // <- threadgroup-race
        ranks[lid] = int(other * 100);  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = ranks[63 - lid];
    """),
    kernel("next_panel_over_the_matrix_that_is_read", 64)(
        x=halves(3, 64), y=Out(8, 8, "float16")
    )("""
        threadgroup half panel[64];
        uint lid = thread_index_in_threadgroup;
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
    """),
    kernel("flag_cleared_before_all_have_seen_it", 64, also="divergent-barrier")(
        x=np.where(np.arange(64) < 60, 9, 1).astype(np.int32), y=Out(64, "int32")
    )("""
        threadgroup int changed;
        threadgroup int labels[64];
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
    """),
    kernel("offsets_chained_through_the_output", (96, 32), init=0)(
        x=integers(0, 9, 96), offsets=Out(4, "int32")
    )("""
        uint g = threadgroup_position_in_grid.x;
        int total = simd_sum(x[g * 32 + lid]);
        if (lid == 0) offsets[g + 1] = offsets[g] + total;  // <- device-race
    """),
    kernel("words_and_halves_of_words", 64)(
        x=integers(0, 1 << 30, 64, dtype="uint32"), y=Out(32, "uint32")
    )("""
        if (i < 32) {
          y[i] = x[i];  // <- device-race
        } else {
          device ushort* halves = (device ushort*)y;
          halves[2 * (i - 32) + 1] = 7;  // <- device-race
        }
    """),
    kernel("normalises_what_neighbours_still_read", (140, 70))(x=floats(2, 70), y=Out(2, 70))("""
        device float* row = y + threadgroup_position_in_grid.x * 70;
        row[lid] = exp(x[threadgroup_position_in_grid.x * 70 + lid]);
        threadgroup_barrier(mem_flags::mem_device);
        float s = 0;
        for (uint k = 0; k < 70; ++k) s += row[k];  // <- device-race
        row[lid] /= s;  // <- device-race
    """),
    kernel("barrier_in_a_loop_that_starts_at_the_thread", 40)(x=floats(60), y=Out(40))("""
        threadgroup float acc[40];
        acc[lid] = 0;
        for (uint k = lid; k < 60; k += 40) {
          acc[lid] += x[k];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        }
        y[lid] = acc[lid];
    """),
    kernel("do_while_the_thread_has_not_converged", 33)(
        x=np.linspace(0.1, 4, 33).astype(np.float16), y=Out(33, "float16")
    )("""
        threadgroup half stage[33];
        half v = x[lid];
        do {
          stage[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
          v = stage[lid] * 0.5h;
        } while (v > 0.25h);
        y[lid] = v;
    """),
    kernel("idle_simdgroups_go_home_early", 128)(x=floats(128), y=Out(1))("""
        threadgroup float parts[4];
        if (sg >= 3) return;
        float s = simd_sum(x[lid]);
        if (simd_is_first()) parts[sg] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- divergent-barrier
        if (lid == 0) y[0] = parts[0] + parts[1] + parts[2];
    """),
    kernel("finished_rows_leave_the_tile_loop", 16)(
        x=np.abs(floats(4, 16)),
        bound=np.where(np.arange(16) < 4, 1, 99).astype(np.float32),
        y=Out(16),
    )("""
        threadgroup float tile[16];
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
    """),
    kernel("broadcast_by_the_thread_of_the_group", 64)(x=floats(64), y=Out(64))("""
        uint lid = thread_index_in_threadgroup;
        float v = x[lid];
        float own = simd_broadcast(v, ushort(lid));  // <- divergent-simd
        y[lid] = own;
    """),
    kernel("quad_leader_that_was_masked", 32)(x=count(32) % 5, y=Out(32, "int32"))("""
        int v = x[i];
        if (v > 2) v -= quad_broadcast(v, 0);  // <- divergent-simd
        y[i] = v;
    """),
    kernel("matrix_stored_by_the_first_lane", 32, also="unwritten-output")(
        x=floats(8, 8), y=Out(8, 8)
    )("""
        simdgroup_float8x8 m;
        simdgroup_load(m, x, 8);
        if (thread_index_in_simdgroup == 0) simdgroup_store(m, y, 8);  // <- divergent-simd
    """),
    kernel("search_that_some_lanes_have_left", 32)(x=count(32), y=Out(32, "int32"))("""
        int v = x[lane], seen = 0;
        for (int r = 0; r < 5; ++r) {
          if (v > 40) break;
          seen += simd_shuffle_down(v, 2);  // <- divergent-simd
          v += 12;
        }
        y[lane] = seen;
    """),
    kernel("helper_that_publishes_without_memory", 48, header=_SYNC)(x=floats(48), y=Out(48))("""
        threadgroup float slot;
        publish(&slot, x[0], lid == 0);
        y[lid] = x[lid] - slot;
    """),
    kernel("macro_that_names_the_wrong_memory", 80, header=_SYNC)(x=floats(80), y=Out(80))("""
        threadgroup float row[80];
        row[lid] = x[lid];
        LOCAL_SYNC;  // <- wrong-mem-flags
        y[lid] = row[79 - lid];
    """),
    kernel("remaining_budget_handed_out", (40, 8), init=100, atomic=True)(
        wants=integers(1, 9, 40), budget=Out(41, "int32")
    )("""
        int asked = wants[i];
        int left = atomic_fetch_sub_explicit(&budget[40], asked, memory_order_relaxed);
        int got = left >= asked ? asked : 0;
        atomic_store_explicit(&budget[i], got, memory_order_relaxed);  // <- order-dependent
    """),
)
