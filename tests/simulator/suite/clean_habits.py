"""Clean kernels: habits that look like faults."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_RANKED = np.random.default_rng(3).permutation(96).astype(np.float32)
_STREAM = floats(5, 40, seed=7)
_FLAGS = integers(0, 200, 60)


def _windows(x: np.ndarray, width: int) -> np.ndarray:
    return np.stack([x[:, max(0, k - width + 1) : k + 1].max(1) for k in range(x.shape[1])], 1)


def _sides(v: np.ndarray) -> np.ndarray:
    side = np.where(v < 0, -1, np.where(v > 1, 1, 0))
    lower = np.where(v < 0, 2 * v, v)
    return lower + 10 * (lower + 1) + 100 * side + np.where(side != 0, 3 * (lower + 1), 0)


CLEAN = (
    kernel("one_arena_for_two_phases", 64)(
        x=_RANKED[:64], y=gives(np.argsort(np.argsort(_RANKED[:64]))[::-1])
    )("""
        threadgroup uchar arena[256];
        threadgroup float* values = (threadgroup float*)arena;
        threadgroup int* ranks = (threadgroup int*)arena;
        values[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int rank = 0;
        for (uint k = 0; k < 64; ++k) rank += values[k] < x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        ranks[lid] = rank;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = ranks[63 - lid];
    """),
    kernel("idle_simdgroups_go_home", (256, 128))(
        x=_STREAM, y=gives(_STREAM - _STREAM.mean(1, keepdims=True))
    )("""
        uint row = threadgroup_position_in_grid.x * 4 + sg;
        if (row >= uint(x_shape[0])) return;
        float s = 0, q;
        for (uint c = lane; c < 40; c += 32) s += x[row * 40 + c];
        q = simd_sum(s);
        simdgroup_barrier(mem_flags::mem_none);
        for (uint c = lane; c < 40; c += 32) y[row * 40 + c] = x[row * 40 + c] - q / 40;
    """),
    kernel("sliding_maximum_in_a_ring", 5, close=0)(x=_STREAM, y=gives(_windows(_STREAM, 4)))("""
        uint row = thread_position_in_grid.x;
        float ring[4];
        for (int k = 0; k < 40; ++k) {
          ring[k & 3] = x[row * 40 + k];
          float top = ring[0];
          for (int j = 1; j < min(k + 1, 4); ++j) top = max(top, ring[j]);
          y[row * 40 + k] = top;
        }
    """),
    kernel("bits_set_by_atomics_and_read_after", 60)(
        x=_FLAGS, distinct=gives(np.array(len(np.unique(_FLAGS))), "uint32")
    )("""
        threadgroup atomic_uint seen[7];
        if (lid < 7) atomic_store_explicit(&seen[lid], 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint v = x[lid];
        atomic_fetch_or_explicit(&seen[v / 32], 1u << (v % 32), memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint count = 0;
        for (uint k = 0; k < 7; ++k)
          count += popcount(atomic_load_explicit(&seen[k], memory_order_relaxed));
        if (lid == 0) distinct[0] = count;
    """),
    kernel("set_on_every_path_before_its_use", 50)(
        x=_STREAM.ravel()[:50], y=gives(_sides(_STREAM.ravel()[:50]))
    )("""
        float v = x[i], lower, upper;
        int side;
        float3 parts;
        if (v < 0) {
          side = -1;
          lower = v * 2;
        } else {
          side = v > 1 ? 1 : 0;
          lower = v;
        }
        upper = lower + 1;
        parts.x = lower;
        parts.yz = float2(upper, float(side));
        float unused;
        float maybe;
        if (side != 0) maybe = upper * 3;
        y[i] = parts.x + 10 * parts.y + 100 * parts.z + (side != 0 ? maybe : 0.0f);
    """),
)
