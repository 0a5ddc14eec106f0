"""Clean kernels: templates, strides, vectors and the forms of inputs."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from tests.simulator.suite.case import Array, floats, gives, integers, kernel

_X = floats(60)
_M = floats(7, 12)
_CUBE = floats(4, 3, 10)
_HALF = floats(6, 40).astype(np.float16)
_POINTS = floats(15, 3)
_BYTES = integers(0, 256, 45, dtype="uint8")
_SHORTS = integers(-30000, 30000, 33, dtype="int16")
_PACKED = integers(0, 1 << 31, 12, dtype="uint32")
_MASK = np.arange(60) % 4 == 1


def _bf16(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)


CLEAN = (
    kernel("axpy_in_bfloat16", (60, 32))(
        T="bfloat16",
        x=Array(_X, dtype="bfloat16"),
        alpha=Array(np.float32(0.5), dtype="bfloat16"),
        y=gives(_bf16(0.5 * _bf16(_X) + 1), "bfloat16"),
    )("""
        y[i] = static_cast<T>(float(alpha) * float(x[i]) + 1.0f);
    """),
    kernel("half_dot_with_float_accumulator", 6, close=1e-3)(
        T="float16",
        D=40,
        x=_HALF,
        y=gives(np.sqrt((_HALF.astype(np.float32) ** 2).sum(1)), "float16"),
    )("""
        uint row = thread_position_in_grid.x;
        const device T* p = x + row * D;
        float acc = 0.f;
        for (int k = 0; k < D; ++k) acc += float(p[k]) * float(p[k]);
        y[row] = T(metal::sqrt(acc));
    """),
    kernel("template_of_every_sort", 33)(
        OutT="int64",
        FACTOR=-70000,
        NEGATE=True,
        x=_SHORTS,
        y=gives(_SHORTS.astype(np.int64) * 70000, "int64"),
    )("""
        OutT v = OutT(x[i]) * OutT(FACTOR);
        if (NEGATE) v = -v;
        y[i] = v;
    """),
    kernel("grid_stride_loop", (16, 8))(x=_X, y=gives(_X * _X + 1))("""
        for (uint i = thread_position_in_grid.x; i < uint(x_shape[0]); i += threads_per_grid.x)
          y[i] = metal::fma(x[i], x[i], 1.0f);
    """),
    kernel("three_dimensions_in_uneven_groups", ((10, 3, 4), (4, 2, 3)))(
        x=_CUBE, y=gives(_CUBE + 100 * (np.arange(10) // 4) + (np.arange(3) % 2)[:, None])
    )("""
        uint3 g = thread_position_in_grid;
        uint3 n = threads_per_grid;
        uint at = (g.z * n.y + g.y) * n.x + g.x;
        y[at] = x[at] + 100 * threadgroup_position_in_grid.x + thread_position_in_threadgroup.y;
    """),
    kernel("strided_input_by_elem_to_loc", (36, 10), contiguous=False)(
        x=Array(_CUBE, view=lambda a: a.transpose(2, 0, 1)[1::3]),
        y=gives(np.tanh(_CUBE.transpose(2, 0, 1)[1::3])),
    )("""
        uint at = elem_to_loc(i, x_shape, x_strides, x_ndim);
        y[i] = metal::tanh(x[at]);
    """),
    kernel("broadcast_and_reversed_views", ((12, 7), (6, 7)), contiguous=False)(
        T="float32",
        b=Array(_M[0], view=lambda a: mx.broadcast_to(a, (7, 12))),
        r=Array(_M, view=lambda a: a[::-1, ::-1]),
        y=gives(_M[0] - _M[::-1, ::-1]),
    )("""
        uint3 g = thread_position_in_grid;
        T v = b[int(g.y) * b_strides[0] + int(g.x) * b_strides[1]];
        T w = r[int(g.y) * r_strides[0] + int(g.x) * r_strides[1]];
        y[g.y * 12 + g.x] = v - w;
    """),
    kernel("transposed_input_made_contiguous", (84, 21))(
        x=Array(_M, view=lambda a: a.T), y=gives(_M.T * np.arange(7))
    )("""
        y[i] = x[i] * float(i % uint(x_shape[1]));
    """),
    kernel("scalars_and_short_inputs", 6)(
        x=_X[:6],
        range=np.array([-0.5, 0.75], dtype=np.float32),
        flip=np.bool_(True),
        gain=np.float32(2),
        shift=np.array([3], dtype=np.int8),
        ids=np.array([7, 1, 7], dtype=np.uint16),
        y=gives(np.clip(-_X[:6], -0.5, 0.75) * 2 + 3 + [1, 0, 1, 1, 0, 1]),
    )("""
        float low = range[0], high = range[1];
        float v = flip ? -x[i] : x[i];
        v = clamp(v, low, high) * gain;
        y[i] = v + shift[0] + (ids[i % 3] == 7u ? 1.0f : 0.0f);
    """),
    kernel("packed_triples", (15, 5))(
        x=_POINTS,
        y=gives(
            _POINTS / np.linalg.norm(_POINTS, axis=1, keepdims=True)
            + np.cross(_POINTS, np.array([0, 0, 1], dtype=np.float32))
        ),
    )("""
        const device packed_float3* points = (const device packed_float3*)x;
        device packed_float3* out = (device packed_float3*)y;
        float3 p = points[i];
        out[i] = packed_float3(normalize(p) + cross(p, float3(0, 0, 1)));
    """),
    kernel("float4_with_a_scalar_rest", 16, close=0)(M=14, x=_X, y=gives(np.maximum(_X, 0)))("""
        uint n = 4 * M, quads = n / 4;
        if (i < quads) {
          float4 v = ((const device float4*)x)[i];
          float4 s = select(float4(0.0f), v, v > 0.0f);
          *((device float4*)(y + 4 * i)) = s.wzyx.wzyx;
        }
        if (i < 60 - n) y[n + i] = metal::max(x[n + i], 0.0f);
    """),
    kernel("byte_vectors_side_by_side", (12, 4))(
        x=_BYTES, y=gives(np.minimum(_BYTES.astype(int) + 100, 255), "uint8")
    )("""
        if (i < 11) {
          uchar4 v = *(const device uchar4*)(x + 4 * i);
          ushort4 wide = ushort4(v) + ushort4(100);
          *(device uchar4*)(y + 4 * i) = uchar4(min(wide, ushort4(255)));
        } else {
          y[44] = uchar(min(int(x[44]) + 100, 255));
        }
    """),
    kernel("bits_packed_by_one_thread_a_byte", 8)(
        mask=_MASK, y=gives(np.packbits(_MASK, bitorder="little"))
    )("""
        uint b = thread_position_in_grid.x;
        uchar packed = 0;
        for (uint k = 0; k < 8; ++k) {
          uint i = 8 * b + k;
          if (i < 60) packed |= uchar(mask[i]) << k;
        }
        y[b] = packed;
    """),
    kernel("nibbles_unpacked", (96, 48))(
        words=_PACKED,
        scale=np.array([0.5, 2, 4], dtype=np.float32),
        y=gives(
            (((_PACKED[:, None] >> (4 * np.arange(8))) & 15).astype(int).ravel() - 8)
            * np.repeat([0.5, 2, 4], 32)
        ),
    )("""
        uint32_t w = words[i / 8];
        int q = int(extract_bits(w, 4 * (i % 8), 4));
        y[i] = (q - 8) * scale[i / 32];
    """),
)
