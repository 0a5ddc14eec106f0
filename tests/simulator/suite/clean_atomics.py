"""Clean kernels: matrices of a simdgroup and atomics."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import count, floats, gives, integers, kernel

_LANES = floats(96)
_A, _B = floats(16, 32), floats(32, 24, seed=1)
_HA, _HB = floats(8, 16).astype(np.float16), floats(16, 8, seed=2).astype(np.float16)
_KEYS = integers(0, 12, 170, dtype="uint8")
_WORDS = integers(0, 1 << 31, 100, dtype="uint32")
_WHOLE = integers(-4, 5, 96)
_COUNTS = integers(0, 7, 150)


CLEAN = (
    kernel("simdgroup_matrix_product", ((96, 2), 96), close=1e-4)(a=_A, b=_B, c=gives(_A @ _B))("""
        uint row = threadgroup_position_in_grid.y * 8;
        uint column = sg * 8;
        simdgroup_float8x8 ma, mb;
        simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        for (uint k = 0; k < 32; k += 8) {
          simdgroup_load(ma, a + row * 32 + k, 32);
          simdgroup_load(mb, b + k * 24 + column, 24);
          simdgroup_barrier(mem_flags::mem_none);
          simdgroup_multiply_accumulate(acc, ma, mb, acc);
        }
        simdgroup_store(acc, c + row * 24 + column, 24);
    """),
    kernel("half_matrices_through_threadgroup_tiles", 64, close=1e-4)(
        a=_HA,
        b=_HB,
        bias=count(8, "float32"),
        c=gives(_HA.astype(np.float32) @ _HB.astype(np.float32) + np.arange(8, dtype=np.float32)),
    )("""
        threadgroup half ta[8 * 16];
        threadgroup half tb[16 * 8];
        threadgroup float tc[64];
        uint lid = thread_index_in_threadgroup;
        for (uint k = lid; k < 128; k += 64) {
          ta[k] = a[k];
          tb[k] = b[k];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (simdgroup_index_in_threadgroup == 0) {
          simdgroup_matrix<half, 8, 8> l, r;
          simdgroup_matrix<float, 8, 8> acc(0);
          for (uint k = 0; k < 16; k += 8) {
            simdgroup_load(l, ta + k, 16);
            simdgroup_load(r, tb + 8 * k, 8);
            simdgroup_multiply_accumulate(acc, l, r, acc);
          }
          simdgroup_store(acc, tc, 8);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        c[lid] = tc[lid] + bias[lid % 8];
    """),
    kernel("transposed_load_of_a_matrix", 32, close=0)(
        x=_A.ravel()[:64].reshape(8, 8), y=gives(2 * _A.ravel()[:64].reshape(8, 8).T)
    )("""
        simdgroup_float8x8 m;
        simdgroup_load(m, x, 8, ulong2(0, 0), true);
        m.thread_elements()[0] *= 2.0f;
        m.thread_elements()[1] *= 2.0f;
        simdgroup_store(m, y, 8);
    """),
    kernel("histogram_on_device", (170, 64), init=0, atomic=True)(
        keys=_KEYS, counts=gives(np.bincount(_KEYS, minlength=12))
    )("""
        atomic_fetch_add_explicit(&counts[keys[i]], 1, memory_order_relaxed);
    """),
    kernel("histogram_by_threadgroups", (170, 50), init=0, atomic=True)(
        keys=_KEYS, counts=gives(np.bincount(_KEYS, minlength=12), "uint32")
    )("""
        threadgroup atomic_uint bins[12];
        if (lid < 12) atomic_store_explicit(&bins[lid], 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        atomic_fetch_add_explicit(&bins[keys[thread_position_in_grid.x]], 1, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 12) {
          uint n = atomic_load_explicit(&bins[lid], memory_order_relaxed);
          if (n > 0) atomic_fetch_add_explicit(&counts[lid], n, memory_order_relaxed);
        }
    """),
    kernel("float_atomics_of_whole_numbers", (96, 24), close=0, init=0, atomic=True)(
        x=_WHOLE, sums=gives(_WHOLE.reshape(32, 3).sum(0) * 0.5)
    )("""
        uint slot = i % 3;
        atomic_fetch_add_explicit(&sums[slot], float(x[i]) * 0.5f, memory_order_relaxed);
    """),
    kernel("atomic_extremes_and_bits", (100, 32), init=7, atomic=True)(
        words=_WORDS,
        r=gives(
            np.array(
                [
                    max(7, _WORDS.max()),
                    min(7, _WORDS.min()),
                    np.bitwise_or.reduce(_WORDS) | 7,
                    np.bitwise_and.reduce(_WORDS) & 7,
                    np.bitwise_xor.reduce(_WORDS) ^ 7,
                    (7 - int((_WORDS & 3).sum())) % 2**32,
                ],
                dtype=np.uint32,
            )
        ),
    )("""
        uint w = words[i];
        atomic_fetch_max_explicit(&r[0], w, memory_order_relaxed);
        atomic_fetch_min_explicit(&r[1], w, memory_order_relaxed);
        atomic_fetch_or_explicit(&r[2], w, memory_order_relaxed);
        atomic_fetch_and_explicit(&r[3], w, memory_order_relaxed);
        atomic_fetch_xor_explicit(&r[4], w, memory_order_relaxed);
        atomic_fetch_sub_explicit(&r[5], w & 3, memory_order_relaxed);
    """),
    kernel("float_maximum_by_compare_exchange", (96, 32), init=0, atomic=True)(
        x=np.abs(_LANES), bits=gives(np.abs(_LANES).max(keepdims=True).view(np.uint32))
    )("""
        float v = x[i];
        uint seen = atomic_load_explicit(&bits[0], memory_order_relaxed);
        while (v > as_type<float>(seen)) {
          if (atomic_compare_exchange_weak_explicit(
                  &bits[0], &seen, as_type<uint>(v), memory_order_relaxed,
                  memory_order_relaxed)) {
            break;
          }
        }
    """),
    kernel("threadgroup_counter_read_after_a_barrier", (150, 60))(
        counts=_COUNTS,
        y=gives(np.concatenate([100 * p + p[p > 2].sum() for p in np.split(_COUNTS, [60, 120])])),
    )("""
        threadgroup atomic_int total;
        if (lid == 0) atomic_store_explicit(&total, 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int n = counts[thread_position_in_grid.x];
        if (n > 2) atomic_fetch_add_explicit(&total, n, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[thread_position_in_grid.x] = n * 100 + atomic_load_explicit(&total, memory_order_relaxed);
    """),
)
