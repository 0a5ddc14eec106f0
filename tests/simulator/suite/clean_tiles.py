"""Clean kernels: tiles, uniform control flow and roles of simdgroups."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, kernel

_ROWS = floats(6, 64)
_LONG = floats(300)
_A, _B = floats(16, 24), floats(24, 20, seed=1)
_P, _Q = floats(19, 21), floats(21, 13, seed=2)
_IMAGE = floats(24, 40)
_SIGNAL, _TAPS = floats(200), floats(9, seed=3)
_HEAT = floats(96)


def _smoothed(v: np.ndarray, rounds: int) -> np.ndarray:
    for _ in range(rounds):
        v = (np.roll(v, 1) + 2 * v + np.roll(v, -1)) / 4
    return v


CLEAN = (
    kernel("double_buffered_row_sums", 64)(x=_ROWS, y=gives(_ROWS.sum(0)[::-1]))("""
        threadgroup float buf[2][64];
        float acc = 0;
        buf[0][lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint t = 0; t < 6; ++t) {
          if (t + 1 < 6) buf[(t + 1) & 1][lid] = x[(t + 1) * 64 + lid];
          acc += buf[t & 1][63 - lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[lid] = acc;
    """),
    kernel("tiled_matmul", ((24, 16), (8, 8)), close=1e-4)(
        K=24, N=20, a=_A, b=_B, c=gives(_A @ _B)
    )("""
        threadgroup float A[8][8];
        threadgroup float B[8][8];
        uint3 t = thread_position_in_threadgroup;
        uint row = thread_position_in_grid.y;
        uint column = thread_position_in_grid.x;
        float acc = 0;
        for (uint k0 = 0; k0 < K; k0 += 8) {
          A[t.y][t.x] = a[row * K + k0 + t.x];
          B[t.y][t.x] = (column < N) ? b[(k0 + t.y) * N + column] : 0.0f;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint k = 0; k < 8; ++k) acc = fma(A[t.y][k], B[k][t.x], acc);
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (column < N) c[row * N + column] = acc;
    """),
    kernel("matmul_of_odd_sizes", ((16, 24), (16, 8)))(a=_P, b=_Q, c=gives(_P @ _Q))("""
        constexpr int BM = 8, BN = 16, BK = 4;
        threadgroup float As[BM * BK];
        threadgroup float Bs[BK * (BN + 1)];
        const int M = a_shape[0], K = a_shape[1], N = b_shape[1];
        const uint lid = thread_index_in_threadgroup;
        const int row0 = threadgroup_position_in_grid.y * BM;
        const int column0 = threadgroup_position_in_grid.x * BN;
        const int r = lid / BN, q = lid % BN;
        float acc = 0.0f;
        for (int k0 = 0; k0 < K; k0 += BK) {
          if (lid < BM * BK) {
            int ar = row0 + int(lid) / BK, ak = k0 + int(lid) % BK;
            As[lid] = ar < M && ak < K ? a[ar * K + ak] : 0.0f;
          }
          for (uint e = lid; e < BK * BN; e += BM * BN) {
            int bk = k0 + int(e) / BN, bn = column0 + int(e) % BN;
            Bs[(e / BN) * (BN + 1) + e % BN] = bk < K && bn < N ? b[bk * N + bn] : 0.0f;
          }
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (int k = 0; k < BK; ++k) acc += As[r * BK + k] * Bs[k * (BN + 1) + q];
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (row0 + r < M && column0 + q < N) c[(row0 + r) * N + column0 + q] = acc;
    """),
    kernel("transpose_with_padding", ((48, 32), (16, 16)))(
        T="float16", x=_IMAGE.astype(np.float16), y=gives(_IMAGE.astype(np.float16).T)
    )("""
        threadgroup T tile[16][17];
        uint3 t = thread_position_in_threadgroup;
        uint3 g = threadgroup_position_in_grid;
        uint rows = x_shape[0], columns = x_shape[1];
        uint r = g.y * 16 + t.y, q = g.x * 16 + t.x;
        if (r < rows && q < columns) tile[t.y][t.x] = x[r * columns + q];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint tr = g.x * 16 + t.y, tq = g.y * 16 + t.x;
        if (tr < columns && tq < rows) y[tr * rows + tq] = tile[t.x][t.y];
    """),
    kernel("convolution_with_a_halo", (192, 64))(
        x=_SIGNAL, taps=_TAPS, y=gives(np.convolve(_SIGNAL, _TAPS[::-1], "valid"))
    )("""
        threadgroup float tile[64 + 8];
        uint base = threadgroup_position_in_grid.x * 64;
        uint n = threads_per_threadgroup.x;
        for (uint k = lid; k < n + 8; k += n) tile[k] = x[base + k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float s = 0;
        for (int k = 0; k < 9; ++k) s += taps[k] * tile[lid + k];
        y[base + lid] = s;
    """),
    kernel("group_without_work_returns_as_one", (128, 32))(
        x=_SIGNAL[:128],
        lengths=np.array([32, 0, 7, 0], dtype=np.int32),
        y=gives(
            np.stack(
                [
                    np.where(np.arange(32) < n, r, 0)[::-1]
                    for r, n in zip(_SIGNAL[:128].reshape(4, 32), (32, 0, 7, 0), strict=True)
                ]
            ).ravel()
        ),
    )("""
        threadgroup float tile[32];
        uint g = threadgroup_position_in_grid.x;
        if (lengths[g] == 0) {
          y[g * 32 + lid] = 0;
          return;
        }
        tile[lid] = lid < uint(lengths[g]) ? x[g * 32 + lid] : 0.0f;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[g * 32 + lid] = tile[31 - lid];
    """),
    kernel("barriers_in_uniform_branches", (192, 64))(
        REVERSE=True,
        x=_LONG[:192],
        y=gives(
            np.concatenate(
                [
                    r[::-1] + (g % 2) * np.roll(r[::-1], -1)
                    for g, r in enumerate(_LONG[:192].reshape(3, 64))
                ]
            )
        ),
    )("""
        threadgroup float a[64];
        float v = x[thread_position_in_grid.x];
        if (REVERSE) {
          a[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          v = a[63 - lid];
        }
        if (threadgroup_position_in_grid.x % 2 == 1) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          a[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          v += a[(lid + 1) % 64];
        }
        y[thread_position_in_grid.x] = v;
    """),
    kernel("smoothing_rounds_given_at_run_time", 96)(
        x=_HEAT, rounds=np.int32(5), y=gives(_smoothed(_HEAT, 5))
    )("""
        threadgroup float line[96];
        line[lid] = x[lid];
        for (int r = 0; r < rounds; ++r) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          float v = (line[(lid + 95) % 96] + 2 * line[lid] + line[(lid + 1) % 96]) / 4;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          line[lid] = v;
        }
        y[lid] = line[lid];
    """),
    kernel("device_scratch_within_a_group", (100, 50))(
        x=_LONG[:100], scratch=gives(2 * _LONG[:100].reshape(2, 50)[:, ::-1].ravel())
    )("""
        device float* mine = scratch + threadgroup_position_in_grid.x * 50;
        mine[lid] = x[thread_position_in_grid.x] * 2;
        threadgroup_barrier(mem_flags::mem_device);
        float other = mine[49 - lid];
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
        mine[lid] = other;
    """),
    kernel("producer_and_consumer_simdgroups", 64)(
        x=_LONG[:160], y=gives((_LONG[:160].reshape(5, 32) ** 2).sum(0)[::-1])
    )("""
        threadgroup float queue[2][32];
        bool producer = simdgroup_index_in_threadgroup == 0;
        float acc = 0;
        if (producer) queue[0][lane] = x[lane] * x[lane];
        for (int t = 0; t < 5; ++t) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (producer) {
            if (t + 1 < 5) {
              float v = x[(t + 1) * 32 + lane];
              queue[(t + 1) % 2][lane] = v * v;
            }
          } else {
            acc += queue[t % 2][31 - lane];
          }
        }
        if (!producer) y[lane] = acc;
    """),
    kernel("each_simdgroup_in_its_own_corner", 128)(
        x=_LONG[:128],
        y=gives(
            np.concatenate(
                [
                    np.roll(v, -5) if g % 2 == 0 else v
                    for g, v in enumerate(
                        r[np.arange(32) ^ 1] + r[::-1] for r in _LONG[:128].reshape(4, 32)
                    )
                ]
            )
        ),
    )("""
        threadgroup float stage[4][32];
        threadgroup float* row = stage[sg];
        row[lane] = x[i];
        simdgroup_barrier(mem_flags::mem_threadgroup);
        float v = row[lane ^ 1] + row[31 - lane];
        simdgroup_barrier(mem_flags::mem_threadgroup);
        if (sg % 2 == 0) {
          row[lane] = v;
          simdgroup_barrier(mem_flags::mem_threadgroup);
          v = row[(lane + 5) % 32];
        }
        y[i] = v;
    """),
)
