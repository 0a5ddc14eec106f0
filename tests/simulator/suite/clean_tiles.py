"""Clean kernels: tiles, uniform control flow and whole algorithms."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

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


_LABELS = integers(0, 90, 64)
_SIGNAL_ALGORITHMS = floats(64) + 1j * floats(64, seed=1)
_GRAPH = integers(1, 40, 12, 12).astype(np.float32)
_MATRIX = floats(8, 8) + 6 * np.eye(8, dtype=np.float32)
_RIGHT = floats(8, seed=2)
_RANKED = np.random.default_rng(3).permutation(96).astype(np.float32)
_LIFE = integers(0, 2, 20, 24, dtype="uint8")
_ROWS_ALGORITHMS = floats(3, 70, seed=4)
_KEYS = integers(0, 256, 128, dtype="uint32")
_A_ALGORITHMS, _B_ALGORITHMS = floats(32, 24, seed=5), floats(24, 16, seed=6)


def _shortest(d: np.ndarray) -> np.ndarray:
    d = d.copy()
    for k in range(len(d)):
        d = np.minimum(d, d[:, k : k + 1] + d[k])
    return d


def _next(life: np.ndarray) -> np.ndarray:
    around = sum(
        np.roll(life.astype(int), (dy, dx), (0, 1))
        for dy in (-1, 0, 1)
        for dx in (-1, 0, 1)
        if dy or dx
    )
    return (around == 3) | ((around == 2) & (life == 1))


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
        threadgroup float A[8][8], B[8][8];
        uint3 t = thread_position_in_threadgroup;
        uint row = thread_position_in_grid.y, column = thread_position_in_grid.x;
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
        const int column0 = threadgroup_position_in_grid.x * BN, r = lid / BN, q = lid % BN;
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
        uint3 t = thread_position_in_threadgroup, g = threadgroup_position_in_grid;
        uint rows = x_shape[0], columns = x_shape[1], r = g.y * 16 + t.y, q = g.x * 16 + t.x;
        if (r < rows && q < columns) tile[t.y][t.x] = x[r * columns + q];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint tr = g.x * 16 + t.y, tq = g.y * 16 + t.x;
        if (tr < columns && tq < rows) y[tr * rows + tq] = tile[t.x][t.y];
    """),
    kernel("convolution_with_a_halo", (192, 64))(
        x=_SIGNAL, taps=_TAPS, y=gives(np.convolve(_SIGNAL, _TAPS[::-1], "valid"))
    )("""
        threadgroup float tile[64 + 8];
        uint base = threadgroup_position_in_grid.x * 64, n = threads_per_threadgroup.x;
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
    kernel("labels_spread_until_nothing_changes", 64)(
        x=_LABELS, y=gives(np.full(64, _LABELS.max()))
    )("""
        threadgroup int changed, labels[64];
        labels[lid] = x[lid];
        while (true) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          int best = max(labels[(lid + 63) % 64], labels[(lid + 1) % 64]);
          bool more = best > labels[lid];
          if (lid == 0) changed = 0;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (more) labels[lid] = best;
          bool any = simd_any(more);
          if (any && lid == 0) changed += 1;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (any && lid == 32) changed += 1;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (changed == 0) break;
        }
        y[lid] = labels[lid];
    """),
    kernel("fourier_transform", 32)(
        x=_SIGNAL_ALGORITHMS.astype(np.complex64), y=gives(np.fft.fft(_SIGNAL_ALGORITHMS))
    )("""
        threadgroup float2 work[64];
        for (uint h = 0; h < 2; ++h) {
          uint k = lid + 32 * h, to = reverse_bits(k) >> 26;
          work[to] = float2(x[k].real, x[k].imag);
        }
        for (uint span = 1; span < 64; span *= 2) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          uint j = lid % span, at = (lid / span) * 2 * span + j;
          float angle = -M_PI_F * float(j) / float(span);
          float2 w = float2(precise::cos(angle), precise::sin(angle));
          float2 a = work[at], b = work[at + span];
          b = float2(b.x * w.x - b.y * w.y, b.x * w.y + b.y * w.x);
          work[at] = a + b;
          work[at + span] = a - b;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = complex64_t(work[lid].x, work[lid].y);
        y[lid + 32] = complex64_t(work[lid + 32].x, work[lid + 32].y);
    """),
    kernel("shortest_paths", ((12, 12), (12, 12)), close=0)(
        x=_GRAPH, y=gives(_shortest(_GRAPH))
    )("""
        threadgroup float d[12][12];
        uint3 t = thread_position_in_threadgroup;
        d[t.y][t.x] = x[t.y * 12 + t.x];
        for (uint k = 0; k < 12; ++k) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          float through = d[t.y][k] + d[k][t.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (through < d[t.y][t.x]) d[t.y][t.x] = through;
        }
        y[t.y * 12 + t.x] = d[t.y][t.x];
    """),
    kernel("linear_equations_by_elimination", ((9, 8), (9, 8)))(
        a=_MATRIX, b=_RIGHT, y=gives(np.linalg.solve(_MATRIX.astype(float), _RIGHT))
    )("""
        threadgroup float m[8][9];
        uint3 t = thread_position_in_threadgroup;
        m[t.y][t.x] = t.x < 8 ? a[t.y * 8 + t.x] : b[t.y];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint p = 0; p < 8; ++p) {
          float factor = m[t.y][p] / m[p][p], pivot = m[p][t.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (t.y != p) m[t.y][t.x] -= factor * pivot;
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (t.x == 8) y[t.y] = m[t.y][8] / m[t.y][t.y];
    """),
    kernel("sort_by_counting_the_smaller", 96, close=0)(
        x=_RANKED, y=gives(np.sort(_RANKED)), where=gives(np.argsort(_RANKED), "uint32")
    )("""
        threadgroup float all[96];
        float mine = x[lid];
        all[lid] = mine;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint rank = 0;
        for (uint k = 0; k < 96; ++k) rank += all[k] < mine ? 1 : 0;
        y[rank] = mine;
        where[rank] = lid;
    """),
    kernel("life_in_tiles_with_a_rim", ((24, 20), (12, 8)))(x=_LIFE, y=gives(_next(_LIFE)))("""
        threadgroup uchar cells[10][14];
        uint3 t = thread_position_in_threadgroup, g = threadgroup_position_in_grid;
        int H = x_shape[0], W = x_shape[1];
        uint lid = t.y * threads_per_threadgroup.x + t.x;
        uint count = threads_per_threadgroup.x * threads_per_threadgroup.y;
        for (uint k = lid; k < 10 * 14; k += count) {
          int r = int(g.y * 8 + k / 14) - 1, c = int(g.x * 12 + k % 14) - 1;
          cells[k / 14][k % 14] = x[((r + H) % H) * W + (c + W) % W];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int n = 0;
        for (int dy = 0; dy < 3; ++dy)
          for (int dx = 0; dx < 3; ++dx) n += cells[t.y + dy][t.x + dx];
        uchar own = cells[t.y + 1][t.x + 1];
        n -= own;
        uint3 at = thread_position_in_grid;
        y[at.y * W + at.x] = n == 3 || (n == 2 && own == 1);
    """),
    kernel("three_largest_by_turns", ((32, 3), 32), close=0)(
        x=_ROWS_ALGORITHMS,
        y=gives(-np.sort(-_ROWS_ALGORITHMS, 1)[:, :3]),
        at=gives(np.argsort(-_ROWS_ALGORITHMS, 1)[:, :3]),
    )("""
        uint row = thread_position_in_grid.y;
        bool taken[3] = {false, false, false};
        for (int r = 0; r < 3; ++r) {
          float best = -INFINITY;
          int slot = -1;
          for (int s = 0; s < 3; ++s) {
            uint c = lane + 32 * s;
            if (c < 70 && !taken[s] && x[row * 70 + c] > best) {
              best = x[row * 70 + c];
              slot = s;
            }
          }
          float top = simd_max(best);
          uint winner = simd_min(best == top ? lane : 32u);
          if (lane == winner) {
            taken[slot] = true;
            y[row * 3 + r] = top;
            at[row * 3 + r] = lane + 32 * slot;
          }
        }
    """),
    kernel("radix_sort_pass_by_pass", 128)(keys=_KEYS, y=gives(np.sort(_KEYS)))("""
        threadgroup uint ping[128], pong[128], ones[4];
        threadgroup uint* from = ping;
        threadgroup uint* into = pong;
        from[lid] = keys[lid];
        for (uint bit = 0; bit < 8; ++bit) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          uint key = from[lid], one = (key >> bit) & 1, before = simd_prefix_exclusive_sum(one);
          uint all = simd_sum(one);
          if (simd_is_first()) ones[sg] = all;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          uint total = 0;
          for (uint k = 0; k < 4; ++k) {
            if (k < sg) before += ones[k];
            total += ones[k];
          }
          uint to = one ? 128 - total + before : lid - before;
          into[to] = key;
          threadgroup uint* t = from;
          from = into;
          into = t;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = from[lid];
    """),
    kernel("matmul_by_simdgroups_on_shared_panels", ((128, 2), 128))(
        a=_A_ALGORITHMS, b=_B_ALGORITHMS, y=gives(_A_ALGORITHMS @ _B_ALGORITHMS)
    )("""
        threadgroup float As[16 * 8], Bs[8 * 16];
        uint lid = thread_index_in_threadgroup, row0 = threadgroup_position_in_grid.y * 16;
        uint r = (sg / 2) * 8, c = (sg % 2) * 8;
        simdgroup_float8x8 acc(0), ma, mb;
        for (uint k0 = 0; k0 < 24; k0 += 8) {
          As[lid] = a[(row0 + lid / 8) * 24 + k0 + lid % 8];
          Bs[lid] = b[(k0 + lid / 16) * 16 + lid % 16];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          simdgroup_load(ma, As + r * 8, 8);
          simdgroup_load(mb, Bs + c, 16);
          simdgroup_multiply_accumulate(acc, ma, mb, acc);
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        simdgroup_store(acc, y + (row0 + r) * 16 + c, 16);
    """),
)
