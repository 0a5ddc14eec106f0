"""Metal kernels on CUDA: what is compiled and launched. Nothing here needs a GPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

import embercoach.cuda
from embercoach.cuda import CudaError, compiled_code, cuda_kernel
from embercoach.simulator.reporting.compiler_errors import CompileError
from tests.cuda.fake_gpu import FakeGpu, Launch, gpu

__all__ = ["gpu"]

WITHOUT_PTXAS = pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas")
COPY = "uint i = thread_position_in_grid.x; out[i] = x[i];"


def call(body: str, *inputs: mx.array, contiguous: bool = True, **settings: Any) -> mx.array:
    """Launch a kernel of one output."""
    kernel = mx.fast.metal_kernel(
        name="probe",
        input_names=["x", "y", "z"][: len(inputs)],
        output_names=["out"],
        source=body,
        ensure_row_contiguous=contiguous,
    )
    defaults = {
        "grid": (64, 1, 1),
        "threadgroup": (32, 1, 1),
        "output_shapes": [(64,)],
        "output_dtypes": [mx.float32],
    }
    return kernel(inputs=list(inputs), **{**defaults, **settings})[0]


# --- launches ----------------------------------------------------------------------------------


def test_whole_threadgroups_are_launched_as_they_are(gpu: FakeGpu):
    call(COPY, mx.zeros(64))
    (launch,) = gpu.launches
    assert launch.names == ["x"]
    assert (launch.grid, launch.threadgroup) == ((64, 1, 1), (32, 1, 1))
    assert launch.contiguous
    assert launch.text.startswith("#error")


def test_kernels_on_ragged_grids_are_told_the_grid(gpu: FakeGpu):
    call(COPY, mx.zeros(64), grid=(70, 3, 1), threadgroup=(32, 2, 1))
    (launch,) = gpu.launches
    assert launch.names == ["x", "ember_geometry"]
    assert launch.inputs[1].tolist() == [70, 3, 1, 32, 2, 1]
    assert (launch.grid, launch.threadgroup) == ((70, 3, 1), (32, 2, 1))


def test_threadgroups_are_no_larger_than_the_grid(gpu: FakeGpu):
    call(COPY, mx.zeros(64), grid=(8, 1, 1), threadgroup=(256, 1, 1))
    assert gpu.launches[0].threadgroup == (8, 1, 1)


@pytest.mark.parametrize(
    ("grid", "threadgroup", "blocks"),
    [((1, 1, 70_000), (1, 1, 1), 70_000), ((2, 1, 256), (1, 1, 128), 512)],
    ids=["many threadgroups", "deep threadgroup"],
)
def test_what_cuda_bounds_is_launched_in_one_dimension(gpu: FakeGpu, grid, threadgroup, blocks):
    call(COPY, mx.zeros(64), grid=grid, threadgroup=threadgroup)
    (launch,) = gpu.launches
    assert launch.grid == (blocks, 1, 1)
    assert launch.threadgroup == (threadgroup[2], 1, 1)
    assert launch.inputs[1].tolist() == [*grid, *threadgroup]


def test_shapes_are_arguments_that_mlx_passes(gpu: FakeGpu):
    body = "uint i = thread_position_in_grid.x; out[i] = x[i] + x_shape[1] + y_ndim;"
    call(body, mx.zeros((2, 32)), mx.zeros((3, 4)))
    call(body, mx.zeros((4, 16)), mx.zeros((3, 4)))
    first, second = gpu.launches
    assert first.text.splitlines()[-1] == "// x_shape y_ndim"
    assert first.code == second.code


def test_strides_of_inputs_as_they_lie_are_arguments_too(gpu: FakeGpu):
    body = (
        "uint i = thread_position_in_grid.x;out[i] = x[elem_to_loc(i, x_shape, x_strides, x_ndim)];"
    )
    call(body, mx.zeros((8, 8)).T, contiguous=False)
    (launch,) = gpu.launches
    assert not launch.contiguous
    assert launch.text.splitlines()[-1] == "// x_shape x_strides x_ndim"


def test_kernels_are_compiled_once_for_each_kind_of_inputs(gpu: FakeGpu):
    kernel = mx.fast.metal_kernel(
        name="probe", input_names=["x"], output_names=["out"], source="out[0] = T(1);"
    )

    def launch(x: mx.array, kind: Any) -> bytes:
        kernel(
            inputs=[x],
            template=[("T", kind)],
            grid=(1, 1, 1),
            threadgroup=(1, 1, 1),
            output_shapes=[(1,)],
            output_dtypes=[mx.float32],
        )
        return gpu.launches[-1].code

    first = launch(mx.zeros(64), mx.float32)
    assert launch(mx.zeros(100), mx.float32) == first
    others = [
        launch(mx.zeros(4), mx.float32),  # constant memory
        launch(mx.array(1.0), mx.float32),  # a reference
        launch(mx.zeros(64), mx.float16),
        launch(mx.zeros(64, dtype=mx.int32), mx.float32),
    ]
    assert len({first, *others}) == 5


def test_long_names_make_short_files(gpu: FakeGpu):
    kernel = mx.fast.metal_kernel(
        name="k" * 300, input_names=["x"], output_names=["out"], source=COPY
    )
    kernel(
        inputs=[mx.zeros(64)],
        grid=(64, 1, 1),
        threadgroup=(32, 1, 1),
        output_shapes=[(64,)],
        output_dtypes=[mx.float32],
    )
    assert gpu.launches[0].name.startswith("ember_kkkk")
    assert max(len(path.name) for path in gpu.folder.iterdir()) < 160


def test_code_is_filed_under_the_hash_that_mlx_computes():
    # Of libstdc++: std::hash<std::string>{}("").
    assert compiled_code._hash("") == 6142509188972423790


def test_refuses_a_cache_of_another_user(gpu: FakeGpu, monkeypatch):
    monkeypatch.setattr(compiled_code, "is_own", lambda *_: False)
    with pytest.raises(CudaError, match="belongs to another user; set MLX_PTX_CACHE_DIR"):
        call(COPY, mx.zeros(64))


def test_init_value_and_python_numbers_are_passed_on(gpu: FakeGpu):
    body = "out[thread_position_in_grid.x] = x;"
    kernel = mx.fast.metal_kernel(
        name="probe", input_names=["x"], output_names=["out"], source=body, atomic_outputs=False
    )
    kernel(
        inputs=[2.5],
        grid=(8, 1, 1),
        threadgroup=(8, 1, 1),
        output_shapes=[(8,)],
        output_dtypes=[mx.float32],
        init_value=3.0,
    )
    (launch,) = gpu.launches
    assert launch.init_value == 3.0
    assert launch.inputs[0].dtype == mx.float32


def test_a_grid_without_threads_launches_nothing(gpu: FakeGpu):
    assert call(COPY, mx.zeros(64), grid=(0, 1, 1), init_value=2.0).tolist() == [2.0] * 64
    assert not gpu.launches


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"threadgroup": (2048, 1, 1), "grid": (4096, 1, 1)}, "Thread group size"),
        ({"grid": (-1, 1, 1)}, "extents must be positive"),
        ({"output_dtypes": []}, "output_dtypes"),
        ({"stream": mx.cpu}, "Only supports the GPU"),
    ],
)
def test_refuses_what_mlx_refuses(gpu: FakeGpu, settings, error):
    with pytest.raises((ValueError, RuntimeError), match=error):
        call(COPY, mx.zeros(64), **settings)


def test_verbose_prints_the_source_that_mlx_generates(gpu: FakeGpu, capsys):
    call(COPY, mx.zeros(64), verbose=True)
    printed = capsys.readouterr().out
    assert printed.startswith("Generated source code for `custom_kernel_probe_")
    assert COPY in printed


def test_compile_errors_name_the_line(gpu: FakeGpu):
    with pytest.raises(CompileError, match="undeclared_name"):
        call("uint i = 0;\nout[i] = undeclared_name;", mx.zeros(64))


def test_kernels_take_part_in_compiled_and_differentiated_functions(gpu: FakeGpu):
    @mx.custom_function
    def double(x: mx.array) -> mx.array:
        return call(COPY, x)

    @double.vjp
    def gradient(primals: Any, cotangent: mx.array, _: mx.array) -> mx.array:
        return 2 * call(COPY, cotangent)

    value = mx.compile(mx.value_and_grad(lambda x: double(x).sum()))
    loss, _ = value(mx.ones(64))
    mx.eval(loss)
    assert len(gpu.launches) == 2


# --- compiled code -----------------------------------------------------------------------------

#: What the machine's part of the Metal library has.
BODIES = {
    "lanes": """
        float v = x[thread_position_in_grid.x]; uint lane = thread_index_in_simdgroup;
        if (lane < 13) v = simd_sum(v) + simd_prefix_inclusive_sum(v) + simd_broadcast_first(v);
        v += simd_shuffle_down(v, 2) + simd_shuffle_and_fill_up(v, 1.0f, 1) + quad_max(v);
        half4 h = simd_shuffle_xor(half4(v), 3);
        out[thread_position_in_grid.x] = simd_all(v > 0) ? v : float(h.y) + simd_is_first();
    """,
    "atomics": """
        threadgroup atomic_uint bins[4];
        uint i = thread_position_in_threadgroup.x;
        if (i < 4) atomic_store_explicit(&bins[i], 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint old = atomic_fetch_add_explicit(&bins[i & 3], 1, memory_order_relaxed);
        atomic_fetch_max_explicit(&bins[0], old, memory_order_relaxed);
        uint expected = 3;
        atomic_compare_exchange_weak_explicit(
            &bins[1], &expected, 4, memory_order_relaxed, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
        auto sum = (device atomic<float>*)out;
        atomic_fetch_add_explicit(sum, x[i], memory_order_relaxed);
        out[i + 1] = atomic_load_explicit(&bins[i & 3], memory_order_relaxed);
    """,
    "tiles": """
        simdgroup_half8x8 a; simdgroup_matrix<half, 8, 8> b; simdgroup_float8x8 c(0.0f);
        threadgroup half tile[64];
        tile[thread_index_in_simdgroup] = half(x[thread_index_in_simdgroup]);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        simdgroup_load(a, tile, 8); simdgroup_load(b, tile, 8, ulong2(0), true);
        simdgroup_multiply_accumulate(c, a, b, c);
        simdgroup_store(c, out, 8);
    """,
    "vectors": """
        uint i = thread_position_in_grid.x;
        float4 v = *(const device float4*)(x + 4 * (i & 7));
        v.xz = v.wy * 2.0f; bool2 mask = v.xy > 1.0f;
        packed_float3 p(v.xyz); uint3 u = uint3(v.xyz) & 7;
        float2x2 m(v.x, v.y, v.z, v.w);
        out[i] = dot(v, v) + select(v.x, v.y, mask.x) + p.z + u.y + (m * v.xy).x
            + as_type<float>(as_type<uint>(v.x) << 1) + popcount(u.x)
            + metal::clamp(v.w, 0.0f, 1.0f);
    """,
    "functions": """
        float v = x[thread_position_in_grid.x]; int e; float whole;
        float sum = exp(v) + log(v) + sin(v) + pow(v, 1.5f) + tanh(v) + atan2(v, 2.0f)
            + fmod(v, 3.0f) + fast::exp(v) + precise::sqrt(v) + frexp(v, e) + modf(v, whole)
            + ldexp(v, 3)
            + acosh(v) + asinh(v) + sinpi(v) + nextafter(v, 1.0f) + float(half(v) * half(2));
        out[thread_position_in_grid.x] = sum + metal::isnan(v) + float(bfloat16_t(v)) + e + whole;
    """,
}


@pytest.mark.parametrize("name", BODIES)
@WITHOUT_PTXAS
def test_the_metal_library_is_assembled(gpu: FakeGpu, name, tmp_path):
    call(BODIES[name], mx.zeros(64), output_shapes=[(65,)])
    call(BODIES[name], mx.zeros(64), grid=(61, 1, 1), output_shapes=[(65,)])
    for launch in gpu.launches:
        assemble(launch, tmp_path)


def assemble(launch: Launch, folder: Path) -> None:
    source = folder / "kernel.ptx"
    source.write_bytes(launch.code)
    command = ["ptxas", "-arch=sm_90", "-o", folder / "kernel.cubin", source]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]


def test_elements_of_tiles_are_moved_for_kernels_that_know_one_layout(gpu: FakeGpu):
    body = """
        simdgroup_float8x8 c(0.0f);
        c.thread_elements()[0] = x[thread_index_in_simdgroup];
        simdgroup_multiply(c, c, c);
        simdgroup_store(c, out, 8);
    """
    call(body, mx.zeros(64))
    call(f"#ifndef EMBER_APPLE_TILES{body}#endif\n", mx.zeros(64))
    moved, unmoved = (launch.code.count(b"shfl.sync") for launch in gpu.launches)
    assert moved > unmoved > 0  # the product itself exchanges elements of floats


def test_threads_of_large_threadgroups_have_bounded_registers(gpu: FakeGpu):
    call(COPY, mx.zeros(64), grid=(2048, 1, 1), threadgroup=(1024, 1, 1))
    call(COPY, mx.zeros(64))
    assert [b".maxntid 1024" in launch.code for launch in gpu.launches] == [True, False]
    kernel = cuda_kernel.cuda_kernel(
        name="probe", input_names=["x"], output_names=["out"], source=COPY, resident=3
    )
    kernel(
        inputs=[mx.zeros(64)],
        grid=(64, 1, 1),
        threadgroup=(32, 1, 1),
        output_shapes=[(64,)],
        output_dtypes=[mx.float32],
    )
    assert b".maxntid 256\n.minnctapersm 3\n" in gpu.launches[-1].code


# --- activation --------------------------------------------------------------------------------


def test_needs_an_mlx_with_cuda():
    with pytest.raises(CudaError, match="this MLX has no CUDA"):
        embercoach.cuda.activate()


def test_is_in_effect_until_its_context_ends(gpu: FakeGpu, monkeypatch):
    monkeypatch.setattr(mx.cuda, "is_available", lambda: True)
    before, metal = mx.fast.metal_kernel, mx.metal.is_available()
    with embercoach.cuda.activate():
        assert mx.fast.metal_kernel is not before
        assert mx.metal.is_available() == metal
        with embercoach.cuda.activate(claim_metal=True):
            assert mx.metal.is_available()
    assert mx.fast.metal_kernel is before
    assert mx.metal.is_available() == metal


@pytest.mark.parametrize(
    ("capability", "architecture", "feature"),
    [((7, 5), "sm_75", "+ptx80"), ((9, 0), "sm_90", "+ptx80"), ((12, 1), "sm_121", "+ptx88")],
)
def test_compiles_for_the_gpu_that_is_there(monkeypatch, capability, architecture, feature):
    monkeypatch.setattr(mx, "device_info", lambda _: capabilities(*capability))
    cuda_kernel.target.cache_clear()
    assert cuda_kernel.target() == (architecture, (feature,))
    cuda_kernel.target.cache_clear()


def test_refuses_gpus_before_turing(monkeypatch):
    monkeypatch.setattr(mx, "device_info", lambda _: capabilities(7, 0))
    cuda_kernel.target.cache_clear()
    with pytest.raises(CudaError, match=r"7\.0 are too old: 7\.5 is needed"):
        cuda_kernel.target()


def capabilities(major: int, minor: int) -> dict[str, int]:
    return {"compute_capability_major": major, "compute_capability_minor": minor}
