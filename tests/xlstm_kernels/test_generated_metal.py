"""The MSL that MLX writes around each body: signature, template, grid. Needs no Metal."""

from __future__ import annotations

import math

import mlx.core as mx
import pytest

from xlstm_kernels import rms_norm, soft_cap
from xlstm_kernels.activation import soft_cap as soft_cap_module
from xlstm_kernels.norm.rows import row_launch

MSL_TYPES = {mx.float32: "float", mx.float16: "float16_t", mx.bfloat16: "bfloat16_t"}
ROW_ATTRIBUTES = [
    "uint thread_index_in_simdgroup [[thread_index_in_simdgroup]]",
    "uint3 thread_position_in_threadgroup [[thread_position_in_threadgroup]]",
    "uint3 threadgroup_position_in_grid [[threadgroup_position_in_grid]]",
    "uint3 threadgroups_per_grid [[threadgroups_per_grid]]",
    "uint3 threads_per_threadgroup [[threads_per_threadgroup]]",
]


def space(size: int) -> str:
    return "constant" if size < 8 else "device"


def numbered(*parameters: str) -> list[str]:
    return [f"{parameter} [[buffer({i})]]" for i, parameter in enumerate(parameters)]


@pytest.fixture(params=MSL_TYPES, ids=MSL_TYPES.values())
def dtype(request):
    return request.param


@pytest.mark.parametrize("shape", [(), (1,), (7,), (8,), (3, 5), (4, 300)], ids=str)
def test_soft_cap(shape, dtype, understudy):
    values = mx.ones(shape, dtype=dtype)
    mx.grad(lambda v: soft_cap(v, 15.0, backend="understudy").sum())(values)
    (name, _, forward), (gradient_name, _, gradient) = understudy.launched
    assert (name, gradient_name) == ("xlstm_soft_cap", "xlstm_soft_cap_gradient")

    type_, where = MSL_TYPES[dtype], space(values.size)
    attributes = ["uint3 thread_position_in_grid [[thread_position_in_grid]]"]
    assert forward.signature == [
        *numbered(
            f"const {where} {type_}* values",
            "const constant int* values_shape",
            "const constant float& cap",
            f"device {type_}* capped",
        ),
        *attributes,
    ]
    assert gradient.signature == [
        *numbered(
            f"const {where} {type_}* values",
            "const constant int* values_shape",
            f"const {where} {type_}* cotangent",
            "const constant float& cap",
            f"device {type_}* values_gradient",
        ),
        *attributes,
    ]
    for generated in (forward, gradient):
        pack = 16 // dtype.size
        assert generated.template_values == f"{type_}, uint32_t, {pack}"
        assert generated.grid == (-(-values.size // pack), 1, 1)
        assert generated.threadgroup == (256, 1, 1)


@pytest.mark.parametrize("shape", [(1,), (7,), (1, 8), (3, 33), (2, 3, 1025)], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_rms_norm(shape, weighted, dtype, understudy):
    x = mx.ones(shape, dtype=dtype)
    arrays = (x, mx.ones(shape[-1:])) if weighted else (x,)
    mx.grad(lambda *a: rms_norm(*a, backend="understudy").sum(), argnums=tuple(range(len(arrays))))(
        *arrays
    )
    launched = {name: generated for name, _, generated in understudy.launched}
    suffix = "_weighted" if weighted else ""
    names = [f"xlstm_rms_norm{suffix}", f"xlstm_rms_norm_gradient{suffix}"]
    # Without a weight of another dtype MLX's own kernel is the forward pass.
    by_mlx = not weighted or dtype == mx.float32
    assert list(launched) == names[by_mlx:]

    columns = shape[-1]
    rows = x.size // columns
    type_, where = MSL_TYPES[dtype], space(x.size)
    values = (
        f"const {where} {type_}* values",
        "const constant int* values_shape",
        "const constant int64_t* values_strides",
        "const constant float& epsilon",
    )
    weight = (
        f"const {space(columns)} float* weight",
        "const constant int64_t* weight_strides",
    )
    cotangent = (
        f"const {where} {type_}* cotangent",
        "const constant int64_t* cotangent_strides",
    )
    gradient = launched[names[1]]
    kernels = [gradient]
    if not by_mlx:
        forward = launched[names[0]]
        kernels.append(forward)
        assert forward.signature == [
            *numbered(*values, *weight * weighted, f"device {type_}* normalised"),
            *ROW_ATTRIBUTES,
        ]
    assert gradient.signature == [
        *numbered(
            *values,
            *cotangent,
            *weight * weighted,
            f"device {type_}* values_gradient",
            *("device float* weight_sums",) * weighted,
        ),
        *ROW_ATTRIBUTES,
    ]
    # A pack is 16 bytes at most, divides a row, and leaves at most half of the lanes without one.
    sizes = [pack for pack in (8, 4, 2, 1) if pack * dtype.size <= 16 and columns % pack == 0]
    pack = next(pack for pack in sizes if pack == 1 or pack * 32 < 2 * columns)
    for generated in kernels:
        threads, places, _ = generated.threadgroup
        assert threads == 32 * -(-columns // (32 * 16))
        assert places == (4 if threads == 32 else 1)
        assert generated.grid == (-(-rows // places) * threads, places, 1)
        assert generated.template_values.startswith(f"{type_}, {pack}, ")


def big(*shape: int) -> mx.array:
    """An array of any size that takes no memory."""
    return mx.broadcast_to(mx.array(0, dtype=mx.float32), shape)


def test_soft_cap_counts_beyond_32_bits(generate):
    values, cap = big(2**16, 2**16), mx.array(1.0)
    launch = soft_cap_module._launch(values)
    assert launch.template == (("T", mx.float32), ("Index", mx.int64), ("PACK", 4))
    assert launch.grid == (2**30, 1, 1)
    small = soft_cap_module._launch(big(2**15, 2**16 - 1))
    assert small.template == (("T", mx.float32), ("Index", mx.uint32), ("PACK", 4))
    kernel = soft_cap_module.FORWARD
    generated = generate(kernel, [mx.zeros((3, 3)), cap], launch)
    assert generated.template_values == "float, int64_t, 4"


def test_norm_grids_stay_launchable_for_any_number_of_rows():
    for rows, columns in ((2**24, 64), (2**20, 2**14), (1, 2**30)):
        for rows_per_simdgroup in (16, 32):
            launch = row_launch(big(1, rows, 1, columns), rows_per_simdgroup=rows_per_simdgroup)
            groups = [-(-g // t) for g, t in zip(launch.grid, launch.threadgroup, strict=True)]
            assert all(extent < 2**31 for extent in launch.grid)
            assert groups[1] <= 65535
            assert launch.grid[0] % launch.threadgroup[0] == 0
            assert math.prod(launch.threadgroup) <= 512
