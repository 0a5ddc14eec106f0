"""Barriers that order the wrong memory, and those that are taken for one of the whole grid."""

from __future__ import annotations

from tests.checks.flow.kernel import Kernel

FLAGS = ()

GRID_WIDE = (
    Kernel(
        "sums_of_all_groups",
        """
        uint i = thread_position_in_grid.x;
        uint group = threadgroup_position_in_grid.x;
        float sum = simd_sum(x[i]);
        if (thread_position_in_threadgroup.x == 0) z[group] = sum;
        threadgroup_barrier(mem_flags::mem_device);  // <- BARRIER-003
        float all = 0;
        for (uint k = 0; k < threadgroups_per_grid.x; ++k) {
            all += z[k];
        }
        y[i] = all;
        """,
        threadgroup="(32, 1, 1)",
        grid="(128, 1, 1)",
    ),
)

RIGHT_FLAGS = (
    Kernel(
        "both_flags",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        z[i] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        y[i] = tile[127 - t] + z[i - t + 127 - t];
        """,
    ),
)

GROUP_WIDE = ()

WRONG = (*FLAGS, *GRID_WIDE)
RIGHT = (*RIGHT_FLAGS, *GROUP_WIDE)
