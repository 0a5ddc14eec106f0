"""Bugs in rarer clothes: memory that is out of bounds."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Out, floats, halves, kernel

STATS = """
struct Stat {
  half low;
  half high;
};

template <typename T, int N>
void gather(thread T (&into)[N], const device T* from, int count) {
  for (int k = 0; k < count; ++k) into[k] = from[k];
}
"""


BUGS = (
    kernel("vector_view_past_a_private_array", 8, also="uninitialized-read")(
        x=floats(8, 6), start=np.array([0, 2, 4, 6, 2, 0, 2, 4], "int32"), y=Out(8)
    )("""
        uint row = thread_position_in_grid.x;
        float acc[6];
        for (int k = 0; k < 6; ++k) acc[k] = x[row * 6 + k];
        int from = start[row];
        float2 pair = *(thread float2*)(acc + from);  // <- out-of-bounds
        y[row] = pair.x * pair.y;
    """),
    kernel("float4_of_a_short_constant_input", 16)(x=floats(16), w=floats(7), y=Out(16))("""
        float4 last = ((const constant float4*)w)[1];  // <- out-of-bounds
        y[i] = x[i] * last.x + last.w;
    """),
    kernel("index_from_another_lane", 32)(
        rows=np.where(np.arange(32) == 20, 64, np.arange(32)).astype(np.int32),
        table=floats(64),
        y=Out(32),
    )("""
        int next = simd_shuffle_xor(rows[i], 1);
        y[i] = table[next];  // <- out-of-bounds
    """),
    kernel("second_output_is_shorter", 20)(x=floats(20), value=Out(20), mean=Out(5))("""
        value[i] = x[i] * 2;
        mean[i] = x[i] / 4;  // <- out-of-bounds
    """),
    kernel("planes_of_an_oblong_volume", ((4, 9, 2), (4, 9)))(x=floats(2, 9, 4), y=Out(2, 9, 4))("""
        uint3 g = thread_position_in_grid;
        uint H = x_shape[1], W = x_shape[2];
        float v = x[g.z * H * W + g.y * H + g.x];  // <- out-of-bounds
        y[(g.z * H + g.y) * W + g.x] = v;
    """),
    kernel("countdown_from_the_length", (6, 2))(x=floats(6, 5), y=Out(6))("""
        uint row = thread_position_in_grid.x;
        int n = x_shape[1];
        float s = 0;
        for (int k = n; k >= 0; --k) s = s * 0.5f + x[row * n + k];  // <- out-of-bounds
        y[row] = s;
    """),
    kernel("stride_of_the_axis_after_the_last", 24, contiguous=False)(x=floats(3, 8), y=Out(24))("""
        long step = x_strides[x_ndim];  // <- out-of-bounds
        y[i] = step > 1 ? x[i] : -x[i];
    """),
    kernel("eight_bfloats_at_a_time", 5)(
        x=Array(floats(36), dtype="bfloat16"), y=Out(5, "uint32")
    )("""
        uint4 words = ((const device uint4*)x)[i];  // <- out-of-bounds
        uint s = words.x ^ words.y ^ words.z ^ words.w;
        y[i] = s;
    """),
    kernel("structs_on_chip_by_the_wrong_count", 13, header=STATS)(
        x=halves(13), y=Out(13, "float16")
    )("""
        threadgroup Stat stats[12];
        uint lid = thread_index_in_threadgroup;
        Stat s{x[lid], half(x[lid] + 1.0h)};
        stats[lid].low = s.low;  // <- out-of-bounds
        if (lid < 12) stats[lid].high = s.high;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint at = lid % 12;
        y[lid] = stats[at].high - stats[at].low;
    """),
    kernel("pointer_far_beyond_everything", 9)(x=floats(9), jump=np.int32(7), y=Out(9))("""
        ulong far = ulong(jump) << 40;
        y[i] = x[far + i];  // <- crash|out-of-bounds
    """),
    kernel("left_of_its_own_output", 1)(x=floats(8), y=Out(8))("""
        int i = thread_position_in_grid.x * 8;
        for (int k = 0; k < 8; ++k)
          y[i + k] = x[i + k] + (k > 0 ? y[i + k - 1] : y[i - 1 - k]);  // <- out-of-bounds
    """),
)
