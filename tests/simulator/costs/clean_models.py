"""Kernels without a cost fault: matrix-vector products, attention and recurrent cells."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_W = floats(256, 512)
_X = floats(512, seed=1)
_PACKED = integers(0, 2**32, 256, 64, seed=2, dtype="uint32")
_SCALES = floats(256, 8, seed=3)
_BIASES = floats(256, 8, seed=4)
_Q = floats(32, 64, seed=5)
_K = floats(32, 64, 64, seed=6)
_V = floats(32, 64, 64, seed=7)
_R = floats(64, 64, seed=8) / 8
_INPUT = floats(16, 8, 64, seed=9)


def _unpacked() -> np.ndarray:
    shifts = np.arange(0, 32, 4, dtype=np.uint32)
    whole = (_PACKED[..., None] >> shifts & 15).astype(np.float32).reshape(256, 8, 64)
    return (whole * _SCALES[..., None] + _BIASES[..., None]).reshape(256, 512)


def _attention() -> np.ndarray:
    scores = np.einsum("hd,htd->ht", _Q, _K) / 8
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return np.einsum("ht,htd->hd", powers / powers.sum(1, keepdims=True), _V)


def _recurred() -> np.ndarray:
    state, states = np.zeros((16, 64), np.float32), []
    for t in range(8):
        state = np.tanh(_INPUT[:, t] + state @ _R)
        states.append(state)
    return np.stack(states, 1)


CLEAN = (
    kernel("matvec_by_simdgroup", ((32, 256), (32, 8)), close=1e-4)(
        w=_W, x=_X, y=gives(_W @ _X)
    )("""
        uint row = thread_position_in_grid.y;
        const device float4* w4 = (const device float4*)w + row * 128;
        const device float4* x4 = (const device float4*)x;
        float sum = 0;
        for (uint k = lane; k < 128; k += 32) sum += dot(w4[k], x4[k]);
        sum = simd_sum(sum);
        if (lane == 0) y[row] = sum;
    """),
    kernel("quantized_matvec_by_words", ((32, 256), (32, 8)), close=1e-4)(
        w=_PACKED, scales=_SCALES, biases=_BIASES, x=_X, y=gives(_unpacked() @ _X)
    )("""
        uint row = thread_position_in_grid.y;
        const device float4* x4 = (const device float4*)x;
        float sum = 0;
        for (uint j = lane; j < 64; j += 32) {
          uint word = w[row * 64 + j];
          float4 first = x4[2 * j], second = x4[2 * j + 1];
          float4 low = float4(word & 15, word >> 4 & 15, word >> 8 & 15, word >> 12 & 15);
          float4 high = float4(word >> 16 & 15, word >> 20 & 15, word >> 24 & 15, word >> 28);
          float4 all = first + second;
          float scale = scales[row * 8 + j / 8], bias = biases[row * 8 + j / 8];
          sum += scale * (dot(low, first) + dot(high, second));
          sum += bias * (all.x + all.y + all.z + all.w);
        }
        sum = simd_sum(sum);
        if (lane == 0) y[row] = sum;
    """),
    kernel("attention_of_one_query", ((32, 32), (32, 4)))(
        q=_Q, k=_K, v=_V, y=gives(_attention())
    )("""
        constexpr uint T = 64;
        uint head = thread_position_in_grid.y;
        const device float2* keys = (const device float2*)k + head * T * 32;
        const device float2* values = (const device float2*)v + head * T * 32;
        float2 query = ((const device float2*)q)[head * 32 + lane] * 0.125f;
        float best = -INFINITY, total = 0;
        float2 sums = 0;
        for (uint t = 0; t < T; t++) {
          float score = simd_sum(dot(query, keys[t * 32 + lane]));
          float next = max(best, score);
          float keep = fast::exp(best - next), power = fast::exp(score - next);
          total = total * keep + power;
          sums = sums * keep + power * values[t * 32 + lane];
          best = next;
        }
        ((device float2*)y)[head * 32 + lane] = sums / total;
    """),
    kernel("recurrent_cell_over_time", (1024, 64), close=1e-4)(
        x=_INPUT, r=_R, y=gives(_recurred())
    )("""
        threadgroup float h[64];
        uint batch = threadgroup_position_in_grid.x;
        h[lid] = 0;
        for (uint t = 0; t < 8; t++) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          float sum = x[(batch * 8 + t) * 64 + lid];
          for (uint j = 0; j < 64; j++) sum += h[j] * r[j * 64 + lid];
          float next = precise::tanh(sum);
          threadgroup_barrier(mem_flags::mem_threadgroup);
          h[lid] = next;
          y[(batch * 8 + t) * 64 + lid] = next;
        }
    """),
)
