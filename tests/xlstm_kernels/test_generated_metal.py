"""The MSL that MLX writes around each body: signature, template, grid. Needs no Metal."""

from __future__ import annotations

import math

import mlx.core as mx
import pytest

from xlstm_kernels import soft_cap
from xlstm_kernels.activation import soft_cap as soft_cap_module
from xlstm_kernels.norm.rows import row_launch

MSL_TYPES = {mx.float32: "float", mx.float16: "float16_t", mx.bfloat16: "bfloat16_t"}


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
