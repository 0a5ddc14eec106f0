"""Clean kernels: templates, strides, vectors and the forms of inputs."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

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
    Case(
        "axpy_in_bfloat16",
        """
        uint i = thread_position_in_grid.x;
        y[i] = static_cast<T>(float(alpha) * float(x[i]) + 1.0f);
        """,
        {"x": Array(_X, dtype="bfloat16"), "alpha": Array(np.float32(0.5), dtype="bfloat16")},
        {"y": Out((60,), "bfloat16")},
        (60, 1, 1),
        (32, 1, 1),
        template=(("T", "bfloat16"),),
        expected=lambda: (_bf16(0.5 * _bf16(_X) + 1),),
        rtol=1e-2,
    ),
    Case(
        "half_dot_with_float_accumulator",
        """
        uint row = thread_position_in_grid.x;
        const device T* p = x + row * D;
        float acc = 0.f;
        for (int k = 0; k < D; ++k) acc += float(p[k]) * float(p[k]);
        y[row] = T(metal::sqrt(acc));
        """,
        {"x": Array(_HALF)},
        {"y": Out((6,), "float16")},
        (6, 1, 1),
        (6, 1, 1),
        template=(("T", "float16"), ("D", 40)),
        expected=lambda: (np.sqrt((_HALF.astype(np.float32) ** 2).sum(1)),),
        rtol=2e-3,
    ),
    Case(
        "template_of_every_sort",
        """
        uint i = thread_position_in_grid.x;
        OutT v = OutT(x[i]) * OutT(FACTOR);
        if (NEGATE) v = -v;
        y[i] = v;
        """,
        {"x": Array(_SHORTS)},
        {"y": Out((33,), "int64")},
        (33, 1, 1),
        (33, 1, 1),
        template=(("OutT", "int64"), ("FACTOR", -70000), ("NEGATE", True)),
        expected=lambda: (_SHORTS.astype(np.int64) * 70000,),
    ),
    Case(
        "grid_stride_loop",
        """
        for (uint i = thread_position_in_grid.x; i < uint(x_shape[0]); i += threads_per_grid.x) {
          y[i] = metal::fma(x[i], x[i], 1.0f);
        }
        """,
        {"x": Array(_X)},
        {"y": Out((60,))},
        (16, 1, 1),
        (8, 1, 1),
        expected=lambda: (_X * _X + 1,),
    ),
    Case(
        "three_dimensions_in_uneven_groups",
        """
        uint3 g = thread_position_in_grid;
        uint3 n = threads_per_grid;
        uint at = (g.z * n.y + g.y) * n.x + g.x;
        y[at] = x[at] + 100 * threadgroup_position_in_grid.x + thread_position_in_threadgroup.y;
        """,
        {"x": Array(_CUBE)},
        {"y": Out((4, 3, 10))},
        (10, 3, 4),
        (4, 2, 3),
        expected=lambda: (_CUBE + 100 * (np.arange(10) // 4) + (np.arange(3) % 2)[:, None],),
    ),
    Case(
        "strided_input_by_elem_to_loc",
        """
        uint i = thread_position_in_grid.x;
        uint at = elem_to_loc(i, x_shape, x_strides, x_ndim);
        y[i] = metal::tanh(x[at]);
        """,
        {"x": Array(_CUBE, view=lambda a: a.transpose(2, 0, 1)[1::3])},
        {"y": Out((3, 4, 3))},
        (36, 1, 1),
        (10, 1, 1),
        ensure_row_contiguous=False,
        expected=lambda: (np.tanh(_CUBE.transpose(2, 0, 1)[1::3]),),
    ),
    Case(
        "broadcast_and_reversed_views",
        """
        uint3 g = thread_position_in_grid;
        T v = b[int(g.y) * b_strides[0] + int(g.x) * b_strides[1]];
        T w = r[int(g.y) * r_strides[0] + int(g.x) * r_strides[1]];
        y[g.y * 12 + g.x] = v - w;
        """,
        {
            "b": Array(_M[0], view=lambda a: mx.broadcast_to(a, (7, 12))),
            "r": Array(_M, view=lambda a: a[::-1, ::-1]),
        },
        {"y": Out((7, 12))},
        (12, 7, 1),
        (6, 7, 1),
        template=(("T", "float32"),),
        ensure_row_contiguous=False,
        expected=lambda: (_M[0] - _M[::-1, ::-1],),
    ),
    Case(
        "transposed_input_made_contiguous",
        """
        uint i = thread_position_in_grid.x;
        y[i] = x[i] * float(i % uint(x_shape[1]));
        """,
        {"x": Array(_M, view=lambda a: a.T)},
        {"y": Out((12, 7))},
        (84, 1, 1),
        (21, 1, 1),
        expected=lambda: (_M.T * np.arange(7),),
    ),
    Case(
        "scalars_and_short_inputs",
        """
        uint i = thread_position_in_grid.x;
        float low = range[0], high = range[1];
        float v = flip ? -x[i] : x[i];
        v = clamp(v, low, high) * gain;
        y[i] = v + shift[0] + (ids[i % 3] == 7u ? 1.0f : 0.0f);
        """,
        {
            "x": Array(_X[:6]),
            "range": Array(np.array([-0.5, 0.75], dtype=np.float32)),
            "flip": Array(np.bool_(True)),
            "gain": Array(np.float32(2)),
            "shift": Array(np.array([3], dtype=np.int8)),
            "ids": Array(np.array([7, 1, 7], dtype=np.uint16)),
        },
        {"y": Out((6,))},
        (6, 1, 1),
        (6, 1, 1),
        expected=lambda: (np.clip(-_X[:6], -0.5, 0.75) * 2 + 3 + [1, 0, 1, 1, 0, 1],),
    ),
    Case(
        "packed_triples",
        """
        uint i = thread_position_in_grid.x;
        const device packed_float3* points = (const device packed_float3*)x;
        device packed_float3* out = (device packed_float3*)y;
        float3 p = points[i];
        out[i] = packed_float3(normalize(p) + cross(p, float3(0, 0, 1)));
        """,
        {"x": Array(_POINTS)},
        {"y": Out((15, 3))},
        (15, 1, 1),
        (5, 1, 1),
        expected=lambda: (
            _POINTS / np.linalg.norm(_POINTS, axis=1, keepdims=True)
            + np.cross(_POINTS, np.array([0, 0, 1], dtype=np.float32)),
        ),
    ),
    Case(
        "float4_with_a_scalar_rest",
        """
        uint i = thread_position_in_grid.x;
        uint n = 4 * M, quads = n / 4;
        if (i < quads) {
          float4 v = ((const device float4*)x)[i];
          float4 s = select(float4(0.0f), v, v > 0.0f);
          *((device float4*)(y + 4 * i)) = s.wzyx.wzyx;
        }
        if (i < 60 - n) {
          y[n + i] = metal::max(x[n + i], 0.0f);
        }
        """,
        {"x": Array(_X)},
        {"y": Out((60,))},
        (16, 1, 1),
        (16, 1, 1),
        template=(("M", 14),),
        expected=lambda: (np.maximum(_X, 0),),
        rtol=0,
        atol=0,
    ),
    Case(
        "byte_vectors_side_by_side",
        """
        uint i = thread_position_in_grid.x;
        if (i < 11) {
          uchar4 v = *(const device uchar4*)(x + 4 * i);
          ushort4 wide = ushort4(v) + ushort4(100);
          *(device uchar4*)(y + 4 * i) = uchar4(min(wide, ushort4(255)));
        } else {
          y[44] = uchar(min(int(x[44]) + 100, 255));
        }
        """,
        {"x": Array(_BYTES)},
        {"y": Out((45,), "uint8")},
        (12, 1, 1),
        (4, 1, 1),
        expected=lambda: (np.minimum(_BYTES.astype(int) + 100, 255),),
    ),
    Case(
        "bits_packed_by_one_thread_a_byte",
        """
        uint b = thread_position_in_grid.x;
        uchar packed = 0;
        for (uint k = 0; k < 8; ++k) {
          uint i = 8 * b + k;
          if (i < 60) packed |= uchar(mask[i]) << k;
        }
        y[b] = packed;
        """,
        {"mask": Array(_MASK)},
        {"y": Out((8,), "uint8")},
        (8, 1, 1),
        (8, 1, 1),
        expected=lambda: (np.packbits(_MASK, bitorder="little"),),
    ),
    Case(
        "nibbles_unpacked",
        """
        uint i = thread_position_in_grid.x;
        uint32_t w = words[i / 8];
        int q = int(extract_bits(w, 4 * (i % 8), 4));
        y[i] = (q - 8) * scale[i / 32];
        """,
        {"words": Array(_PACKED), "scale": Array(np.array([0.5, 2, 4], dtype=np.float32))},
        {"y": Out((96,))},
        (96, 1, 1),
        (48, 1, 1),
        expected=lambda: (
            (((_PACKED[:, None] >> (4 * np.arange(8))) & 15).astype(int).ravel() - 8)
            * np.repeat([0.5, 2, 4], 32),
        ),
    ),
)
