"""Bugs: accesses beyond views, bins and tiles, and writes to inputs."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_CLAMP = """
template <typename T>
void clamp_in_place(device T* p, T low, T high) {
  *p = metal::clamp(*p, low, high);  // <- write-to-input
}
"""


BUGS = (
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
