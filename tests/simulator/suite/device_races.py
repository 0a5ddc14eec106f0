"""Bugs: races in device memory."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, count, floats, halves, integers, kernel

BUGS = (
    kernel("every_thread_adds_to_one_sum", 70, init=0)(x=floats(70), total=Out(1))("""
        total[0] += x[i];  // <- device-race
    """),
    kernel("scatter_add_in_a_helper", (80, 40), init=0)(
        T="float16", x=floats(80), index=integers(0, 7, 80, dtype="uint16"), grad=Out(7, "float16")
    )("""
        template <typename T>
        inline void accumulate(device T* into, T v) {
          *into = *into + v;  // <- device-race
        }
        // body
        accumulate(&grad[index[i]], T(x[i]));
    """),
    kernel("groups_write_the_same_window", (48, 16))(x=count(48, "float32"), y=Out(16))("""
        y[lid] = x[thread_position_in_grid.x];  // <- device-race
    """),
    kernel("neighbour_of_a_fresh_output", 64)(x=floats(64), smooth=Out(64), step=Out(64))("""
        smooth[i] = 0.5f * x[i];  // <- device-race
        float before = i > 0 ? smooth[i - 1] : 0.0f;  // <- device-race
        step[i] = x[i] - before;
    """),
    kernel("barrier_taken_for_a_barrier_of_the_grid", (128, 32))(
        x=np.abs(floats(128)), partial=Out(4), y=Out(128)
    )("""
        uint g = threadgroup_position_in_grid.x;
        uint groups = threadgroups_per_grid.x;
        float s = simd_sum(x[thread_position_in_grid.x]);
        if (lid == 0) partial[g] = s;  // <- device-race
        threadgroup_barrier(mem_flags::mem_device);
        float all = 0;
        for (uint k = 0; k < groups; ++k) all += partial[k];  // <- device-race
        y[thread_position_in_grid.x] = x[thread_position_in_grid.x] / all;
    """),
    kernel("atomic_sum_read_plainly", (64, 32), init=0, atomic=True)(
        x=integers(1, 9, 64), sum=Out(65, "int32")
    )("""
        atomic_fetch_add_explicit(&sum[0], x[i], memory_order_relaxed);  // <- device-race
        int so_far = ((device int*)sum)[0];  // <- device-race
        atomic_store_explicit(&sum[1 + i], so_far, memory_order_relaxed);
    """),
    kernel("bins_cleared_by_the_first_group", (96, 32), atomic=True)(
        key=integers(0, 32, 96, dtype="uint8"), counts=Out(32, "uint32")
    )("""
        device uint* plain = (device uint*)counts;
        if (threadgroup_position_in_grid.x == 0)
          plain[thread_position_in_threadgroup.x] = 0;  // <- device-race
        threadgroup_barrier(mem_flags::mem_device);
        atomic_fetch_add_explicit(&counts[key[i]], 1u, memory_order_relaxed);  // <- device-race
    """),
    kernel("windows_that_overlap_by_one", (40, 8))(
        x=floats(40), w=floats(5, seed=1), y=Out(161)
    )("""
        for (uint k = 0; k < 5; ++k) y[4 * i + k] = x[i] * w[k];  // <- device-race
    """),
    kernel("bits_packed_by_eight_threads", 96, init=0)(x=floats(96), bits=Out(2, "uint8"))("""
        uchar bit = x[i] > 0 ? 1 : 0;
        bits[i / 48] |= bit << (i % 8);  // <- device-race
    """),
    kernel("last_thread_of_a_group_writes_the_halo", (90, 30))(x=floats(90), y=Out(90))("""
        y[i] = x[i];  // <- device-race
        if (lid + 1 == threads_per_threadgroup.x && i + 1 < uint(x_shape[0]))
          y[i + 1] = 0.5f * (x[i] + x[i + 1]);  // <- device-race
    """),
    kernel("column_sums_by_rows", ((20, 6), 20))(
        T="float16", x=halves(6, 20), y=Out(20, "float16")
    )("""
        uint row = thread_position_in_grid.y;
        uint column = thread_position_in_grid.x;
        uint columns = x_shape[1];
        T v = x[row * columns + column];
        y[column] = row == 0 ? v : T(y[column] + v);  // <- device-race
    """),
    kernel("scatter_with_a_doubled_target", 50, init=0)(
        x=floats(50),
        target=np.where(np.arange(50) == 44, 3, np.arange(50)).astype(np.int32),
        y=Out(50),
    )("""
        y[target[i]] = x[i];  // <- device-race
    """),
    kernel("scratch_overwritten_while_others_read", (128, 64))(x=floats(128), scratch=Out(128))("""
        uint base = threadgroup_position_in_grid.x * 64;
        scratch[base + lid] = x[base + lid];
        threadgroup_barrier(mem_flags::mem_device);
        float other = scratch[base + (lid ^ 32)];  // <- device-race
        scratch[base + lid] = other * 2;  // <- device-race
    """),
    kernel("float4_store_beside_scalar_stores", 48)(x=floats(48), y=Out(52))("""
        if (i < 10) {
          *(device float4*)(y + 4 * i) = float4(x[i]);  // <- device-race
        } else if (i >= 32) {
          y[i - 32 + 36] = -1;  // <- device-race
        }
    """),
    kernel("last_token_found_by_everyone_at_the_end", (72, 24))(
        ids=np.where(np.arange(72) < 65, 7, 0).astype(np.int32),
        pad=np.int32(0),
        last=Out(1, "int32"),
    )("""
        if (ids[i] != pad)
          last[0] = int(i);  // <- device-race
    """),
    kernel("running_sum_across_groups", (96, 32))(x=integers(0, 5, 96), y=Out(96, "int32"))("""
        uint g = threadgroup_position_in_grid.x;
        int before = simd_prefix_inclusive_sum(x[i]);
        int carry = g > 0 ? y[g * 32 - 1] : 0;  // <- device-race
        y[i] = before + carry;  // <- device-race
    """),
)
