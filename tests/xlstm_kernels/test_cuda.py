"""`backend="cuda"`: kernels in CUDA C++, read and compiled. Nothing here needs a GPU."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import mlx.core as mx
import pytest
from xlstm_kernels.executors.cuda_source import cuda_source, thread_limit

from tests.xlstm_kernels.test_linted import RUNS, Notary
from xlstm_kernels import executors, rms_norm, soft_cap
from xlstm_kernels.kernel import Kernel, Launch

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

TYPES = {
    mx.float32: "float",
    mx.float16: "__half",
    mx.bfloat16: "__nv_bfloat16",
    mx.bool_: "bool",
    mx.uint8: "uint8_t",
    mx.uint32: "uint32_t",
    mx.int32: "int32_t",
    mx.int64: "int64_t",
}
PARTS = 8
WITHOUT_NVCC = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")


class FakeCuda:
    """`mx.fast.cuda_kernel` without a GPU: writes what MLX's writes, and gives zeros.

    The function around a body is that of mlx/backend/cuda/custom_kernel.cpp.
    """

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.built: list[str] = []

    def __call__(self, *, name, input_names, output_names, source, header, ensure_row_contiguous):
        self.built.append(name)

        def launch(*, inputs, template, output_shapes, output_dtypes, **_: object):
            parameters = []
            for parameter, array in zip(input_names, inputs, strict=True):
                parameters.append(f"const {TYPES[array.dtype]}* {parameter}")
                for kind, suffix in (("Shape", "shape"), ("Strides", "strides"), ("int", "ndim")):
                    if array.ndim and f"{parameter}_{suffix}" in source:
                        parameters.append(f"const __grid_constant__ {kind} {parameter}_{suffix}")
            for parameter, dtype in zip(output_names, output_dtypes, strict=True):
                parameters.append(f"{TYPES[dtype]}* {parameter}")
            constants = "".join(template_line(*pair) for pair in template)
            self.texts.append(
                f"{header}namespace mlx::core::cu {{\n__global__ void custom_kernel_{name}(\n    "
                + ",\n    ".join(parameters)
                + f") {{\n{constants}{source}\n}}\n}}  // namespace mlx::core::cu\n"
            )
            outputs = zip(output_shapes, output_dtypes, strict=True)
            return [mx.zeros(shape, dtype=dtype) for shape, dtype in outputs]

        return launch


def template_line(name: str, value: object) -> str:
    if isinstance(value, bool):
        return f"  constexpr bool {name} = {str(value).lower()};\n"
    if isinstance(value, int):
        return f"  constexpr int {name} = {value};\n"
    return f"  using {name} = {TYPES[value]};\n"


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    """Make MLX say that it has CUDA and a GPU."""
    fake = FakeCuda()
    monkeypatch.setattr(mx.metal, "is_available", lambda: False)
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu, 0))
    monkeypatch.setattr(mx.fast, "cuda_kernel", fake)
    return fake


def kernel_of(body: str, header: str = "", inputs: Sequence[str] = ("a",)) -> Kernel:
    def launch(*arrays: mx.array, threads: int = 32) -> Launch:
        return Launch((threads, 1, 1), (threads, 1, 1), (arrays[0].shape,), (mx.float32,))

    return Kernel("probe", tuple(inputs), ("b",), body, launch, header)


# --- translation -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metal", "expected"),
    [
        ("device float* p = b;", " float* p = b;"),
        ("const constant float* p = a;", "const  float* p = a;"),
        ("threadgroup float x[32];", "__shared__ float x[32];"),
        ("threadgroup float x[4], y[4];", "__shared__ float x[4], y[4];"),
        ("threadgroup float2 x[2];", "__shared__ metal::float2 x[2];"),
        ("threadgroup float* p = x;", " float* p = x;"),
        ("const threadgroup float* p = x;", "const  float* p = x;"),
        ("threadgroup float x[8]; // threadgroup", "__shared__ float x[8]; // threadgroup"),
        ('_Pragma("clang loop unroll(full)")', '_Pragma("unroll")'),
        ("#pragma clang loop unroll(full)\nfor", "#pragma unroll\nfor"),
        ("#pragma unroll\nfor", "#pragma unroll\nfor"),
        ("uint i = uint(x);", "uint32_t i = uint32_t(x);"),
        ("long i; ulong j;", "int64_t i; uint64_t j;"),
        ("half x = half(1); bfloat y;", "__half x = __half(1); __nv_bfloat16 y;"),
        ("float4 x = float4(0.0f);", "metal::float4 x = metal::float4(0.0f);"),
        ("vec<half, 4> x;", "metal::vec<__half, 4> x;"),
        ("float vec = 1; vec += 1;", "float vec = 1; vec += 1;"),
        ("metal::float4 x;", "metal::float4 x;"),
        ("simd_sum(x)", "metal::simd_sum(x)"),
        ("simd_vote v = simd_ballot(x);", "metal::simd_vote v = metal::simd_ballot(x);"),
        ("metal::precise::exp(x)", "metal::precise::exp(x)"),
        ("memory.yzw", "memory.template swizzle<1, 2, 3>()"),
        ("p->xy.x + q.w", "p->xy.x + q.w"),
        ("unit.half = unit->uint", "unit.half = unit->uint"),
        ("x /* device uint */ + y", "x /* device uint */ + y"),
        ('"device" + 1e-5f + 0x1uint', '"device" + 1e-5f + 0x1uint'),
        (
            "threadgroup_barrier(mem_flags::mem_threadgroup);",
            "metal::threadgroup_barrier(metal::mem_flags::mem_threadgroup);",
        ),
    ],
)
def test_body(metal, expected):
    assert cuda_source(kernel_of(metal), frozenset(), 256).body == expected


@pytest.mark.parametrize(
    ("metal", "expected"),
    [
        ("constant float limit = -2.0f;", "__device__ constexpr float limit = -2.0f;"),
        ("inline float f(float x) {", "__device__ __forceinline__ float f(float x) {"),
        ("void f(constant float* p, thread float& x)", "void f( float* p,  float& x)"),
        ("#include <metal_stdlib>\nint x;", "\nint x;"),
    ],
)
def test_header(metal, expected):
    header = cuda_source(kernel_of("", metal), frozenset(), 256).header
    include, _, rest = header.partition("\n")
    assert rest == f"{expected}\n"
    assert include.startswith('#include "/')
    assert include.endswith('/executors/prelude.cuh"')


def test_attributes_are_variables_where_the_body_names_them():
    body = cuda_source(
        kernel_of("b[thread_position_in_grid.x] = 0;  // lane"), frozenset(), 256
    ).body
    (declaration, statement) = body.splitlines()
    assert declaration.startswith(
        "    const auto thread_position_in_grid = metal::uint3(blockIdx.x "
    )
    assert statement == "b[thread_position_in_grid.x] = 0;  // lane"


def test_an_input_without_dimensions_is_read_through_its_pointer():
    source = cuda_source(kernel_of("b[0] = a;", inputs=("c", "a")), frozenset({"a"}), 256)
    assert source.input_names == ("c", "a_of_no_dimension")
    assert source.body == "    const auto a = *a_of_no_dimension;\nb[0] = a;"


def test_kernels_are_compiled_for_blocks_that_might_want_registers():
    assert [thread_limit(n) for n in (1, 32, 256, 257, 512, 1024)] == [256] * 3 + [384, 512, 1024]
    kernel = kernel_of("b[0] = 1;")
    assert "launch_bounds" not in cuda_source(kernel, frozenset(), 256).header
    assert "launch_bounds(512, 1)" in cuda_source(kernel, frozenset(), 512).header
    resident = replace(kernel, resident_threadgroups=3)
    assert "launch_bounds(256, 3)" in cuda_source(resident, frozenset(), 256).header


def test_a_text_names_the_shapes_and_strides_that_the_body_reads(cuda):
    mx.eval(kernel_of("b[0] = a[a_strides[0]] + a_shape[0];  // a_ndim")(mx.ones((3,))))
    (text,) = cuda.texts
    assert "// a_shape a_strides\n" in text
    assert "a_ndim" not in text


# --- the executor ------------------------------------------------------------------------------


def test_runs_where_mlx_has_cuda(cuda):
    assert executors.resolve(None) == "cuda"
    x = mx.ones((2**12, 2**10), dtype=mx.bfloat16)
    weight = mx.ones((2**10,))  # of another dtype, which mx.fast.rms_norm would promote x to
    mx.eval(mx.grad(lambda x: soft_cap(rms_norm(x, weight), 15.0).sum())(x))
    names = ["rms_norm_weighted", "soft_cap", "soft_cap_gradient", "rms_norm_gradient_weighted"]
    assert cuda.built == [f"xlstm_{name}" for name in names]
    assert "const __nv_bfloat16* values," in cuda.texts[0]
    assert "const float* epsilon_of_no_dimension," in cuda.texts[0]


def test_small_arrays_are_capped_by_operations(cuda):
    mx.eval(mx.grad(lambda x: soft_cap(x, 15.0).sum())(mx.ones((2**10, 2**12 - 1))))
    assert not cuda.built


def test_builds_once_for_the_same_ranks_and_threads(cuda):
    kernel = kernel_of("b[0] = a[0];")
    for shape, threads in (((3,), 32), ((4, 5), 64), ((3,), 300), ((), 32)):
        mx.eval(kernel(mx.ones(shape), threads=threads))
    assert cuda.built == ["probe"] * 3


@pytest.mark.parametrize(
    ("available", "device", "reason"),
    [
        (False, mx.gpu, "this MLX has no CUDA"),
        (True, mx.cpu, r"the default device is Device\(cpu, 0\)"),
    ],
)
def test_says_why_it_cannot_run(available, device, reason, cuda, monkeypatch):
    monkeypatch.setattr(mx.cuda, "is_available", lambda: available)
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(device, 0))
    with pytest.raises(RuntimeError, match=f"'cuda' cannot run here: {reason}"):
        soft_cap(mx.ones((2,)), 1.0, backend="cuda")
    assert executors.resolve(None) == "native"


# --- compilation -------------------------------------------------------------------------------

# What bodies may use of mlx/backend/cuda/device/utils.cuh, which a wheel has inside its library.
UTILS = """
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cstdint>
template <typename T>
struct PerDimension {
    T values[10];
    __device__ const T& operator[](int i) const { return values[i]; }
};
using Shape = PerDimension<int32_t>;
using Strides = PerDimension<int64_t>;
"""

# What the prelude has and no body uses.
PROBE = kernel_of(
    """
    threadgroup float tile[64];
    threadgroup half halves[64];
    const uint lane = thread_index_in_simdgroup;
    halves[lane] = static_cast<half>(a[lane]);
    threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
    tile[lane] = a[lane];
    simdgroup_barrier(mem_flags::mem_none);
    const auto four = *reinterpret_cast<const threadgroup vec<half, 4>*>(halves + 4 * lane);
    float4 x = float4(four) * 2.0f + tile[lane];
    x /= 1.0f + metal::precise::tanh(metal::abs(-x));
    x.x = x.zy.y + metal::clamp(x.w, 0.0f, 1.0f) + metal::max(2u, lane);
    x = metal::select(x, metal::fma(x, x, x), x < float4(1.0f));
    const uint bits = as_type<uint>(x.y) << 1;
    const uint3 ints = uint3(bits, lane, 3) & 7;
    x.y = simd_max(x.x) + simd_min(x.y) + simd_product(x.z) + simd_prefix_exclusive_sum(x.w);
    x.z = simd_shuffle_down(simd_shuffle_xor(x, 1), 2).z + simd_broadcast_first(ints).y;
    if (simd_all(x.x > 0.0f) || simd_any(x.y > 0.0f) || metal::isinf(x.z)) {
        b[lane] = metal::dot(x, x) + metal::fast::exp(x.w) + metal::rsqrt(x.z);
    }
    """
)


def compile_all(texts: Sequence[str], folder: Path) -> None:
    """Compile kernels in one run of nvcc, each in a namespace, as each has the prelude."""
    reset = "#undef __global__\n#define __global__ __attribute__((global))\n"
    parts = [f"{reset}namespace part{i} {{\n{text}}}\n" for i, text in enumerate(texts)]
    source = folder / "kernels.cu"
    source.write_text(UTILS + "".join(parts), encoding="utf-8")
    command = ["nvcc", "-std=c++20", "-arch=sm_90a", "-cubin", "-w", "-o", folder / "kernels.cubin"]
    done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:4000]


@pytest.mark.exhaustive
@WITHOUT_NVCC
def test_prelude_compiles(cuda, tmp_path):
    mx.eval(PROBE(mx.ones((64,))))
    mx.eval(PROBE(mx.ones((64,)), threads=1024))
    mx.eval(soft_cap(mx.ones((2**22,), dtype=mx.float16), 15.0))
    compile_all(cuda.texts, tmp_path)


@pytest.fixture(scope="module")
def launches() -> Iterator[dict]:
    notary = Notary()
    executors.register(notary)
    for run in RUNS:
        run()
    yield notary.launches
    executors.unregister(notary.name)


@WITHOUT_NVCC
@pytest.mark.sampled(0)
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("part", range(PARTS))
def test_every_kernel_compiles(part, dtype, launches, cuda, tmp_path):
    assert len(launches) > 80
    for kernel, (inputs, launch) in list(launches.items())[part::PARTS]:
        template = [
            (name, dtype if value == mx.float32 else value) for name, value in launch.template
        ]
        arrays = [mx.zeros(shape, dtype=of) for shape, of in inputs]
        executors.CudaExecutor().run(kernel, arrays, replace(launch, template=tuple(template)))
    compile_all(cuda.texts, tmp_path)
