"""Clean kernels: threadgroup memory, barriers and tiles."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_ROWS = floats(6, 64)
_LONG = floats(300)
_A, _B = floats(16, 24), floats(24, 20, seed=1)
_P, _Q = floats(19, 21), floats(21, 13, seed=2)
_SCAN = integers(-5, 9, 128)
_SORT = integers(0, 500, 3, 64)
_IMAGE = floats(24, 40)
_SIGNAL, _TAPS = floats(200), floats(9, seed=3)
_WIDE = floats(5, 150)
_HEAT = floats(96)
_NEWTON = np.abs(floats(3, 40)) + 0.1


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _smoothed(v: np.ndarray, rounds: int) -> np.ndarray:
    for _ in range(rounds):
        v = (np.roll(v, 1) + 2 * v + np.roll(v, -1)) / 4
    return v


def _halved(rows: np.ndarray) -> np.ndarray:
    out = []
    for top in rows.max(1):
        steps = 0
        while top / 2**steps > 0.05:
            steps += 1
        out.append(steps)
    return np.array(out)


def _group_sums(x: np.ndarray, size: int) -> np.ndarray:
    return np.array([x[k : k + size].sum() for k in range(0, len(x), size)])


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
        "tree_reduction",
        """
        threadgroup float work[128];
        const uint lid = thread_index_in_threadgroup;
        const uint g = threadgroup_position_in_grid.x;
        float s = 0;
        for (uint k = lid; k < 150; k += threads_per_threadgroup.x) {
          s += x[g * 150 + k];
        }
        work[lid] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (uint stride = 64; stride > 0; stride >>= 1) {
          if (lid < stride) {
            work[lid] += work[lid + stride];
          }
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (lid == 0) y[g] = work[0];
        """,
        {"x": Array(_WIDE)},
        {"y": Out((5,))},
        (640, 1, 1),
        (128, 1, 1),
        expected=lambda: (_WIDE.sum(1),),
        atol=1e-4,
    ),
    Case(
        "short_last_group_sums_what_it_has",
        """
        threadgroup float work[64];
        uint lid = thread_position_in_threadgroup.x;
        uint n = threads_per_threadgroup.x;
        work[lid] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == n - 1) {
          float s = 0;
          for (uint k = 0; k < n; ++k) s += work[k];
          y[threadgroup_position_in_grid.x] = s;
        }
        """,
        {"x": Array(_LONG)},
        {"y": Out((5,))},
        (300, 1, 1),
        (64, 1, 1),
        expected=lambda: (_group_sums(_LONG, 64),),
        atol=1e-4,
    ),
    Case(
        "guarded_load_instead_of_a_return",
        """
        threadgroup float work[128];
        uint lid = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        bool inside = i < uint(x_shape[0]);
        work[lid] = inside ? x[i] : 0.0f;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = dispatch_threads_per_threadgroup.x / 2; s > 0; s /= 2) {
          if (lid < s) work[lid] += work[lid + s];
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (inside) y[i] = x[i] - work[0];
        """,
        {"x": Array(_LONG)},
        {"y": Out((300,))},
        (384, 1, 1),
        (128, 1, 1),
        expected=lambda: (_LONG - np.repeat(_group_sums(_LONG, 128), 128)[:300],),
        atol=1e-4,
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
        "two_level_softmax",
        """
        threadgroup float maxima[4];
        threadgroup float sums[4];
        uint lane = thread_index_in_simdgroup;
        uint sg = simdgroup_index_in_threadgroup;
        uint row = threadgroup_position_in_grid.y;
        uint n = x_shape[1];
        const device float* in = x + row * n;
        float m = -INFINITY;
        for (uint c = thread_position_in_threadgroup.x; c < n; c += 128) m = max(m, in[c]);
        m = simd_max(m);
        if (lane == 0) maxima[sg] = m;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        m = max(max(maxima[0], maxima[1]), max(maxima[2], maxima[3]));
        float s = 0;
        for (uint c = thread_position_in_threadgroup.x; c < n; c += 128) {
          s += metal::precise::exp(in[c] - m);
        }
        s = simd_sum(s);
        if (lane == 0) sums[sg] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        s = sums[0] + sums[1] + sums[2] + sums[3];
        for (uint c = thread_position_in_threadgroup.x; c < n; c += 128) {
          y[row * n + c] = metal::precise::exp(in[c] - m) / s;
        }
        """,
        {"x": Array(_WIDE)},
        {"y": Out((5, 150))},
        (128, 5, 1),
        (128, 1, 1),
        expected=lambda: (_softmax(_WIDE),),
    ),
    Case(
        "one_array_for_maxima_and_sums",
        """
        threadgroup float shared[32];
        uint lid = thread_position_in_threadgroup.x;
        uint i = thread_position_in_grid.x;
        float v = x[i];
        if (lid < 32) shared[lid] = -INFINITY;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float m = simd_max(v);
        if (simd_is_first()) shared[lid / 32] = m;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        m = simd_max(shared[thread_index_in_simdgroup]);
        threadgroup_barrier(mem_flags::mem_none);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 32) shared[lid] = 0;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float e = exp(v - m);
        float s = simd_sum(e);
        if (simd_is_first()) shared[lid / 32] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        s = simd_sum(shared[thread_index_in_simdgroup]);
        y[i] = e / s;
        """,
        {"x": Array(_WIDE)},
        {"y": Out((5, 150))},
        (750, 1, 1),
        (150, 1, 1),
        expected=lambda: (_softmax(_WIDE),),
    ),
    Case(
        "hillis_steele_scan",
        """
        threadgroup int ping[128];
        threadgroup int pong[128];
        threadgroup int* from = ping;
        threadgroup int* into = pong;
        uint lid = thread_position_in_threadgroup.x;
        from[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint d = 1; d < 128; d <<= 1) {
          into[lid] = lid >= d ? from[lid] + from[lid - d] : from[lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          threadgroup int* t = from;
          from = into;
          into = t;
        }
        y[lid] = from[lid];
        """,
        {"x": Array(_SCAN)},
        {"y": Out((128,), "int32")},
        (128, 1, 1),
        (128, 1, 1),
        expected=lambda: (np.cumsum(_SCAN),),
    ),
    Case(
        "blelloch_scan",
        """
        threadgroup int t[128];
        uint lid = thread_position_in_threadgroup.x;
        t[2 * lid] = x[2 * lid];
        t[2 * lid + 1] = x[2 * lid + 1];
        uint offset = 1;
        for (uint d = 64; d > 0; d >>= 1) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (lid < d) {
            uint left = offset * (2 * lid + 1) - 1;
            uint right = offset * (2 * lid + 2) - 1;
            t[right] += t[left];
          }
          offset *= 2;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) t[127] = 0;
        for (uint d = 1; d < 128; d *= 2) {
          offset >>= 1;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (lid < d) {
            uint left = offset * (2 * lid + 1) - 1;
            uint right = offset * (2 * lid + 2) - 1;
            int kept = t[left];
            t[left] = t[right];
            t[right] += kept;
          }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[2 * lid] = t[2 * lid];
        y[2 * lid + 1] = t[2 * lid + 1];
        """,
        {"x": Array(_SCAN)},
        {"y": Out((128,), "int32")},
        (64, 1, 1),
        (64, 1, 1),
        expected=lambda: (np.cumsum(_SCAN) - _SCAN,),
    ),
    Case(
        "bitonic_sort_of_rows",
        """
        threadgroup int keys[64];
        uint lid = thread_position_in_threadgroup.x;
        uint row = thread_position_in_grid.y;
        keys[lid] = x[row * 64 + lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint k = 2; k <= 64; k <<= 1) {
          for (uint j = k >> 1; j > 0; j >>= 1) {
            uint other = lid ^ j;
            if (other > lid) {
              int a = keys[lid], b = keys[other];
              if ((a > b) == ((lid & k) == 0)) {
                keys[lid] = b;
                keys[other] = a;
              }
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
          }
        }
        y[row * 64 + lid] = keys[lid];
        """,
        {"x": Array(_SORT)},
        {"y": Out((3, 64), "int32")},
        (64, 3, 1),
        (64, 1, 1),
        expected=lambda: (np.sort(_SORT, axis=1),),
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
        "loop_left_together",
        """
        threadgroup float top;
        threadgroup float partial[2];
        uint lid = thread_position_in_threadgroup.x;
        uint row = threadgroup_position_in_grid.x;
        float v = x[row * 40 + lid];
        int count = 0;
        while (true) {
          float m = simd_max(v);
          if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = m;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (lid == 0) top = max(partial[0], partial[1]);
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (top <= 0.05f) break;
          v = v / 2;
          ++count;
        }
        if (lid == 0) steps[row] = count;
        """,
        {"x": Array(_NEWTON)},
        {"steps": Out((3,), "int32")},
        (120, 1, 1),
        (40, 1, 1),
        expected=lambda: (_halved(_NEWTON),),
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
