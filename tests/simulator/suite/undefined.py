"""Misaligned accesses, divisions by zero, and lanes that wait for each other; with clean twins."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Out, count, floats, gives, kernel

_X = floats(160)
_HALVES = floats(160).astype(np.float16)
_BYTES = np.arange(160, dtype=np.uint8)
_DIVIDENDS = np.arange(32, dtype=np.int32) + 40
_DIVISORS = np.arange(32, dtype=np.int32) % 3
_SAFE = np.maximum(_DIVISORS, 1)
_NUMBERS = np.arange(32, dtype=np.int32)


BUGS = (
    kernel("vector_of_every_position", 32)(x=_X, y=Out(32))("""
        float4 v = *(const device float4*)(x + i);  // <- misaligned-access
        y[i] = v.x + v.w;
    """),
    kernel("rows_of_five_seen_as_vectors", 32)(x=_X, y=Out(32))("""
        const device float4* row = (const device float4*)(x + 5 * i);
        y[i] = row->y;  // <- misaligned-access
    """),
    kernel("vector_stores_after_a_header_of_one", 32, init=0)(x=_X, y=Out(66))("""
        device float2* pairs = reinterpret_cast<device float2*>(y + 1);
        if (i == 0) y[0] = 32;
        pairs[i] = float2(x[i], x[i + 1]);  // <- misaligned-access
    """),
    kernel("four_halves_in_a_helper", 32)(h=_HALVES, y=Out(32))("""
        float total(const device half4* p) {
          half4 v = *p;  // <- misaligned-access
          return float(v.x) + float(v.w);
        }
        // body
        y[i] = total(reinterpret_cast<const device half4*>(h + 2 * i));
    """),
    kernel("word_of_odd_bytes", 32)(bytes=_BYTES, y=Out(32, "uint32"))("""
        y[i] = *(const device uint*)(bytes + 3 * i);  // <- misaligned-access
    """),
    kernel("vector_in_a_tile_of_odd_rows", 32)(x=_X, y=Out(32))("""
        threadgroup float tile[32 * 5];
        uint i = thread_index_in_threadgroup;
        for (uint k = 0; k < 5; k++) tile[5 * i + k] = x[5 * i + k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = ((threadgroup float4*)(tile + 5 * (31 - i)))->x;  // <- misaligned-access
    """),
    kernel("mean_of_an_empty_bin", 32)(a=_DIVIDENDS, b=_DIVISORS, y=Out(32, "int32"))("""
        y[i] = a[i] / b[i];  // <- undefined-arithmetic
    """),
    kernel("bucket_of_no_buckets", 32)(a=_DIVIDENDS, b=_DIVISORS, y=Out(32, "int32"))("""
        uint bucket = uint(a[i]) % uint(b[i]);  // <- undefined-arithmetic
        y[i] = int(bucket) + 1;
    """),
    kernel("strides_of_an_empty_axis", 32)(a=_DIVIDENDS, b=_DIVISORS, y=Out(32, "int32"))("""
        int offset(int at, int width) {
          short2 by = short2(short(width), 2);
          short2 place = short2(short(at)) / by;  // <- undefined-arithmetic
          return place.x * 3 + place.y;
        }
        // body
        y[i] = offset(a[i], b[i]);
    """),
    kernel("lock_of_every_lane", 32, init=0, atomic=True)(x=_NUMBERS, state=Out(2, "int32"))("""
        int free = 0;
        while (!atomic_compare_exchange_weak_explicit(  // <- simdgroup-deadlock
            &state[0], &free, 1, memory_order_relaxed, memory_order_relaxed)) {
          free = 0;
        }
        int count = atomic_load_explicit(&state[1], memory_order_relaxed);
        atomic_store_explicit(&state[1], count + x[i], memory_order_relaxed);
        atomic_store_explicit(&state[0], 0, memory_order_relaxed);
    """),
    kernel("turns_of_the_lanes", 32, init=0, atomic=True)(x=_NUMBERS, state=Out(2, "int32"))("""
        int me = int(thread_position_in_grid.x);
        while (true) {
          int turn = atomic_load_explicit(state, memory_order_relaxed);  // <- simdgroup-deadlock
          if (turn == me) break;
        }
        int hash = atomic_load_explicit(&state[1], memory_order_relaxed);
        atomic_store_explicit(&state[1], hash * 3 + x[me], memory_order_relaxed);
        atomic_store_explicit(&state[0], me + 1, memory_order_relaxed);
    """),
    kernel("first_lane_waits_for_the_last", 32, init=0, atomic=True)(
        x=_NUMBERS, state=Out(2, "int32"), y=Out(32, "int32")
    )("""
        if (i == 0) {
          while (!atomic_load_explicit(state, memory_order_relaxed)) {}  // <- simdgroup-deadlock
        } else if (i == 31) {
          atomic_store_explicit(&state[0], 1, memory_order_relaxed);
        }
        atomic_store_explicit(&y[i], x[i], memory_order_relaxed);
    """),
)

CLEAN = (
    kernel("packed_vector_of_every_position", 32)(x=_X, y=gives(_X[:32] + _X[3:35]))("""
        packed_float4 v = *(const device packed_float4*)(x + i);
        y[i] = v[0] + v[3];
    """),
    kernel("vectors_where_the_width_allows", 32)(x=_X, y=gives(_X[5 * _NUMBERS + 1]))("""
        uint width = 5 - (i == 0);
        const device float4* row = (const device float4*)(x + width * i);
        y[i] = width % 4 == 0 ? row[0].y : x[width * i + 1];
    """),
    kernel("vectors_of_private_and_threadgroup_arrays", 32)(
        x=_X, y=gives(2 * _X[4 * _NUMBERS + 2])
    )("""
        threadgroup float shared[3], tile[128];
        uint i = thread_index_in_threadgroup;
        float own[5];
        if (i < 3) shared[i] = x[i];
        for (uint k = 0; k < 4; k++) own[k] = tile[4 * i + k] = x[4 * i + k];
        own[4] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float4 v = *(thread float4*)own + ((threadgroup float4*)tile)[i];
        y[i] = v.z + own[4] + 0 * shared[i % 3];
    """),
    kernel("pointer_moved_before_it_is_used", 32)(x=_X, y=gives(_X[2 * _NUMBERS + 1]))("""
        const device uchar* raw = (const device uchar*)x + 1;
        const device float2* pairs = (const device float2*)(raw - 1);
        const device float2* end = &pairs[i + 1];
        y[i] = end[-1].y;
    """),
    kernel("quotient_dropped_where_the_divisor_is_zero", 32)(
        a=_DIVIDENDS,
        b=_DIVISORS,
        y=gives(np.where(_DIVISORS == 0, -1, _DIVIDENDS // _SAFE + _DIVIDENDS % _SAFE)),
    )("""
        int q = a[i] / b[i], r = a[i] % b[i];
        y[i] = select(q + r, -1, b[i] == 0);
    """),
    kernel("divisor_of_at_least_one", 32)(
        a=_DIVIDENDS, b=_DIVISORS, y=gives(np.where(_DIVISORS == 0, 0, 2 * (_DIVIDENDS // _SAFE)))
    )("""
        y[i] = b[i] == 0 ? 0 : a[i] / b[i] + a[i] / max(b[i], 1);
    """),
    kernel("float_quotient_by_zero", 32)(
        a=_DIVIDENDS, b=_DIVISORS, y=gives(np.where(_DIVISORS == 0, -1, _DIVIDENDS // _SAFE))
    )("""
        float q = float(a[i]) / float(b[i]);
        y[i] = isinf(q) ? -1 : int(floor(q));
    """),
    kernel("lock_released_inside_of_the_loop", 32, init=0, atomic=True)(
        x=_NUMBERS, state=gives(np.array([0, _NUMBERS.sum()]))
    )("""
        bool done = false;
        while (!done) {
          if (atomic_exchange_explicit(&state[0], 1, memory_order_relaxed) == 0) {
            int sum = atomic_load_explicit(&state[1], memory_order_relaxed);
            atomic_store_explicit(&state[1], sum + x[i], memory_order_relaxed);
            atomic_store_explicit(&state[0], 0, memory_order_relaxed);
            done = true;
          }
        }
    """),
    kernel("all_lanes_arrive_before_they_wait", 32, init=0, atomic=True)(
        x=_NUMBERS, state=gives(np.array([16, 16])), y=gives(_NUMBERS)
    )("""
        if (i % 2) {
          atomic_fetch_add_explicit(&state[0], 1, memory_order_relaxed);
        } else {
          atomic_fetch_add_explicit(&state[1], 1, memory_order_relaxed);
        }
        while (atomic_load_explicit(&state[0], memory_order_relaxed) +
               atomic_load_explicit(&state[1], memory_order_relaxed) < 32) {}
        atomic_store_explicit(&y[i], x[i], memory_order_relaxed);
    """),
    kernel("arrivals_after_the_wait_of_the_round", 32, init=0, atomic=True)(
        x=_NUMBERS, state=gives(np.array([96, 0])), y=gives(np.full(32, 3))
    )("""
        for (int round = 0; round < 3; round++) {
          while (atomic_load_explicit(&state[0], memory_order_relaxed) < 32 * round) {}
          atomic_fetch_add_explicit(&y[i], round, memory_order_relaxed);
          atomic_fetch_add_explicit(&state[0], 1, memory_order_relaxed);
        }
    """),
    kernel("arrivals_and_waits_in_helpers", 32, init=0, atomic=True)(
        x=_NUMBERS, state=gives(np.array([16, 16])), y=gives(_NUMBERS)
    )("""
        void wait(device atomic_int* state, int count) {
          while (atomic_load_explicit(state, memory_order_relaxed) +
                 atomic_load_explicit(state + 1, memory_order_relaxed) < count) {}
        }
        void arrive(device atomic_int* state) {
          atomic_fetch_add_explicit(state, 1, memory_order_relaxed);
        }
        // body
        arrive(&state[i % 2]);
        wait(state, 32);
        atomic_store_explicit(&y[i], x[i], memory_order_relaxed);
    """),
    kernel("one_lane_of_each_simdgroup_takes_a_lock", 128)(
        x=count(128), y=gives(np.array([127 * 64]))
    )("""
        threadgroup atomic_int lock, total;
        uint lid = thread_index_in_threadgroup;
        if (lid == 0) {
          atomic_store_explicit(&lock, 0, memory_order_relaxed);
          atomic_store_explicit(&total, 0, memory_order_relaxed);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int sum = simd_sum(x[lid]);
        if (simd_is_first()) {
          while (atomic_exchange_explicit(&lock, 1, memory_order_relaxed)) {}
          int before = atomic_load_explicit(&total, memory_order_relaxed);
          atomic_store_explicit(&total, before + sum, memory_order_relaxed);
          atomic_store_explicit(&lock, 0, memory_order_relaxed);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) y[0] = atomic_load_explicit(&total, memory_order_relaxed);
    """),
    kernel("second_simdgroup_waits_for_the_first", 64)(x=count(64), y=gives(np.arange(64)))("""
        threadgroup atomic_int ready;
        uint lid = thread_index_in_threadgroup;
        if (lid == 0) atomic_store_explicit(&ready, 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 32) {
          while (atomic_load_explicit(&ready, memory_order_relaxed) < 32) {}
        } else {
          atomic_fetch_add_explicit(&ready, 1, memory_order_relaxed);
        }
        y[lid] = x[lid];
    """),
)
