"""Bugs: accesses beyond views, bins and tiles, and writes to inputs."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from tests.simulator.suite.case import Array, Out, floats, halves, integers, kernel

BUGS = (
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
)
