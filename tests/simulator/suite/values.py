"""Bugs: memory that is read or left without a value, and inputs that are written."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Out, floats, halves, integers, kernel

BUGS = (
    kernel("tail_of_a_tile_never_loaded", (128, 64))(x=floats(100), n=np.int32(100), y=Out(2))("""
        threadgroup float tile[64];
        if (i < uint(n)) tile[lid] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) {
          float s = 0;
          for (uint k = 0; k < 64; ++k) s += tile[k];  // <- uninitialized-read
          y[threadgroup_position_in_grid.x] = s;
        }
    """),
    kernel("short_group_reads_lanes_that_do_not_exist", (130, 48))(x=floats(130), y=Out(130))("""
        threadgroup float tile[48];
        tile[lid] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float m = tile[0];
        for (uint k = 1; k < 48; ++k) m = max(m, tile[k]);  // <- uninitialized-read
        y[thread_position_in_grid.x] = x[thread_position_in_grid.x] - m;
    """),
    kernel("accumulates_on_a_fresh_output", 15)(x=floats(15, 3), y=Out(15))("""
        for (uint k = 0; k < 3; ++k) y[i] += x[3 * i + k];  // <- uninitialized-read
    """),
    kernel("atomics_on_a_fresh_output", (64, 32), atomic=True)(
        keys=integers(0, 4, 64, dtype="uint32"), counts=Out(4, "uint32")
    )("""
        uint k = keys[i];
        atomic_fetch_add_explicit(&counts[k], 1u, memory_order_relaxed);  // <- uninitialized-read
    """),
    kernel("threadgroup_counter_never_cleared", 50)(x=floats(50), y=Out(1, "int32"))("""
        threadgroup atomic_int hits;
        if (x[lid] > 0.5f)
          atomic_fetch_add_explicit(&hits, 1, memory_order_relaxed);  // <- uninitialized-read
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) y[0] = atomic_load_explicit(&hits, memory_order_relaxed);
    """),
    kernel("private_scalar_set_in_one_branch", 40, lineless="uninitialized-read")(
        x=floats(40), y=Out(40)
    )("""
        float scale;
        if (x[i] > 0) scale = 2.0f;
        y[i] = x[i] * scale;  // <- uninitialized-read
    """),
    kernel("private_array_filled_up_to_a_length", (12, 4), lineless="uninitialized-read")(
        x=floats(12, 8), lengths=integers(3, 9, 12, seed=2), y=Out(12)
    )("""
        uint row = thread_position_in_grid.x;
        float window[8];
        int length = lengths[row];
        for (int k = 0; k < length; ++k) window[k] = x[row * 8 + k];
        float s = 0;
        for (int k = 0; k < 8; ++k) s += window[k];  // <- uninitialized-read
        y[row] = s;  // <- uninitialized-read
    """),
    kernel("last_component_of_a_vector", 20, lineless="uninitialized-read")(
        x=floats(20, 3), w=np.float32(0.5), y=Out(20)
    )("""
        float4 v;
        v.xyz = float3(x[3 * i], x[3 * i + 1], x[3 * i + 2]);
        y[i] = dot(v, float4(1.0f, 2.0f, 3.0f, w));  // <- uninitialized-read
    """),
    kernel("member_of_a_struct_from_the_header", 10, lineless="uninitialized-read")(
        x=floats(10, 6), y=Out(10)
    )("""
        struct Moments {
          float mean, m2;
          int count;
        };

        inline Moments start(float v) {
          Moments m;
          m.mean = v;
          m.count = 1;
          return m;
        }

        inline Moments push(Moments m, float v) {
          m.count += 1;
          float d = v - m.mean;
          m.mean += d / m.count;
          m.m2 += d * (v - m.mean);  // <- uninitialized-read
          return m;
        }
        // body
        uint row = thread_position_in_grid.x;
        Moments m = start(x[row * 6]);
        for (uint k = 1; k < 6; ++k) m = push(m, x[row * 6 + k]);
        y[row] = m.m2 / m.count;  // <- uninitialized-read
    """),
    kernel("best_index_of_a_row_without_a_hit", 8, lineless="uninitialized-read")(
        x=np.where(np.arange(40).reshape(8, 5) < 25, 1.0, -1.0).astype(np.float32),
        y=Out(8, "int32"),
    )("""
        uint row = thread_position_in_grid.x;
        int at;
        float best = 0;
        for (int c = 0; c < 5; ++c) {
          float v = x[row * 5 + c];
          if (v > best) {
            best = v;
            at = c;
          }
        }
        y[row] = at;  // <- uninitialized-read
    """),
    kernel("table_built_by_the_first_group_alone", (96, 32))(
        codes=integers(0, 32, 96, dtype="uint8"), y=Out(96)
    )("""
        threadgroup float table[32];
        if (threadgroup_position_in_grid.x == 0) table[lid] = exp(-0.1f * float(lid));
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uchar c = codes[thread_position_in_grid.x];
        y[thread_position_in_grid.x] = table[c];  // <- uninitialized-read
    """),
    kernel("corners_of_a_halo", ((8, 8), (8, 8)))(x=floats(10, 10), y=Out(8, 8))("""
        threadgroup float tile[10][10];
        uint3 t = thread_position_in_threadgroup;
        tile[t.y + 1][t.x + 1] = x[(t.y + 1) * 10 + t.x + 1];
        if (t.y == 0) {
          tile[0][t.x + 1] = x[t.x + 1];
          tile[9][t.x + 1] = x[90 + t.x + 1];
        }
        if (t.x == 0) {
          tile[t.y + 1][0] = x[(t.y + 1) * 10];
          tile[t.y + 1][9] = x[(t.y + 1) * 10 + 9];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float s = 0;
        for (uint dy = 0; dy < 3; ++dy) {
          for (uint dx = 0; dx < 3; ++dx) s += tile[t.y + dy][t.x + dx];  // <- uninitialized-read
        }
        y[t.y * 8 + t.x] = s;
    """),
    kernel("partials_of_simdgroups_that_do_not_exist", (256, 128))(x=floats(256), y=Out(2))("""
        threadgroup float partial[32];
        float s = simd_sum(x[thread_position_in_grid.x]);
        if (lane == 0) partial[sg] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (sg == 0) {
          float v = partial[lane];  // <- uninitialized-read
          v = simd_sum(v);
          if (lane == 0) y[threadgroup_position_in_grid.x] = v;
        }
    """),
    kernel("previous_step_of_a_recurrence_on_the_output", 9)(
        T_LEN=5, x=floats(5, 9), y=Out(5, 9)
    )("""
        uint c = thread_position_in_grid.x, width = threads_per_grid.x;
        for (int t = 0; t < T_LEN; ++t) {
          float h = 0.9f * y[(t + T_LEN - 1) % T_LEN * width + c];  // <- uninitialized-read
          y[t * width + c] = h + x[t * width + c];
        }
    """),
    kernel("minimum_without_a_first_value", 64)(
        x=integers(5, 99, 64, dtype="uint32"), y=Out(64, "uint32")
    )("""
        uint least;
        for (uint k = 0; k < 4; ++k) least = min(least, x[(i + k) % 64]);  // <- uninitialized-read
        y[i] = least;
    """),
    kernel("running_softmax_without_a_first_denominator", 64)(x=floats(64), y=Out(64))("""
        struct Running { float most; float sum; };
        inline Running with(Running r, float v) {
          float most = max(r.most, v);
          r.sum = r.sum * exp(r.most - most) + exp(v - most);
          r.most = most;
          return r;
        }
        // body
        Running r;
        r.most = -INFINITY;
        for (uint k = 0; k < 4; ++k) r = with(r, x[(i + k) % 64]);
        y[i] = r.most + log(r.sum);  // <- uninitialized-read
    """),
    kernel("undefined_times_zero", 64)(x=floats(64), y=Out(64))("""
        float part[4];
        for (uint k = 0; k < 3; ++k) part[k] = x[i] + k;
        float s = 0;
        for (uint k = 0; k < 4; ++k) s += part[k] * (k < 3 ? 1.0f : 0.0f);
        y[i] = s;  // <- uninitialized-read
    """),
    kernel("grid_counted_in_threadgroups", (4, 16))(x=floats(64), y=Out(64))("""
        y[i] = x[i] * 3;  // <- unwritten-output
    """),
    kernel("guard_stops_one_short", (24, 8))(x=halves(24), y=Out(24, "float16"))("""
        if (i < uint(x_shape[0]) - 1)
          y[i] = x[i] + x[i + 1];  // <- unwritten-output
    """),
    kernel("every_other_element", (18, 9))(
        x=integers(0, 99, 18, dtype="int16"), y=Out(36, "int16")
    )("""
        y[2 * i] = x[i];  // <- unwritten-output
    """),
    kernel("second_output_of_the_masked_rows", (20, 10))(
        x=floats(20), mask=np.arange(20) % 3 != 1, value=Out(20), logit=Out(20)
    )("""
        value[i] = x[i];
        if (mask[i])
          logit[i] = log(max(x[i], 1e-6f));  // <- unwritten-output
    """),
    kernel("rows_padded_to_a_multiple", ((13, 4), 13))(x=floats(4, 13), y=Out(4, 16))("""
        uint3 at = thread_position_in_grid;
        y[at.y * 16 + at.x] = x[at.y * 13 + at.x];  // <- unwritten-output
    """),
    kernel("vector_loop_forgets_the_rest", 8)(x=floats(30), y=Out(30))("""
        uint quads = 30 / 4;
        if (i < quads) {
          float4 v = ((const device float4*)x)[i];
          ((device float4*)y)[i] = sqrt(abs(v));  // <- unwritten-output
        }
    """),
    kernel("early_return_before_the_store", 6)(
        x=np.where(np.arange(24).reshape(6, 4) // 4 == 2, 0, 1.5).astype(np.float32), y=Out(6, 4)
    )("""
        uint row = thread_position_in_grid.x;
        float s = 0;
        for (uint k = 0; k < 4; ++k) s += x[row * 4 + k];
        if (s == 0.0f) return;
        for (uint k = 0; k < 4; ++k) y[row * 4 + k] = x[row * 4 + k] / s;  // <- unwritten-output
    """),
    kernel("edge_tiles_of_a_transpose", ((24, 16), (8, 8)))(
        T="bfloat16", x=Array(floats(16, 20), dtype="bfloat16"), y=Out(20, 16, "bfloat16")
    )("""
        threadgroup T tile[8][9];
        uint3 t = thread_position_in_threadgroup, g = threadgroup_position_in_grid;
        uint rows = x_shape[0], columns = x_shape[1];
        if ((g.x + 1) * 8 > columns) return;
        tile[t.y][t.x] = x[(g.y * 8 + t.y) * columns + g.x * 8 + t.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[(g.x * 8 + t.y) * rows + g.y * 8 + t.x] = tile[t.x][t.y];  // <- unwritten-output
    """),
    kernel("imaginary_parts", 12)(x=floats(12), y=Out(12, "complex64"))("""
        device float* parts = (device float*)y;
        parts[2 * i] = cos(x[i]);  // <- unwritten-output
    """),
    kernel("mem_none_between_store_and_load", 64)(x=floats(64), y=Out(64))("""
        threadgroup float tile[64];
        tile[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lid] = tile[63 - lid];
    """),
    kernel("device_flag_for_threadgroup_memory", 128)(x=floats(128), y=Out(128))("""
        threadgroup float partial[4];
        float s = simd_sum(x[lid]);
        if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = s;
        threadgroup_barrier(mem_flags::mem_device);  // <- wrong-mem-flags
        y[lid] = partial[0] + partial[1] + partial[2] + partial[3];
    """),
    kernel("threadgroup_flag_for_device_memory", (192, 96))(
        x=floats(192), scratch=Out(192), y=Out(192)
    )("""
        uint base = threadgroup_position_in_grid.x * 96;
        scratch[base + lid] = x[base + lid] * 2;
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- wrong-mem-flags
        y[base + lid] = scratch[base + (lid + 48) % 96];
    """),
    kernel("mem_none_for_device_memory", 64)(
        x=halves(64), scale=Out(1, "float16"), y=Out(64, "float16")
    )("""
        if (lid == 0) scale[0] = half(rsqrt(float(x[0]) * float(x[0]) + 1.0f));
        threadgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lid] = x[lid] * scale[0];
    """),
    kernel("only_threadgroup_flag_though_both_move", 64)(x=floats(64), stage=Out(64), y=Out(64))("""
        threadgroup float tile[64];
        tile[lid] = x[lid];
        stage[lid] = x[lid] + 1;
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- wrong-mem-flags
        y[lid] = tile[63 - lid] + stage[63 - lid];
    """),
    kernel("texture_flag_in_a_loop", 64)(x=integers(0, 9, 64), y=Out(64, "int32"))("""
        threadgroup int cells[2][64];
        int v = x[lid];
        for (int r = 0; r < 4; ++r) {
          cells[r & 1][lid] = v;
          threadgroup_barrier(mem_flags::mem_texture);  // <- wrong-mem-flags
          v += cells[r & 1][(lid + 32) % 64];
        }
        y[lid] = v;
    """),
    kernel("simdgroup_barrier_without_memory", 32)(x=floats(32), y=Out(32))("""
        threadgroup float swap[32];
        swap[lane] = x[lane];
        simdgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lane] = swap[31 - lane];
    """),
)
