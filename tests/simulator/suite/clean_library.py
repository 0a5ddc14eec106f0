"""Clean kernels: the standard library, the preamble of MLX and the dialect's corners."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_X = floats(48)
_H = floats(40).astype(np.float16)
_U = integers(0, 1 << 32, 36, dtype="uint32")
_P = floats(10, 4, seed=1)
_I8, _J8 = integers(-128, 128, 64, dtype="int8"), integers(-128, 128, 64, seed=2, dtype="int8")
_T = floats(3, 64, seed=3)


def _smooth(t: np.ndarray) -> np.ndarray:
    t = np.clip(t, 0, 1)
    return t * t * (3 - 2 * t)


def _reversed_bits(words: np.ndarray) -> np.ndarray:
    return np.array([int(f"{int(w):032b}"[::-1], 2) for w in words], dtype=np.uint32)


CLEAN = (
    kernel("common_functions", 48)(
        x=_X,
        y=gives(
            np.clip(_X, 0, 1)
            + np.sign(_X)
            + (_X >= 0.5)
            + _smooth((_X + 1) / 2)
            + (_X + (2 - _X) * 0.25)
            + np.clip(_X, -0.5, 0.5)
            + (_X - np.floor(_X))
            + np.copysign(3, _X)
            + np.rint(_X * 4)
            + np.trunc(_X * np.float32(3.3) + np.copysign(0.5, _X))
            + np.trunc(_X * 5)
            + np.ceil(_X)
            + np.floor(_X)
            + np.fmod(_X, np.float32(0.75))
            + _X * 4
            + np.abs(_X)
            + np.minimum(_X, np.float32(0.1))
            + np.sqrt(_X * _X + 1)
        ),
    )("""
        inline float hypot_of(float a, float b) {
          return metal::precise::sqrt(metal::fma(a, a, b * b));
        }
        // body
        float v = x[i], a = saturate(v) + sign(v) + step(0.5f, v) + smoothstep(-1.0f, 1.0f, v);
        float b = mix(v, 2.0f, 0.25f) + clamp(v, -0.5f, 0.5f) + fract(v) + copysign(3.0f, v);
        float c = rint(v * 4) + round(v * 3.3f) + trunc(v * 5) + ceil(v) + floor(v);
        float d = fmod(v, 0.75f) + ldexp(v, 2) + abs(v) + fmin(v, 0.1f) + hypot_of(v, 1.0f);
        y[i] = a + b + c + d;
    """),
    kernel("transcendental_functions", (48, 16))(
        x=_X,
        y=gives(
            np.sin(_X) * 2
            + np.cos(_X)
            + np.exp2(_X)
            + np.log2(np.abs(_X) + 0.1)
            + np.log10(np.abs(_X) + 0.1)
            + (np.abs(_X) + 0.1) ** 0.3
            + (np.abs(_X) + 0.1) ** 1.5
            + np.arctan2(_X, np.abs(_X) + 0.1)
            + np.sinh(_X)
            + np.arcsin(np.clip(_X, -1, 1))
            + 10 ** (0.1 * _X)
            + np.cos(_X)
            + np.log(np.abs(_X) + 0.1)
            + 1 / np.sqrt(np.abs(_X) + 0.1)
            + np.sqrt(0.5)
            + np.pi
        ),
    )("""
        float v = x[i], u = fabs(v) + 0.1f, c, s = sincos(v, c);
        y[i] = s * 2 + c + exp2(v) + log2(u) + log10(u) + pow(u, 0.3f) + powr(u, 1.5f)
             + atan2(v, u) + sinh(v) + asin(clamp(v, -1.0f, 1.0f)) + exp10(0.1f * v)
             + fast::cos(v) + precise::log(u) + rsqrt(u) + sinpi(0.25f) + M_PI_F;
    """),
    kernel("integer_functions", (36, 12))(
        words=_U,
        y=gives(
            np.array(
                [
                    32
                    - (int(w) | 1).bit_length()
                    + 100 * ((w | 1 << 31) & -(w | 1 << 31)).bit_length()
                    - 100
                    + 10000 * int(w).bit_count()
                    for w in _U.tolist()
                ]
            ),
            "uint32",
        ),
        r=gives(_reversed_bits(_U) ^ ((_U << np.uint32(7)) | (_U >> np.uint32(25)))),
        h=gives(
            np.array(
                [
                    (((w * 0x9E3779B9) >> 32) + abs(w - 12345) + (w >> 31)) % 2**32
                    for w in _U.tolist()
                ],
                dtype=np.uint32,
            )
        ),
        b=gives((_U & np.uint32(0xFFFFF00F)) | np.uint32(0x50)),
    )("""
        uint w = words[i];
        y[i] = clz(w | 1) + 100 * ctz(w | 0x80000000u) + 10000 * popcount(w);
        r[i] = reverse_bits(w) ^ rotate(w, 7u);
        h[i] = mulhi(w, 0x9e3779b9u) + absdiff(w, 12345u) + (w >> 31);
        b[i] = insert_bits(w, 0x5u, 4, 8);
    """),
    kernel("half_vectors_and_limits", 10, close=1e-3)(
        x=_H,
        y=gives(
            (_H.reshape(10, 4).astype(np.float32) * 0.5).sum(1)
            + 10 * (_H.reshape(10, 4) > 0.25).any(1)
            + 100 * (_H.reshape(10, 4) > 0.25).all(1)
        ),
        z=gives(_H.reshape(10, 4).max(1), "float32"),
    )("""
        half4 v = ((const device half4*)x)[i];
        half4 low = half4(-HALF_MAX);
        half4 m = max(v, low) * half(0.5);
        half2 p = m.xy + m.zw;
        bool4 big = v > half4(0.25h);
        float top = -numeric_limits<float>::infinity();
        for (int k = 0; k < 4; ++k) top = fmax(top, float(v[k]));
        y[i] = float(p.x) + float(p.y) + (any(big) ? 10.0f : 0.0f) + (all(big) ? 100.0f : 0.0f);
        z[i] = top;
    """),
    kernel("matrices_of_a_thread", (10, 5))(
        points=_P,
        y=gives(
            -_P[:, 1]
            + 2 * _P[:, 0]
            + 3 * _P[:, 2]
            + _P[:, 0] * _P[:, 3]
            - _P[:, 1] * _P[:, 2]
            + np.linalg.norm(_P[:, :2] - _P[:, 2:], axis=1)
            + (_P**2).sum(1)
            + _P[:, 2]
        ),
    )("""
        float4 p = ((const device float4*)points)[i];
        float3x3 turn = float3x3(float3(0, 1, 0), float3(-1, 0, 0), float3(0, 0, 1));
        float3 q = turn * p.xyz;
        float2x2 m = float2x2(p.x, p.y, p.z, p.w);
        y[i] = dot(q, float3(1, 2, 3)) + determinant(m) + distance(p.xy, p.zw)
             + length_squared(p) + m[1][0];
    """),
    kernel("byte_dot_products", 4)(
        p=_I8,
        q=_J8,
        y=gives((_I8.astype(int) * _J8.astype(int)).reshape(4, 16).sum(1)),
        sat=gives(np.clip(_I8[:4].astype(int) + _J8[:4], -128, 127), "int8"),
    )("""
        int acc = 0;
        for (uint k = 0; k < 4; ++k) {
          char4 a = ((const device char4*)p)[i * 4 + k];
          char4 b = ((const device char4*)q)[i * 4 + k];
          int4 w = int4(a) * int4(b);
          acc += w.x + w.y + w.z + w.w;
        }
        y[i] = acc;
        sat[i] = addsat(p[i], q[i]);
    """),
    kernel("tile_struct_with_its_own_barrier", 64)(x=_T, y=gives(_T.sum(0).reshape(8, 8).T, 64))("""
        template <typename T, int ROWS, int COLUMNS>
        struct Tile {
          threadgroup T* cells;
          threadgroup T& at(int r, int c) { return cells[r * (COLUMNS + 1) + c]; }
          void load(const device T* from, uint lid, uint threads) {
            for (uint k = lid; k < ROWS * COLUMNS; k += threads)
              at(k / COLUMNS, k % COLUMNS) = from[k];
            threadgroup_barrier(mem_flags::mem_threadgroup);
          }
        };
        // body
        threadgroup float storage[8 * 9];
        Tile<float, 8, 8> tile{storage};
        uint lid = thread_index_in_threadgroup;
        float acc = 0;
        for (int t = 0; t < 3; ++t) {
          tile.load(x + 64 * t, lid, 64);
          acc += tile.at(lid % 8, lid / 8);
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[lid] = acc;
    """),
    kernel("helper_reduction_called_twice", (192, 64))(
        x=_T, y=gives((_T - _T.mean(1, keepdims=True)) / _T.std(1, keepdims=True))
    )("""
        using namespace metal;

        template <typename T>
        T group_sum(T v, threadgroup T* work, uint lid, uint threads) {
          work[lid] = v;
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint s = threads / 2; s > 0; s >>= 1) {
            if (lid < s) work[lid] += work[lid + s];
            threadgroup_barrier(mem_flags::mem_threadgroup);
          }
          T sum = work[0];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          return sum;
        }
        // body
        threadgroup float work[64];
        uint row = threadgroup_position_in_grid.x;
        float v = x[row * 64 + lid], mean = group_sum(v, work, lid, 64) / 64;
        float spread = group_sum((v - mean) * (v - mean), work, lid, 64) / 64;
        y[row * 64 + lid] = (v - mean) * rsqrt(spread);
    """),
    kernel("output_cast_to_atomics", (36, 9), init=1)(
        words=_U, y=gives(1 + np.bincount(_U % 5, weights=_U & 0xFF, minlength=5).astype(np.uint32))
    )("""
        device atomic_uint* cells = (device atomic_uint*)y;
        atomic_fetch_add_explicit(&cells[words[i] % 5], words[i] & 0xff, memory_order_relaxed);
    """),
    kernel("swizzled_threadgroup_columns", ((16, 2), (16, 2)), close=0)(
        x=_T, y=gives(_T[:, :16])
    )("""
        threadgroup float tile[16][16];
        uint3 t = thread_position_in_threadgroup;
        uint n = x_shape[1];
        for (uint r = t.y; r < 3; r += 2) {
          for (uint c = t.x; c < n / 4; c += 16) tile[r * 4 + c % 4][(c / 4) ^ r] = x[r * n + c];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint r = t.y; r < 3; r += 2) {
          uint c = t.x;
          y[r * 16 + c] = tile[r * 4 + c % 4][(c / 4) ^ r];
        }
    """),
    kernel("rotating_and_filling_shuffles", 64)(
        x=_T.ravel()[:64],
        y=gives(
            np.concatenate(
                [
                    np.roll(r, -3)
                    + 10 * np.r_[-1, -1, r[:-2]]
                    + 100 * (r[31] + r[0])
                    + np.arange(32)
                    for r in _T.ravel()[:64].reshape(2, 32)
                ]
            )
        ),
    )("""
        ushort lane = thread_index_in_simdgroup;
        float v = x[thread_position_in_grid.x], around = simd_shuffle_rotate_down(v, 3);
        float filled = simd_shuffle_and_fill_up(v, -1.0f, 2);
        float ends = simd_broadcast(v, 31) + simd_broadcast_first(v);
        y[thread_position_in_grid.x] = around + 10 * filled + 100 * ends + lane;
    """),
    kernel("helpers_of_mlx", (48, 24), close=0.005)(x=_X, y=gives(2 * _X + 11))("""
        uint tiles = ceildiv(48, 5);
        float v = x[i];
        MLX_MTL_PRAGMA_UNROLL
        for (int k = 0; k < 3; ++k) v = max(v, Limits<float>::finite_min);
        float16_t h = float16_t(v);
        bfloat16_t b = static_cast<bfloat16_t>(v);
        y[i] = float(h) + float(b) + tiles + (v < Limits<float>::max ? 1 : 0);
    """),
)
