"""Clean kernels: reductions, lanes and atomics."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import count, floats, gives, integers, kernel

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


_LANES = floats(96)
_A, _B = floats(16, 32), floats(32, 24, seed=1)
_HA, _HB = floats(8, 16).astype(np.float16), floats(16, 8, seed=2).astype(np.float16)
_KEYS = integers(0, 12, 170, dtype="uint8")
_WORDS = integers(0, 1 << 31, 100, dtype="uint32")
_WHOLE = integers(-4, 5, 96)
_COUNTS = integers(0, 7, 150)
_X = floats(5, 100)
_LOGITS = floats(4, 77, seed=4)


def _norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def _exclusive(x: np.ndarray) -> np.ndarray:
    return np.cumsum(x) - x


_LANE, _ALL = np.arange(64) % 32, np.arange(64)
_FOUR = np.where(_LANE < 4, 4 * (_ALL - _LANE) + 6, _ALL)
_PLACE = np.where(_LANE % 2, (_LANE - 1) // 2 + (_ALL - _LANE + 1) + (_LANE ^ 2) - _LANE, -1)
_PLACES = _PLACE.reshape(2, 32).max(1).repeat(32) - _PLACE

CLEAN = (
    kernel("tree_reduction", (640, 128))(x=_WIDE, y=gives(_WIDE.sum(1)))("""
        threadgroup float work[128];
        const uint lid = thread_index_in_threadgroup, g = threadgroup_position_in_grid.x;
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
        threadgroup float maxima[4], sums[4];
        uint row = threadgroup_position_in_grid.y, n = x_shape[1];
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
        float e = exp(v - m), s = simd_sum(e);
        if (simd_is_first()) shared[lid / 32] = s;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        s = simd_sum(shared[thread_index_in_simdgroup]);
        y[i] = e / s;
    """),
    kernel("hillis_steele_scan", 128)(x=_SCAN, y=gives(np.cumsum(_SCAN)))("""
        threadgroup int ping[128], pong[128];
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
            uint left = offset * (2 * lid + 1) - 1, right = offset * (2 * lid + 2) - 1;
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
            uint left = offset * (2 * lid + 1) - 1, right = offset * (2 * lid + 2) - 1;
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
        threadgroup float top, partial[2];
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
    kernel("simdgroup_matrix_product", ((96, 2), 96), close=1e-4)(a=_A, b=_B, c=gives(_A @ _B))("""
        uint row = threadgroup_position_in_grid.y * 8, column = sg * 8;
        simdgroup_float8x8 ma, mb;
        simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        for (uint k = 0; k < 32; k += 8) {
          simdgroup_load(ma, a + row * 32 + k, 32);
          simdgroup_load(mb, b + k * 24 + column, 24);
          simdgroup_barrier(mem_flags::mem_none);
          simdgroup_multiply_accumulate(acc, ma, mb, acc);
        }
        simdgroup_store(acc, c + row * 24 + column, 24);
    """),
    kernel("half_matrices_through_threadgroup_tiles", 64, close=1e-4)(
        a=_HA,
        b=_HB,
        bias=count(8, "float32"),
        c=gives(_HA.astype(np.float32) @ _HB.astype(np.float32) + np.arange(8, dtype=np.float32)),
    )("""
        threadgroup half ta[8 * 16], tb[16 * 8];
        threadgroup float tc[64];
        uint lid = thread_index_in_threadgroup;
        for (uint k = lid; k < 128; k += 64) {
          ta[k] = a[k];
          tb[k] = b[k];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (simdgroup_index_in_threadgroup == 0) {
          simdgroup_matrix<half, 8, 8> l, r;
          simdgroup_matrix<float, 8, 8> acc(0);
          for (uint k = 0; k < 16; k += 8) {
            simdgroup_load(l, ta + k, 16);
            simdgroup_load(r, tb + 8 * k, 8);
            simdgroup_multiply_accumulate(acc, l, r, acc);
          }
          simdgroup_store(acc, tc, 8);
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        c[lid] = tc[lid] + bias[lid % 8];
    """),
    kernel("transposed_load_of_a_matrix", 32, close=0)(
        x=_A.ravel()[:64].reshape(8, 8), y=gives(2 * _A.ravel()[:64].reshape(8, 8).T)
    )("""
        simdgroup_float8x8 m;
        simdgroup_load(m, x, 8, ulong2(0, 0), true);
        m.thread_elements()[0] *= 2.0f;
        m.thread_elements()[1] *= 2.0f;
        simdgroup_store(m, y, 8);
    """),
    kernel("histogram_on_device", (170, 64), init=0, atomic=True)(
        keys=_KEYS, counts=gives(np.bincount(_KEYS, minlength=12))
    )("""
        atomic_fetch_add_explicit(&counts[keys[i]], 1, memory_order_relaxed);
    """),
    kernel("histogram_by_threadgroups", (170, 50), init=0, atomic=True)(
        keys=_KEYS, counts=gives(np.bincount(_KEYS, minlength=12), "uint32")
    )("""
        threadgroup atomic_uint bins[12];
        if (lid < 12) atomic_store_explicit(&bins[lid], 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        atomic_fetch_add_explicit(&bins[keys[thread_position_in_grid.x]], 1, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 12) {
          uint n = atomic_load_explicit(&bins[lid], memory_order_relaxed);
          if (n > 0) atomic_fetch_add_explicit(&counts[lid], n, memory_order_relaxed);
        }
    """),
    kernel("float_atomics_of_whole_numbers", (96, 24), close=0, init=0, atomic=True)(
        x=_WHOLE, sums=gives(_WHOLE.reshape(32, 3).sum(0) * 0.5)
    )("""
        uint slot = i % 3;
        atomic_fetch_add_explicit(&sums[slot], float(x[i]) * 0.5f, memory_order_relaxed);
    """),
    kernel("atomic_extremes_and_bits", (100, 32), init=7, atomic=True)(
        words=_WORDS,
        r=gives(
            np.array(
                [
                    max(7, _WORDS.max()),
                    min(7, _WORDS.min()),
                    np.bitwise_or.reduce(_WORDS) | 7,
                    np.bitwise_and.reduce(_WORDS) & 7,
                    np.bitwise_xor.reduce(_WORDS) ^ 7,
                    (7 - int((_WORDS & 3).sum())) % 2**32,
                ],
                dtype=np.uint32,
            )
        ),
    )("""
        uint w = words[i];
        atomic_fetch_max_explicit(&r[0], w, memory_order_relaxed);
        atomic_fetch_min_explicit(&r[1], w, memory_order_relaxed);
        atomic_fetch_or_explicit(&r[2], w, memory_order_relaxed);
        atomic_fetch_and_explicit(&r[3], w, memory_order_relaxed);
        atomic_fetch_xor_explicit(&r[4], w, memory_order_relaxed);
        atomic_fetch_sub_explicit(&r[5], w & 3, memory_order_relaxed);
    """),
    kernel("float_maximum_by_compare_exchange", (96, 32), init=0, atomic=True)(
        x=np.abs(_LANES), bits=gives(np.abs(_LANES).max(keepdims=True).view(np.uint32))
    )("""
        float v = x[i];
        uint seen = atomic_load_explicit(&bits[0], memory_order_relaxed);
        while (v > as_type<float>(seen)) {
          if (atomic_compare_exchange_weak_explicit(
                  &bits[0], &seen, as_type<uint>(v), memory_order_relaxed,
                  memory_order_relaxed)) {
            break;
          }
        }
    """),
    kernel("threadgroup_counter_read_after_a_barrier", (150, 60))(
        counts=_COUNTS,
        y=gives(np.concatenate([100 * p + p[p > 2].sum() for p in np.split(_COUNTS, [60, 120])])),
    )("""
        threadgroup atomic_int total;
        if (lid == 0) atomic_store_explicit(&total, 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int n = counts[thread_position_in_grid.x];
        if (n > 2) atomic_fetch_add_explicit(&total, n, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[thread_position_in_grid.x] = n * 100 + atomic_load_explicit(&total, memory_order_relaxed);
    """),
    kernel("simd_sum_of_rows", ((32, 5), (32, 4)))(x=_X, y=gives(_X.sum(1)))("""
        uint row = thread_position_in_grid.y;
        float s = 0;
        for (uint c = lane; c < 100; c += 32) s += x[row * 100 + c];
        s = simd_sum(s);
        if (lane == 0) y[row] = s;
    """),
    kernel("butterfly_maximum", 96, close=0)(
        x=_LANES, y=gives(np.repeat(_LANES.reshape(3, 32).max(1), 32))
    )("""
        float v = x[thread_position_in_grid.x];
        for (ushort m = 1; m < 32; m <<= 1) v = max(v, simd_shuffle_xor(v, m));
        y[thread_position_in_grid.x] = v;
    """),
    kernel("shuffle_down_tree", (96, 32), close=1e-3)(
        x=_LANES.astype(np.float16),
        y=gives(_LANES.astype(np.float16).astype(np.float32).reshape(3, 32).sum(1), "float16"),
    )("""
        half v = x[thread_position_in_grid.x];
        float s = float(v);
        for (ushort d = 16; d > 0; d /= 2) s += simd_shuffle_down(s, d);
        if (thread_index_in_simdgroup == 0) y[thread_position_in_grid.x / 32] = half(s);
    """),
    kernel("shuffle_up_scan", (96, 48))(
        x=_WHOLE, y=gives(np.concatenate([np.cumsum(p) for p in np.split(_WHOLE, [32, 48, 80])]))
    )("""
        int v = x[thread_position_in_grid.x];
        for (ushort d = 1; d < 32; d *= 2) {
          int before = simd_shuffle_up(v, d);
          if (lane >= d) v += before;
        }
        y[thread_position_in_grid.x] = v;
    """),
    kernel("value_of_a_missing_lane_is_not_used", 20)(
        x=_LANES[:20], y=gives(np.append(np.diff(_LANES[:20]), 0))
    )("""
        float v = x[i], next = simd_shuffle_down(v, 1), last = simd_shuffle(v, ushort(31));
        y[i] = i + 1 < 20 ? next - v : threads_per_threadgroup.x == 32 ? last : 0;
    """),
    kernel("prefix_sums_in_two_levels", 96)(x=_WHOLE, y=gives(_exclusive(_WHOLE)))("""
        threadgroup int carry[32];
        int inside = simd_prefix_exclusive_sum(x[i]);
        if (lane == threads_per_simdgroup - 1) carry[sg] = inside + x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int before = 0;
        for (uint k = 0; k < sg; ++k) before += carry[k];
        y[i] = before + inside;
    """),
    kernel("layer_norm", (500, 100))(x=_X, eps=np.float32(1e-5), y=gives(_norm(_X)))("""
        threadgroup float part[2][4];
        uint row = threadgroup_position_in_grid.x;
        float v = x[row * 100 + lid], s = simd_sum(v), q = simd_sum(v * v);
        if (lane == 0) {
          part[0][sg] = s;
          part[1][sg] = q;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        s = q = 0;
        for (uint k = 0; k < simdgroups_per_threadgroup; ++k) {
          s += part[0][k];
          q += part[1][k];
        }
        float mean = s / 100;
        y[row * 100 + lid] = (v - mean) * rsqrt(q / 100 - mean * mean + eps);
    """),
    kernel("argmax_with_ties_to_the_left", ((32, 4), 32))(
        x=np.round(_LOGITS, 1), y=gives(np.round(_LOGITS, 1).argmax(1), "uint32")
    )("""
        uint row = threadgroup_position_in_grid.y;
        float best = -INFINITY;
        uint at = 0;
        for (uint c = lane; c < 77; c += 32) {
          float v = x[row * 77 + c];
          if (v > best) { best = v; at = c; }
        }
        for (ushort m = 16; m >= 1; m >>= 1) {
          float other = simd_shuffle_xor(best, m);
          uint where = simd_shuffle_xor(at, m);
          if (other > best || (other == best && where < at)) { best = other; at = where; }
        }
        if (lane == 0) y[row] = at;
    """),
    kernel("online_softmax_statistics", ((32, 4), (32, 2)))(
        x=_LOGITS, maximum=gives(_LOGITS.max(1)), logsum=gives(np.log(np.exp(_LOGITS).sum(1)))
    )("""
        uint row = thread_position_in_grid.y;
        float m = Limits<float>::finite_min, s = 0;
        for (uint c = lane; c < 77; c += 32) {
          float v = x[row * 77 + c], top = max(m, v);
          s = s * fast::exp(m - top) + fast::exp(v - top);
          m = top;
        }
        float all = simd_max(m);
        s = simd_sum(s * fast::exp(m - all));
        if (lane == 0) {
          maximum[row] = all;
          logsum[row] = all + log(s);
        }
    """),
    kernel("meets_again_after_a_branch", 96)(
        x=_LANES,
        y=gives(
            np.repeat(
                np.select(
                    [_LANES > 0, np.arange(96) % 2 == 0],
                    [np.sqrt(np.abs(_LANES)), -_LANES],
                    (np.arange(96) % 32) * 0.125,
                )
                .reshape(3, 32)
                .sum(1),
                32,
            )
        ),
    )("""
        float v = x[thread_position_in_grid.x], w;
        if (v > 0) {
          w = sqrt(v);
        } else if (lane % 2 == 0) {
          w = -v;
        } else {
          w = 0;
          for (uint k = 0; k < lane; ++k) w += 0.125f;
        }
        y[thread_position_in_grid.x] = simd_sum(w);
    """),
    kernel("sum_of_the_lanes_that_are_left", (96, 32))(
        x=np.abs(_LANES[:75]) + 0.1,
        y=gives(
            np.concatenate([p / p.sum() for p in np.split(np.abs(_LANES[:75]) + 0.1, [32, 64])])
        ),
    )("""
        if (i >= uint(x_shape[0])) return;
        float s = simd_sum(x[i]);
        y[i] = x[i] / s;
    """),
    kernel("votes_and_ballots", (96, 32))(
        x=_WHOLE,
        y=gives(
            np.concatenate(
                [
                    (p > 0).sum() * 1000
                    + np.where(p > 0, _exclusive((p > 0).astype(int)), 99) * 10
                    + (p == 4).any() * 2
                    + 1
                    for p in _WHOLE.reshape(3, 32)
                ]
            )
        ),
    )("""
        int v = x[thread_position_in_grid.x];
        bool hit = v > 0;
        simd_vote vote = simd_ballot(hit);
        uint64_t bits = (simd_vote::vote_t)vote;
        uint count = popcount(uint(bits)), rank = popcount(uint(bits) & ((1u << lane) - 1));
        bool some = simd_any(v == 4), every = simd_all(v > -5);
        uint code = count * 1000 + (hit ? rank : 99) * 10 + some * 2 + every;
        y[thread_position_in_grid.x] = int(code);
    """),
    kernel("quads_of_a_2x2_block", (96, 48))(
        x=_LANES,
        y=gives(
            np.where(
                np.arange(96) % 4 == 0,
                np.repeat(_LANES.reshape(-1, 4).sum(1), 4),
                _LANES[np.arange(96) ^ 1] - _LANES + np.repeat(_LANES[::4], 4),
            )
        ),
    )("""
        float v = x[i], dx = quad_shuffle_xor(v, 1) - v, first = quad_broadcast(v, 0);
        float s = quad_sum(v);
        y[i] = thread_index_in_quadgroup == 0 ? s : dx + first;
    """),
    kernel("sum_of_the_first_lanes", 64)(x=count(64), y=gives(_FOUR))("""
        threadgroup int cells[64];
        int v = x[lid];
        if (lane < 4) v = simd_sum(v);
        cells[lid] = v;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = cells[lid];
    """),
    kernel("places_among_the_odd", 64)(x=count(64), y=gives(_PLACES))("""
        int v = x[lid], place = -1;
        if (v % 2) {
          place = simd_prefix_exclusive_sum(1);
          place += simd_broadcast(v, 1) + simd_shuffle_xor(v, 2) - v;
        }
        y[lid] = simd_max(place) - place;
    """),
)
