"""Narrow accesses in loops, and the same kernels with vectors."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_WEIGHTS = integers(0, 256, 64, 1024, dtype="uint8")
_TOKENS = (floats(8, 1024, seed=1) / 8).astype(np.float16)
_SIGNAL = floats(32, 544, seed=2).astype(np.float16)
_TABLE = floats(64, 64, seed=3)
_POINTS = floats(4096, seed=4) / 8
_NIBBLES = integers(0, 256, 64, 512, seed=5, dtype="uint8")
_STATES = (floats(8, 1024, seed=6) / 8).astype(np.float16)


def _scored() -> np.ndarray:
    return _TOKENS.astype(np.float32) @ (_WEIGHTS.astype(np.float32) - 128).T / 64


def _averaged() -> np.ndarray:
    signal = _SIGNAL.astype(np.float32)
    return sum(signal[:, k : k + 512] for k in range(32)) / 32


def _evaluated() -> np.ndarray:
    power = np.ones(4096, np.float32)
    sums = np.zeros((4096, 64), np.float32)
    for row in _TABLE:
        sums += row * power[:, None]
        power = power * _POINTS
    return sums


def _unpacked() -> np.ndarray:
    whole = np.stack([_NIBBLES & 15, _NIBBLES >> 4], -1).reshape(64, 1024).astype(np.float32)
    return _STATES.astype(np.float32) @ (whole - 8).T


FAULTS = (
    kernel("tokens_times_byte_weights", ((32, 8, 64), (32, 8)), close=1e-4)(
        w=_WEIGHTS, x=_TOKENS, y=gives(_scored())
    )("""
        uint token = thread_position_in_grid.y, row = thread_position_in_grid.z;
        float sum = 0;
        for (uint k = lane; k < 1024; k += 32)
          sum += (float(w[row * 1024 + k]) - 128) * float(x[token * 1024 + k]);  // <- narrow-access
        sum = simd_sum(sum);
        if (lane == 0) y[token * 64 + row] = sum / 64;
    """),
    kernel("moving_average_of_halves", ((512, 32), 256))(x=_SIGNAL, y=gives(_averaged()))("""
        uint t = thread_position_in_grid.x, row = thread_position_in_grid.y;
        const device half* from = x + row * 544 + t;
        float sum = 0;
        for (uint k = 0; k < 32; k++) sum += float(from[k]);  // <- narrow-access
        y[row * 512 + t] = sum / 32;
    """),
    kernel("polynomials_of_pairs", ((32, 4096), (32, 8)))(
        table=_TABLE, x=_POINTS, y=gives(_evaluated())
    )("""
        uint c = thread_position_in_grid.x, i = thread_position_in_grid.y;
        const device float2* rows = (const device float2*)table;
        float power = 1, point = x[i];
        float2 sum = 0;
        for (uint k = 0; k < 64; k++) {
          sum += rows[k * 32 + c] * power;  // <- narrow-access
          power *= point;
        }
        ((device float2*)y)[i * 32 + c] = sum;
    """),
    kernel("tokens_times_nibbles_by_bytes", ((32, 8, 64), (32, 8)), close=1e-4)(
        w=_NIBBLES, x=_STATES, y=gives(_unpacked())
    )("""
        uint token = thread_position_in_grid.y, row = thread_position_in_grid.z;
        const device half* from = x + token * 1024;
        float sum = 0;
        for (uint k = lane; k < 512; k += 32) {
          uchar pair = w[row * 512 + k];  // <- narrow-access
          float low = float(pair & 15) - 8, high = float(pair >> 4) - 8;
          sum += low * float(from[2 * k]) + high * float(from[2 * k + 1]);
        }
        sum = simd_sum(sum);
        if (lane == 0) y[token * 64 + row] = sum;
    """),
)

CLEAN = (
    kernel("tokens_times_vectors_of_bytes", ((32, 8, 64), (32, 8)), close=1e-4)(
        w=_WEIGHTS, x=_TOKENS, y=gives(_scored())
    )("""
        uint token = thread_position_in_grid.y, row = thread_position_in_grid.z;
        const device uint4* w16 = (const device uint4*)(w + row * 1024);
        const device half4* x4 = (const device half4*)(x + token * 1024);
        float sum = 0;
        for (uint k = lane; k < 64; k += 32) {
          uint4 words = w16[k];
          for (uint j = 0; j < 4; j++) {
            float4 weights = float4(as_type<uchar4>(words[j])) - 128;
            sum += dot(weights, float4(x4[4 * k + j]));
          }
        }
        sum = simd_sum(sum);
        if (lane == 0) y[token * 64 + row] = sum / 64;
    """),
    kernel("moving_average_of_four_halves", ((128, 32), 128))(x=_SIGNAL, y=gives(_averaged()))("""
        uint t = thread_position_in_grid.x, row = thread_position_in_grid.y;
        const device half4* from = (const device half4*)(x + row * 544) + t;
        float4 first = float4(from[0]), sums = 0;
        for (uint k = 0; k < 8; k++) sums += float4(from[k]);
        float4 last = float4(from[8]);
        float sum = sums.x + sums.y + sums.z + sums.w;
        float4 all;
        for (uint j = 0; j < 4; j++) {
          all[j] = sum / 32;
          sum += last[j] - first[j];
        }
        ((device float4*)y)[row * 128 + t] = all;
    """),
    kernel("polynomials_of_four", ((16, 4096), (16, 16)))(
        table=_TABLE, x=_POINTS, y=gives(_evaluated())
    )("""
        uint c = thread_position_in_grid.x, i = thread_position_in_grid.y;
        const device float4* rows = (const device float4*)table;
        float power = 1, point = x[i];
        float4 sum = 0;
        for (uint k = 0; k < 64; k++) {
          sum += rows[k * 16 + c] * power;
          power *= point;
        }
        ((device float4*)y)[i * 16 + c] = sum;
    """),
    kernel("tokens_times_nibbles_by_words", ((32, 8, 64), (32, 8)), close=1e-4)(
        w=_NIBBLES, x=_STATES, y=gives(_unpacked())
    )("""
        uint token = thread_position_in_grid.y, row = thread_position_in_grid.z;
        const device uint* words = (const device uint*)(w + row * 512);
        const device uint4* eights = (const device uint4*)(x + token * 1024);
        float sum = 0;
        for (uint j = lane; j < 128; j += 32) {
          uint word = words[j];
          uint4 eight = eights[j];
          float4 low = float4(word & 15, word >> 4 & 15, word >> 8 & 15, word >> 12 & 15) - 8;
          float4 high = float4(word >> 16 & 15, word >> 20 & 15, word >> 24 & 15, word >> 28) - 8;
          float4 first = float4(float2(as_type<half2>(eight.x)), float2(as_type<half2>(eight.y)));
          float4 last = float4(float2(as_type<half2>(eight.z)), float2(as_type<half2>(eight.w)));
          sum += dot(low, first) + dot(high, last);
        }
        sum = simd_sum(sum);
        if (lane == 0) y[token * 64 + row] = sum;
    """),
)
