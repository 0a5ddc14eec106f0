"""Kernels without a cost fault: rows and models."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_ROWS = floats(64, 512)
_WEIGHT = floats(512, seed=1)
_SCORES = floats(128, 256, seed=2)
_LOGITS = floats(64, 1024, seed=3)
_LABELS = integers(0, 1024, 64, seed=4)
_TABLE = floats(500, 256, seed=5)
_TOKENS = integers(0, 500, 64, seed=6)
_BATCH = floats(64, 1024, seed=7)
_ENDS = np.array([0, 7, 20, 21, 40, 52, 55, 64], np.int32)


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def _layer_norm(x: np.ndarray) -> np.ndarray:
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)


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
    kernel("rms_norm", (64 * 256, 256))(
        x=_ROWS,
        w=_WEIGHT,
        y=gives(_ROWS / np.sqrt((_ROWS**2).mean(1, keepdims=True) + 1e-5) * _WEIGHT),
    )("""
        constexpr uint D = 512;
        uint row = threadgroup_position_in_grid.x;
        threadgroup float partial[8];
        float sum = 0;
        for (uint j = lid; j < D; j += 256) {
          float v = x[row * D + j];
          sum += v * v;
        }
        sum = simd_sum(sum);
        if (lane == 0) partial[simdgroup_index_in_threadgroup] = sum;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum = simd_sum(lane < 8 ? partial[lane] : 0.0f);
        float scale = rsqrt(sum / D + 1e-5f);
        for (uint j = lid; j < D; j += 256) y[row * D + j] = x[row * D + j] * scale * w[j];
    """),
    kernel("softmax_by_simdgroup", ((32, 128), (32, 8)))(x=_SCORES, y=gives(_softmax(_SCORES)))("""
        constexpr uint C = 256;
        uint row = thread_position_in_grid.y;
        const device float* from = x + row * C;
        device float* to = y + row * C;
        float best = -INFINITY;
        for (uint c = lane; c < C; c += 32) best = max(best, from[c]);
        best = simd_max(best);
        float total = 0;
        for (uint c = lane; c < C; c += 32) total += fast::exp(from[c] - best);
        total = simd_sum(total);
        for (uint c = lane; c < C; c += 32) to[c] = fast::exp(from[c] - best) / total;
    """),
    kernel("layer_norm_of_vectors", (64 * 128, 128))(x=_ROWS, y=gives(_layer_norm(_ROWS)))("""
        constexpr uint D4 = 128;
        uint row = threadgroup_position_in_grid.x;
        threadgroup float2 partial[4];
        float4 v = ((const device float4*)x)[row * D4 + lid];
        float2 sums = float2(v.x + v.y + v.z + v.w, dot(v, v));
        sums = float2(simd_sum(sums.x), simd_sum(sums.y));
        if (lane == 0) partial[simdgroup_index_in_threadgroup] = sums;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sums = partial[0] + partial[1] + partial[2] + partial[3];
        float mean = sums.x / 512, scale = rsqrt(sums.y / 512 - mean * mean + 1e-5f);
        ((device float4*)y)[row * D4 + lid] = (v - mean) * scale;
    """),
    kernel("argmax_of_rows", ((32, 128), (32, 8)))(
        x=_SCORES, y=gives(_SCORES.argmax(1), "uint32")
    )("""
        constexpr uint C = 256;
        uint row = thread_position_in_grid.y;
        float best = -INFINITY;
        uint at = 0;
        for (uint c = lane; c < C; c += 32) {
          float v = x[row * C + c];
          if (v > best) { best = v; at = c; }
        }
        for (ushort m = 16; m > 0; m >>= 1) {
          float other = simd_shuffle_xor(best, m);
          uint other_at = simd_shuffle_xor(at, m);
          if (other > best || (other == best && other_at < at)) { best = other; at = other_at; }
        }
        if (lane == 0) y[row] = at;
    """),
    kernel("cross_entropy_of_logits", ((32, 64), (32, 8)))(
        x=_LOGITS, labels=_LABELS, y=gives(-np.log(_softmax(_LOGITS))[np.arange(64), _LABELS])
    )("""
        constexpr uint V4 = 256;
        uint row = thread_position_in_grid.y;
        const device float4* from = (const device float4*)x + row * V4;
        float best = -INFINITY, total = 0;
        for (uint c = lane; c < V4; c += 32) {
          float4 v = from[c];
          float next = max(best, max(max(v.x, v.y), max(v.z, v.w)));
          float4 p = fast::exp(v - next);
          total = total * fast::exp(best - next) + p.x + p.y + p.z + p.w;
          best = next;
        }
        float all = simd_max(best);
        total = simd_sum(total * fast::exp(best - all));
        if (lane == 0) y[row] = all + log(total) - x[row * 4 * V4 + labels[row]];
    """),
    kernel("embedding_gather", ((64, 64), (64, 4)))(
        table=_TABLE, tokens=_TOKENS, y=gives(_TABLE[_TOKENS])
    )("""
        uint d = thread_position_in_grid.x, t = thread_position_in_grid.y, token = tokens[t];
        ((device float4*)y)[t * 64 + d] = ((const device float4*)table)[token * 64 + d];
    """),
    kernel("channel_statistics_of_a_batch", (1024, 256))(
        x=_BATCH, m=gives(_BATCH.mean(0)), s=gives(_BATCH.var(0))
    )("""
        uint c = thread_position_in_grid.x;
        float mean = 0, square = 0;
        for (uint b = 0; b < 64; b++) {
          float v = x[b * 1024 + c];
          mean += v;
          square += v * v;
        }
        mean /= 64;
        m[c] = mean;
        s[c] = square / 64 - mean * mean;
    """),
    kernel("mean_of_segments", ((1024, 7), 256))(
        x=_BATCH, ends=_ENDS, y=gives(np.stack([_BATCH[a:b].mean(0) for a, b in pairwise(_ENDS)]))
    )("""
        uint c = thread_position_in_grid.x, s = thread_position_in_grid.y;
        int first = ends[s], last = ends[s + 1];
        float sum = 0;
        for (int r = first; r < last; r++) sum += x[r * 1024 + c];
        y[s * 1024 + c] = sum / (last - first);
    """),
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
          float score = simd_sum(dot(query, keys[t * 32 + lane])), next = max(best, score);
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
