"""Threadgroups that wait often or share much memory, and the same kernels with simdgroups."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, kernel

_ROWS = floats(32, 16, 64)
_VECTOR = floats(64, seed=1)
_SAMPLES = floats(32, 32, 64, seed=2)
_STEPS = floats(64, 256, seed=3)
_KEYS = floats(16, 64, 128, seed=4)
_QUERIES = floats(16, 128, seed=5)
_SCENES = floats(8, 48, 128, seed=6)


def _smoothed() -> np.ndarray:
    neighbours = _SAMPLES.reshape(32, 32, 32, 2)[..., ::-1].reshape(32, 32, 64)
    return (_SAMPLES + 0.5 * neighbours).sum(1)


def _scores() -> np.ndarray:
    return np.einsum("btd,bd->bt", _KEYS, _QUERIES)


def _totals() -> np.ndarray:
    columns = _SCENES.sum(1)
    return _SCENES * columns[:, None]


FAULTS = (
    kernel("dot_product_of_each_row_by_a_tree", (32 * 64, 64), close=1e-4)(
        x=_ROWS, v=_VECTOR, y=gives(_ROWS @ _VECTOR)
    )("""
        threadgroup float s[64];
        uint batch = threadgroup_position_in_grid.x;
        for (uint r = 0; r < 16; r++) {
          s[lid] = x[(batch * 16 + r) * 64 + lid] * v[lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint half_of = 32; half_of > 0; half_of /= 2) {
            if (lid < half_of) s[lid] += s[lid + half_of];
            threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          }
          if (lid == 0) y[batch * 16 + r] = s[0];
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    """),
    kernel("neighbours_exchanged_at_each_sample", (32 * 64, 64))(
        x=_SAMPLES, y=gives(_smoothed())
    )("""
        threadgroup float last[64];
        uint batch = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint t = 0; t < 32; t++) {
          float mine = x[(batch * 32 + t) * 64 + lid];
          last[lid] = mine;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          sum += mine + 0.5f * last[lid ^ 1];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
        y[batch * 64 + lid] = sum;
    """),
    kernel("running_sum_in_doubling_steps", (64 * 256, 256), close=1e-3)(
        x=_STEPS, y=gives(_STEPS.cumsum(1))
    )("""
        threadgroup float s[256];
        uint row = threadgroup_position_in_grid.x;
        s[lid] = x[row * 256 + lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint step = 1; step < 256; step *= 2) {
          float before = lid >= step ? s[lid - step] : 0.0f;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          s[lid] += before;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
        y[row * 256 + lid] = s[lid];
    """),
    kernel("scores_of_keys_staged_whole", (16 * 64, 64), close=1e-4)(
        x=_KEYS, q=_QUERIES, y=gives(_scores())
    )("""
        threadgroup float keys[64 * 128];  // <- low-occupancy
        uint batch = threadgroup_position_in_grid.x;
        for (uint k = lid; k < 64 * 128; k += 64)
          keys[k / 128 * 128 + (k + k / 128) % 128] = x[batch * 8192 + k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint d = 0; d < 128; d++)
          sum += keys[lid * 128 + (d + lid) % 128] * q[batch * 128 + d];
        y[batch * 64 + lid] = sum;
    """),
    kernel("scene_staged_for_128_threads", (8 * 128, 128))(x=_SCENES, y=gives(_totals()))("""
        threadgroup float scene[48 * 128];  // <- low-occupancy
        uint batch = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint r = 0; r < 48; r++) {
          float v = x[(batch * 48 + r) * 128 + lid];
          scene[r * 128 + lid] = v;
          sum += v;
        }
        for (uint r = 0; r < 48; r++) y[(batch * 48 + r) * 128 + lid] = scene[r * 128 + lid] * sum;
    """),
)

CLEAN = (
    kernel("dot_product_of_each_row_by_a_simdgroup", ((32, 512), (32, 8)), close=1e-4)(
        x=_ROWS, v=_VECTOR, y=gives(_ROWS @ _VECTOR)
    )("""
        uint row = thread_position_in_grid.y;
        float sum = x[row * 64 + lane] * v[lane] + x[row * 64 + lane + 32] * v[lane + 32];
        sum = simd_sum(sum);
        if (lane == 0) y[row] = sum;
    """),
    kernel("neighbours_exchanged_by_shuffles", (32 * 64, 64))(x=_SAMPLES, y=gives(_smoothed()))("""
        uint batch = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint t = 0; t < 32; t++) {
          float mine = x[(batch * 32 + t) * 64 + lid];
          sum += mine + 0.5f * simd_shuffle_xor(mine, 1);
        }
        y[batch * 64 + lid] = sum;
    """),
    kernel("running_sum_of_simdgroups", (64 * 256, 256), close=1e-4)(
        x=_STEPS, y=gives(_STEPS.cumsum(1))
    )("""
        threadgroup float sums[8];
        uint group = simdgroup_index_in_threadgroup;
        uint row = threadgroup_position_in_grid.x;
        float sum = simd_prefix_inclusive_sum(x[row * 256 + lid]);
        if (lane == 31) sums[group] = sum;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum += simd_sum(lane < group ? sums[lane] : 0.0f);
        y[row * 256 + lid] = sum;
    """),
    kernel("scores_of_keys_by_simdgroups", ((32, 64, 16), (32, 8)), close=1e-4)(
        x=_KEYS, q=_QUERIES, y=gives(_scores())
    )("""
        uint t = thread_position_in_grid.y;
        uint batch = thread_position_in_grid.z;
        float4 key = ((const device float4*)x)[(batch * 64 + t) * 32 + lane];
        float4 query = ((const device float4*)q)[batch * 32 + lane];
        float sum = simd_sum(dot(key, query));
        if (lane == 0) y[batch * 64 + t] = sum;
    """),
    kernel("scene_staged_for_1024_threads", (8 * 1024, 1024), close=1e-4)(
        x=_SCENES, y=gives(_totals())
    )("""
        threadgroup float scene[48 * 128];
        threadgroup float sums[8][128];
        uint c = lid % 128, part = lid / 128;
        uint batch = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint r = part; r < 48; r += 8) {
          float v = x[(batch * 48 + r) * 128 + c];
          scene[r * 128 + c] = v;
          sum += v;
        }
        sums[part][c] = sum;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float total = 0;
        for (uint p = 0; p < 8; p++) total += sums[p][c];
        for (uint r = part; r < 48; r += 8)
          y[(batch * 48 + r) * 128 + c] = scene[r * 128 + c] * total;
    """),
)
