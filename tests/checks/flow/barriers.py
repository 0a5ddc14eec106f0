"""Barriers that not all threads reach."""

from __future__ import annotations

from tests.checks.flow.kernel import Kernel

BARRIERS = (
    Kernel(
        "loop_of_uneven_length",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        tile[t] = x[t];
        for (uint k = t; k < 128; k += 32) {
            threadgroup_barrier(mem_flags::mem_threadgroup);  // <- BARRIER-001
        }
        y[thread_position_in_grid.x] = tile[t];
        """,
    ),
    Kernel(
        "guard_of_a_grid_that_is_rounded_up",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (i >= uint(x_shape[0])) return;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- BARRIER-001
        y[i] = tile[t];
        """,
        grid="((x.size + 127) // 128 * 128, 1, 1)",
    ),
    Kernel(
        "the_first_thread_of_the_grid_leaves",
        """
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (i == 0) {
            y[0] = 1.0f;
            return;
        }
        y[i] = x[i];
        threadgroup_barrier(mem_flags::mem_device);  // <- BARRIER-001
        z[i] = y[i];
        """,
    ),
)

EVEN_BARRIERS = (
    Kernel(
        "guard_that_no_thread_of_an_exact_grid_takes",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (i >= uint(x_shape[0])) return;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = tile[t];
        """,
        grid="(x.shape[0], 1, 1)",
    ),
)

WRONG = BARRIERS
RIGHT = EVEN_BARRIERS
