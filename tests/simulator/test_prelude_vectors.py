"""Vectors, matrices and conversions of the Metal library."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.evaluation import evaluate, tabulate

RANDOM = np.random.default_rng(21)
HEADER = """
struct Pair { float4 a; int b; int spare[3]; float3 at(int i) const { return a.xyz * float(i); } };
struct Big { float values[9]; };
constant float4 table[2] = {float4(1, 2, 3, 4), {5, 6, 7, 8}};
constexpr constant int2 corner = int2(3, 4);
template <typename T4, typename T> T4 of_four(T a) { return T4(a, a + 1, a + 2, a + 3); }
template <typename T, int N> T total(vec<T, N> v) {
  T s = 0;
  for (int i = 0; i < N; ++i) s += v[i];
  return s;
}
template <typename T> struct lanes_of { using type = vec<T, 4>; };
"""

VALUES = {
    # Constructors, in all the forms that Metal has.
    "float4(1, 2, 3, 4)": [1, 2, 3, 4],
    "float4(7)": [7, 7, 7, 7],
    "float4(float2(1, 2), 3, 4)": [1, 2, 3, 4],
    "float4(1, float2(2, 3), 4)": [1, 2, 3, 4],
    "float4(1, float3(2, 3, 4))": [1, 2, 3, 4],
    "float4(float2(1, 2), float2(3, 4))": [1, 2, 3, 4],
    "float4(int4(1, -2, 3, 4))": [1, -2, 3, 4],
    "float4(half4(0.5h, 1.5h, -2.0h, 0.25h))": [0.5, 1.5, -2, 0.25],
    "float4(int2(1, 2), half2(3, 4))": [1, 2, 3, 4],
    "float4{1, 2, 3, 4}": [1, 2, 3, 4],
    "float4{1, 2}": [1, 2, 0, 0],
    "float4{}": [0, 0, 0, 0],
    "vec<float, 4>(1, 2, 3, 4)": [1, 2, 3, 4],
    "of_four<float4>(1.0f)": [1, 2, 3, 4],
    "float4(of_four<half4>(1.0h))": [1, 2, 3, 4],
    "float4(lanes_of<int>::type(1, 2, 3, 4))": [1, 2, 3, 4],
    "(float4)int4(1, 2, 3, 4)": [1, 2, 3, 4],
    "float4(bfloat4(half4(1, 2, 3, 0.1h)))": [1, 2, 3, 0.10009765625],
    "static_cast<float4>(int4(1, 2, 3, 4))": [1, 2, 3, 4],
    "float4(int4(float4(1.9f, -1.9f, 2.5f, 0)))": [1, -1, 2, 0],
    "float4(bool4(true, false, 1 > 0, 1 < 0))": [1, 0, 1, 0],
    "float4(uchar4(255, 0, 1, 2))": [255, 0, 1, 2],
    "table[1]": [5, 6, 7, 8],
    "float4(corner, corner.yx)": [3, 4, 4, 3],
    # Extended vectors, which have no names of components.
    "({ vec<float, 8> v = {1, 2}; v += 1; v[7] *= x + 4; float4(v[0], v[1], v[6], v[7]); })": (
        [2, 3, 1, 4]
    ),
    "({ vec<half, 16> v(vec<half, 8>(2), half4(3), 4, 5, half2(6)); ++v;"
    " float4(v[0], v[11], v[13], v[15]); })": [3, 4, 6, 7],
    "({ vec<int, 8> v(vec<float, 8>(1.7f)); auto m = -v < 0 && v != 2;"
    " float4(v[3], m[3], sizeof(v), alignof(vec<char, 16>)); })": [1, 1, 32, 16],
    "({ constexpr vec<int, 8> v = vec<int, 8>(3) + 4; static_assert(v[2] == 7);"
    " +float4(v[2]); })": [7, 7, 7, 7],
    # Swizzles, read and written.
    "float4(1, 2, 3, 4).wzyx": [4, 3, 2, 1],
    "float4(1, 2, 3, 4).xxyy": [1, 1, 2, 2],
    "float4(1, 2, 3, 4).abgr": [4, 3, 2, 1],
    "float2(1, 2).xyxy": [1, 2, 1, 2],
    "float4(float3(1, 2, 3).bgr, float2(8, 9).g)": [3, 2, 1, 9],
    "({ float4 v = 0; v.yw = float2(1, 2); v; })": [0, 1, 0, 2],
    "({ float4 v = 1; v.xz += float2(1, 2); v; })": [2, 1, 3, 1],
    "({ float4 v = 1; v.rgb *= 3; v.a = 9; v; })": [3, 3, 3, 9],
    "({ float4 v = 0; v.xyz = 2.0f; v; })": [2, 2, 2, 0],
    "({ float4 v(1, 2, 3, 4); v[x + 1] = 7; v; })": [1, 7, 3, 4],
    "({ float4 v = {1, 2, 3, 4}; v.xy = v.yx; v; })": [2, 1, 3, 4],
    # Operators.
    "float4(1, 2, 3, 4) * 2 + 1": [3, 5, 7, 9],
    "1.0f / float4(1, 2, 4, 8)": [1, 0.5, 0.25, 0.125],
    "-float4(1, 2, 3, 4)": [-1, -2, -3, -4],
    "float4(int4(7, 8, 9, 10) % 4)": [3, 0, 1, 2],
    "float4(uint4(1, 2, 3, 4) << 2)": [4, 8, 12, 16],
    "float4(~int4(0, 1, 2, 3) & 0xff)": [255, 254, 253, 252],
    "float4((int4(1, 2, 3, 4) == 2) || (int4(1, 2, 3, 4) > 3))": [0, 1, 0, 1],
    "float4(!bool4(true, false, true, false))": [0, 1, 0, 1],
    "float4(uchar4(250) + uchar4(10))": [4, 4, 4, 4],
    "({ int4 v(1, 2, 3, 4); v++; --v; v <<= 1; float4 r(v); r; })": [2, 4, 6, 8],
    # Functions with scalars that spread.
    "max(float4(1, -2, 3, -4), 0.0f)": [1, 0, 3, 0],
    "clamp(float4(1, -2, 3, -4), 0.0f, 2.0f)": [1, 0, 2, 0],
    "mix(float4(0), float4(4), 0.25f)": [1, 1, 1, 1],
    "select(float4(1), float4(2), float4(1, 2, 3, 4) > 2.5f)": [1, 1, 2, 2],
    "float4(select(int4(1), int4(2), bool4(true, false, true, false)))": [2, 1, 2, 1],
    "pow(float4(1, 2, 3, 4), 2.0f)": [1, 4, 9, 16],
    "float4(min(int4(1, 2, 3, 4), 2))": [1, 2, 2, 2],
    "float4(total(float4(1, 2, 3, 4)), total(half2(1, 2)), total(int3(1, 2, 3)), 0)": [10, 3, 6, 0],
    # Packed vectors and bits.
    "float4(packed_float3(1, 2, 3) + packed_float3(1), 0)": [2, 3, 4, 0],
    "float4(packed_float3(1, 2, 3) * 2 - float3(1), 9)": [1, 3, 5, 9],
    "({ packed_half4 p = half4(1, 2, 3, 4); p.xy = half2(9, 8); float4(half4(p)); })": [9, 8, 3, 4],
    "float4(as_type<ushort2>(0x00020001u), as_type<uint>(1.0f) == 0x3f800000u, 0)": [1, 2, 1, 0],
    "float4(as_type<half2>(as_type<uint>(half2(3, 4))), 0, 0)": [3, 4, 0, 0],
    # Geometry.
    "float4(cross(float3(1, 0, 0), float3(0, 1, 0)), dot(float3(1, 2, 3), float3(4, 5, 6)))": [
        0,
        0,
        1,
        32,
    ],
    "float4(length(float2(3, 4)), distance(float2(1, 1), float2(4, 5)), normalize(float2(0, 5)))": [
        5,
        5,
        0,
        1,
    ],
    "float4(reflect(float2(1, -1), float2(0, 1)), faceforward(float2(1), float2(1), float2(1)))": [
        1,
        1,
        -1,
        -1,
    ],
    "float4(length_squared(half2(3, 4)), distance_squared(float2(0), float2(2)), 0, 0)": [
        25,
        8,
        0,
        0,
    ],
    # Structs and arrays.
    "({ Pair p = {float4(1, 2, 3, 4), 5, {}}; Pair q = p; q.a.x = 9; float4(q.at(2), p.a.x); })": [
        18,
        4,
        6,
        1,
    ],
    "({ metal::array<float, 4> v = {1, 2, 3, 4}; float4(v[3], v.size(), v.front(), v.back()); })": [
        4,
        4,
        1,
        4,
    ],
}


def test_values_of_vector_expressions() -> None:
    cases = VALUES
    lines = ["int x = thread_position_in_grid.x;"]
    for number, call in enumerate(cases):
        lines.append(f"{{ float4 v{number} = {call};")
        lines.append(f"for (int c = 0; c < 4; ++c) out[{4 * number} + c] = v{number}[c]; }}")
    outputs = {"out": ((len(cases), 4), np.float32)}
    got = evaluate("\n".join(lines), {"unused": np.zeros(8)}, outputs, header=HEADER)["out"]
    wrong = {
        call: row.tolist()
        for (call, value), row in zip(cases.items(), got, strict=True)
        if row.tolist() != value
    }
    assert wrong == {}


def test_vectors_and_structs_travel_through_every_space() -> None:
    body = """
    uint t = thread_position_in_threadgroup.x;
    threadgroup float4 tile[32];
    threadgroup Pair pairs[32];
    threadgroup metal::array<float, 2> both[32];
    const device float4* in = (const device float4*)x;
    device float4* to = (device float4*)out;
    tile[t] = in[t];
    pairs[t] = Pair{in[t], int(t), {}};
    both[t] = {in[t].x, in[t].y};
    threadgroup_barrier(mem_flags::mem_threadgroup);
    Pair p = pairs[31 - t];
    threadgroup Pair& q = pairs[t];
    float4 v = tile[31 - t];
    v.xy += float2(both[t][0], both[t][1]);
    v.zw = p.a.wz;
    to[t] = v;
    to[t].w += float(p.b) + q.a.x;
    to[t] += table[1];
    const device Big* bigs = (const device Big*)x;
    device Big* copies = (device Big*)copied;
    if (t < 14) copies[t] = bigs[t];
    """
    x = RANDOM.normal(0, 1, (32, 4)).astype(np.float32)
    shapes = {"out": ((32, 4), np.float32), "copied": ((126,), np.float32)}
    got = evaluate(body, {"x": x}, shapes, threads=32, header=HEADER, checks=True)
    back = x[::-1]
    wanted = np.stack([back[:, 0] + x[:, 0], back[:, 1] + x[:, 1], back[:, 3], back[:, 2]], 1)
    wanted[:, 3] += np.arange(31, -1, -1) + x[:, 0]
    np.testing.assert_allclose(got["out"], wanted + np.arange(5, 9), rtol=1e-6, atol=1e-6)
    assert np.array_equal(got["copied"], x.ravel()[:126])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scalar", ["float", "half"])
def test_matrices(scalar: str) -> None:
    dtype = {"float": np.float32, "half": np.float16}[scalar]
    a = RANDOM.integers(-3, 4, (4, 4)).astype(dtype)
    b = RANDOM.integers(-3, 4, (4, 4)).astype(dtype)
    body = f"""
    {scalar}4x4 a, b;
    for (int k = 0; k < 16; ++k) {{
      a[k / 4][k % 4] = A[k];
      b[k / 4][k % 4] = B[k];
    }}
    {scalar}4x4 three({scalar}(3));
    {scalar}4x4 m[] = {{a * b, transpose(a), a + b, a - b, a * {scalar}(2), three}};
    for (int k = 0; k < 96; ++k) out[k] = m[k / 16][k / 4 % 4][k % 4];
    {scalar}4 v = a[1];
    {scalar}4 products[] = {{b * v, v * b}};
    for (int k = 0; k < 2; ++k) for (int r = 0; r < 4; ++r) out[96 + k * 4 + r] = products[k][r];
    out[104] = determinant(a);
    {scalar}2x3 n = {scalar}2x3({scalar}3(1, 2, 3), {scalar}3(4, 5, 6));
    {scalar}3 w = n * {scalar}2(1, 10);
    for (int r = 0; r < 3; ++r) out[105 + r] = w[r];
    {scalar}2x2 s(1, 2, 3, 4);
    out[108] = determinant(s);
    """
    got = evaluate(body, {"A": a, "B": b}, {"out": ((109,), dtype)})["out"].astype(np.float32)
    # Rows in memory are columns of the matrices.
    left, right = a.T.astype(np.float32), b.T.astype(np.float32)
    eye = 3 * np.eye(4)
    wanted = [left @ right, left.T, left + right, left - right, left * 2, eye]
    np.testing.assert_allclose(got[:96].reshape(6, 4, 4).transpose(0, 2, 1), wanted)
    np.testing.assert_allclose(got[96:104], [*(right @ left[:, 1]), *(left[:, 1] @ right)])
    np.testing.assert_allclose(got[104], np.linalg.det(left.astype(np.float64)), atol=1e-3)
    assert got[105:].tolist() == [41, 52, 63, -2]


def test_packed_colours() -> None:
    x, y = RANDOM.uniform(-1.5, 1.5, (2, 64)).astype(np.float32)

    def parts(low: float, steps: int, bits: int, *values: np.ndarray) -> np.ndarray:
        word = np.zeros(64, np.uint64)
        for place, value in enumerate(values):
            held = np.rint(np.clip(value, low, 1).astype(np.float32) * np.float32(steps))
            word |= (held.astype(np.int64).astype(np.uint64) & ((1 << bits) - 1)) << (place * bits)
        return word

    wanted = {
        "pack_float_to_unorm4x8(float4(x, y, 1, 0))": parts(0, 255, 8, x, y, x * 0 + 1),
        "pack_float_to_snorm4x8(float4(x, y, -1, 0))": parts(-1, 127, 8, x, y, x * 0 - 1),
        "pack_float_to_unorm2x16(float2(x, y))": parts(0, 65535, 16, x, y),
        "pack_float_to_snorm2x16(float2(x, y))": parts(-1, 32767, 16, x, y),
        "pack_half_to_unorm4x8(half4(0, 1, 0.2h, 2))": parts(
            *(0, 255, 8), x * 0, x * 0 + 1, x * 0 + np.float16(0.2), x * 0 + 2
        ),
        "pack_float_to_unorm10a2(float4(x, 0, 0, 1))": parts(0, 1023, 10, x) | np.uint64(3 << 30),
    }
    table = tabulate(list(wanted), {"xs": x, "ys": y}, np.uint32)
    for call, value in wanted.items():
        assert np.array_equal(table[call], value.astype(np.uint32)), call
    back = tabulate(
        [
            "unpack_unorm4x8_to_float(pack_float_to_unorm4x8(float4(0, x, y, 0))).y",
            "unpack_snorm2x16_to_float(pack_float_to_snorm2x16(float2(x, y))).y",
            "unpack_unorm4x8_srgb_to_float(pack_float_to_srgb_unorm4x8(float4(x, y, 0, 0))).x",
        ],
        {"xs": x, "ys": y},
        np.float32,
    )
    for got, held, error in zip(
        back.values(),
        [np.clip(x, 0, 1), np.clip(y, -1, 1), np.clip(x, 0, 1)],
        [0.5 / 255, 0.5 / 32767, 0.02],
        strict=True,
    ):
        assert np.abs(got - held).max() <= error + 1e-6


def test_complex_numbers() -> None:
    z, w = (RANDOM.normal(0, 1, 32) + 1j * RANDOM.normal(0, 1, 32) for _ in range(2))
    z, w = z.astype(np.complex64), w.astype(np.complex64)
    calls = ["z + w", "z - w", "z * w", "z / w", "-z", "z + 1.5f", "2.0f - z", "z / 2.0f"]
    body = "uint i = thread_position_in_grid.x;\n"
    body += "complex64_t z(a[2 * i], a[2 * i + 1]); complex64_t w(b[2 * i], b[2 * i + 1]);\n"
    for number, call in enumerate(calls):
        body += f"{{ complex64_t r = {call}; out[{64 * number} + 2 * i] = r.real;"
        body += f" out[{64 * number} + 2 * i + 1] = r.imag; }}\n"
    body += (
        "less[i] = z < w; device complex64_t* to = (device complex64_t*)sum; to[i] = z; to[i] += w;"
    )
    shapes = {"out": ((8, 64), np.float32), "less": ((32,), bool), "sum": ((64,), np.float32)}
    given = {"a": z.view(np.float32), "b": w.view(np.float32)}
    got = evaluate(body, given, shapes, threads=32, checks=True)
    wanted = [z + w, z - w, z * w, z / w, -z, z + 1.5, 2 - z, z / 2]
    np.testing.assert_allclose(got["out"].view(np.complex64), wanted, rtol=1e-5, atol=1e-6)
    assert got["less"].tolist() == (z.real < w.real).tolist()
    np.testing.assert_allclose(got["sum"].view(np.complex64), z + w, rtol=1e-6)
