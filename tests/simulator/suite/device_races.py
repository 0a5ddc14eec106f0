"""Bugs: races in device memory."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_ORDER = frozenset({"order-dependent"})

_LOOSE = frozenset({"order-dependent", "uninitialized-read"})

_ACCUMULATE = """
template <typename T>
inline void accumulate(device T* into, T v) {
  *into = *into + v;  // <- device-race
}
"""


BUGS = (
    Case(
        "every_thread_adds_to_one_sum",
        """
        uint i = thread_position_in_grid.x;
        total[0] += x[i];  // <- device-race
        """,
        {"x": Array(floats(70))},
        {"total": Out((1,))},
        (70, 1, 1),
        (70, 1, 1),
        init_value=0,
        also=_ORDER,
    ),
    Case(
        "scatter_add_in_a_helper",
        """
        uint i = thread_position_in_grid.x;
        accumulate(&grad[index[i]], T(x[i]));
        """,
        {"x": Array(floats(80)), "index": Array(integers(0, 7, 80, dtype="uint16"))},
        {"grad": Out((7,), "float16")},
        (80, 1, 1),
        (40, 1, 1),
        header=_ACCUMULATE,
        template=(("T", "float16"),),
        init_value=0,
        also=_ORDER,
    ),
    Case(
        "groups_write_the_same_window",
        """
        uint lid = thread_position_in_threadgroup.x;
        y[lid] = x[thread_position_in_grid.x];  // <- device-race
        """,
        {"x": Array(np.arange(48, dtype=np.float32))},
        {"y": Out((16,))},
        (48, 1, 1),
        (16, 1, 1),
        also=_ORDER,
    ),
    Case(
        "neighbour_of_a_fresh_output",
        """
        uint i = thread_position_in_grid.x;
        smooth[i] = 0.5f * x[i];  // <- device-race
        float before = i > 0 ? smooth[i - 1] : 0.0f;  // <- device-race
        step[i] = x[i] - before;
        """,
        {"x": Array(floats(64))},
        {"smooth": Out((64,)), "step": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=_LOOSE,
    ),
    Case(
        "barrier_taken_for_a_barrier_of_the_grid",
        """
        uint lid = thread_position_in_threadgroup.x;
        uint g = threadgroup_position_in_grid.x;
        uint groups = threadgroups_per_grid.x;
        float s = simd_sum(x[thread_position_in_grid.x]);
        if (lid == 0) partial[g] = s;  // <- device-race
        threadgroup_barrier(mem_flags::mem_device);
        float all = 0;
        for (uint k = 0; k < groups; ++k) all += partial[k];  // <- device-race
        y[thread_position_in_grid.x] = x[thread_position_in_grid.x] / all;
        """,
        {"x": Array(np.abs(floats(128)))},
        {"partial": Out((4,)), "y": Out((128,))},
        (128, 1, 1),
        (32, 1, 1),
        also=_LOOSE,
    ),
    Case(
        "atomic_sum_read_plainly",
        """
        uint i = thread_position_in_grid.x;
        atomic_fetch_add_explicit(&sum[0], x[i], memory_order_relaxed);  // <- device-race
        int so_far = ((device int*)sum)[0];  // <- device-race
        atomic_store_explicit(&sum[1 + i], so_far, memory_order_relaxed);
        """,
        {"x": Array(integers(1, 9, 64))},
        {"sum": Out((65,), "int32")},
        (64, 1, 1),
        (32, 1, 1),
        init_value=0,
        atomic_outputs=True,
        also=_ORDER,
    ),
    Case(
        "bins_cleared_by_the_first_group",
        """
        uint i = thread_position_in_grid.x;
        device uint* plain = (device uint*)counts;
        if (threadgroup_position_in_grid.x == 0) {
          plain[thread_position_in_threadgroup.x] = 0;  // <- device-race
        }
        threadgroup_barrier(mem_flags::mem_device);
        atomic_fetch_add_explicit(&counts[key[i]], 1u, memory_order_relaxed);  // <- device-race
        """,
        {"key": Array(integers(0, 32, 96, dtype="uint8"))},
        {"counts": Out((32,), "uint32")},
        (96, 1, 1),
        (32, 1, 1),
        atomic_outputs=True,
        also=_LOOSE,
    ),
    Case(
        "windows_that_overlap_by_one",
        """
        uint i = thread_position_in_grid.x;
        for (uint k = 0; k < 5; ++k) {
          y[4 * i + k] = x[i] * w[k];  // <- device-race
        }
        """,
        {"x": Array(floats(40)), "w": Array(floats(5, seed=1))},
        {"y": Out((161,))},
        (40, 1, 1),
        (8, 1, 1),
        also=_ORDER,
    ),
    Case(
        "bits_packed_by_eight_threads",
        """
        uint i = thread_position_in_grid.x;
        uchar bit = x[i] > 0 ? 1 : 0;
        bits[i / 48] |= bit << (i % 8);  // <- device-race
        """,
        {"x": Array(floats(96))},
        {"bits": Out((2,), "uint8")},
        (96, 1, 1),
        (96, 1, 1),
        init_value=0,
        also=_ORDER,
    ),
    Case(
        "last_thread_of_a_group_writes_the_halo",
        """
        uint i = thread_position_in_grid.x;
        uint lid = thread_position_in_threadgroup.x;
        y[i] = x[i];  // <- device-race
        if (lid + 1 == threads_per_threadgroup.x && i + 1 < uint(x_shape[0])) {
          y[i + 1] = 0.5f * (x[i] + x[i + 1]);  // <- device-race
        }
        """,
        {"x": Array(floats(90))},
        {"y": Out((90,))},
        (90, 1, 1),
        (30, 1, 1),
        also=_ORDER,
    ),
    Case(
        "column_sums_by_rows",
        """
        uint row = thread_position_in_grid.y;
        uint column = thread_position_in_grid.x;
        uint columns = x_shape[1];
        T v = x[row * columns + column];
        y[column] = row == 0 ? v : T(y[column] + v);  // <- device-race
        """,
        {"x": Array(floats(6, 20).astype(np.float16))},
        {"y": Out((20,), "float16")},
        (20, 6, 1),
        (20, 1, 1),
        template=(("T", "float16"),),
        also=_LOOSE,
    ),
    Case(
        "scatter_with_a_doubled_target",
        """
        uint i = thread_position_in_grid.x;
        y[target[i]] = x[i];  // <- device-race
        """,
        {
            "x": Array(floats(50)),
            "target": Array(np.where(np.arange(50) == 44, 3, np.arange(50)).astype(np.int32)),
        },
        {"y": Out((50,))},
        (50, 1, 1),
        (50, 1, 1),
        init_value=0,
        also=_ORDER,
    ),
    Case(
        "scratch_overwritten_while_others_read",
        """
        uint lid = thread_position_in_threadgroup.x;
        uint base = threadgroup_position_in_grid.x * 64;
        scratch[base + lid] = x[base + lid];
        threadgroup_barrier(mem_flags::mem_device);
        float other = scratch[base + (lid ^ 32)];  // <- device-race
        scratch[base + lid] = other * 2;  // <- device-race
        """,
        {"x": Array(floats(128))},
        {"scratch": Out((128,))},
        (128, 1, 1),
        (64, 1, 1),
        also=_ORDER,
    ),
    Case(
        "float4_store_beside_scalar_stores",
        """
        uint i = thread_position_in_grid.x;
        if (i < 10) {
          *(device float4*)(y + 4 * i) = float4(x[i]);  // <- device-race
        } else if (i >= 32) {
          y[i - 32 + 36] = -1;  // <- device-race
        }
        """,
        {"x": Array(floats(48))},
        {"y": Out((52,))},
        (48, 1, 1),
        (48, 1, 1),
        also=_ORDER,
    ),
    Case(
        "last_token_found_by_everyone_at_the_end",
        """
        uint i = thread_position_in_grid.x;
        if (ids[i] != pad) {
          last[0] = int(i);  // <- device-race
        }
        """,
        {
            "ids": Array(np.where(np.arange(72) < 65, 7, 0).astype(np.int32)),
            "pad": Array(np.int32(0)),
        },
        {"last": Out((1,), "int32")},
        (72, 1, 1),
        (24, 1, 1),
        also=_ORDER,
    ),
    Case(
        "running_sum_across_groups",
        """
        uint g = threadgroup_position_in_grid.x;
        uint i = thread_position_in_grid.x;
        uint lid = thread_position_in_threadgroup.x;
        int before = simd_prefix_inclusive_sum(x[i]);
        int carry = g > 0 ? y[g * 32 - 1] : 0;  // <- device-race
        y[i] = before + carry;  // <- device-race
        """,
        {"x": Array(integers(0, 5, 96))},
        {"y": Out((96,), "int32")},
        (96, 1, 1),
        (32, 1, 1),
        also=_LOOSE,
    ),
)
