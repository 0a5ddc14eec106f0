"""Kernels of the benign classes: notes at the marked lines, and no error."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_X = floats(64)
_POSITIVE = np.abs(floats(96)) + 0.5
_KEYS = integers(0, 9, 32)

NOTES = (
    Case(
        "every_thread_stores_the_same_count",
        """
        uint i = thread_position_in_grid.x;
        y[i] = x[i] + 1;
        size[0] = x_shape[0];  // <- same-value-write
        """,
        {"x": Array(_X)},
        {"y": Out((64,)), "size": Out((1,), "int32")},
        (64, 1, 1),
        (16, 1, 1),
        expected=lambda: (_X + 1, np.array([64])),
    ),
    Case(
        "flag_raised_by_whoever_sees_it",
        """
        threadgroup bool found;
        uint lid = thread_position_in_threadgroup.x;
        if (lid == 0) found = false;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (x[lid] > 1.0f) {
          found = true;  // <- same-value-write
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = found;
        """,
        {"x": Array(_POSITIVE)},
        {"y": Out((96,), "bool_")},
        (96, 1, 1),
        (96, 1, 1),
        expected=lambda: (np.full(96, (_POSITIVE > 1).any()),),
    ),
    Case(
        "last_warp_unrolled_without_barriers",
        """
        threadgroup int work[32];
        uint lane = thread_index_in_simdgroup;
        work[lane] = keys[lane];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 16; s > 0; s >>= 1) {
          int other = lane < s ? work[lane + s] : 0;  // <- lane-synchronous
          if (lane < s) work[lane] += other;  // <- lane-synchronous
        }
        if (lane == 0) y[0] = work[0];
        """,
        {"keys": Array(_KEYS)},
        {"y": Out((1,), "int32")},
        (32, 1, 1),
        (32, 1, 1),
    ),
    Case(
        "float_sum_by_atomics",
        """
        uint i = thread_position_in_grid.x;
        atomic_fetch_add_explicit(&total[0], x[i], memory_order_relaxed);  // <- float-sum-order
        """,
        {"x": Array((floats(96) * 10.0 ** np.arange(96).clip(0, 12)).astype(np.float32))},
        {"total": Out((1,))},
        (96, 1, 1),
        (32, 1, 1),
        init_value=0,
        atomic_outputs=True,
    ),
    Case(
        "sums_of_groups_added_as_floats",
        """
        threadgroup float parts[2];
        uint lid = thread_position_in_threadgroup.x;
        float s = simd_sum(x[thread_position_in_grid.x]);
        if (simd_is_first()) parts[lid / 32] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) {
          float all = parts[0] + parts[1];
          atomic_fetch_add_explicit(total, all, memory_order_relaxed);  // <- float-sum-order
        }
        """,
        {"x": Array(np.where(np.arange(320) < 64, 1e8 / 64, 0.05).astype(np.float32))},
        {"total": Out((1,))},
        (320, 1, 1),
        (64, 1, 1),
        init_value=0,
        atomic_outputs=True,
    ),
    Case(
        "float_sum_by_exchanges_of_its_bits",
        """
        uint i = thread_position_in_grid.x;
        device atomic_uint* bits = (device atomic_uint*)total;
        uint before = atomic_load_explicit(bits, memory_order_relaxed);
        uint sum;
        do {
          sum = as_type<uint>(as_type<float>(before) + x[i]);
        } while (!atomic_compare_exchange_weak_explicit(  // <- float-sum-order
            bits, &before, sum, memory_order_relaxed, memory_order_relaxed));  // <- float-sum-order
        """,
        {"x": Array(floats(96))},
        {"total": Out((1,))},
        (96, 1, 1),
        (32, 1, 1),
        init_value=0,
    ),
)
