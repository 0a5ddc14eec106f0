"""KERNEL-BARRIER, -RACE, -SIMD and -BOUNDS: what threads of a kernel do to each other.

The guilty line of a body carries a comment, ``// <- RACE-001``; a body without one is right.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.checks.findings import findings

MARK = "// <- "
FAMILIES = ("KERNEL-BARRIER", "KERNEL-RACE", "KERNEL-SIMD", "KERNEL-BOUNDS")


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel of the inputs x and n and the outputs y and z, with one launch.

    ``grid`` and ``threadgroup`` are texts, of Python, in which ``t`` and ``rows`` are unknown.
    """

    name: str
    source: str
    threadgroup: str = "(128, 1, 1)"
    grid: str = "(rows * 128, 1, 1)"
    header: str = ""
    template: str = "[]"
    atomic: bool = False

    def written_out(self) -> str:
        return f"""\
HEADER = '''{self.header}'''
SOURCE = '''{self.source}'''
KERNEL = mx.fast.metal_kernel(
    name="{self.name}",
    input_names=["x", "n"],
    output_names=["y", "z"],
    source=SOURCE,
    header=HEADER,
    atomic_outputs={self.atomic},
)


def launch(x: mx.array, n: mx.array, rows: int, t: int) -> list[mx.array]:
    return KERNEL(
        inputs=[x, n],
        template={self.template},
        grid={self.grid},
        threadgroup={self.threadgroup},
        output_shapes=[x.shape, x.shape],
        output_dtypes=[mx.float32, mx.float32],
        init_value=0,
    )
"""


def marked(program: str) -> list[tuple[int, str]]:
    """The lines with marks, as they count below the imports that ``findings`` writes."""
    return [
        (number, f"KERNEL-{code}")
        for number, line in enumerate(program.split("\n"), start=3)
        for code in line.partition(MARK)[2].strip().split()
    ]


def found(program: str) -> list[tuple[int, str]]:
    told = [f for family in FAMILIES for f in findings(program, family)]
    return sorted((finding.line, finding.code) for finding in told)


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
)

BARRIERS += (
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

FLAGS = (
    Kernel(
        "no_memory",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_none);  // <- BARRIER-002
        y[i] = tile[127 - t];
        """,
    ),
    Kernel(
        "device_memory_for_an_array",
        """
        threadgroup float part[4];
        uint i = thread_position_in_grid.x;
        float sum = simd_sum(x[i]);
        if (thread_index_in_simdgroup == 0) part[simdgroup_index_in_threadgroup] = sum;
        threadgroup_barrier(mem_flags::mem_device);  // <- BARRIER-002
        y[i] = part[0] + part[1] + part[2] + part[3];
        """,
    ),
    Kernel(
        "threadgroup_memory_for_an_output",
        """
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        uint first = i - t;
        z[i] = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- BARRIER-002
        y[i] = z[first + 127 - t];
        """,
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
    Kernel(
        "nothing_is_exchanged",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_none);
        y[i] = tile[t];
        """,
    ),
    Kernel(
        "a_second_barrier_orders_it",
        """
        threadgroup float tile[128];
        uint t = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        tile[t] = x[i];
        threadgroup_barrier(mem_flags::mem_none);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = tile[127 - t];
        """,
    ),
)

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

GROUP_WIDE = (
    Kernel(
        "own_window",
        """
        uint t = thread_position_in_threadgroup.x;
        uint first = threadgroup_position_in_grid.x * 128;
        z[first + t] = x[first + t];
        threadgroup_barrier(mem_flags::mem_device);
        y[first + t] = z[first + 127 - t];
        """,
    ),
    Kernel(
        "one_group",
        """
        uint t = thread_position_in_threadgroup.x;
        z[t] = x[t];
        threadgroup_barrier(mem_flags::mem_device);
        float all = 0;
        for (uint k = 0; k < 128; ++k) {
            all += z[k];
        }
        y[t] = all;
        """,
        grid="(128, 1, 1)",
    ),
)

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

WRONG = (*BARRIERS, *FLAGS, *GRID_WIDE, *RACES, *SHARED_OUTPUTS, *REDUCTIONS, *BOUNDS)
RIGHT = (
    *EVEN_BARRIERS,
    *RIGHT_FLAGS,
    *GROUP_WIDE,
    *ORDERED,
    *OWN_OUTPUTS,
    *WHOLE_REDUCTIONS,
    *INSIDE,
)


@pytest.mark.parametrize("kernel", WRONG, ids=lambda kernel: kernel.name)
def test_what_is_wrong_is_told_at_its_line(kernel: Kernel) -> None:
    program = kernel.written_out()
    assert marked(program)
    assert found(program) == marked(program)


@pytest.mark.parametrize("kernel", RIGHT, ids=lambda kernel: kernel.name)
def test_what_may_be_right_is_silent(kernel: Kernel) -> None:
    program = kernel.written_out()
    assert not marked(program)
    assert found(program) == []
