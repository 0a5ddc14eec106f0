"""Clean kernels: reductions, scans and sorts in threadgroup memory."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_LONG = floats(300)
_SCAN = integers(-5, 9, 128)
_SORT = integers(0, 500, 3, 64)
_WIDE = floats(5, 150)
_NEWTON = np.abs(floats(3, 40)) + 0.1


def _softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


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
    kernel("tree_reduction", (640, 128))(x=_WIDE, y=gives(_WIDE.sum(1)))("""
        threadgroup float work[128];
        const uint lid = thread_index_in_threadgroup;
        const uint g = threadgroup_position_in_grid.x;
        float s = 0;
        for (uint k = lid; k < 150; k += threads_per_threadgroup.x) s += x[g * 150 + k];
        work[lid] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma unroll
        for (uint stride = 64; stride > 0; stride >>= 1) {
          if (lid < stride) work[lid] += work[lid + stride];
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (lid == 0) y[g] = work[0];
    """),
    kernel("short_last_group_sums_what_it_has", (300, 64))(
        x=_LONG, y=gives(_group_sums(_LONG, 64))
    )("""
        threadgroup float work[64];
        uint n = threads_per_threadgroup.x;
        work[lid] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == n - 1) {
          float s = 0;
          for (uint k = 0; k < n; ++k) s += work[k];
          y[threadgroup_position_in_grid.x] = s;
        }
    """),
    kernel("guarded_load_instead_of_a_return", (384, 128))(
        x=_LONG, y=gives(_LONG - np.repeat(_group_sums(_LONG, 128), 128)[:300])
    )("""
        threadgroup float work[128];
        bool inside = i < uint(x_shape[0]);
        work[lid] = inside ? x[i] : 0.0f;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint s = dispatch_threads_per_threadgroup.x / 2; s > 0; s /= 2) {
          if (lid < s) work[lid] += work[lid + s];
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (inside) y[i] = x[i] - work[0];
    """),
    kernel("two_level_softmax", ((128, 5), 128))(x=_WIDE, y=gives(_softmax(_WIDE)))("""
        threadgroup float maxima[4];
        threadgroup float sums[4];
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
        for (uint c = thread_position_in_threadgroup.x; c < n; c += 128)
          s += metal::precise::exp(in[c] - m);
        s = simd_sum(s);
        if (lane == 0) sums[sg] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        s = sums[0] + sums[1] + sums[2] + sums[3];
        for (uint c = thread_position_in_threadgroup.x; c < n; c += 128)
          y[row * n + c] = metal::precise::exp(in[c] - m) / s;
    """),
    kernel("one_array_for_maxima_and_sums", (750, 150))(x=_WIDE, y=gives(_softmax(_WIDE)))("""
        threadgroup float shared[32];
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
    """),
    kernel("hillis_steele_scan", 128)(x=_SCAN, y=gives(np.cumsum(_SCAN)))("""
        threadgroup int ping[128];
        threadgroup int pong[128];
        threadgroup int* from = ping;
        threadgroup int* into = pong;
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
    """),
    kernel("blelloch_scan", 64)(x=_SCAN, y=gives(np.cumsum(_SCAN) - _SCAN))("""
        threadgroup int t[128];
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
    """),
    kernel("bitonic_sort_of_rows", ((64, 3), 64))(x=_SORT, y=gives(np.sort(_SORT, axis=1)))("""
        threadgroup int keys[64];
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
    """),
    kernel("loop_left_together", (120, 40))(x=_NEWTON, steps=gives(_halved(_NEWTON)))("""
        threadgroup float top;
        threadgroup float partial[2];
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
    """),
)
