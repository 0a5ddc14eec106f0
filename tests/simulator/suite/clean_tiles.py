"""Clean kernels: tiles, uniform control flow and roles of simdgroups."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats

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
    Case(
        "double_buffered_row_sums",
        """
        threadgroup float buf[2][64];
        uint lid = thread_position_in_threadgroup.x;
        float acc = 0;
        buf[0][lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint t = 0; t < 6; ++t) {
          if (t + 1 < 6) {
            buf[(t + 1) & 1][lid] = x[(t + 1) * 64 + lid];
          }
          acc += buf[t & 1][63 - lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[lid] = acc;
        """,
        {"x": Array(_ROWS)},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        expected=lambda: (_ROWS.sum(0)[::-1],),
    ),
    Case(
        "tiled_matmul",
        """
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
        """,
        {"a": Array(_A), "b": Array(_B)},
        {"c": Out((16, 20))},
        (24, 16, 1),
        (8, 8, 1),
        template=(("K", 24), ("N", 20)),
        expected=lambda: (_A @ _B,),
        atol=1e-4,
    ),
    Case(
        "matmul_of_odd_sizes",
        """
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
        """,
        {"a": Array(_P), "b": Array(_Q)},
        {"c": Out((19, 13))},
        (16, 24, 1),
        (16, 8, 1),
        expected=lambda: (_P @ _Q,),
        atol=1e-4,
    ),
    Case(
        "transpose_with_padding",
        """
        threadgroup T tile[16][17];
        uint3 t = thread_position_in_threadgroup;
        uint3 g = threadgroup_position_in_grid;
        uint rows = x_shape[0], columns = x_shape[1];
        uint r = g.y * 16 + t.y, q = g.x * 16 + t.x;
        if (r < rows && q < columns) tile[t.y][t.x] = x[r * columns + q];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint tr = g.x * 16 + t.y, tq = g.y * 16 + t.x;
        if (tr < columns && tq < rows) y[tr * rows + tq] = tile[t.x][t.y];
        """,
        {"x": Array(_IMAGE.astype(np.float16))},
        {"y": Out((40, 24), "float16")},
        (48, 32, 1),
        (16, 16, 1),
        template=(("T", "float16"),),
        expected=lambda: (_IMAGE.astype(np.float16).T,),
    ),
    Case(
        "convolution_with_a_halo",
        """
        threadgroup float tile[64 + 8];
        uint lid = thread_position_in_threadgroup.x;
        uint base = threadgroup_position_in_grid.x * 64;
        uint n = threads_per_threadgroup.x;
        for (uint k = lid; k < n + 8; k += n) tile[k] = x[base + k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float s = 0;
        for (int k = 0; k < 9; ++k) s += taps[k] * tile[lid + k];
        y[base + lid] = s;
        """,
        {"x": Array(_SIGNAL), "taps": Array(_TAPS)},
        {"y": Out((192,))},
        (192, 1, 1),
        (64, 1, 1),
        expected=lambda: (np.convolve(_SIGNAL, _TAPS[::-1], "valid"),),
        atol=1e-5,
    ),
    Case(
        "group_without_work_returns_as_one",
        """
        threadgroup float tile[32];
        uint g = threadgroup_position_in_grid.x;
        uint lid = thread_position_in_threadgroup.x;
        if (lengths[g] == 0) {
          y[g * 32 + lid] = 0;
          return;
        }
        tile[lid] = lid < uint(lengths[g]) ? x[g * 32 + lid] : 0.0f;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[g * 32 + lid] = tile[31 - lid];
        """,
        {"x": Array(_SIGNAL[:128]), "lengths": Array(np.array([32, 0, 7, 0], dtype=np.int32))},
        {"y": Out((128,))},
        (128, 1, 1),
        (32, 1, 1),
        expected=lambda: (
            np.stack(
                [
                    np.where(np.arange(32) < n, r, 0)[::-1]
                    for r, n in zip(_SIGNAL[:128].reshape(4, 32), (32, 0, 7, 0), strict=True)
                ]
            ).ravel(),
        ),
    ),
    Case(
        "barriers_in_uniform_branches",
        """
        threadgroup float a[64];
        uint lid = thread_position_in_threadgroup.x;
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
        """,
        {"x": Array(_LONG[:192])},
        {"y": Out((192,))},
        (192, 1, 1),
        (64, 1, 1),
        template=(("REVERSE", True),),
        expected=lambda: (
            np.concatenate(
                [
                    r[::-1] + (g % 2) * np.roll(r[::-1], -1)
                    for g, r in enumerate(_LONG[:192].reshape(3, 64))
                ]
            ),
        ),
    ),
    Case(
        "smoothing_rounds_given_at_run_time",
        """
        threadgroup float line[96];
        uint lid = thread_position_in_threadgroup.x;
        line[lid] = x[lid];
        for (int r = 0; r < rounds; ++r) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          float v = (line[(lid + 95) % 96] + 2 * line[lid] + line[(lid + 1) % 96]) / 4;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          line[lid] = v;
        }
        y[lid] = line[lid];
        """,
        {"x": Array(_HEAT), "rounds": Array(np.int32(5))},
        {"y": Out((96,))},
        (96, 1, 1),
        (96, 1, 1),
        expected=lambda: (_smoothed(_HEAT, 5),),
    ),
    Case(
        "device_scratch_within_a_group",
        """
        uint lid = thread_position_in_threadgroup.x;
        device float* mine = scratch + threadgroup_position_in_grid.x * 50;
        mine[lid] = x[thread_position_in_grid.x] * 2;
        threadgroup_barrier(mem_flags::mem_device);
        float other = mine[49 - lid];
        threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
        mine[lid] = other;
        """,
        {"x": Array(_LONG[:100])},
        {"scratch": Out((100,))},
        (100, 1, 1),
        (50, 1, 1),
        expected=lambda: (2 * _LONG[:100].reshape(2, 50)[:, ::-1].ravel(),),
    ),
    Case(
        "producer_and_consumer_simdgroups",
        """
        threadgroup float queue[2][32];
        uint lane = thread_index_in_simdgroup;
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
        """,
        {"x": Array(_LONG[:160])},
        {"y": Out((32,))},
        (64, 1, 1),
        (64, 1, 1),
        expected=lambda: ((_LONG[:160].reshape(5, 32) ** 2).sum(0)[::-1],),
    ),
    Case(
        "each_simdgroup_in_its_own_corner",
        """
        threadgroup float stage[4][32];
        uint lane = thread_index_in_simdgroup;
        uint sg = simdgroup_index_in_threadgroup;
        threadgroup float* row = stage[sg];
        uint i = thread_position_in_grid.x;
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
        """,
        {"x": Array(_LONG[:128])},
        {"y": Out((128,))},
        (128, 1, 1),
        (128, 1, 1),
        expected=lambda: (
            np.concatenate(
                [
                    np.roll(v, -5) if g % 2 == 0 else v
                    for g, v in enumerate(
                        r[np.arange(32) ^ 1] + r[::-1] for r in _LONG[:128].reshape(4, 32)
                    )
                ]
            ),
        ),
    ),
)
