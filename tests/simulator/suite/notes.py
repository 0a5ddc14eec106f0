"""Kernels of the benign classes: notes at the marked lines, and no error."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, floats, gives, integers, kernel

_X = floats(64)
_POSITIVE = np.abs(floats(96)) + 0.5
_KEYS = integers(0, 9, 32)
_HALVES = (_X.reshape(4, 16).sum(1) / 32 * [-1, 1, -1, 1]).repeat(16)

NOTES = (
    kernel("every_thread_stores_the_same_count", (64, 16))(
        x=_X, y=gives(_X + 1), size=gives(np.array([64]))
    )("""
        y[i] = x[i] + 1;
        size[0] = x_shape[0];  // <- same-value-write
    """),
    kernel("flag_raised_by_whoever_sees_it", 96)(
        x=_POSITIVE, y=gives(np.full(96, (_POSITIVE > 1).any()))
    )("""
        threadgroup bool found;
        if (lid == 0) found = false;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (x[lid] > 1.0f)
          found = true;  // <- same-value-write
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = found;
    """),
    kernel("last_warp_unrolled_without_barriers", 32)(keys=_KEYS, y=Out(1, "int32"))("""
        threadgroup int work[32];
        work[lane] = keys[lane];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = 16; s > 0; s >>= 1) {
          int other = lane < s ? work[lane + s] : 0;  // <- lane-synchronous
          if (lane < s) work[lane] += other;  // <- lane-synchronous
        }
        if (lane == 0) y[0] = work[0];
    """),
    kernel("float_sum_by_atomics", (96, 32), init=0, atomic=True)(
        x=(floats(96) * 10.0 ** np.arange(96).clip(0, 12)).astype(np.float32), total=Out(1)
    )("""
        atomic_fetch_add_explicit(&total[0], x[i], memory_order_relaxed);  // <- float-sum-order
    """),
    kernel("sums_of_groups_added_as_floats", (320, 64), init=0, atomic=True)(
        x=np.where(np.arange(320) < 64, 1e8 / 64, 0.05).astype(np.float32), total=Out(1)
    )("""
        threadgroup float parts[2];
        float s = simd_sum(x[thread_position_in_grid.x]);
        if (simd_is_first()) parts[lid / 32] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) {
          float all = parts[0] + parts[1];
          atomic_fetch_add_explicit(total, all, memory_order_relaxed);  // <- float-sum-order
        }
    """),
    kernel("float_sum_by_exchanges_of_its_bits", (96, 32), init=0)(x=floats(96), total=Out(1))("""
        device atomic_uint* bits = (device atomic_uint*)total;
        uint before = atomic_load_explicit(bits, memory_order_relaxed), sum;
        do {
          sum = as_type<uint>(as_type<float>(before) + x[i]);
        } while (!atomic_compare_exchange_weak_explicit(  // <- float-sum-order
            bits, &before, sum, memory_order_relaxed, memory_order_relaxed));  // <- float-sum-order
    """),
    kernel("mean_taken_in_both_branches", (64, 32))(x=_X, y=gives(_X + _HALVES))("""
        float v = x[thread_position_in_grid.x], r;
        if (lane < 16) {
          r = v - simd_sum(v) / 32;  // <- split-reduction
        } else {
          r = v + simd_sum(v) / 32;  // <- split-reduction
        }
        y[thread_position_in_grid.x] = r;
    """),
)
