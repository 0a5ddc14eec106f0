"""SIMD reductions of which most is dropped, and indices past arrays."""

from __future__ import annotations

from tests.checks.flow.kernel import Kernel

REDUCTIONS = (
    Kernel(
        "first_thread_writes_one_simd_groups_sum",
        """
        float sum = simd_sum(x[thread_position_in_grid.x]);
        if (thread_index_in_threadgroup == 0) {
            y[threadgroup_position_in_grid.x] = sum;  // <- SIMD-001
        }
        """,
    ),
    Kernel(
        "root_of_one_simd_groups_sum",
        """
        uint t = thread_position_in_threadgroup.x;
        float v = x[thread_position_in_grid.x];
        float sum = simd_sum(v * v);
        if (t == 0) {
            y[threadgroup_position_in_grid.x] = sqrt(sum);  // <- SIMD-001
        }
        """,
    ),
)

BOUNDS = (
    Kernel(
        "one_past_the_tile",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = tile[t + 1];  // <- BOUNDS-001
        """,
    ),
)

WHOLE_REDUCTIONS = ()

INSIDE = ()

WRONG = (*REDUCTIONS, *BOUNDS)
RIGHT = (*WHOLE_REDUCTIONS, *INSIDE)
