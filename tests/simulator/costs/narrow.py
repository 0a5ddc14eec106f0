"""Kernels that are bound by loads of 1 or 2 bytes."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_IMAGE = integers(0, 256, 132, 132, dtype="uint8")
_W = integers(-128, 128, 256, 512, seed=1, dtype="int8")
_X = floats(512, seed=2)
_A = floats(64, 64, seed=3).astype(np.float16)
_B = floats(64, 64, seed=4).astype(np.float16)
_SIGNAL = floats(79, 256, seed=5).astype(np.float16)
_TAPS = (floats(16, 256, seed=6) / 4).astype(np.float16)
_CODES = integers(0, 256, 32, 1024, seed=7, dtype="uint8")
_QUERIES = integers(0, 256, 4, 32, seed=8, dtype="uint8")
_NIBBLES = integers(0, 256, 256, 256, seed=9, dtype="uint8")


def _blurred() -> np.ndarray:
    whole = _IMAGE.astype(np.int32)
    return sum(whole[i : i + 128, j : j + 128] for i in range(5) for j in range(5)) // 25


def _distances() -> np.ndarray:
    different = _QUERIES[:, :, None] ^ _CODES[None]
    return np.unpackbits(different[..., None], axis=-1).sum((1, 3))


def _unpacked() -> np.ndarray:
    whole = np.stack([_NIBBLES & 15, _NIBBLES >> 4], -1).reshape(256, 512)
    return whole.astype(np.float32) - 8


def _filtered() -> np.ndarray:
    signal, taps = _SIGNAL.astype(np.float32), _TAPS.astype(np.float32)
    return sum(taps[k] * signal[k : k + 64] for k in range(16)).astype(np.float16)


FAULTS = (
    kernel("box_blur_of_bytes", ((128, 128), (32, 8)))(x=_IMAGE, y=gives(_blurred(), "uint8"))("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        uint sum = 0;
        for (uint i = 0; i < 5; i++) {
          for (uint j = 0; j < 5; j++) sum += x[(r + i) * 132 + c + j];  // <- narrow-access
        }
        y[r * 128 + c] = sum / 25;  // <- narrow-access
    """),
    kernel("matvec_of_bytes", ((32, 256), (32, 8)), close=1e-4)(
        w=_W, x=_X, y=gives(_W.astype(np.float32) @ _X)
    )("""
        uint row = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = lane; k < 512; k += 32) sum += w[row * 512 + k] * x[k];  // <- narrow-access
        sum = simd_sum(sum);
        if (lane == 0) y[row] = sum;
    """),
    kernel("matmul_of_single_halves", ((64, 64), (32, 8)), close=0.002)(
        a=_A, b=_B, y=gives(_A.astype(np.float32) @ _B.astype(np.float32), "float16")
    )("""
        uint col = thread_position_in_grid.x, row = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 64; k++)
          sum += float(a[row * 64 + k]) * float(b[k * 64 + col]);  // <- narrow-access
        y[row * 64 + col] = half(sum);  // <- narrow-access
    """),
    kernel("filter_of_single_halves", ((256, 64), 256))(
        x=_SIGNAL, w=_TAPS, y=gives(_filtered())
    )("""
        uint c = thread_position_in_grid.x, t = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 16; k++)
          sum += float(w[k * 256 + c]) * float(x[(t + k) * 256 + c]);  // <- narrow-access
        y[t * 256 + c] = half(sum);  // <- narrow-access
    """),
    kernel("hamming_distances_of_bytes", ((1024, 4), 256))(
        q=_QUERIES, codes=_CODES, y=gives(_distances(), "uint32")
    )("""
        uint j = thread_position_in_grid.x, i = thread_position_in_grid.y;
        uint bits = 0;
        for (uint b = 0; b < 32; b++)
          bits += popcount(uint(q[i * 32 + b] ^ codes[b * 1024 + j]));  // <- narrow-access
        y[i * 1024 + j] = bits;
    """),
    kernel("quantized_matvec_by_bytes", ((32, 256), (32, 8)), close=1e-4)(
        w=_NIBBLES, x=_X, y=gives(_unpacked() @ _X)
    )("""
        uint row = thread_position_in_grid.y;
        const device float2* x2 = (const device float2*)x;
        float sum = 0;
        for (uint k = lane; k < 256; k += 32) {
          uint pair = w[row * 256 + k];  // <- narrow-access
          sum += dot(float2(pair & 15, pair >> 4) - 8.0f, x2[k]);
        }
        sum = simd_sum(sum);
        if (lane == 0) y[row] = sum;
    """),
)
