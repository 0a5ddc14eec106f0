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
    Kernel(
        "too_few_partials",
        """
        threadgroup float part[2];
        uint i = thread_position_in_grid.x;
        float sum = simd_sum(x[i]);
        if (thread_index_in_simdgroup == 0) {
            part[simdgroup_index_in_threadgroup] = sum;  // <- BOUNDS-001
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = part[0] + part[1];
        """,
    ),
    Kernel(
        "private_array_in_a_loop",
        """
        float best[4];
        uint i = thread_position_in_grid.x;
        for (int k = 0; k <= 4; ++k) {
            best[k] = x[4 * i + k];  // <- BOUNDS-001
        }
        y[i] = best[0] + best[3];
        """,
    ),
    Kernel(
        "array_by_template",
        """
        threadgroup float tile[N];
        uint t = thread_position_in_threadgroup.x;
        tile[t] = x[t];  // <- BOUNDS-001
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[t] = tile[0];
        """,
        template='[("N", 64)]',
    ),
)

WHOLE_REDUCTIONS = (
    Kernel(
        "one_simd_group_alone",
        """
        float sum = simd_sum(x[thread_position_in_grid.x]);
        if (thread_index_in_threadgroup == 0) y[threadgroup_position_in_grid.x] = sum;
        """,
        threadgroup="(32, 1, 1)",
    ),
    Kernel(
        "second_stage_by_one_thread",
        """
        threadgroup float part[4];
        float sum = simd_sum(x[thread_position_in_grid.x]);
        if (thread_index_in_simdgroup == 0) part[simdgroup_index_in_threadgroup] = sum;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (thread_index_in_threadgroup == 0) {
            float all = part[0] + part[1] + part[2] + part[3];
            y[threadgroup_position_in_grid.x] = all;
        }
        """,
    ),
    Kernel(
        "first_simd_group_does_the_row_alone",
        """
        uint t = thread_position_in_threadgroup.x;
        uint row = threadgroup_position_in_grid.x;
        if (t < 32) {
            float sum = simd_sum(x[row * 32 + t]);
            if (t == 0) y[row] = sum;
        } else {
            z[row * 96 + t - 32] = x[t];
        }
        """,
    ),
    Kernel(
        "all_simd_groups_have_the_same",
        """
        uint lane = thread_index_in_simdgroup;
        uint row = threadgroup_position_in_grid.x;
        float sum = simd_sum(x[row * 32 + lane]);
        if (thread_index_in_threadgroup == 0) y[row] = sum;
        z[thread_position_in_grid.x] = sum;
        """,
    ),
)

INSIDE = (
    Kernel(
        "guarded_neighbour",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = t + 1 < 128 ? tile[t + 1] : 0.0f;
        """,
    ),
    Kernel(
        "padded_tile",
        """
        threadgroup float tile[130];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t + 1] = x[i];
        if (t == 0) { tile[0] = 0; tile[129] = 0; }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = tile[t] + tile[t + 2];
        """,
    ),
    Kernel(
        "unknown_index",
        """
        float best[4];
        uint i = thread_position_in_grid.x;
        best[0] = best[1] = best[2] = best[3] = 0;
        best[int(n[i])] = x[i];
        y[i] = best[0] + best[3];
        """,
    ),
    Kernel(
        "array_by_an_unknown_template_argument",
        """
        threadgroup float tile[N];
        uint t = thread_position_in_threadgroup.x;
        tile[t] = x[t];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[t] = tile[0];
        """,
        template='[("N", t)]',
        threadgroup="(t, 1, 1)",
    ),
    Kernel(
        "address_one_past_the_end",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        threadgroup float* end = tile + 128;
        threadgroup float* p = tile + t;
        if (p < end) *p = x[t];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[t] = tile[t];
        """,
    ),
    Kernel(
        "smaller_group_than_the_array_by_assumption",
        """
        threadgroup float tile[32];
        uint t = thread_position_in_threadgroup.x;
        tile[t] = x[t];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[t] = tile[0];
        """,
        threadgroup="(t, 1, 1)",
    ),
)

WRONG = (*REDUCTIONS, *BOUNDS)
RIGHT = (*WHOLE_REDUCTIONS, *INSIDE)
