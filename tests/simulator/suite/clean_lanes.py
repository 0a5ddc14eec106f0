"""Clean kernels: simdgroup and quadgroup operations."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_X = floats(5, 100)
_LANES = floats(96)
_LOGITS = floats(4, 77, seed=4)
_WHOLE = integers(-4, 5, 96)


def _norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


def _exclusive(x: np.ndarray) -> np.ndarray:
    return np.cumsum(x) - x


CLEAN = (
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
        float v = x[i];
        float next = simd_shuffle_down(v, 1);
        float last = simd_shuffle(v, ushort(31));
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
        uint count = popcount(uint(bits));
        uint rank = popcount(uint(bits) & ((1u << lane) - 1));
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
        float v = x[i];
        float dx = quad_shuffle_xor(v, 1) - v;
        float first = quad_broadcast(v, 0);
        float s = quad_sum(v);
        y[i] = thread_index_in_quadgroup == 0 ? s : dx + first;
    """),
)
