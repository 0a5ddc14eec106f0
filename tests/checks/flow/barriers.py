"""Barriers that not all threads reach."""

from __future__ import annotations

from tests.checks.flow.kernel import Kernel

BARRIERS = (
    Kernel(
        "branch_of_some",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (t < 64) {
            tile[t] = x[i];
            threadgroup_barrier(mem_flags::mem_threadgroup);  // <- BARRIER-001
            y[i] = tile[63 - t];
        }
        """,
    ),
    Kernel(
        "behind_a_return",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (t > 99) return;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- BARRIER-001
        y[i] = tile[99 - t];
        """,
    ),
    Kernel(
        "by_simdgroup",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (simdgroup_index_in_threadgroup == 0) {
            tile[t] = x[i];
            threadgroup_barrier(mem_flags::mem_threadgroup);  // <- BARRIER-001
            y[i] = tile[31 - t];
        }
        """,
    ),
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
        "helper_called_by_some",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        if (t < 32) {
            wait();
        }
        y[i] = tile[t];
        """,
        header="""
inline void wait() {
    metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);  // <- BARRIER-001
}
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
        "branch_of_the_threadgroup",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (threadgroup_position_in_grid.x % 2 == 0) {
            tile[t] = x[i];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            y[i] = tile[127 - t];
        }
        """,
    ),
    Kernel(
        "branch_on_an_input",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (n[threadgroup_position_in_grid.x] > 0) {
            tile[t] = x[i];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            y[i] = tile[127 - t];
        }
        """,
    ),
    Kernel(
        "loop_over_a_shape",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        float sum = 0;
        for (int k = 0; k < x_shape[0]; k += 128) {
            tile[t] = x[k + t];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            sum += tile[127 - t];
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[thread_position_in_grid.x] = sum;
        """,
    ),
    Kernel(
        "return_of_the_threadgroup",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (threadgroup_position_in_grid.x >= uint(n[0])) return;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = tile[127 - t];
        """,
    ),
    Kernel(
        "return_behind_the_last_barrier",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (t >= 64) return;
        y[i] = tile[127 - t];
        """,
    ),
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
    Kernel(
        "guard_of_whole_threadgroups",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (i >= 128) return;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = tile[127 - t];
        """,
    ),
    Kernel(
        "guard_without_a_barrier",
        """
        uint i = thread_position_in_grid.x;
        if (i >= uint(x_shape[0])) return;
        y[i] = x[i];
        """,
    ),
    Kernel(
        "condition_that_all_threads_meet",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (t < 128) {
            tile[t] = x[i];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            y[i] = tile[127 - t];
        }
        """,
    ),
    Kernel(
        "one_thread",
        """
        threadgroup float tile[4];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (t == 0) {
            tile[0] = x[i];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            y[i] = tile[0];
        }
        """,
        threadgroup="(1, 1, 1)",
        grid="(rows, 1, 1)",
    ),
    Kernel(
        "branch_on_a_template_argument",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (WIDE) {
            tile[t] = x[i];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            y[i] = tile[127 - t];
        } else {
            y[i] = x[i];
        }
        """,
        template='[("WIDE", rows > 3)]',
    ),
    Kernel(
        "data_that_a_thread_may_or_may_not_have",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        float peak = simd_max(x[i]);
        tile[t] = peak;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (tile[0] > 0) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[i] = peak;
        """,
    ),
)

WRONG = BARRIERS
RIGHT = EVEN_BARRIERS
