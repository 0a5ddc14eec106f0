"""Clean kernels: simdgroup and quadgroup operations, matrices and atomics."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_X = floats(5, 100)
_LANES = floats(96)
_LOGITS = floats(4, 77, seed=4)
_A, _B = floats(16, 32), floats(32, 24, seed=1)
_HA, _HB = floats(8, 16).astype(np.float16), floats(16, 8, seed=2).astype(np.float16)
_KEYS = integers(0, 12, 170, dtype="uint8")
_WORDS = integers(0, 1 << 31, 100, dtype="uint32")
_WHOLE = integers(-4, 5, 96)
_COUNTS = integers(0, 7, 150)


def _norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def _exclusive(x: np.ndarray) -> np.ndarray:
    return np.cumsum(x) - x


CLEAN = (
    Case(
        "simd_sum_of_rows",
        """
        uint lane = thread_index_in_simdgroup;
        uint row = thread_position_in_grid.y;
        float s = 0;
        for (uint c = lane; c < 100; c += 32) {
          s += x[row * 100 + c];
        }
        s = simd_sum(s);
        if (lane == 0) y[row] = s;
        """,
        {"x": Array(_X)},
        {"y": Out((5,))},
        (32, 5, 1),
        (32, 4, 1),
        expected=lambda: (_X.sum(1),),
        atol=1e-4,
    ),
    Case(
        "butterfly_maximum",
        """
        float v = x[thread_position_in_grid.x];
        for (ushort m = 1; m < 32; m <<= 1) {
          v = max(v, simd_shuffle_xor(v, m));
        }
        y[thread_position_in_grid.x] = v;
        """,
        {"x": Array(_LANES)},
        {"y": Out((96,))},
        (96, 1, 1),
        (96, 1, 1),
        expected=lambda: (np.repeat(_LANES.reshape(3, 32).max(1), 32),),
        rtol=0,
        atol=0,
    ),
    Case(
        "shuffle_down_tree",
        """
        half v = x[thread_position_in_grid.x];
        float s = float(v);
        for (ushort d = 16; d > 0; d /= 2) {
          s += simd_shuffle_down(s, d);
        }
        if (thread_index_in_simdgroup == 0) y[thread_position_in_grid.x / 32] = half(s);
        """,
        {"x": Array(_LANES.astype(np.float16))},
        {"y": Out((3,), "float16")},
        (96, 1, 1),
        (32, 1, 1),
        expected=lambda: (_LANES.astype(np.float16).astype(np.float32).reshape(3, 32).sum(1),),
        rtol=2e-3,
    ),
    Case(
        "shuffle_up_scan",
        """
        uint lane = thread_index_in_simdgroup;
        int v = x[thread_position_in_grid.x];
        for (ushort d = 1; d < 32; d *= 2) {
          int before = simd_shuffle_up(v, d);
          if (lane >= d) v += before;
        }
        y[thread_position_in_grid.x] = v;
        """,
        {"x": Array(_WHOLE)},
        {"y": Out((96,), "int32")},
        (96, 1, 1),
        (48, 1, 1),
        expected=lambda: (np.concatenate([np.cumsum(p) for p in np.split(_WHOLE, [32, 48, 80])]),),
    ),
    Case(
        "prefix_sums_in_two_levels",
        """
        threadgroup int carry[32];
        uint sg = simdgroup_index_in_threadgroup;
        uint lane = thread_index_in_simdgroup;
        uint i = thread_position_in_grid.x;
        int inside = simd_prefix_exclusive_sum(x[i]);
        if (lane == threads_per_simdgroup - 1) carry[sg] = inside + x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int before = 0;
        for (uint k = 0; k < sg; ++k) before += carry[k];
        y[i] = before + inside;
        """,
        {"x": Array(_WHOLE)},
        {"y": Out((96,), "int32")},
        (96, 1, 1),
        (96, 1, 1),
        expected=lambda: (_exclusive(_WHOLE),),
    ),
    Case(
        "layer_norm",
        """
        threadgroup float part[2][4];
        uint lane = thread_index_in_simdgroup, sg = simdgroup_index_in_threadgroup;
        uint row = threadgroup_position_in_grid.x, lid = thread_position_in_threadgroup.x;
        float v = x[row * 100 + lid];
        float s = simd_sum(v), q = simd_sum(v * v);
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
        """,
        {"x": Array(_X), "eps": Array(np.float32(1e-5))},
        {"y": Out((5, 100))},
        (500, 1, 1),
        (100, 1, 1),
        expected=lambda: (_norm(_X),),
        rtol=1e-3,
        atol=1e-4,
    ),
    Case(
        "argmax_with_ties_to_the_left",
        """
        uint lane = thread_index_in_simdgroup;
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
        """,
        {"x": Array(np.round(_LOGITS, 1))},
        {"y": Out((4,), "uint32")},
        (32, 4, 1),
        (32, 1, 1),
        expected=lambda: (np.round(_LOGITS, 1).argmax(1),),
    ),
    Case(
        "online_softmax_statistics",
        """
        uint lane = thread_index_in_simdgroup;
        uint row = thread_position_in_grid.y;
        float m = Limits<float>::finite_min, s = 0;
        for (uint c = lane; c < 77; c += 32) {
          float v = x[row * 77 + c];
          float top = max(m, v);
          s = s * fast::exp(m - top) + fast::exp(v - top);
          m = top;
        }
        float all = simd_max(m);
        s = simd_sum(s * fast::exp(m - all));
        if (lane == 0) {
          maximum[row] = all;
          logsum[row] = all + log(s);
        }
        """,
        {"x": Array(_LOGITS)},
        {"maximum": Out((4,)), "logsum": Out((4,))},
        (32, 4, 1),
        (32, 2, 1),
        expected=lambda: (_LOGITS.max(1), np.log(np.exp(_LOGITS).sum(1))),
        rtol=1e-4,
    ),
    Case(
        "meets_again_after_a_branch",
        """
        uint lane = thread_index_in_simdgroup;
        float v = x[thread_position_in_grid.x];
        float w;
        if (v > 0) {
          w = sqrt(v);
        } else if (lane % 2 == 0) {
          w = -v;
        } else {
          w = 0;
          for (uint k = 0; k < lane; ++k) w += 0.125f;
        }
        y[thread_position_in_grid.x] = simd_sum(w);
        """,
        {"x": Array(_LANES)},
        {"y": Out((96,))},
        (96, 1, 1),
        (96, 1, 1),
        expected=lambda: (
            np.repeat(
                np.select(
                    [_LANES > 0, np.arange(96) % 2 == 0],
                    [np.sqrt(np.abs(_LANES)), -_LANES],
                    (np.arange(96) % 32) * 0.125,
                )
                .reshape(3, 32)
                .sum(1),
                32,
            ),
        ),
        rtol=1e-4,
    ),
    Case(
        "sum_of_the_lanes_that_are_left",
        """
        uint i = thread_position_in_grid.x;
        if (i >= uint(x_shape[0])) return;
        float s = simd_sum(x[i]);
        y[i] = x[i] / s;
        """,
        {"x": Array(np.abs(_LANES[:75]) + 0.1)},
        {"y": Out((75,))},
        (96, 1, 1),
        (32, 1, 1),
        expected=lambda: (
            np.concatenate([p / p.sum() for p in np.split(np.abs(_LANES[:75]) + 0.1, [32, 64])]),
        ),
    ),
    Case(
        "votes_and_ballots",
        """
        uint lane = thread_index_in_simdgroup;
        int v = x[thread_position_in_grid.x];
        bool hit = v > 0;
        simd_vote vote = simd_ballot(hit);
        uint64_t bits = (simd_vote::vote_t)vote;
        uint count = popcount(uint(bits));
        uint rank = popcount(uint(bits) & ((1u << lane) - 1));
        bool some = simd_any(v == 4), every = simd_all(v > -5);
        uint code = count * 1000 + (hit ? rank : 99) * 10 + some * 2 + every;
        y[thread_position_in_grid.x] = int(code);
        """,
        {"x": Array(_WHOLE)},
        {"y": Out((96,), "int32")},
        (96, 1, 1),
        (32, 1, 1),
        expected=lambda: (
            np.concatenate(
                [
                    (p > 0).sum() * 1000
                    + np.where(p > 0, _exclusive((p > 0).astype(int)), 99) * 10
                    + (p == 4).any() * 2
                    + 1
                    for p in _WHOLE.reshape(3, 32)
                ]
            ),
        ),
    ),
    Case(
        "quads_of_a_2x2_block",
        """
        uint i = thread_position_in_grid.x;
        float v = x[i];
        float dx = quad_shuffle_xor(v, 1) - v;
        float first = quad_broadcast(v, 0);
        float s = quad_sum(v);
        y[i] = thread_index_in_quadgroup == 0 ? s : dx + first;
        """,
        {"x": Array(_LANES)},
        {"y": Out((96,))},
        (96, 1, 1),
        (48, 1, 1),
        expected=lambda: (
            np.where(
                np.arange(96) % 4 == 0,
                np.repeat(_LANES.reshape(-1, 4).sum(1), 4),
                _LANES[np.arange(96) ^ 1] - _LANES + np.repeat(_LANES[::4], 4),
            ),
        ),
        atol=1e-5,
    ),
    Case(
        "simdgroup_matrix_product",
        """
        uint sg = simdgroup_index_in_threadgroup;
        uint row = threadgroup_position_in_grid.y * 8;
        uint column = sg * 8;
        simdgroup_float8x8 ma, mb;
        simdgroup_float8x8 acc = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
        for (uint k = 0; k < 32; k += 8) {
          simdgroup_load(ma, a + row * 32 + k, 32);
          simdgroup_load(mb, b + k * 24 + column, 24);
          simdgroup_multiply_accumulate(acc, ma, mb, acc);
        }
        simdgroup_store(acc, c + row * 24 + column, 24);
        """,
        {"a": Array(_A), "b": Array(_B)},
        {"c": Out((16, 24))},
        (96, 2, 1),
        (96, 1, 1),
        expected=lambda: (_A @ _B,),
        atol=1e-4,
    ),
    Case(
        "half_matrices_through_threadgroup_tiles",
        """
        threadgroup half ta[8 * 16];
        threadgroup half tb[16 * 8];
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
        """,
        {"a": Array(_HA), "b": Array(_HB), "bias": Array(np.arange(8, dtype=np.float32))},
        {"c": Out((8, 8))},
        (64, 1, 1),
        (64, 1, 1),
        expected=lambda: (
            _HA.astype(np.float32) @ _HB.astype(np.float32) + np.arange(8, dtype=np.float32),
        ),
        rtol=1e-3,
        atol=1e-3,
    ),
    Case(
        "transposed_load_of_a_matrix",
        """
        simdgroup_float8x8 m;
        simdgroup_load(m, x, 8, ulong2(0, 0), true);
        m.thread_elements()[0] *= 2.0f;
        m.thread_elements()[1] *= 2.0f;
        simdgroup_store(m, y, 8);
        """,
        {"x": Array(_A.ravel()[:64].reshape(8, 8))},
        {"y": Out((8, 8))},
        (32, 1, 1),
        (32, 1, 1),
        expected=lambda: (2 * _A.ravel()[:64].reshape(8, 8).T,),
        rtol=0,
        atol=0,
    ),
    Case(
        "histogram_on_device",
        """
        uint i = thread_position_in_grid.x;
        atomic_fetch_add_explicit(&counts[keys[i]], 1, memory_order_relaxed);
        """,
        {"keys": Array(_KEYS)},
        {"counts": Out((12,), "int32")},
        (170, 1, 1),
        (64, 1, 1),
        init_value=0,
        atomic_outputs=True,
        expected=lambda: (np.bincount(_KEYS, minlength=12),),
    ),
    Case(
        "histogram_by_threadgroups",
        """
        threadgroup atomic_uint bins[12];
        uint lid = thread_position_in_threadgroup.x;
        if (lid < 12) atomic_store_explicit(&bins[lid], 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        atomic_fetch_add_explicit(&bins[keys[thread_position_in_grid.x]], 1, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 12) {
          uint n = atomic_load_explicit(&bins[lid], memory_order_relaxed);
          if (n > 0) atomic_fetch_add_explicit(&counts[lid], n, memory_order_relaxed);
        }
        """,
        {"keys": Array(_KEYS)},
        {"counts": Out((12,), "uint32")},
        (170, 1, 1),
        (50, 1, 1),
        init_value=0,
        atomic_outputs=True,
        expected=lambda: (np.bincount(_KEYS, minlength=12),),
    ),
    Case(
        "float_atomics_of_whole_numbers",
        """
        uint i = thread_position_in_grid.x;
        uint slot = i % 3;
        atomic_fetch_add_explicit(&sums[slot], float(x[i]) * 0.5f, memory_order_relaxed);
        """,
        {"x": Array(_WHOLE)},
        {"sums": Out((3,))},
        (96, 1, 1),
        (24, 1, 1),
        init_value=0,
        atomic_outputs=True,
        expected=lambda: (_WHOLE.reshape(32, 3).sum(0) * 0.5,),
        rtol=0,
        atol=0,
    ),
    Case(
        "atomic_extremes_and_bits",
        """
        uint i = thread_position_in_grid.x;
        uint w = words[i];
        atomic_fetch_max_explicit(&r[0], w, memory_order_relaxed);
        atomic_fetch_min_explicit(&r[1], w, memory_order_relaxed);
        atomic_fetch_or_explicit(&r[2], w, memory_order_relaxed);
        atomic_fetch_and_explicit(&r[3], w, memory_order_relaxed);
        atomic_fetch_xor_explicit(&r[4], w, memory_order_relaxed);
        atomic_fetch_sub_explicit(&r[5], w & 3, memory_order_relaxed);
        """,
        {"words": Array(_WORDS)},
        {"r": Out((6,), "uint32")},
        (100, 1, 1),
        (32, 1, 1),
        init_value=7,
        atomic_outputs=True,
        expected=lambda: (
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
            ),
        ),
    ),
    Case(
        "float_maximum_by_compare_exchange",
        """
        uint i = thread_position_in_grid.x;
        float v = x[i];
        uint seen = atomic_load_explicit(&bits[0], memory_order_relaxed);
        while (v > as_type<float>(seen)) {
          if (atomic_compare_exchange_weak_explicit(
                  &bits[0], &seen, as_type<uint>(v), memory_order_relaxed,
                  memory_order_relaxed)) {
            break;
          }
        }
        """,
        {"x": Array(np.abs(_LANES))},
        {"bits": Out((1,), "uint32")},
        (96, 1, 1),
        (32, 1, 1),
        init_value=0,
        atomic_outputs=True,
        expected=lambda: (np.abs(_LANES).max(keepdims=True).view(np.uint32),),
    ),
    Case(
        "threadgroup_counter_read_after_a_barrier",
        """
        threadgroup atomic_int total;
        uint lid = thread_position_in_threadgroup.x;
        if (lid == 0) atomic_store_explicit(&total, 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int n = counts[thread_position_in_grid.x];
        if (n > 2) atomic_fetch_add_explicit(&total, n, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[thread_position_in_grid.x] = n * 100 + atomic_load_explicit(&total, memory_order_relaxed);
        """,
        {"counts": Array(_COUNTS)},
        {"y": Out((150,), "int32")},
        (150, 1, 1),
        (60, 1, 1),
        expected=lambda: (
            np.concatenate([100 * p + p[p > 2].sum() for p in np.split(_COUNTS, [60, 120])]),
        ),
    ),
)
