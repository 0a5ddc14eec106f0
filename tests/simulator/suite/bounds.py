"""Bugs: memory out of bounds, in device and threadgroup memory."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from tests.simulator.suite.case import Array, Out, floats, halves, integers, kernel

BUGS = (
    kernel("difference_reads_one_past_the_end", (48, 16))(x=floats(48), y=Out(48))("""
        float here = x[i];
        float next = x[i + 1];  // <- out-of-bounds
        y[i] = next - here;
    """),
    kernel("gather_far_outside", 9)(
        rows=np.array([0, 3, 1, 4, 5, 3_000_000, 2, 0, 1], dtype=np.int64),
        table=floats(6, 4),
        y=Out(9, 4),
    )("""
        long row = rows[i];
        for (uint c = 0; c < 4; ++c) y[i * 4 + c] = table[row * 4 + c];  // <- out-of-bounds
    """),
    kernel("left_neighbour_of_the_first", (33, 11))(
        T="float16", x=halves(33), y=Out(33, "float16")
    )("""
        int i = thread_position_in_grid.x;
        y[i] = T(0.5f) * (x[i] + x[i - 1]);  // <- out-of-bounds
    """),
    kernel("unsigned_index_wraps", 20)(x=integers(-9, 9, 20), y=Out(20, "int32"))("""
        uint before = i - 1;
        if (before >= 0) {
          y[i] = x[before];  // <- out-of-bounds
        } else {
          y[i] = 0;
        }
    """),
    kernel("grid_rounded_up_without_a_guard", (128, 64))(alpha=np.float32(0.25), y=Out(100))("""
        y[i] = 2.0f * alpha;  // <- out-of-bounds
    """),
    kernel("store_scaled_by_the_wrong_stride", ((10, 6), (5, 2)), also="unwritten-output")(
        x=floats(6, 10), y=Out(6, 10)
    )("""
        uint3 at = thread_position_in_grid;
        uint columns = x_shape[1];
        float v = x[at.y * columns + at.x];
        y[at.y * columns * 2 + at.x] = v;  // <- out-of-bounds
    """),
    kernel("one_tap_too_many_of_a_small_input", 36)(
        TAPS=4, x=floats(40), taps=floats(3, seed=1), y=Out(36)
    )("""
        float acc = 0;
        for (uint k = 0; k < TAPS; ++k) acc += taps[k] * x[i + k];  // <- out-of-bounds
        y[i] = acc;
    """),
    kernel("scalar_taken_for_a_list", 16)(x=floats(16), limit=np.float32(0.5), y=Out(16))("""
        auto range = &limit;
        float low = -range[0];
        float high = range[1];  // <- out-of-bounds
        y[i] = metal::clamp(x[i], low, high);
    """),
    kernel("third_axis_of_a_matrix", (32, 8))(x=floats(4, 8), y=Out(4, 8))("""
        int depth = x_shape[2];  // <- out-of-bounds
        y[i] = depth > 1 ? x[i] : -x[i];
    """),
    kernel("helper_reads_past_the_row", 5)(x=floats(5, 12), y=Out(5))("""
        template <typename P>
        inline float window_mean(P row, int width) {
          float total = 0;
          for (int k = 0; k <= width; ++k) total += row[k];  // <- out-of-bounds
          return total / width;
        }
        // body
        uint row = thread_position_in_grid.x;
        y[row] = window_mean(x + row * 12, 12);
    """),
    kernel("float4_load_over_the_tail", 8)(x=floats(30), y=Out(30))("""
        float4 v = ((const device float4*)x)[i];  // <- out-of-bounds
        float4 w = v * v;
        for (uint k = 0; k < 4 && 4 * i + k < 30; ++k) y[4 * i + k] = w[k];
    """),
    kernel("char4_store_over_the_tail", 16)(
        shift=np.array([3], dtype=np.uint8), y=Out(62, "uint8")
    )("""
        uchar4 v;
        for (int k = 0; k < 4; ++k) v[k] = uchar(min(4 * i + k, 61u));
        *(device uchar4*)(y + 4 * i) = v + shift[0];  // <- out-of-bounds
    """),
    kernel("packed_triples_of_an_odd_array", 11)(x=floats(31), y=Out(11))("""
        const device packed_float3* points = (const device packed_float3*)x;
        float3 p = points[i];  // <- out-of-bounds
        y[i] = length(p);
    """),
    kernel("struct_behind_an_odd_array", 13)(x=floats(25), y=Out(13))("""
        struct Pair {
          float key, weight;
        };
        // body
        const device Pair* pairs = reinterpret_cast<const device Pair*>(x);
        float w = pairs[i].weight;  // <- out-of-bounds
        y[i] = w + pairs[i].key;
    """),
    kernel("broadcast_read_as_if_it_were_full", (32, 8), contiguous=False)(
        x=Array(floats(1, 8), view=lambda a: mx.broadcast_to(a, (4, 8))), y=Out(4, 8)
    )("""
        y[i] = x[i] * 2;  // <- out-of-bounds
    """),
    kernel("reversed_view_read_forwards", (24, 12), contiguous=False)(
        x=Array(integers(0, 50, 24), view=lambda a: a[::-1]), y=Out(24, "int32")
    )("""
        y[i] = x[i] + 1;  // <- out-of-bounds
    """),
    kernel("strides_of_the_wrong_axis", ((9, 3), 9), contiguous=False)(
        x=Array(floats(3, 18), view=lambda a: a[:, ::2]), y=Out(3, 9)
    )("""
        uint3 at = thread_position_in_grid;
        uint where = at.y * x_strides[1] + at.x * x_strides[0];
        y[at.y * 9 + at.x] = x[where];  // <- out-of-bounds
    """),
    kernel("pointer_walk_with_less_or_equal", ((1, 7), (1, 7)))(
        T="bfloat16", x=Array(floats(7, 9), dtype="bfloat16"), y=Out(7, "bfloat16")
    )("""
        uint row = thread_position_in_grid.y;
        const device T* p = x + row * 9;
        const device T* end = p + 9;
        float best = -INFINITY;
        while (p <= end) {
          best = metal::max(best, float(*p));  // <- out-of-bounds
          ++p;
        }
        y[row] = T(best);
    """),
    kernel("short_load_over_an_odd_byte", 17)(
        bytes=integers(0, 256, 33, dtype="uint8"), y=Out(17, "uint32")
    )("""
        ushort both = ((const device ushort*)bytes)[i];  // <- out-of-bounds
        y[i] = (both & 0xff) + (both >> 8);
    """),
    kernel("histogram_bin_that_is_not_there", (51, 17), init=0, atomic=True)(
        BINS=10, x=np.linspace(0, 1, 51, dtype=np.float32), counts=Out(10, "int32")
    )("""
        int bin = int(x[i] * BINS);
        atomic_fetch_add_explicit(&counts[bin], 1, memory_order_relaxed);  // <- out-of-bounds
    """),
    kernel("matrix_tile_over_the_last_row", 32)(x=floats(7, 8), y=Out(8, 8))("""
        simdgroup_float8x8 m;
        simdgroup_load(m, x, 8);  // <- out-of-bounds
        simdgroup_store(m, y, 8);
    """),
    kernel("matrix_stored_with_a_wide_stride", 64, also="unwritten-output")(
        x=halves(8, 16), y=Out(8, 16, "float16")
    )("""
        uint tile = simdgroup_index_in_threadgroup;
        simdgroup_half8x8 m;
        simdgroup_load(m, x + tile * 8, 16);
        simdgroup_store(m, y + tile * 8, 18);  // <- out-of-bounds
    """),
    kernel("second_half_of_a_split_that_is_uneven", 14)(
        x=floats(27), n=np.array([27], dtype=np.uint32), y=Out(14)
    )("""
        uint half_size = (n[0] + 1) / 2;
        float a = x[i];
        float b = x[i + half_size];  // <- out-of-bounds
        y[i] = a * cos(b);
    """),
    kernel("read_first_and_bounds_checked_after", (21, 7))(x=floats(21), y=Out(21))("""
        float v = x[i + 3];  // <- out-of-bounds
        bool inside = i + 3 < uint(x_shape[0]);
        y[i] = inside ? v : 0.0f;
    """),
    kernel("relu_in_place", (64, 32))(x=floats(64), y=Out(64))("""
        device float* p = (device float*)x;
        if (p[i] < 0)
          p[i] = 0;  // <- write-to-input
        y[i] = p[i];
    """),
    kernel("counts_into_an_input", (40, 20))(
        keys=integers(0, 99, 40, dtype="uint32"),
        counts=np.zeros(8, dtype=np.uint32),
        y=Out(40, "uint32"),
    )("""
        device atomic_uint* tally = (device atomic_uint*)counts;
        uint bin = keys[i] & 7;
        atomic_fetch_add_explicit(&tally[bin], 1u, memory_order_relaxed);  // <- write-to-input
        y[i] = bin;
    """),
    kernel("helper_clamps_its_argument", (40, 8))(x=floats(40) * 3, y=Out(40))("""
        template <typename T>
        void clamp_in_place(device T* p, T low, T high) {
          *p = metal::clamp(*p, low, high);  // <- write-to-input
        }
        // body
        clamp_in_place(const_cast<device float*>(x + i), -1.0f, 1.0f);
        y[i] = x[i];
    """),
    kernel("stencil_past_the_tile", (128, 64))(x=floats(128), y=Out(128))("""
        threadgroup float tile[64];
        tile[lid] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float right = tile[lid + 1];  // <- out-of-bounds
        y[i] = right - tile[lid];
    """),
    kernel("scan_before_the_first", 32)(x=integers(0, 9, 32), y=Out(32, "int32"))("""
        threadgroup int sums[32];
        int lid = thread_index_in_threadgroup;
        sums[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int before = sums[lid - 1];  // <- out-of-bounds
        y[lid] = before;
    """),
    kernel("partials_for_too_few_simdgroups", (192, 96))(x=floats(192), y=Out(2))("""
        threadgroup float partial[2];
        uint group = simdgroup_index_in_threadgroup;
        float s = simd_sum(x[thread_position_in_grid.x]);
        if (lane == 0) partial[group] = s;  // <- out-of-bounds
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (thread_position_in_threadgroup.x == 0)
          y[threadgroup_position_in_grid.x] = partial[0] + partial[1];
    """),
    kernel("column_runs_into_the_next_row", ((4, 8), (4, 8)))(
        x=halves(8, 12), y=Out(8, 4, "float16")
    )("""
        threadgroup half tile[8][12];
        uint3 t = thread_position_in_threadgroup;
        for (uint c = t.x; c < 12; c += 4) tile[t.y][c] = x[t.y * 12 + c];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        half s = 0;
        for (uint k = 0; k < 6; ++k) s += tile[t.y][3 * t.x + k];  // <- out-of-bounds
        y[t.y * 4 + t.x] = t.y == 7 ? half(0) : s;
    """),
    kernel("stride_of_a_transpose_without_its_padding", ((32, 16), (16, 16)))(
        x=floats(16, 32), y=Out(32, 16)
    )("""
        threadgroup float tile[16 * 16];
        uint3 t = thread_position_in_threadgroup;
        uint width = x_shape[1];
        uint3 g = thread_position_in_grid;
        tile[t.y * 17 + t.x] = x[g.y * width + g.x];  // <- out-of-bounds
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint column = threadgroup_position_in_grid.y * 16 + t.x;
        uint row = threadgroup_position_in_grid.x * 16 + t.y;
        y[row * x_shape[0] + column] = tile[t.x * 17 + t.y];  // <- out-of-bounds
    """),
    kernel("helper_stores_past_the_row", 32)(x=floats(32), y=Out(32))("""
        inline void put(threadgroup float* row, uint at, float v) {
          row[at] = v;  // <- out-of-bounds
        }
        // body
        threadgroup float row[24];
        put(row, lid, x[lid]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = row[23 - min(lid, 23u)];
    """),
    kernel("threadgroup_bin_from_unchecked_data", 41)(
        keys=np.array([*range(8)] * 5 + [8], dtype=np.uint8), y=Out(8, "uint32")
    )("""
        threadgroup atomic_uint bins[8];
        if (lid < 8) atomic_store_explicit(&bins[lid], 0u, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        atomic_fetch_add_explicit(&bins[keys[lid]], 1u, memory_order_relaxed);  // <- out-of-bounds
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 8) y[lid] = atomic_load_explicit(&bins[lid], memory_order_relaxed);
    """),
    kernel("vector_load_past_a_threadgroup_array", 40)(x=floats(36), y=Out(10))("""
        threadgroup float row[36];
        uint lid = thread_index_in_threadgroup;
        if (lid < 36) row[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 10) {
          float4 v = *(threadgroup float4*)(row + 4 * lid);  // <- out-of-bounds
          y[lid] = v.x + v.w;
        }
    """),
    kernel("private_accumulators_counted_one_too_far", 9)(
        x=floats(9, 4), n=np.int32(8), y=Out(9)
    )("""
        float acc[4] = {0, 0, 0, 0};
        int used = int(n) - 3;
        for (int k = 0; k < used; ++k) acc[k] += x[i * 4 + (k & 3)];  // <- out-of-bounds
        y[i] = acc[0] + acc[1] + acc[2] + acc[3];
    """),
    kernel("private_bins_from_data", (6, 3))(
        labels=integers(0, 6, 6, 16, seed=3, dtype="uint8"), mode=Out(6, "uint16")
    )("""
        uint row = thread_position_in_grid.x;
        ushort count[5];
        for (uint b = 0; b < 5; ++b) count[b] = 0;
        for (uint k = 0; k < 16; ++k) count[labels[row * 16 + k]]++;  // <- out-of-bounds
        ushort best = 0;
        for (uint b = 1; b < 5; ++b) best = count[b] > count[best] ? b : best;
        mode[row] = best;
    """),
    kernel("top_k_insert_before_the_front", 4, also="uninitialized-read")(
        x=np.sort(floats(4, 10), axis=1), y=Out(4, 3)
    )("""
        uint row = thread_position_in_grid.x;
        float top[3] = {-INFINITY, -INFINITY, -INFINITY};
        for (int c = 0; c < 10; ++c) {
          float v = x[row * 10 + c];
          if (v > top[2]) {
            int at = 2;
            while (v > top[at - 1]) {  // <- out-of-bounds
              top[at] = top[at - 1];  // <- out-of-bounds
              --at;
              if (at < 0) break;
            }
            top[max(at, 0)] = v;
          }
        }
        for (int k = 0; k < 3; ++k) y[row * 3 + k] = top[k];
    """),
    kernel("constant_table_in_the_header", 64)(
        codes=integers(0, 17, 64, seed=5, dtype="uint8"), y=Out(64)
    )("""
        constant float kLevels[16] = {-1.0f, -0.7f, -0.5f, -0.4f, -0.3f, -0.2f, -0.1f, 0.0f,
                                      0.1f,  0.2f,  0.3f,  0.4f,  0.5f,  0.6f,  0.7f,  1.0f};
        // body
        y[i] = kLevels[codes[i]];  // <- out-of-bounds
    """),
    kernel("end_of_a_row_of_vectors", 32)(x=floats(32), y=Out(32))("""
        threadgroup float4 t[8][4];
        t[lid / 4][lid % 4] = float4(0);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 5) t[0][lid] = float4(x[lid]);  // <- out-of-bounds
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = t[lid / 4][lid % 4].x;
    """),
    kernel("end_of_a_members_pairs", 8)(x=halves(8), y=Out(8, "float16"))("""
        struct Rows { half2 low[3]; half2 high[3]; };
        // body
        Rows rows = {};
        for (uint k = 0; k <= 3; ++k) {
          half2 sum = rows.low[k] + half2(x[i]);  // <- out-of-bounds
          rows.low[k % 3] = sum;
        }
        y[i] = rows.low[0].x + rows.high[2].y;
    """),
    kernel("end_of_a_row_of_matrices", 32)(x=floats(8, 8), y=Out(8, 8))("""
        simdgroup_float8x8 parts[2][3];
        for (int r = 0; r < 2; ++r)
          for (int c = 0; c < 3; ++c) parts[r][c] = simdgroup_float8x8(0.0f);
        for (int c = 1; c <= 3; ++c)
          simdgroup_load(parts[0][c], x, 8);  // <- out-of-bounds
        simdgroup_store(parts[1][0], y, 8);
    """),
)
