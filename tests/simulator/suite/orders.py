"""Bugs: results that depend on the order of threads, without a race."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, floats, integers, kernel

BUGS = (
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
        uint slot = keys[i] % 4;
        uint empty = 0;
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
