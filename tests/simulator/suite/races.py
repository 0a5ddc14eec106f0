"""Bugs: races in threadgroup and device memory."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, count, floats, halves, integers, kernel

BUGS = (
    kernel("reversal_without_a_barrier", (128, 64))(x=floats(128), y=Out(128))("""
        threadgroup float tile[64];
        tile[lid] = x[thread_position_in_grid.x];  // <- threadgroup-race
        y[thread_position_in_grid.x] = tile[63 - lid];  // <- threadgroup-race
    """),
    kernel("sums_over_maxima_still_read", 128)(x=floats(128), y=Out(128))("""
        threadgroup float shared[4];
        float m = simd_max(x[i]);
        if (lane == 0) shared[sg] = m;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        m = max(max(shared[0], shared[1]), max(shared[2], shared[3]));  // <- threadgroup-race
        float e = exp(x[i] - m), s = simd_sum(e);
        if (lane == 0) shared[sg] = s;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        s = shared[0] + shared[1] + shared[2] + shared[3];
        y[i] = e / s;
    """),
    kernel("two_simdgroups_share_slots", 64)(x=count(64), y=Out(64, "int32"))("""
        threadgroup int slot[32];
        uint lid = thread_index_in_threadgroup;
        slot[lid % 32] = x[lid] * 2;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = slot[lid % 32];
    """),
    kernel("tree_with_its_barrier_after_the_loop", (256, 128))(x=floats(256), y=Out(2))("""
        template <typename T>
        inline T reduce_sum(threadgroup T* work, uint lid, uint n) {
          for (uint s = n / 2; s > 0; s >>= 1) {
            if (lid < s) work[lid] += work[lid + s];  // <- threadgroup-race
          }
          metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);
          return work[0];
        }
        // body
        threadgroup float work[128];
        work[lid] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float total = reduce_sum(work, lid, 128u);
        if (lid == 0) y[threadgroup_position_in_grid.x] = total;
    """),
    kernel("tree_that_drops_its_barrier_too_early", 256)(x=floats(256), y=Out(1))("""
        threadgroup float work[256];
        work[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 128; s > 0; s >>= 1) {
          if (lid < s) work[lid] += work[lid + s];  // <- threadgroup-race
          if (s > 64) threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (lid == 0) y[0] = work[0];
    """),
    kernel("no_barrier_in_the_last_iteration", 96)(
        x=floats(96), steps=np.array([4], dtype=np.int32), y=Out(96)
    )("""
        threadgroup float row[96];
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
    """),
    kernel("double_buffer_with_one_barrier_for_two_tiles", 64)(x=floats(6, 64), y=Out(64))("""
        threadgroup float buf[2][64];
        float acc = 0;
        buf[0][lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint t = 0; t < 6; ++t) {
          if (t + 1 < 6) buf[(t + 1) & 1][lid] = x[(t + 1) * 64 + lid];  // <- threadgroup-race
          acc += buf[t & 1][(lid + 1) & 63];  // <- threadgroup-race
          if (t & 1) threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[lid] = acc;
    """),
    kernel("matmul_tile_reloaded_while_in_use", ((16, 8), (8, 8)))(
        a=floats(8, 24), b=floats(24, 16, seed=1), c=Out(8, 16)
    )("""
        threadgroup float A[8][8], B[8][8];
        uint3 t = thread_position_in_threadgroup;
        uint row = thread_position_in_grid.y, column = thread_position_in_grid.x;
        uint K = a_shape[1], N = b_shape[1];
        float acc = 0;
        for (uint k0 = 0; k0 < K; k0 += 8) {
          A[t.y][t.x] = a[row * K + k0 + t.x];
          B[t.y][t.x] = b[(k0 + t.y) * N + column];  // <- threadgroup-race
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint k = 0; k < 8; ++k) acc += A[t.y][k] * B[k][t.x];  // <- threadgroup-race
        }
        c[row * N + column] = acc;
    """),
    kernel("broadcast_from_the_first_simdgroup", (240, 80))(x=floats(3, 80), y=Out(3, 80))("""
        threadgroup float mean;
        uint row = threadgroup_position_in_grid.x;
        if (simdgroup_index_in_threadgroup == 0) {
          float s = 0;
          for (uint c = lid; c < 80; c += 32) s += x[row * 80 + c];
          s = simd_sum(s);
          if (lid == 0) mean = s / 80;  // <- threadgroup-race
        }
        y[row * 80 + lid] = x[row * 80 + lid] - mean;  // <- threadgroup-race
    """),
    kernel("only_the_short_group_takes_the_shortcut", (176, 64))(x=floats(176), y=Out(176))("""
        threadgroup float work[64];
        uint n = threads_per_threadgroup.x;
        work[lid] = x[thread_position_in_grid.x];  // <- threadgroup-race
        if (n == 64) threadgroup_barrier(mem_flags::mem_threadgroup);
        y[thread_position_in_grid.x] = work[n - 1 - lid];  // <- threadgroup-race
    """),
    kernel("flag_of_many_writers_that_mostly_agree", 64)(
        x=np.where(np.arange(64) == 37, 2.0, 0.5).astype(np.float32), y=Out(64, "int32")
    )("""
        threadgroup int clipped;
        clipped = x[lid] > 1.0f ? 1 : 0;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = clipped;
    """),
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
        threadgroup float ping[64], pong[64];
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
    kernel("every_thread_adds_to_one_sum", 70, init=0)(x=floats(70), total=Out(1))("""
        total[0] += x[i];  // <- device-race
    """),
    kernel("scatter_add_in_a_helper", (80, 40), init=0)(
        T="float16", x=floats(80), index=integers(0, 7, 80, dtype="uint16"), grad=Out(7, "float16")
    )("""
        template <typename T>
        inline void accumulate(device T* into, T v) {
          *into = *into + v;  // <- device-race
        }
        // body
        accumulate(&grad[index[i]], T(x[i]));
    """),
    kernel("groups_write_the_same_window", (48, 16))(x=count(48, "float32"), y=Out(16))("""
        y[lid] = x[thread_position_in_grid.x];  // <- device-race
    """),
    kernel("neighbour_of_a_fresh_output", 64)(x=floats(64), smooth=Out(64), step=Out(64))("""
        smooth[i] = 0.5f * x[i];  // <- device-race
        float before = i > 0 ? smooth[i - 1] : 0.0f;  // <- device-race
        step[i] = x[i] - before;
    """),
    kernel("barrier_taken_for_a_barrier_of_the_grid", (128, 32))(
        x=np.abs(floats(128)), partial=Out(4), y=Out(128)
    )("""
        uint g = threadgroup_position_in_grid.x, groups = threadgroups_per_grid.x;
        float s = simd_sum(x[thread_position_in_grid.x]);
        if (lid == 0) partial[g] = s;  // <- device-race
        threadgroup_barrier(mem_flags::mem_device);
        float all = 0;
        for (uint k = 0; k < groups; ++k) all += partial[k];  // <- device-race
        y[thread_position_in_grid.x] = x[thread_position_in_grid.x] / all;
    """),
    kernel("atomic_sum_read_plainly", (64, 32), init=0, atomic=True)(
        x=integers(1, 9, 64), sum=Out(65, "int32")
    )("""
        atomic_fetch_add_explicit(&sum[0], x[i], memory_order_relaxed);  // <- device-race
        int so_far = ((device int*)sum)[0];  // <- device-race
        atomic_store_explicit(&sum[1 + i], so_far, memory_order_relaxed);
    """),
    kernel("bins_cleared_by_the_first_group", (96, 32), atomic=True)(
        key=integers(0, 32, 96, dtype="uint8"), counts=Out(32, "uint32")
    )("""
        device uint* plain = (device uint*)counts;
        if (threadgroup_position_in_grid.x == 0)
          plain[thread_position_in_threadgroup.x] = 0;  // <- device-race
        threadgroup_barrier(mem_flags::mem_device);
        atomic_fetch_add_explicit(&counts[key[i]], 1u, memory_order_relaxed);  // <- device-race
    """),
    kernel("windows_that_overlap_by_one", (40, 8))(
        x=floats(40), w=floats(5, seed=1), y=Out(161)
    )("""
        for (uint k = 0; k < 5; ++k) y[4 * i + k] = x[i] * w[k];  // <- device-race
    """),
    kernel("bits_packed_by_eight_threads", 96, init=0)(x=floats(96), bits=Out(2, "uint8"))("""
        uchar bit = x[i] > 0 ? 1 : 0;
        bits[i / 48] |= bit << (i % 8);  // <- device-race
    """),
    kernel("last_thread_of_a_group_writes_the_halo", (90, 30))(x=floats(90), y=Out(90))("""
        y[i] = x[i];  // <- device-race
        if (lid + 1 == threads_per_threadgroup.x && i + 1 < uint(x_shape[0]))
          y[i + 1] = 0.5f * (x[i] + x[i + 1]);  // <- device-race
    """),
    kernel("column_sums_by_rows", ((20, 6), 20))(
        T="float16", x=halves(6, 20), y=Out(20, "float16")
    )("""
        uint row = thread_position_in_grid.y, column = thread_position_in_grid.x;
        uint columns = x_shape[1];
        T v = x[row * columns + column];
        y[column] = row == 0 ? v : T(y[column] + v);  // <- device-race
    """),
    kernel("scatter_with_a_doubled_target", 50, init=0)(
        x=floats(50),
        target=np.where(np.arange(50) == 44, 3, np.arange(50)).astype(np.int32),
        y=Out(50),
    )("""
        y[target[i]] = x[i];  // <- device-race
    """),
    kernel("scratch_overwritten_while_others_read", (128, 64))(x=floats(128), scratch=Out(128))("""
        uint base = threadgroup_position_in_grid.x * 64;
        scratch[base + lid] = x[base + lid];
        threadgroup_barrier(mem_flags::mem_device);
        float other = scratch[base + (lid ^ 32)];  // <- device-race
        scratch[base + lid] = other * 2;  // <- device-race
    """),
    kernel("float4_store_beside_scalar_stores", 48)(x=floats(48), y=Out(52))("""
        if (i < 10) {
          *(device float4*)(y + 4 * i) = float4(x[i]);  // <- device-race
        } else if (i >= 32) {
          y[i - 32 + 36] = -1;  // <- device-race
        }
    """),
    kernel("last_token_found_by_everyone_at_the_end", (72, 24))(
        ids=np.where(np.arange(72) < 65, 7, 0).astype(np.int32),
        pad=np.int32(0),
        last=Out(1, "int32"),
    )("""
        if (ids[i] != pad)
          last[0] = int(i);  // <- device-race
    """),
    kernel("running_sum_across_groups", (96, 32))(x=integers(0, 5, 96), y=Out(96, "int32"))("""
        uint g = threadgroup_position_in_grid.x;
        int before = simd_prefix_inclusive_sum(x[i]);
        int carry = g > 0 ? y[g * 32 - 1] : 0;  // <- device-race
        y[i] = before + carry;  // <- device-race
    """),
)
