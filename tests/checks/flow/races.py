"""Races in threadgroup memory."""

from __future__ import annotations

from tests.checks.flow.kernel import Kernel

RACES = (
    Kernel(
        "read_before_it_is_written",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        y[i] = tile[127 - t];  // <- RACE-001
        """,
    ),
    Kernel(
        "written_while_others_read",
        """
        threadgroup float part[4];
        uint i = thread_position_in_grid.x;
        uint lane = thread_index_in_simdgroup;
        uint group = simdgroup_index_in_threadgroup;
        float peak = simd_max(x[i]);
        if (lane == 0) part[group] = peak;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        peak = simd_max(part[lane & 3]);
        float sum = simd_sum(exp(x[i] - peak));
        if (lane == 0) part[group] = sum;  // <- RACE-001
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = simd_sum(part[lane & 3]);
        """,
    ),
    Kernel(
        "tree_without_a_barrier",
        """
        threadgroup float work[128];
        uint t = thread_position_in_threadgroup.x;
        work[t] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 64; s > 0; s >>= 1) {
            if (t < s) work[t] += work[t + s];  // <- RACE-001
        }
        if (t == 0) y[threadgroup_position_in_grid.x] = work[0];
        """,
    ),
    Kernel(
        "tile_loaded_anew_while_it_is_read",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        float sum = 0;
        for (int k = 0; k < x_shape[0]; k += 128) {
            tile[t] = x[k + t];  // <- RACE-001
            threadgroup_barrier(mem_flags::mem_threadgroup);
            sum += tile[127 - t];
        }
        y[thread_position_in_grid.x] = sum;
        """,
    ),
    Kernel(
        "size_from_outside",
        """
        threadgroup float tile[1024];
        uint t = thread_position_in_threadgroup.x;
        uint last = threads_per_threadgroup.x - 1;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        y[i] = tile[last - t];  // <- RACE-001
        """,
        threadgroup="(t, 1, 1)",
        grid="(rows * t, 1, 1)",
    ),
    Kernel(
        "scalar_of_the_first_thread",
        """
        threadgroup float scale;
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        if (t == 0) scale = 1.0f / x[i];
        y[i] = x[i] * scale;  // <- RACE-001
        """,
    ),
)

ORDERED = (
    Kernel(
        "few_lanes_of_groups_of_unknown_size",
        """
        threadgroup float tile[512];
        uint lane = thread_index_in_simdgroup;
        uint first = 16 * simdgroup_index_in_threadgroup;
        if (lane < uint(n[0])) tile[first + lane] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[thread_position_in_grid.x] = tile[first];
        """,
        threadgroup="(t, 1, 1)",
        grid="(rows * t, 1, 1)",
    ),
    Kernel(
        "array_for_one_simd_group_of_groups_of_unknown_size",
        """
        threadgroup float tile[32];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        y[i] = tile[31 - t];
        """,
        threadgroup="(t, 1, 1)",
        grid="(rows * t, 1, 1)",
    ),
    Kernel(
        "reduction_in_two_stages",
        """
        threadgroup float part[4];
        uint i = thread_position_in_grid.x;
        uint lane = thread_index_in_simdgroup;
        uint group = simdgroup_index_in_threadgroup;
        float sum = simd_sum(x[i]);
        if (lane == 0) part[group] = sum;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum = simd_sum(lane < 4 ? part[lane] : 0.0f);
        if (thread_index_in_threadgroup == 0) y[threadgroup_position_in_grid.x] = sum;
        """,
    ),
    Kernel(
        "tree",
        """
        threadgroup float work[128];
        uint t = thread_position_in_threadgroup.x;
        work[t] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 64; s > 0; s >>= 1) {
            if (t < s) work[t] += work[t + s];
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (t == 0) y[threadgroup_position_in_grid.x] = work[0];
        """,
    ),
    Kernel(
        "double_buffer",
        """
        threadgroup float tile[2][128];
        uint t = thread_position_in_threadgroup.x;
        float sum = 0;
        for (uint k = 0; k < 8; ++k) {
            tile[k & 1][t] = x[k * 128 + t];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            sum += tile[k & 1][127 - t];
        }
        y[thread_position_in_grid.x] = sum;
        """,
    ),
    Kernel(
        "one_simd_group",
        """
        threadgroup float tile[32];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        y[i] = tile[31 - t];
        """,
        threadgroup="(32, 1, 1)",
    ),
    Kernel(
        "own_part_of_each_simd_group",
        """
        threadgroup float tile[128];
        uint lane = thread_index_in_simdgroup;
        uint first = simdgroup_index_in_threadgroup * 32;
        uint i = thread_position_in_grid.x;
        tile[first + lane] = x[i];
        simdgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = tile[first + 31 - lane];
        """,
    ),
    Kernel(
        "atomic_bins",
        """
        threadgroup atomic_int bins[16];
        uint t = thread_position_in_threadgroup.x;
        if (t < 16) atomic_store_explicit(&bins[t], 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        atomic_fetch_add_explicit(&bins[int(n[t]) & 15], 1, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (t < 16) y[t] = atomic_load_explicit(&bins[t], memory_order_relaxed);
        """,
    ),
    Kernel(
        "index_from_data",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        tile[int(n[t])] = x[t];
        y[t] = tile[t];
        """,
    ),
    Kernel(
        "branches_that_exclude_each_other",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        bool loads = n[0] > 0;
        if (loads) tile[t] = x[i];
        if (!loads) y[i] = tile[127 - t];
        """,
    ),
    Kernel(
        "same_value_by_all",
        """
        threadgroup int count;
        count = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[thread_position_in_grid.x] = count;
        """,
    ),
    Kernel(
        "private_array",
        """
        float work[4];
        uint i = thread_position_in_grid.x;
        for (uint k = 0; k < 4; ++k) work[k] = x[4 * i + k];
        y[i] = work[0] + work[3];
        """,
    ),
    Kernel(
        "branch_with_barriers_of_its_own",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        if (n[0] > 0) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            y[i] = tile[127 - t];
        } else {
            y[i] = tile[t];
        }
        """,
    ),
)

WRONG = RACES
RIGHT = ORDERED
