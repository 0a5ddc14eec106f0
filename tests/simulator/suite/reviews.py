"""Bugs as reviews find them, in memory, order and values."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Out, count, floats, halves, integers, kernel

STATS = """
struct Stat {
  half low;
  half high;
};

template <typename T, int N>
void gather(thread T (&into)[N], const device T* from, int count) {
  for (int k = 0; k < count; ++k) into[k] = from[k];
}
"""
_SYNC = """
#define LOCAL_SYNC threadgroup_barrier(mem_flags::mem_device)

inline void publish(threadgroup float* slot, float v, bool mine) {
  if (mine) *slot = v;
  metal::threadgroup_barrier(metal::mem_flags::mem_none);  // <- wrong-mem-flags
}
"""

BUGS = (
    kernel("vector_view_past_a_private_array", 8, also="uninitialized-read")(
        x=floats(8, 6), start=np.array([0, 2, 4, 6, 2, 0, 2, 4], "int32"), y=Out(8)
    )("""
        uint row = thread_position_in_grid.x;
        float acc[6];
        for (int k = 0; k < 6; ++k) acc[k] = x[row * 6 + k];
        int from = start[row];
        float2 pair = *(thread float2*)(acc + from);  // <- out-of-bounds
        y[row] = pair.x * pair.y;
    """),
    kernel("float4_of_a_short_constant_input", 16)(x=floats(16), w=floats(7), y=Out(16))("""
        float4 last = ((const constant float4*)w)[1];  // <- out-of-bounds
        y[i] = x[i] * last.x + last.w;
    """),
    kernel("index_from_another_lane", 32)(
        rows=np.where(np.arange(32) == 20, 64, np.arange(32)).astype(np.int32),
        table=floats(64),
        y=Out(32),
    )("""
        int next = simd_shuffle_xor(rows[i], 1);
        y[i] = table[next];  // <- out-of-bounds
    """),
    kernel("second_output_is_shorter", 20)(x=floats(20), value=Out(20), mean=Out(5))("""
        value[i] = x[i] * 2;
        mean[i] = x[i] / 4;  // <- out-of-bounds
    """),
    kernel("planes_of_an_oblong_volume", ((4, 9, 2), (4, 9)))(x=floats(2, 9, 4), y=Out(2, 9, 4))("""
        uint3 g = thread_position_in_grid;
        uint H = x_shape[1], W = x_shape[2];
        float v = x[g.z * H * W + g.y * H + g.x];  // <- out-of-bounds
        y[(g.z * H + g.y) * W + g.x] = v;
    """),
    kernel("countdown_from_the_length", (6, 2))(x=floats(6, 5), y=Out(6))("""
        uint row = thread_position_in_grid.x;
        int n = x_shape[1];
        float s = 0;
        for (int k = n; k >= 0; --k) s = s * 0.5f + x[row * n + k];  // <- out-of-bounds
        y[row] = s;
    """),
    kernel("stride_of_the_axis_after_the_last", 24, contiguous=False)(x=floats(3, 8), y=Out(24))("""
        long step = x_strides[x_ndim];  // <- out-of-bounds
        y[i] = step > 1 ? x[i] : -x[i];
    """),
    kernel("eight_bfloats_at_a_time", 5)(
        x=Array(floats(36), dtype="bfloat16"), y=Out(5, "uint32")
    )("""
        uint4 words = ((const device uint4*)x)[i];  // <- out-of-bounds
        uint s = words.x ^ words.y ^ words.z ^ words.w;
        y[i] = s;
    """),
    kernel("structs_on_chip_by_the_wrong_count", 13, header=STATS)(
        x=halves(13), y=Out(13, "float16")
    )("""
        threadgroup Stat stats[12];
        uint lid = thread_index_in_threadgroup;
        Stat s{x[lid], half(x[lid] + 1.0h)};
        stats[lid].low = s.low;  // <- out-of-bounds
        if (lid < 12) stats[lid].high = s.high;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint at = lid % 12;
        y[lid] = stats[at].high - stats[at].low;
    """),
    kernel("pointer_far_beyond_everything", 9)(x=floats(9), jump=np.int32(7), y=Out(9))("""
        ulong far = ulong(jump) << 40;
        y[i] = x[far + i];  // <- crash|out-of-bounds
    """),
    kernel("left_of_its_own_output", 1)(x=floats(8), y=Out(8))("""
        int i = thread_position_in_grid.x * 8;
        for (int k = 0; k < 8; ++k)
          y[i + k] = x[i + k] + (k > 0 ? y[i + k - 1] : y[i - 1 - k]);  // <- out-of-bounds
    """),
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
        threadgroup int changed, labels[64];
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
    kernel("reference_filled_up_to_a_count", 6, header=STATS, lineless="uninitialized-read")(
        x=-np.abs(floats(6, 5)) - 99, counts=np.array([5, 5, 3, 5, 5, 5]), y=Out(6)
    )("""
        uint row = thread_position_in_grid.x;
        float window[5];
        gather(window, x + row * 5, counts[row]);
        float top = window[0];
        for (int k = 1; k < 5; ++k) top = fmax(top, window[k]);  // <- uninitialized-read
        y[row] = top;  // <- uninitialized-read
    """),
    kernel("switch_without_a_default", 12, lineless="uninitialized-read")(
        x=halves(12), kinds=count(12, "uint8") % 4, y=Out(12, "float16")
    )("""
        half factor;
        switch (kinds[i]) {
          case 0: factor = 1.0h; break;
          case 1: factor = 0.5h; break;
          case 2: factor = 0.25h; break;
        }
        y[i] = x[i] * factor;  // <- uninitialized-read
    """),
    kernel("previous_of_the_first_round", 10, lineless="uninitialized-read")(
        x=np.abs(floats(10)) + 1, y=Out(10)
    )("""
        float v = x[i], last;
        for (int r = 0; r < 6; ++r) {
          float next = 0.5f * (v + 2.0f / v);
          if (r % 2 == 1) last = v;
          if (last < next) break;  // <- uninitialized-read
          v = next;
        }
        y[i] = v;  // <- uninitialized-read
    """),
    kernel("second_lane_of_a_pair", 16, lineless="uninitialized-read")(x=halves(16), y=Out(16))("""
        half2 v;
        v.x = x[i];
        if (i % 4 != 3) v.y = x[i] * 2.0h;
        y[i] = float(v.x) + float(v.y);  // <- uninitialized-read
    """),
    kernel("threadgroup_atomic_read_before_it_is_set", 32)(x=floats(32), y=Out(32))("""
        threadgroup atomic_uint limit;
        uint now = atomic_load_explicit(&limit, memory_order_relaxed);  // <- uninitialized-read
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) atomic_store_explicit(&limit, now + 1, memory_order_relaxed);
        y[lid] = x[lid];
    """),
    kernel("matrix_of_a_tile_with_an_empty_row", 32)(x=floats(7, 8), y=Out(8, 8))("""
        threadgroup float tile[64];
        for (uint k = lane; k < 56; k += 32) tile[k] = x[k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_float8x8 m;
        simdgroup_load(m, tile, 8);  // <- uninitialized-read
        simdgroup_store(m, y, 8);
    """),
    kernel("sums_of_rows_that_came_too_late", 32, also="unwritten-output")(
        x=floats(4, 8), sums=Out(4), y=Out(32)
    )("""
        if (lid < 3) sums[lid] = x[lid * 8] + x[lid * 8 + 7];
        threadgroup_barrier(mem_flags::mem_device);
        y[lid] = x[lid] - sums[lid / 8];  // <- uninitialized-read
    """),
    kernel("low_words_of_long_integers", 11)(
        x=integers(0, 99, 11, dtype="uint32"), y=Out(11, "int64")
    )("""
        device uint* words = (device uint*)y;
        words[2 * i] = x[i];  // <- unwritten-output
    """),
    kernel("last_slices_of_a_batch", ((6, 4, 3), (6, 4)))(
        x=floats(3, 4, 6), hot=Out(3, 4, 6, "bool_")
    )("""
        uint3 g = thread_position_in_grid;
        uint at = (g.z * 4 + g.y) * 6 + g.x;
        if (g.z + 1 < threads_per_grid.z) hot[at] = x[at] > 0;  // <- unwritten-output
    """),
    kernel("loop_that_continues_without_a_step", 4)(x=floats(4, 6), y=Out(4))("""
        uint row = thread_position_in_grid.x;
        int k = 0;
        float s = 0;
        while (k < 6) {  // <- timeout
          if (x[row * 6 + k] < 0) continue;  // <- timeout
          s += x[row * 6 + k];
          ++k;
        }
        y[row] = s;
    """),
    kernel("waits_for_a_lane_that_waits_as_well", 32)(x=floats(32), y=Out(32))("""
        threadgroup atomic_int ready;
        if (lane == 0) atomic_store_explicit(&ready, 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        while (atomic_load_explicit(&ready, memory_order_relaxed) < 32) {  // <- timeout
        }
        atomic_fetch_add_explicit(&ready, 1, memory_order_relaxed);
        y[lane] = x[lane];
    """),
)
