"""Pieces of Metal that several kernels join into their header."""

from __future__ import annotations

THREADGROUP_SUM = """
    // The sum of value over the threadgroup, given to each of its threads.
    // partial: at least one float for each simdgroup, at most one simdgroup for each lane.
    inline float xlstm_threadgroup_sum(
        float value, threadgroup float* partial, uint simdgroup, uint lane, uint simdgroups) {
        value = simd_sum(value);
        // Whatever an earlier sum left in partial has been read.
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lane == 0) {
            partial[simdgroup] = value;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        return simd_sum(lane < simdgroups ? partial[lane] : 0.0f);
    }
"""

LOG_SIGMOID = """
    // log(1 + y) for y in [0, 1], where log would lose the digits of a small y: Metal has no log1p.
    // What the rounding of 1 + y took away is given back to first order (Kahan).
    inline float xlstm_log1p(float y) {
        const float sum = 1.0f + y;
        return metal::precise::log(sum) + (y - (sum - 1.0f)) / sum;
    }
    // log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|)): exact in both tails.
    inline float xlstm_log_sigmoid(float x) {
        return metal::min(x, 0.0f) - xlstm_log1p(metal::precise::exp(-metal::abs(x)));
    }
"""

PAIRS = """
    // A number as the unevaluated sum x + y of two floats, |y| at most half of x's last bit: twice
    // the digits. The exponents of the gates are kept so, since an error in an exponent of 100 is
    // 100 times as big in what it scales. Of an infinite x, y is zero.
    inline float2 xlstm_pair(float a, float b) {
        const float sum = a + b;
        const float other = sum - a;
        const float error = (a - (sum - other)) + (b - other);
        return float2(sum, metal::isfinite(sum) ? error : 0.0f);
    }
    inline float2 xlstm_pair_add(float2 a, float b) {
        const float2 sum = xlstm_pair(a.x, b);
        return xlstm_pair(sum.x, sum.y + a.y);
    }
    inline float2 xlstm_pair_sum(float2 a, float2 b) {
        const float2 sum = xlstm_pair(a.x, b.x);
        return xlstm_pair(sum.x, sum.y + (a.y + b.y));
    }
    inline float xlstm_pair_difference(float2 a, float2 b) {
        const float2 sum = xlstm_pair(a.x, -b.x);
        return sum.x + (sum.y + (a.y - b.y));
    }
    inline bool xlstm_pair_less(float2 a, float2 b) {
        return a.x < b.x || (a.x == b.x && a.y < b.y);
    }
"""
