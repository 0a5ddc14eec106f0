"""Bugs: accesses beyond device buffers and shape tables."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, floats, halves, integers, kernel

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
          float key;
          float weight;
        };
        // body
        const device Pair* pairs = reinterpret_cast<const device Pair*>(x);
        float w = pairs[i].weight;  // <- out-of-bounds
        y[i] = w + pairs[i].key;
    """),
)
