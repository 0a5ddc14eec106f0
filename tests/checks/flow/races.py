"""Races in threadgroup memory."""

from __future__ import annotations

from tests.checks.flow.kernel import Kernel

RACES = (
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
        "histogram_of_fewer_bins_than_threads",
        """
        threadgroup int bins[64];
        uint t = thread_position_in_threadgroup.x;
        for (uint k = t; k < 64; k += 128) bins[k] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        bins[uint(x[thread_position_in_grid.x])] += 1;  // <- RACE-001
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint k = t; k < 64; k += 128) y[k] = bins[k];
        """,
        grid="(128, 1, 1)",
    ),
)

ORDERED = (
    Kernel(
        "bins_that_may_be_one_for_each_thread",
        """
        threadgroup int bins[128];
        uint t = thread_position_in_threadgroup.x;
        for (uint k = t; k < 128; k += 128) bins[k] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        bins[uint(x[thread_position_in_grid.x])] += 1;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint k = t; k < 128; k += 128) y[k] = bins[k];
        """,
        grid="(128, 1, 1)",
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
)

WRONG = RACES
RIGHT = ORDERED
