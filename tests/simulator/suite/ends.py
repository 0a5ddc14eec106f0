"""Bugs that end a kernel: endless loops, stacks that overflow, pointers to nowhere."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import LOST, Array, Case, Out, floats, integers

BUGS = (
    Case(
        "shift_of_a_whole_word",
        """
        uint i = thread_position_in_grid.x;
        y[i] = int(0xffffffffu >> (32 - x[i]));  // <- undefined-arithmetic
        """,
        {"x": Array(np.arange(8, dtype=np.int32))},
        {"y": Out((8,), "int32")},
        (8, 1, 1),
        (8, 1, 1),
        also=LOST,
    ),
    Case(
        "bisection_that_never_narrows",
        """
        uint i = thread_position_in_grid.x;
        int low = 0, high = 15;
        while (low < high) {  // <- timeout
          int middle = (low + high) / 2;  // <- timeout
          if (edges[middle] <= x[i]) {  // <- timeout
            low = middle;  // <- timeout
          } else {
            high = middle;
          }
        }
        y[i] = low;
        """,
        {"x": Array(np.full(8, 2.5, np.float32)), "edges": Array(np.arange(16, dtype=np.float32))},
        {"y": Out((8,), "int32")},
        (8, 1, 1),
        (8, 1, 1),
        also=LOST,
    ),
    Case(
        "waits_for_a_later_threadgroup",
        """
        uint g = threadgroup_position_in_grid.x;
        if (g == 0) {
          while (atomic_load_explicit(&flag[1], memory_order_relaxed) == 0) {  // <- timeout
          }
          atomic_store_explicit(&flag[0], 1, memory_order_relaxed);
        } else if (g == 1) {
          while (atomic_load_explicit(&flag[0], memory_order_relaxed) == 0) {  // <- timeout
          }
          atomic_store_explicit(&flag[1], 1, memory_order_relaxed);
        }
        """,
        {"seed": Array(np.int32(1))},
        {"flag": Out((2,), "int32")},
        (2, 1, 1),
        (1, 1, 1),
        init_value=0,
        atomic_outputs=True,
        also=LOST,
    ),
    Case(
        "unsigned_countdown",
        """
        uint i = thread_position_in_grid.x;
        float s = 0;
        for (uint k = 7; k >= 0; --k) {  // <- timeout
          s = s * 0.5f + x[k & 7];  // <- timeout
          if (isnan(s)) break;  // <- timeout
        }
        y[i] = s;
        """,
        {"x": Array(floats(8))},
        {"y": Out((4,))},
        (4, 1, 1),
        (4, 1, 1),
        also=LOST,
    ),
    Case(
        "table_too_large_for_a_stack",
        """
        uint i = thread_position_in_grid.x;
        float table[1 << 22];  // <- crash
        for (uint k = 0; k < (1u << 22); k += 4099) {
          table[(k + i) % (1u << 22)] = x[k % 16];  // <- crash
        }
        float s = 0;
        for (uint k = 0; k < (1u << 22); k += 4099) {
          s += table[(k + i) % (1u << 22)];
        }
        y[i] = s;
        """,
        {"x": Array(floats(16))},
        {"y": Out((2,))},
        (2, 1, 1),
        (2, 1, 1),
        also=LOST,
    ),
    Case(
        "address_from_data",
        """
        uint i = thread_position_in_grid.x;
        device float* p = (device float*)(ulong(where[i]));
        *p = 1.0f;  // <- crash|out-of-bounds
        y[i] = 2.0f;
        """,
        {"where": Array(integers(4096, 90000, 8, dtype="uint64"))},
        {"y": Out((8,))},
        (8, 1, 1),
        (8, 1, 1),
        also=LOST,
    ),
    Case(
        "null_unless_it_is_large",
        """
        uint i = thread_position_in_grid.x;
        const device float* source = nullptr;
        if (x_shape[0] > 1000) source = x;
        y[i] = source[i];  // <- crash|out-of-bounds
        """,
        {"x": Array(floats(32))},
        {"y": Out((32,))},
        (32, 1, 1),
        (32, 1, 1),
        also=LOST,
    ),
)
