"""How rows are spread over threadgroups, for any number and any width of them."""

from __future__ import annotations

import mlx.core as mx
import pytest

from xlstm_kernels.norm.rows import norm_kernel, row_launch


def launched(rows, columns, heads=1):
    launch = row_launch(rows, columns, mx.float32, ((1,),), (mx.float32,), heads=heads)
    return launch, dict(launch.template)["VALUES"]


@pytest.mark.parametrize("columns", [1, 31, 32, 33, 128, 129, 512, 2048, 2049, 4096, 4097, 8192])
def test_rows_up_to_8192_fit_the_registers(columns):
    launch, values = launched(3, columns)
    threads = launch.threadgroup[0]
    assert threads % 32 == 0
    assert threads <= 512
    assert values * threads >= columns
    # No more registers than it takes, and whole threadgroups.
    assert values == 4 or values // 2 * threads < columns
    assert launch.grid == (3 * threads, 1, 1)


@pytest.mark.parametrize("columns", [8193, 2**20, 2**30])
def test_wider_rows_take_no_more_registers(columns):
    launch, values = launched(1, columns)
    assert (launch.threadgroup[0], values) == (512, 16)


@pytest.mark.parametrize(
    ("rows", "columns", "heads", "groups"),
    [
        (1, 4096, 1, 1),  # decoding
        (64, 4096, 1, 64),  # a row each, since otherwise most of the GPU would wait
        (512, 4096, 1, 64),
        (1024, 4096, 1, 64),
        (8192, 4096, 1, 512),
        (1024, 512, 8, 64),  # for each of the heads
        (1, 512, 8, 1),
        (2**24, 64, 1, 65535),
    ],
)
def test_threadgroups_take_several_rows_where_there_are_many(rows, columns, heads, groups):
    launch, _ = launched(rows, columns, heads)
    assert launch.grid == (groups * launch.threadgroup[0], heads, 1)


@pytest.mark.parametrize(("rows", "columns", "heads"), [(0, 5, 2), (5, 0, 2), (5, 2, 0)])
def test_empty_rows_launch_nothing(rows, columns, heads):
    launch, _ = launched(rows, columns, heads)
    assert launch.empty


def test_kernels_of_one_text_are_one_kernel():
    kernels = [norm_kernel(), norm_kernel(("weight",)), norm_kernel(("weight",), centred=True)]
    assert len({kernel.name for kernel in kernels}) == 3
    assert norm_kernel(("weight",)) is kernels[1]
