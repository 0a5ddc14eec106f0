"""What Metal rejects is rejected, what the simulator lacks is named, what Metal takes is taken."""

from __future__ import annotations

import subprocess
from pathlib import Path

import mlx.core as mx
import pytest

from embercoach.metal.library import MLX_NAMES
from embercoach.simulator import activate
from embercoach.simulator.build.objects import HEADERS
from embercoach.simulator.build.toolchain import Toolchain
from embercoach.simulator.reporting.compiler_errors import CompileError
from tests.simulator.evaluation import launch


def compiled(body: str, header: str = "") -> None:
    """Compile a kernel with a device input ``x``, a constant one ``c`` and the output ``y``."""
    with activate(checks=True):
        inputs = {"x": mx.zeros((32,)), "c": mx.zeros((4,))}
        launch(body, inputs, {"y": ((32,), mx.float32)}, build={"header": header}, init_value=0)


REJECTED = {
    # Overloads that do not decide.
    "int i = 1; uint u = 2; y[0] = max(i, u);": "ambiguous",
    "y[0] = max(x[0], 0);": "ambiguous",
    "half h = 1.0h; y[0] = min(x[0], h);": "ambiguous",
    "y[0] = clamp(x[0], 0, 1);": "ambiguous",
    "y[0] = sqrt(2);": "ambiguous",
    # Address spaces.
    "const device float* p = c; y[0] = p[0];": "constant",
    "constant float* p = x; y[0] = p[0];": "device",
    "threadgroup float t[4]; device float* p = t; y[0] = p[0];": "threadgroup",
    "y[0] = 1; c[0] = 2;": "read-only",
    "x[0] = 2;": "read-only",
    # Types.
    "double d = 1; y[0] = d;": "double_is_not_supported_in_Metal",
    "float4 v = int4(1); y[0] = v.x;": "no viable conversion",
    "float4 v(1); half4 h = v; y[0] = h.x;": "no viable conversion",
    "int4 v = int4(1) * 2.5f; y[0] = v.x;": "invalid operands",
    "float4 v(1, 2, 3); y[0] = v.x;": "no matching",
    "float3 v(1, 2, 3, 4); y[0] = v.x;": "no matching",
    "float3 v(1); y[0] = v.w;": "no member named 'w'",
    "float4 v(1); y[0] = v.xr;": "no member named 'xr'",
    "float4 v(1); v.xx = float2(1, 2); y[0] = v.x;": "names a component twice",
    "float4 a(1), b(2); y[0] = max(a.xy, b).x;": "no matching",
    "y[0] = float3(1) == float3(1) ? 1 : 0;": "vec<bool, 3>",
    "y[0] = as_type<uint2>(1.0f).x;": "same size",
    # Functions that Metal lacks, or has for other types.
    "y[0] = erf(x[0]);": "erf",
    "y[0] = simd_sum(long(x[0]));": "simd_sum",
    "y[0] = simd_shuffle(double_word{1, 2}, 0).a;": "simd_shuffle",
    "y[0] = simd_xor(x[0]);": "simd_xor",
    "threadgroup atomic_float f; atomic_fetch_max_explicit(&f, 1.0f, memory_order_relaxed);": (
        "atomic_fetch_max_explicit"
    ),
    "threadgroup metal::atomic<half> f; y[0] = 0;": "Metal has atomics of",
    "simdgroup_matrix<float, 4, 4> m; y[0] = 0;": "8 x 8",
    "simdgroup_matrix<int, 8, 8> m; y[0] = 0;": "float, half and bfloat alone",
    # Parts that the simulator lacks.
    "texture2d<float> t; y[0] = 0;": "textures are not supported by the simulator",
    "texture2d<float, access::read> t; y[0] = 0;": "textures are not supported by the simulator",
    "constexpr sampler s(1); y[0] = 0;": "sampler is not supported",
    "raytracing::intersector<int> r; y[0] = 0;": "raytracing::intersector is not supported",
    "tensor<float> t; y[0] = 0;": "tensor (Metal 4) is not supported",
    "metal::simdgroup_event e; y[0] = 0;": "Metal has simdgroup_event, the simulator does not yet",
    "vec<float, 8> v = 1; y[0] = exp(v)[0];": "functions take vectors of at most 4 components",
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("body", REJECTED)
def test_an_error_names_what_is_wrong(body: str) -> None:
    with pytest.raises(CompileError) as error:
        compiled(body, "struct double_word { long a, b; };")
    assert REJECTED[body] in str(error.value)


def test_a_header_that_is_missing_is_named() -> None:
    with pytest.raises(CompileError, match="'metal_tensor' file not found"):
        compiled("y[0] = 0;", "#include <metal_tensor>\n")


def test_a_function_constant_is_an_error() -> None:
    with pytest.raises(CompileError, match="function constant: MLX sets none"):
        compiled("y[0] = wide;", "constant bool wide [[function_constant(0)]];\n")


HEADER = """
#include <metal_stdlib>
#include <metal_logging>
#include <metal_math>
#include <metal_simdgroup_matrix>
#include <simd/simd.h>
using namespace metal;
#pragma METAL internals : enable
struct Point { float a; int b; float total() const { return a + b; } };
struct Nested { Point points[2]; float4 colour; half2 uv; };
template <typename T> METAL_FUNC T twice(T v) { return v + v; }
template <typename T> METAL_FUNC T first(const device T* p) { return p[0]; }
template <typename T> METAL_FUNC T first(constant T* p) { return p[0] + 1; }
template <typename T> METAL_FUNC T first(const threadgroup T* p) { return p[0] + 2; }
template <typename T, int N> struct Tile {
  T v[N];
  METAL_FUNC thread T& at(int i) { return v[i]; }
};
template <typename T> struct Kind { static constexpr constant int id = 0; };
template <> struct Kind<half> { static constexpr constant int id = 1; };
template <> struct Kind<bfloat16_t> { static constexpr constant int id = 2; };
constant float weights[3] = {0.25, 0.5, 0.25};
constant constexpr int COUNT = 3;
inline void add_to(device float& v, float by) { v += by; }
inline void rows_of(thread float4 (&rows)[2]) { rows[1].x = 3; }
enum Mode { PLAIN = 1, OTHER = 2 };
constant os_log logger("kernels", "tests");
"""

TAKEN = r"""
{ threadgroup Point p[4]; p[0] = Point{1, 2}; Point q = p[0]; y[0] = q.a; }
{ device Point* p = (device Point*)y; p[1] = {3, 4}; p[0] = p[1]; Point q = *p; y[0] =
  q.total(); }
{ device Point* p = (device Point*)y; p->a = 1; y[8] = p->total() + p[0].total(); }
{ threadgroup Nested n; n.colour = float4(1); n.points[1] = {1, 2}; Nested m = n; y[0] =
  m.colour.w; }
{ threadgroup atomic_int a; atomic_store_explicit(&a, 1, memory_order_relaxed); y[0] = 0; }
{ device atomic_uint* a = (device atomic_uint*)y; atomic_fetch_add_explicit(&a[2], 1,
  memory_order_relaxed); }
{ threadgroup float t[2]; t[0] = 1; y[0] = first(x) + first(c) + first(t); }
{ Tile<float4, 2> t; t.at(0) = 1.0f; t.at(1) = x[0]; y[0] = t.at(0).x; }
{ float4 rows[2]; rows[0] = 0; rows_of(rows); y[0] = rows[1].x; }
{ add_to(y[0], twice(weights[COUNT - 1])); }
{ y[0] = Kind<half>::id + Kind<bfloat16_t>::id * 2 + Kind<float>::id; }
{ bfloat16_t b = static_cast<bfloat16_t>(x[0]); b += bfloat16_t(1); y[0] = b * 2 + b * 0.5f; }
{ half h = x[0]; h = h * 2 + 1; h *= 0.5f; y[0] = metal::max(h, half(1)) + h; }
{ bfloat16_t b = bfloat16_t(2); y[0] = metal::max(b, 1.0f) + metal::fma(b, 2.0f, 1.0f); }
{ y[0] = metal::precise::exp(half(1)) + metal::fast::log(2.0f) + simd::float2(1, 2).y; }
{ for (float4 v : {float4(1), float4(2)}) y[0] += v.x; }
{ float4 v = *((const device float4*)(x + 4)); packed_float3 p = v.xyz; y[0] = p.z + p[1]; }
{ auto f = [&](uint i) { return x[i] + c[i]; }; y[0] = f(1); }
{ _Pragma("unroll") for (int i = 0; i < 4; ++i) y[i] = i; }
{ MLX_MTL_PRAGMA_UNROLL for (int i = 0; i < 4; ++i) y[i] = Limits<float>::max; }
{ y[0] = ceildiv(7, 2) + elem_to_loc(1u, x_shape, x_strides, x_ndim); }
{ int2 p = {1, 2}; switch (p.x) { case PLAIN: y[0] = p.y; break; default: y[0] = 0; } }
{ y[0] = float(uint3(1, 2, 3).z * 2u + ushort2(4).x) + vec<Mode, 2>(PLAIN, OTHER).y; }
{ volatile threadgroup float t[2]; t[0] = 1; y[0] = t[0]; }
{ y[0] = simd_sum(x[0] > 0) + simd_max(uchar(3)) + simd_any(x[0] > 0); }
{ y[0] = float(INT_MAX) + FLT_MAX + M_PI_F + HALF_MAX + MAXFLOAT; y[1] = NULL == nullptr; }
{ logger.log_debug("%d", 1); os_log_default.log("x"); y[0] = 1; }
{ uint64_t w = 1ul << 40; y[0] = popcount(w) + clz(w) + mulhi(w, w) + float(w); }
"""


def test_metal_takes_it_and_so_do_we() -> None:
    compiled(TAKEN, HEADER)


UNIT = """
#include "ember_unit.h"
template <class T> void use() {
  T most = Limits<T>::max;
  (void)most;
}
extern "C" EMBER_ENTRY void ember_kernel(const ember_thread*, void* const* buffers) {
  constant int* shape = (constant int*)buffers[0];
  constant int64_t* strides = (constant int64_t*)buffers[1];
  device float* y = (device float*)buffers[2];
  use<float>(); use<half>(); use<bfloat16_t>(); use<bool>(); use<int64_t>(); use<complex64_t>();
  y[0] = elem_to_loc(3u, shape, strides, 2) + elem_to_loc(uint3(1, 2, 3), shape, strides, 3);
  y[1] = elem_to_loc_1(2, strides[0]) + elem_to_loc_2(uint2(1, 2), strides)
      + elem_to_loc_3(uint3(1, 2, 3), strides);
  y[2] = elem_to_loc_2_nd(uint3(1, 2, 3), shape, strides, strides, 3).x
      + elem_to_loc_3_nd(uint3(1, 2, 3), shape, strides, strides, strides, 3).z;
  y[3] = ceildiv(7, 2) + log1p(0.5f) + log1p(bfloat16_t(0.5f)) + hypot(3.0f, 4.0f);
  y[4] = simd_shuffle_down(int64_t(1), 1) + simd_shuffle_up(uint64_t(1), 1) + simd_shuffle(true, 0);
  y[5] = simd_shuffle_and_fill_up(int64_t(1), int64_t(2), 1)
      + simd_shuffle(complex64_t(1, 2), 0).imag;
  y[6] = WorkPerThread<half>::n + float(cast_to<bool>(y[0])) + uint16_to_bfloat16(0x3f80)
      + bfloat16_to_uint16(bfloat16_t(1.0f)) + SOFTMAX_N_READS + float16_t(1.0f);
  ConditionalType<true, float, half>::type z = 1;
  MLX_MTL_PRAGMA_UNROLL
  for (int i = 0; i < 4; ++i) y[i] += z + (complex64_t(1, 2) * complex64_t(0, 1)).real;
}
"""


def test_our_own_preamble_offers_what_the_wheels_does(toolchain: Toolchain, tmp_path: Path) -> None:
    unit = tmp_path / "unit.cpp"
    unit.write_text(UNIT)
    command = [*toolchain.compiler, *toolchain.kernel_flags(checks=True)]
    command += [word for folder in HEADERS for word in ("-I", str(folder))]
    done = subprocess.run(
        [*command, "-fsyntax-only", str(unit)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_our_own_preamble_has_the_names_of_mlxs() -> None:
    text = "".join(header.read_text() for header in HEADERS[1].glob("ember_*.h"))
    absent = {name for name in MLX_NAMES if name not in text}
    # Parts of MLX's own kernels, and macros that make the preamble itself.
    assert absent == {
        *("LoopedElemToLoc", "schedule_row_tile", "instantiate_default_limit"),
        *("instantiate_float_limit", "instantiate_metal_math_funcs"),
        *("instantiate_metal_simd_comm_funcs", "instantiate_metal_simd_reduction_funcs"),
    }
