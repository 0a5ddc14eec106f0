"""Bugs: accesses beyond device buffers and shape tables, and writes to inputs."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_HELPERS = """
template <typename P>
inline float window_mean(P row, int width) {
  float total = 0;
  for (int k = 0; k <= width; ++k) {
    total += row[k];  // <- out-of-bounds
  }
  return total / width;
}
"""

_PAIR = """
struct Pair {
  float key;
  float weight;
};
"""

_CLAMP = """
template <typename T>
void clamp_in_place(device T* p, T low, T high) {
  *p = metal::clamp(*p, low, high);  // <- write-to-input
}
"""

BUGS = (
    Case(
        "difference_reads_one_past_the_end",
        """
        uint i = thread_position_in_grid.x;
        float here = x[i];
        float next = x[i + 1];  // <- out-of-bounds
        y[i] = next - here;
        """,
        {"x": Array(floats(48))},
        {"y": Out((48,))},
        (48, 1, 1),
        (16, 1, 1),
    ),
    Case(
        "gather_far_outside",
        """
        uint i = thread_position_in_grid.x;
        long row = rows[i];
        for (uint c = 0; c < 4; ++c) {
          y[i * 4 + c] = table[row * 4 + c];  // <- out-of-bounds
        }
        """,
        {
            "rows": Array(np.array([0, 3, 1, 4, 5, 3_000_000, 2, 0, 1], dtype=np.int64)),
            "table": Array(floats(6, 4)),
        },
        {"y": Out((9, 4))},
        (9, 1, 1),
        (9, 1, 1),
    ),
    Case(
        "left_neighbour_of_the_first",
        """
        int i = thread_position_in_grid.x;
        y[i] = T(0.5f) * (x[i] + x[i - 1]);  // <- out-of-bounds
        """,
        {"x": Array(floats(33).astype(np.float16))},
        {"y": Out((33,), "float16")},
        (33, 1, 1),
        (11, 1, 1),
        template=(("T", "float16"),),
    ),
    Case(
        "unsigned_index_wraps",
        """
        uint i = thread_position_in_grid.x;
        uint before = i - 1;
        if (before >= 0) {
          y[i] = x[before];  // <- out-of-bounds
        } else {
          y[i] = 0;
        }
        """,
        {"x": Array(integers(-9, 9, 20))},
        {"y": Out((20,), "int32")},
        (20, 1, 1),
        (20, 1, 1),
    ),
    Case(
        "grid_rounded_up_without_a_guard",
        """
        uint i = thread_position_in_grid.x;
        y[i] = 2.0f * alpha;  // <- out-of-bounds
        """,
        {"alpha": Array(np.float32(0.25))},
        {"y": Out((100,))},
        (128, 1, 1),
        (64, 1, 1),
    ),
    Case(
        "store_scaled_by_the_wrong_stride",
        """
        uint3 at = thread_position_in_grid;
        uint columns = x_shape[1];
        float v = x[at.y * columns + at.x];
        y[at.y * columns * 2 + at.x] = v;  // <- out-of-bounds
        """,
        {"x": Array(floats(6, 10))},
        {"y": Out((6, 10))},
        (10, 6, 1),
        (5, 2, 1),
        also=frozenset({"unwritten-output"}),
    ),
    Case(
        "one_tap_too_many_of_a_small_input",
        """
        uint i = thread_position_in_grid.x;
        float acc = 0;
        for (uint k = 0; k < TAPS; ++k) {
          acc += taps[k] * x[i + k];  // <- out-of-bounds
        }
        y[i] = acc;
        """,
        {"x": Array(floats(40)), "taps": Array(floats(3, seed=1))},
        {"y": Out((36,))},
        (36, 1, 1),
        (36, 1, 1),
        template=(("TAPS", 4),),
    ),
    Case(
        "scalar_taken_for_a_list",
        """
        uint i = thread_position_in_grid.x;
        auto range = &limit;
        float low = -range[0];
        float high = range[1];  // <- out-of-bounds
        y[i] = metal::clamp(x[i], low, high);
        """,
        {"x": Array(floats(16)), "limit": Array(np.float32(0.5))},
        {"y": Out((16,))},
        (16, 1, 1),
        (16, 1, 1),
    ),
    Case(
        "third_axis_of_a_matrix",
        """
        uint i = thread_position_in_grid.x;
        int depth = x_shape[2];  // <- out-of-bounds
        y[i] = depth > 1 ? x[i] : -x[i];
        """,
        {"x": Array(floats(4, 8))},
        {"y": Out((4, 8))},
        (32, 1, 1),
        (8, 1, 1),
    ),
    Case(
        "helper_reads_past_the_row",
        """
        uint row = thread_position_in_grid.x;
        y[row] = window_mean(x + row * 12, 12);
        """,
        {"x": Array(floats(5, 12))},
        {"y": Out((5,))},
        (5, 1, 1),
        (5, 1, 1),
        header=_HELPERS,
    ),
    Case(
        "float4_load_over_the_tail",
        """
        uint i = thread_position_in_grid.x;
        float4 v = ((const device float4*)x)[i];  // <- out-of-bounds
        float4 w = v * v;
        for (uint k = 0; k < 4 && 4 * i + k < 30; ++k) {
          y[4 * i + k] = w[k];
        }
        """,
        {"x": Array(floats(30))},
        {"y": Out((30,))},
        (8, 1, 1),
        (8, 1, 1),
    ),
    Case(
        "char4_store_over_the_tail",
        """
        uint i = thread_position_in_grid.x;
        uchar4 v;
        for (int k = 0; k < 4; ++k) {
          v[k] = uchar(min(4 * i + k, 61u));
        }
        *(device uchar4*)(y + 4 * i) = v + shift[0];  // <- out-of-bounds
        """,
        {"shift": Array(np.array([3], dtype=np.uint8))},
        {"y": Out((62,), "uint8")},
        (16, 1, 1),
        (16, 1, 1),
    ),
    Case(
        "packed_triples_of_an_odd_array",
        """
        uint i = thread_position_in_grid.x;
        const device packed_float3* points = (const device packed_float3*)x;
        float3 p = points[i];  // <- out-of-bounds
        y[i] = length(p);
        """,
        {"x": Array(floats(31))},
        {"y": Out((11,))},
        (11, 1, 1),
        (11, 1, 1),
    ),
    Case(
        "struct_behind_an_odd_array",
        """
        uint i = thread_position_in_grid.x;
        const device Pair* pairs = reinterpret_cast<const device Pair*>(x);
        float w = pairs[i].weight;  // <- out-of-bounds
        y[i] = w + pairs[i].key;
        """,
        {"x": Array(floats(25))},
        {"y": Out((13,))},
        (13, 1, 1),
        (13, 1, 1),
        header=_PAIR,
    ),
    Case(
        "broadcast_read_as_if_it_were_full",
        """
        uint i = thread_position_in_grid.x;
        y[i] = x[i] * 2;  // <- out-of-bounds
        """,
        {"x": Array(floats(1, 8), view=lambda a: mx.broadcast_to(a, (4, 8)))},
        {"y": Out((4, 8))},
        (32, 1, 1),
        (8, 1, 1),
        ensure_row_contiguous=False,
    ),
    Case(
        "reversed_view_read_forwards",
        """
        uint i = thread_position_in_grid.x;
        y[i] = x[i] + 1;  // <- out-of-bounds
        """,
        {"x": Array(integers(0, 50, 24), view=lambda a: a[::-1])},
        {"y": Out((24,), "int32")},
        (24, 1, 1),
        (12, 1, 1),
        ensure_row_contiguous=False,
    ),
    Case(
        "strides_of_the_wrong_axis",
        """
        uint3 at = thread_position_in_grid;
        uint where = at.y * x_strides[1] + at.x * x_strides[0];
        y[at.y * 9 + at.x] = x[where];  // <- out-of-bounds
        """,
        {"x": Array(floats(3, 18), view=lambda a: a[:, ::2])},
        {"y": Out((3, 9))},
        (9, 3, 1),
        (9, 1, 1),
        ensure_row_contiguous=False,
    ),
    Case(
        "pointer_walk_with_less_or_equal",
        """
        uint row = thread_position_in_grid.y;
        const device T* p = x + row * 9;
        const device T* end = p + 9;
        float best = -INFINITY;
        while (p <= end) {
          best = metal::max(best, float(*p));  // <- out-of-bounds
          ++p;
        }
        y[row] = T(best);
        """,
        {"x": Array(floats(7, 9), dtype="bfloat16")},
        {"y": Out((7,), "bfloat16")},
        (1, 7, 1),
        (1, 7, 1),
        template=(("T", "bfloat16"),),
    ),
    Case(
        "short_load_over_an_odd_byte",
        """
        uint i = thread_position_in_grid.x;
        ushort both = ((const device ushort*)bytes)[i];  // <- out-of-bounds
        y[i] = (both & 0xff) + (both >> 8);
        """,
        {"bytes": Array(integers(0, 256, 33, dtype="uint8"))},
        {"y": Out((17,), "uint32")},
        (17, 1, 1),
        (17, 1, 1),
    ),
    Case(
        "histogram_bin_that_is_not_there",
        """
        uint i = thread_position_in_grid.x;
        int bin = int(x[i] * BINS);
        atomic_fetch_add_explicit(&counts[bin], 1, memory_order_relaxed);  // <- out-of-bounds
        """,
        {"x": Array(np.linspace(0, 1, 51, dtype=np.float32))},
        {"counts": Out((10,), "int32")},
        (51, 1, 1),
        (17, 1, 1),
        template=(("BINS", 10),),
        init_value=0,
        atomic_outputs=True,
    ),
    Case(
        "matrix_tile_over_the_last_row",
        """
        simdgroup_float8x8 m;
        simdgroup_load(m, x, 8);  // <- out-of-bounds
        simdgroup_store(m, y, 8);
        """,
        {"x": Array(floats(7, 8))},
        {"y": Out((8, 8))},
        (32, 1, 1),
        (32, 1, 1),
    ),
    Case(
        "matrix_stored_with_a_wide_stride",
        """
        uint tile = simdgroup_index_in_threadgroup;
        simdgroup_half8x8 m;
        simdgroup_load(m, x + tile * 8, 16);
        simdgroup_store(m, y + tile * 8, 18);  // <- out-of-bounds
        """,
        {"x": Array(floats(8, 16).astype(np.float16))},
        {"y": Out((8, 16), "float16")},
        (64, 1, 1),
        (64, 1, 1),
        also=frozenset({"unwritten-output"}),
    ),
    Case(
        "second_half_of_a_split_that_is_uneven",
        """
        uint i = thread_position_in_grid.x;
        uint half_size = (n[0] + 1) / 2;
        float a = x[i];
        float b = x[i + half_size];  // <- out-of-bounds
        y[i] = a * cos(b);
        """,
        {"x": Array(floats(27)), "n": Array(np.array([27], dtype=np.uint32))},
        {"y": Out((14,))},
        (14, 1, 1),
        (14, 1, 1),
    ),
    Case(
        "read_first_and_bounds_checked_after",
        """
        uint i = thread_position_in_grid.x;
        float v = x[i + 3];  // <- out-of-bounds
        bool inside = i + 3 < uint(x_shape[0]);
        y[i] = inside ? v : 0.0f;
        """,
        {"x": Array(floats(21))},
        {"y": Out((21,))},
        (21, 1, 1),
        (7, 1, 1),
    ),
    Case(
        "relu_in_place",
        """
        uint i = thread_position_in_grid.x;
        device float* p = (device float*)x;
        if (p[i] < 0) {
          p[i] = 0;  // <- write-to-input
        }
        y[i] = p[i];
        """,
        {"x": Array(floats(64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (32, 1, 1),
    ),
    Case(
        "counts_into_an_input",
        """
        uint i = thread_position_in_grid.x;
        device atomic_uint* tally = (device atomic_uint*)counts;
        uint bin = keys[i] & 7;
        atomic_fetch_add_explicit(&tally[bin], 1u, memory_order_relaxed);  // <- write-to-input
        y[i] = bin;
        """,
        {
            "keys": Array(integers(0, 99, 40, dtype="uint32")),
            "counts": Array(np.zeros(8, dtype=np.uint32)),
        },
        {"y": Out((40,), "uint32")},
        (40, 1, 1),
        (20, 1, 1),
    ),
    Case(
        "helper_clamps_its_argument",
        """
        uint i = thread_position_in_grid.x;
        clamp_in_place(const_cast<device float*>(x + i), -1.0f, 1.0f);
        y[i] = x[i];
        """,
        {"x": Array(floats(40) * 3)},
        {"y": Out((40,))},
        (40, 1, 1),
        (8, 1, 1),
        header=_CLAMP,
    ),
)
