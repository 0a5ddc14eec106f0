"""Kernels with a barrier for each element, or with too much threadgroup memory."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_X = floats(16, 64)
_W = floats(64, 128, seed=1)
_A = floats(64, 64, seed=2)
_B = floats(64, 64, seed=3)
_WHOLE = integers(-9, 10, 16, 128, seed=4)
_ROWS = floats(16, 512, seed=5)
_V = floats(32, 256, seed=6)
_LONG = floats(16, 2048, seed=7)
_BOOK = floats(7168, seed=8)
_CODES = integers(0, 7168, 2048, seed=9)
_COLUMNS = floats(128, 512, seed=10)
_SMALL = floats(64, 64, seed=11)


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


FAULTS = (
    kernel("one_element_staged_at_a_time", (16 * 128, 128), close=1e-4)(
        x=_X, w=_W, y=gives(_X @ _W)
    )("""
        threadgroup float cell;
        uint row = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint k = 0; k < 64; k++) {
          if (lid == 0) cell = x[row * 64 + k];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          sum += cell * w[k * 128 + lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
        y[row * 128 + lid] = sum;
    """),
    kernel("matmul_by_tiles_of_depth_one", ((64, 64), (16, 16)), close=1e-4)(
        a=_A, b=_B, y=gives(_A.T @ _B)
    )("""
        constexpr uint N = 64;
        threadgroup float at[16], bt[16];
        uint2 group = threadgroup_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        float sum = 0;
        for (uint k = 0; k < N; k++) {
          if (lid.x == 0) at[lid.y] = a[k * N + group.y * 16 + lid.y];
          if (lid.y == 0) bt[lid.x] = b[k * N + group.x * 16 + lid.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          sum += at[lid.y] * bt[lid.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
        y[(group.y * 16 + lid.y) * N + group.x * 16 + lid.x] = sum;
    """),
    kernel("prefix_sums_by_turns", (16 * 128, 128))(x=_WHOLE, y=gives(_WHOLE.cumsum(1)))("""
        threadgroup int s[128];
        uint row = threadgroup_position_in_grid.x;
        s[lid] = x[row * 128 + lid];
        for (uint i = 1; i < 128; i++) {
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          if (lid == i) s[i] += s[i - 1];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[row * 128 + lid] = s[lid];
    """),
    kernel("elements_staged_for_no_reader", (16 * 64, 64))(x=_ROWS, y=gives(2 * _ROWS))("""
        threadgroup float tile[64];
        uint row = threadgroup_position_in_grid.x;
        for (uint k = lid; k < 512; k += 64) {
          tile[lid] = x[row * 512 + k];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          y[row * 512 + k] = 2.0f * tile[lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
    """),
    kernel("dot_products_by_the_whole_group", (16 * 256, 256), close=1e-3)(
        x=_ROWS, v=_V, y=gives(_ROWS[:, :256] @ _V.T)
    )("""
        threadgroup float partial[8];
        uint group = simdgroup_index_in_threadgroup;
        uint row = threadgroup_position_in_grid.x;
        float mine = x[row * 512 + lid];
        for (uint o = 0; o < 32; o++) {
          float sum = simd_sum(mine * v[o * 256 + lid]);
          if (lane == 0) partial[group] = sum;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          if (group == 0) sum = simd_sum(lane < 8 ? partial[lane] : 0.0f);
          if (lid == 0) y[row * 32 + o] = sum;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
    """),
    kernel("softmax_of_rows_staged_by_one_simdgroup", (16 * 32, 32))(
        x=_LONG, y=gives(_softmax(_LONG))
    )("""
        constexpr uint C = 2048;
        threadgroup float staged[2 * C];  // <- low-occupancy
        uint row = threadgroup_position_in_grid.x;
        float best = -INFINITY, total = 0;
        for (uint c = lane; c < C; c += 32) {
          staged[c] = x[row * C + c];
          best = max(best, staged[c]);
        }
        best = simd_max(best);
        for (uint c = lane; c < C; c += 32) {
          staged[C + c] = fast::exp(staged[c] - best);
          total += staged[C + c];
        }
        total = simd_sum(total);
        for (uint c = lane; c < C; c += 32) y[row * C + c] = staged[C + c] / total;
    """),
    kernel("codebook_staged_for_64_threads", (2048, 64))(
        book=_BOOK, codes=_CODES, y=gives(_BOOK[_CODES])
    )("""
        threadgroup float staged[7168];  // <- low-occupancy
        for (uint k = lid; k < 7168; k += 64) staged[k] = book[k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = staged[codes[i]];
    """),
    kernel("columns_reversed_in_private_stacks", (512, 32))(x=_COLUMNS, y=gives(_COLUMNS[::-1]))("""
        threadgroup float stack[32 * 129];  // <- low-occupancy
        uint c = thread_position_in_grid.x;
        for (uint r = 0; r < 128; r++) stack[lid * 129 + r] = x[r * 512 + c];
        for (uint r = 0; r < 128; r++) y[r * 512 + c] = stack[lid * 129 + 127 - r];
    """),
    kernel("scratch_declared_for_the_largest_size", (64 * 32, 32), close=1e-4)(
        x=_SMALL,
        y=gives(np.stack([(_SMALL * np.roll(_SMALL, -j, 1)).sum(1) for j in range(32)], 1)),
    )("""
        threadgroup float scratch[8192];  // <- low-occupancy
        uint row = threadgroup_position_in_grid.x;
        scratch[lid] = x[row * 64 + lid];
        scratch[lid + 32] = x[row * 64 + lid + 32];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint k = 0; k < 64; k++) sum += scratch[k] * scratch[(k + lid) % 64];
        y[row * 32 + lid] = sum;
    """),
)
