"""Threadgroups that wait often or share much memory, and the same kernels with simdgroups."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats

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
    Case(
        "dot_product_of_each_row_by_a_tree",
        """
        threadgroup float s[64];
        uint lid = thread_position_in_threadgroup.x;
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
        """,
        {"x": Array(_ROWS), "v": Array(_VECTOR)},
        {"y": Out((32, 16))},
        (32 * 64, 1, 1),
        (64, 1, 1),
        expected=lambda: (_ROWS @ _VECTOR,),
        rtol=1e-3,
        atol=1e-3,
    ),
    Case(
        "neighbours_exchanged_at_each_sample",
        """
        threadgroup float last[64];
        uint lid = thread_position_in_threadgroup.x;
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
        """,
        {"x": Array(_SAMPLES)},
        {"y": Out((32, 64))},
        (32 * 64, 1, 1),
        (64, 1, 1),
        expected=lambda: (_smoothed(),),
        rtol=1e-3,
        atol=1e-4,
    ),
    Case(
        "running_sum_in_doubling_steps",
        """
        threadgroup float s[256];
        uint lid = thread_position_in_threadgroup.x;
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
        """,
        {"x": Array(_STEPS)},
        {"y": Out((64, 256))},
        (64 * 256, 1, 1),
        (256, 1, 1),
        expected=lambda: (_STEPS.cumsum(1),),
        rtol=1e-3,
        atol=1e-3,
    ),
    Case(
        "scores_of_keys_staged_whole",
        """
        threadgroup float keys[64 * 128];  // <- low-occupancy
        uint lid = thread_position_in_threadgroup.x;
        uint batch = threadgroup_position_in_grid.x;
        for (uint k = lid; k < 64 * 128; k += 64) {
          keys[k / 128 * 128 + (k + k / 128) % 128] = x[batch * 8192 + k];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint d = 0; d < 128; d++) {
          sum += keys[lid * 128 + (d + lid) % 128] * q[batch * 128 + d];
        }
        y[batch * 64 + lid] = sum;
        """,
        {"x": Array(_KEYS), "q": Array(_QUERIES)},
        {"y": Out((16, 64))},
        (16 * 64, 1, 1),
        (64, 1, 1),
        lineless=frozenset({"low-occupancy"}),
        expected=lambda: (_scores(),),
        rtol=1e-3,
        atol=1e-3,
    ),
    Case(
        "scene_staged_for_128_threads",
        """
        threadgroup float scene[48 * 128];  // <- low-occupancy
        uint lid = thread_position_in_threadgroup.x;
        uint batch = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint r = 0; r < 48; r++) {
          float v = x[(batch * 48 + r) * 128 + lid];
          scene[r * 128 + lid] = v;
          sum += v;
        }
        for (uint r = 0; r < 48; r++) {
          y[(batch * 48 + r) * 128 + lid] = scene[r * 128 + lid] * sum;
        }
        """,
        {"x": Array(_SCENES)},
        {"y": Out((8, 48, 128))},
        (8 * 128, 1, 1),
        (128, 1, 1),
        lineless=frozenset({"low-occupancy"}),
        expected=lambda: (_totals(),),
        rtol=1e-3,
        atol=1e-4,
    ),
)

CLEAN = (
    Case(
        "dot_product_of_each_row_by_a_simdgroup",
        """
        uint lane = thread_index_in_simdgroup, row = thread_position_in_grid.y;
        float sum = x[row * 64 + lane] * v[lane] + x[row * 64 + lane + 32] * v[lane + 32];
        sum = simd_sum(sum);
        if (lane == 0) y[row] = sum;
        """,
        {"x": Array(_ROWS), "v": Array(_VECTOR)},
        {"y": Out((32, 16))},
        (32, 512, 1),
        (32, 8, 1),
        expected=lambda: (_ROWS @ _VECTOR,),
        rtol=1e-3,
        atol=1e-3,
    ),
    Case(
        "neighbours_exchanged_by_shuffles",
        """
        uint lid = thread_position_in_threadgroup.x;
        uint batch = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint t = 0; t < 32; t++) {
          float mine = x[(batch * 32 + t) * 64 + lid];
          sum += mine + 0.5f * simd_shuffle_xor(mine, 1);
        }
        y[batch * 64 + lid] = sum;
        """,
        {"x": Array(_SAMPLES)},
        {"y": Out((32, 64))},
        (32 * 64, 1, 1),
        (64, 1, 1),
        expected=lambda: (_smoothed(),),
        rtol=1e-3,
        atol=1e-4,
    ),
    Case(
        "running_sum_of_simdgroups",
        """
        threadgroup float sums[8];
        uint lid = thread_position_in_threadgroup.x;
        uint lane = thread_index_in_simdgroup, group = simdgroup_index_in_threadgroup;
        uint row = threadgroup_position_in_grid.x;
        float sum = simd_prefix_inclusive_sum(x[row * 256 + lid]);
        if (lane == 31) sums[group] = sum;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum += simd_sum(lane < group ? sums[lane] : 0.0f);
        y[row * 256 + lid] = sum;
        """,
        {"x": Array(_STEPS)},
        {"y": Out((64, 256))},
        (64 * 256, 1, 1),
        (256, 1, 1),
        expected=lambda: (_STEPS.cumsum(1),),
        rtol=1e-3,
        atol=1e-3,
    ),
    Case(
        "scores_of_keys_by_simdgroups",
        """
        uint lane = thread_index_in_simdgroup, t = thread_position_in_grid.y;
        uint batch = thread_position_in_grid.z;
        float4 key = ((const device float4*)x)[(batch * 64 + t) * 32 + lane];
        float4 query = ((const device float4*)q)[batch * 32 + lane];
        float sum = simd_sum(dot(key, query));
        if (lane == 0) y[batch * 64 + t] = sum;
        """,
        {"x": Array(_KEYS), "q": Array(_QUERIES)},
        {"y": Out((16, 64))},
        (32, 64, 16),
        (32, 8, 1),
        expected=lambda: (_scores(),),
        rtol=1e-3,
        atol=1e-3,
    ),
    Case(
        "scene_staged_for_1024_threads",
        """
        threadgroup float scene[48 * 128];
        threadgroup float sums[8][128];
        uint lid = thread_position_in_threadgroup.x;
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
        for (uint r = part; r < 48; r += 8) {
          y[(batch * 48 + r) * 128 + c] = scene[r * 128 + c] * total;
        }
        """,
        {"x": Array(_SCENES)},
        {"y": Out((8, 48, 128))},
        (8 * 1024, 1, 1),
        (1024, 1, 1),
        expected=lambda: (_totals(),),
        rtol=1e-3,
        atol=1e-4,
    ),
)
