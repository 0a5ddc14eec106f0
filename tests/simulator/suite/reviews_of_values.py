"""Bugs in rarer clothes: values unset or not written, and loops without an end."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, count, floats, halves, integers, kernel
from tests.simulator.suite.reviews import STATS

BUGS = (
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
