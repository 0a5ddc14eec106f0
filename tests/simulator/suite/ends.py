"""Bugs that end a kernel, and results that depend on the order of threads."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, count, floats, integers, kernel

BUGS = (
    kernel("shift_of_a_whole_word", 8)(x=count(8), y=Out(8, "int32"))("""
        y[i] = int(0xffffffffu >> (32 - x[i]));  // <- undefined-arithmetic
    """),
    kernel("bisection_that_never_narrows", 8)(
        x=np.full(8, 2.5, np.float32), edges=count(16, "float32"), y=Out(8, "int32")
    )("""
        int low = 0, high = 15;
        while (low < high) {  // <- timeout
          int middle = (low + high) / 2;  // <- timeout
          if (edges[middle] <= x[i]) {  // <- timeout
            low = middle;  // <- timeout
          } else {
            high = middle;
          }
        }
        y[i] = low;
    """),
    kernel("waits_for_a_later_threadgroup", (2, 1), init=0, atomic=True)(
        seed=np.int32(1), flag=Out(2, "int32")
    )("""
        uint g = threadgroup_position_in_grid.x;
        if (g == 0) {
          while (atomic_load_explicit(&flag[1], memory_order_relaxed) == 0) {  // <- timeout
          }
          atomic_store_explicit(&flag[0], 1, memory_order_relaxed);
        } else if (g == 1) {
          while (atomic_load_explicit(&flag[0], memory_order_relaxed) == 0) {  // <- timeout
          }
          atomic_store_explicit(&flag[1], 1, memory_order_relaxed);
        }
    """),
    kernel("unsigned_countdown", 4)(x=floats(8), y=Out(4))("""
        float s = 0;
        for (uint k = 7; k >= 0; --k) {  // <- timeout
          s = s * 0.5f + x[k & 7];  // <- timeout
          if (isnan(s)) break;  // <- timeout
        }
        y[i] = s;
    """),
    kernel("table_too_large_for_a_stack", 2)(x=floats(16), y=Out(2))("""
        float table[1 << 22];  // <- crash
        for (uint k = 0; k < (1u << 22); k += 4099)
          table[(k + i) % (1u << 22)] = x[k % 16];  // <- crash
        float s = 0;
        for (uint k = 0; k < (1u << 22); k += 4099) s += table[(k + i) % (1u << 22)];
        y[i] = s;
    """),
    kernel("address_from_data", 8)(where=integers(4096, 90000, 8, dtype="uint64"), y=Out(8))("""
        device float* p = (device float*)(ulong(where[i]));
        *p = 1.0f;  // <- crash|out-of-bounds
        y[i] = 2.0f;
    """),
    kernel("null_unless_it_is_large", 32)(x=floats(32), y=Out(32))("""
        const device float* source = nullptr;
        if (x_shape[0] > 1000) source = x;
        y[i] = source[i];  // <- crash|out-of-bounds
    """),
    kernel("last_group_wins", (64, 16), atomic=True)(seed=np.int32(1), winner=Out(1, "int32"))("""
        uint g = threadgroup_position_in_grid.x;
        if (thread_position_in_threadgroup.x == 0)
          atomic_store_explicit(&winner[0], int(g), memory_order_relaxed);  // <- order-dependent
    """),
    kernel("compaction_by_tickets", (40, 8), init=0, atomic=True)(
        x=floats(40), kept=Out(41, "int32")
    )("""
        device atomic_int* count = kept + 40;
        if (x[i] > 0) {
          int at = atomic_fetch_add_explicit(count, 1, memory_order_relaxed);
          atomic_store_explicit(kept + at, int(i), memory_order_relaxed);  // <- order-dependent
        }
    """),
    kernel("first_to_claim", (33, 11), init=0, atomic=True)(
        keys=integers(0, 100, 33, dtype="uint32"), owner=Out(4, "uint32")
    )("""
        uint slot = keys[i] % 4, empty = 0;
        atomic_compare_exchange_weak_explicit(  // <- order-dependent
            &owner[slot], &empty, i + 1, memory_order_relaxed, memory_order_relaxed);
    """),
    kernel("ranks_from_a_threadgroup_ticket", 64)(mask=floats(64) > 0, ranks=Out(64, "uint32"))("""
        threadgroup atomic_uint next;
        if (lid == 0) atomic_store_explicit(&next, 0u, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint rank = 0;
        if (mask[lid]) rank = 1 + atomic_fetch_add_explicit(&next, 1u, memory_order_relaxed);
        ranks[lid] = rank;  // <- order-dependent
    """),
    kernel("exchange_hands_the_previous_value_on", (24, 8), init=-1, atomic=True)(
        seed=np.int32(1), chain=Out(25, "int32")
    )("""
        int me = int(i);
        int old = atomic_exchange_explicit(chain, me, memory_order_relaxed);  // <- order-dependent
        atomic_store_explicit(&chain[i + 1], old, memory_order_relaxed);  // <- order-dependent
    """),
)
