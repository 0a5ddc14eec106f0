"""Bugs: simdgroup operations that not all lanes reach."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, count, floats, halves, integers, kernel

BUGS = (
    kernel("shuffle_from_lanes_outside_the_branch", 32)(x=floats(32), y=Out(32))("""
        float v = x[lane];
        if (lane < 16) v += simd_shuffle(v, ushort(lane + 16));  // <- divergent-simd
        y[lane] = v;
    """),
    kernel("broadcast_from_the_lane_that_stayed_out", 64)(x=floats(64), y=Out(64))("""
        float v = x[thread_position_in_grid.x];
        float r = v;
        if (lane != 0) r = v - simd_broadcast(v, 0);  // <- divergent-simd
        y[thread_position_in_grid.x] = r;
    """),
    kernel("butterfly_among_the_positive", 32)(
        x=np.where(np.arange(32) % 3 == 0, -1.0, 1.0 + np.arange(32)).astype("f4"), y=Out(32)
    )("""
        float v = x[lane];
        if (v > 0) {
          for (ushort m = 16; m > 0; m >>= 1)
            v = max(v, simd_shuffle_xor(v, m));  // <- divergent-simd
        }
        y[lane] = v;
    """),
    kernel("shuffle_down_after_some_have_returned", 32)(x=floats(20), y=Out(20))("""
        if (i >= 20) return;
        float v = x[i];
        float next = simd_shuffle_down(v, 1);  // <- divergent-simd
        y[i] = next - v;
    """),
    kernel("mean_taken_in_both_branches", (64, 32))(x=floats(64), y=Out(64))("""
        float v = x[thread_position_in_grid.x];
        float r;
        if (lane < 16) {
          r = v - simd_sum(v) / 32;  // <- divergent-simd
        } else {
          r = v + simd_sum(v) / 32;  // <- divergent-simd
        }
        y[thread_position_in_grid.x] = r;
    """),
    kernel("pair_sums_in_a_loop_of_uneven_length", 32)(x=floats(45), y=Out(32))("""
        float total = 0;
        for (uint c = lane; c < 45; c += 32)
          total += x[c] + simd_shuffle_xor(x[c], 1);  // <- divergent-simd
        y[lane] = total;
    """),
    kernel("matrix_product_of_half_a_simdgroup", 32)(
        x=floats(8, 8), w=floats(8, 8, seed=1), y=Out(8, 8)
    )("""
        simdgroup_float8x8 a, b, c;
        simdgroup_load(a, x, 8);
        simdgroup_load(b, w, 8);
        c = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        if (thread_index_in_simdgroup < 16)
          simdgroup_multiply_accumulate(c, a, b, c);  // <- divergent-simd
        simdgroup_store(c, y, 8);
    """),
    kernel("matrix_load_guarded_by_lane", 32)(
        x=halves(8, 8), n=np.uint32(30), y=Out(8, 8, "float16")
    )("""
        simdgroup_half8x8 m = make_filled_simdgroup_matrix<half, 8, 8>(0.0h);
        if (i < n) simdgroup_load(m, x, 8);  // <- divergent-simd
        simdgroup_store(m, y, 8);
    """),
    kernel("matrix_in_a_simdgroup_of_sixteen", 48, also="unwritten-output")(
        x=floats(2, 64), y=Out(2, 64)
    )("""
        simdgroup_float8x8 m;
        simdgroup_load(m, x + 64 * sg, 8);  // <- divergent-simd
        simdgroup_store(m, y + 64 * sg, 8);  // <- divergent-simd
    """),
    kernel("shuffle_while_lengths_differ", 32)(
        x=integers(0, 9, 32), steps=1 + count(32) // 11, y=Out(32, "int32")
    )("""
        int v = x[lane];
        for (int k = 0; k < steps[lane]; ++k)
          v += simd_shuffle(v, ushort((lane + 1) % 32));  // <- divergent-simd
        y[lane] = v;
    """),
    kernel("quad_neighbour_that_is_masked", (40, 8))(
        x=floats(40), mask=np.arange(40) % 7 != 2, y=Out(40)
    )("""
        float v = x[i];
        if (mask[i])
          v = v - quad_shuffle_xor(v, 1);  // <- divergent-simd
        y[i] = v;
    """),
    kernel("last_lane_of_a_short_simdgroup", (72, 36))(x=integers(1, 5, 72), y=Out(72, "int32"))("""
        int total = simd_broadcast(simd_prefix_inclusive_sum(x[i]), 31);  // <- divergent-simd
        y[i] = total;
    """),
    kernel("shuffle_to_the_lane_after_the_last", 32)(x=halves(32), y=Out(32, "float16"))("""
        half v = x[lane];
        half next = simd_shuffle(v, ushort(lane + 1));  // <- divergent-simd
        y[lane] = next - v;
    """),
    kernel("minimum_with_missing_lanes", 20)(
        x=integers(5, 99, 20, dtype="uint32"), y=Out(20, "uint32")
    )("""
        uint v = x[thread_position_in_grid.x];
        for (ushort m = 16; m; m >>= 1) v = min(v, simd_shuffle_xor(v, m));  // <- divergent-simd
        y[thread_position_in_grid.x] = v;
    """),
)
