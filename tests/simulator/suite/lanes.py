"""Bugs: simdgroup operations that not all lanes reach."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_VALUES = frozenset({"order-dependent", "uninitialized-read"})


BUGS = (
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
        "pair_sums_in_a_loop_of_uneven_length",
        """
        uint lane = thread_index_in_simdgroup;
        float total = 0;
        for (uint c = lane; c < 45; c += 32) {
          total += x[c] + simd_shuffle_xor(x[c], 1);  // <- divergent-simd
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
    Case(
        "minimum_with_missing_lanes",
        """
        uint v = x[thread_position_in_grid.x];
        for (ushort m = 16; m; m >>= 1) v = min(v, simd_shuffle_xor(v, m));  // <- divergent-simd
        y[thread_position_in_grid.x] = v;
        """,
        {"x": Array(integers(5, 99, 20, dtype="uint32"))},
        {"y": Out((20,), "uint32")},
        (20, 1, 1),
        (20, 1, 1),
        also=_VALUES,
    ),
)
