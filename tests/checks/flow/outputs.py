"""Elements of outputs that several threads write."""

from __future__ import annotations

from tests.checks.flow.kernel import Kernel

SHARED_OUTPUTS = (
    Kernel(
        "everyone_adds",
        """
        y[0] += x[thread_position_in_grid.x];  // <- RACE-002
        """,
    ),
    Kernel(
        "everyone_of_a_group_writes_its_row",
        """
        y[threadgroup_position_in_grid.x] = x[thread_position_in_grid.x];  // <- RACE-002
        """,
    ),
    Kernel(
        "column_of_all_rows",
        """
        uint row = thread_position_in_grid.y;
        uint column = thread_position_in_grid.x;
        y[column] += x[row * 64 + column];  // <- RACE-002
        """,
        threadgroup="(32, 4, 1)",
        grid="(64, rows * 4, 1)",
    ),
)

OWN_OUTPUTS = (
    Kernel(
        "groups_of_unknown_size_that_never_ask_for_the_thread",
        """
        uint row = threadgroup_position_in_grid.x;
        float scale = x[row] / n[row];
        y[row] = y[row] * scale;
        """,
        threadgroup="(t, 1, 1)",
        grid="(rows * t, 1, 1)",
    ),
    Kernel(
        "atomic_sum",
        """
        atomic_fetch_add_explicit(&y[0], x[thread_position_in_grid.x], memory_order_relaxed);
        """,
        atomic=True,
    ),
    Kernel(
        "guard_of_one_thread",
        """
        if (thread_position_in_grid.x == 0) y[0] = x[0] + x[1];
        """,
    ),
    Kernel(
        "guard_by_return",
        """
        if (thread_position_in_grid.x != 0) return;
        y[0] = x[0] + x[1];
        """,
    ),
    Kernel(
        "lane_of_each_simd_group",
        """
        uint row = thread_position_in_grid.y;
        float sum = simd_sum(x[row * 32 + thread_index_in_simdgroup]);
        if (thread_index_in_simdgroup == 0) y[row] = sum;
        """,
        threadgroup="(32, 4, 1)",
        grid="(32, rows * 4, 1)",
    ),
    Kernel(
        "sum_by_all_lanes",
        """
        uint row = thread_position_in_grid.y;
        y[row] = simd_sum(x[row * 32 + thread_index_in_simdgroup]);
        """,
        threadgroup="(32, 4, 1)",
        grid="(32, rows * 4, 1)",
    ),
    Kernel(
        "grid_of_one_thread",
        """
        uint first = thread_position_in_grid.x;
        for (int i = first; i < x_shape[0]; ++i) y[0] += x[i];
        """,
        threadgroup="(1, 1, 1)",
        grid="(1, 1, 1)",
    ),
    Kernel(
        "same_for_all",
        """
        y[0] = x[0] * 2.0f;
        """,
    ),
    Kernel(
        "index_from_data_of_an_output",
        """
        y[int(n[thread_position_in_grid.x])] = x[thread_position_in_grid.x];
        """,
    ),
    Kernel(
        "grid_stride",
        """
        for (uint i = thread_position_in_grid.x; i < uint(x_shape[0]); i += threads_per_grid.x) {
            y[i] = x[i];
        }
        """,
    ),
    Kernel(
        "four_elements_each",
        """
        uint first = thread_position_in_grid.x * 4;
        for (uint k = 0; k < 4; ++k) y[first + k] = x[first + k];
        """,
    ),
    Kernel(
        "pointer_moved_to_its_row",
        """
        device float* row = y + thread_position_in_grid.y * 64;
        row[thread_position_in_grid.x] = x[thread_position_in_grid.x];
        """,
        threadgroup="(32, 4, 1)",
        grid="(64, rows * 4, 1)",
    ),
)

WRONG = SHARED_OUTPUTS
RIGHT = OWN_OUTPUTS
