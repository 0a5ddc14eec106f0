"""Kernels without a cost fault: matrices and images."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, kernel

_X = floats(128, 128)
_A = floats(64, 64, seed=1)
_B = floats(64, 64, seed=2)
_FILTER = floats(3, 3, seed=3)


def _convolved() -> np.ndarray:
    padded = np.pad(_X, 1)
    return sum(_FILTER[i, j] * padded[i : i + 128, j : j + 128] for i in range(3) for j in range(3))


def _relaxed() -> np.ndarray:
    padded = np.pad(_X, 1)
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    return 0.25 * around


CLEAN = (
    kernel("transpose_by_padded_tiles", ((128, 32), (32, 8)))(x=_X, y=gives(_X.T))("""
        threadgroup float tile[32][33];
        uint2 group = threadgroup_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        for (uint r = lid.y; r < 32; r += 8)
          tile[r][lid.x] = x[(group.y * 32 + r) * 128 + group.x * 32 + lid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint r = lid.y; r < 32; r += 8)
          y[(group.x * 32 + r) * 128 + group.y * 32 + lid.x] = tile[lid.x][r];
    """),
    kernel("matmul_by_tiles", ((64, 64), (16, 16)), close=1e-4)(a=_A, b=_B, y=gives(_A @ _B))("""
        constexpr uint N = 64, T = 16;
        threadgroup float at[T][T], bt[T][T];
        uint2 at_grid = thread_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        float sum = 0;
        for (uint k = 0; k < N; k += T) {
          at[lid.y][lid.x] = a[at_grid.y * N + k + lid.x];
          bt[lid.y][lid.x] = b[(k + lid.y) * N + at_grid.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint i = 0; i < T; i++) sum += at[lid.y][i] * bt[i][lid.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[at_grid.y * N + at_grid.x] = sum;
    """),
    kernel("matmul_by_blocks_of_registers", ((64, 16), (32, 8)), close=1e-4)(
        a=_A, b=_B, y=gives(_A @ _B)
    )("""
        constexpr uint N = 64, T = 32;
        threadgroup float at[T][T], bt[T][T];
        uint2 group = threadgroup_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        float sums[4] = {0, 0, 0, 0};
        for (uint k = 0; k < N; k += T) {
          for (uint r = 0; r < 4; r++) {
            uint y0 = lid.y + 8 * r;
            at[y0][lid.x] = a[(group.y * T + y0) * N + k + lid.x];
            bt[y0][lid.x] = b[(k + y0) * N + group.x * T + lid.x];
          }
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint i = 0; i < T; i++) {
            float right = bt[i][lid.x];
            for (uint r = 0; r < 4; r++) sums[r] += at[lid.y + 8 * r][i] * right;
          }
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        for (uint r = 0; r < 4; r++)
          y[(group.y * T + lid.y + 8 * r) * N + group.x * T + lid.x] = sums[r];
    """),
    kernel("matmul_by_simdgroup_matrices", ((128, 4), 32), close=1e-4)(
        a=_A, b=_B, y=gives(_A @ _B)
    )("""
        constexpr uint N = 64;
        uint row = threadgroup_position_in_grid.y * 16;
        uint col = threadgroup_position_in_grid.x * 16;
        simdgroup_float8x8 left[2], right[2];
        simdgroup_float8x8 sums[4] = {simdgroup_float8x8(0), simdgroup_float8x8(0),
                                      simdgroup_float8x8(0), simdgroup_float8x8(0)};
        for (uint k = 0; k < N; k += 8) {
          for (uint i = 0; i < 2; i++) {
            simdgroup_load(left[i], a + (row + 8 * i) * N + k, N);
            simdgroup_load(right[i], b + k * N + col + 8 * i, N);
          }
          for (uint i = 0; i < 4; i++)
            simdgroup_multiply_accumulate(sums[i], left[i / 2], right[i % 2], sums[i]);
        }
        for (uint i = 0; i < 4; i++)
          simdgroup_store(sums[i], y + (row + 8 * (i / 2)) * N + col + 8 * (i % 2), N);
    """),
    kernel("convolution_of_an_image", ((128, 128), (32, 8)))(
        x=_X, w=_FILTER, y=gives(_convolved())
    )("""
        int c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        float sum = 0;
        for (int i = -1; i <= 1; i++) {
          for (int j = -1; j <= 1; j++) {
            int rr = r + i, cc = c + j;
            if (rr >= 0 && rr < 128 && cc >= 0 && cc < 128)
              sum += x[rr * 128 + cc] * w[(i + 1) * 3 + j + 1];
          }
        }
        y[r * 128 + c] = sum;
    """),
    kernel("jacobi_step_with_a_halo", ((128, 128), (32, 8)))(x=_X, y=gives(_relaxed()))("""
        threadgroup float tile[10][34];
        uint2 group = threadgroup_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        for (uint k = lid.y * 32 + lid.x; k < 340; k += 256) {
          int r = int(group.y * 8 + k / 34) - 1, c = int(group.x * 32 + k % 34) - 1;
          bool inside = r >= 0 && r < 128 && c >= 0 && c < 128;
          tile[k / 34][k % 34] = inside ? x[r * 128 + c] : 0.0f;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = tile[lid.y][lid.x + 1] + tile[lid.y + 2][lid.x + 1]
                  + tile[lid.y + 1][lid.x] + tile[lid.y + 1][lid.x + 2];
        y[(group.y * 8 + lid.y) * 128 + group.x * 32 + lid.x] = 0.25f * sum;
    """),
    kernel("max_pool_by_pairs", ((64, 64), (32, 8)))(
        x=_X, y=gives(_X.reshape(64, 2, 64, 2).max((1, 3)))
    )("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        const device float2* pairs = (const device float2*)x;
        float2 v = max(pairs[2 * r * 64 + c], pairs[(2 * r + 1) * 64 + c]);
        y[r * 64 + c] = max(v.x, v.y);
    """),
    kernel("nearest_upsampling", ((256, 256), (32, 8)))(
        x=_X, y=gives(_X.repeat(2, 0).repeat(2, 1))
    )("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        y[r * 256 + c] = x[r / 2 * 128 + c / 2];
    """),
)
