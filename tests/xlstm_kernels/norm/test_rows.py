"""How rows are spread over threadgroups, for any number and any width of them."""

from __future__ import annotations

import mlx.core as mx
import pytest

from xlstm_kernels.norm.rows import row_launch


def launched(rows, columns, heads=1, dtype=mx.float32):
    """The launch for an array of any size, which takes no memory, and its template arguments."""
    values = mx.broadcast_to(mx.array(0, dtype=dtype), (rows, 1, heads, columns))
    launch = row_launch(values)
    return launch, dict(launch.template)


@pytest.mark.parametrize("columns", [1, 31, 32, 33, 128, 129, 512, 2048, 2049, 4096, 4097, 8192])
@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
def test_rows_up_to_8192_fit_the_registers(columns, dtype):
    launch, numbers = launched(3, columns, dtype=dtype)
    threads, places, _ = launch.threadgroup
    assert threads == 32 * numbers["SIMDGROUPS"]
    assert threads * places <= 512
    held = numbers["VALUES"] * numbers["PACK"]
    assert held <= 16
    assert columns % numbers["PACK"] == 0
    assert numbers["HELD"] == (columns <= 512 * 16)
    if numbers["HELD"]:
        # No more registers than it takes.
        assert held * threads >= columns > (held - numbers["PACK"]) * threads - 32
    assert launch.grid == (-(-3 // places) * threads, places, 1)


@pytest.mark.parametrize("dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
@pytest.mark.parametrize("columns", [512, 4096])
def test_packs_have_16_bytes(columns, dtype):
    assert launched(3, columns, dtype=dtype)[1]["PACK"] * dtype.size == 16


@pytest.mark.parametrize("columns", [8193, 2**20, 2**30])
def test_wider_rows_take_no_more_registers(columns):
    launch, numbers = launched(1, columns)
    assert (launch.threadgroup[0], numbers["VALUES"] * numbers["PACK"]) == (512, 16)
    assert not numbers["HELD"]


@pytest.mark.parametrize(
    ("rows", "columns", "heads", "groups"),
    [
        (1, 4096, 1, 1),  # decoding
        (64, 4096, 1, 64),  # a row each, since otherwise most of the GPU would wait
        (512, 4096, 1, 512),
        (1024, 4096, 1, 512),
        (32768, 4096, 1, 2048),
        (2048, 512, 8, 128),  # for each of the heads, four rows at a time
        (1, 512, 8, 1),
        (2**24, 64, 1, 65535),
    ],
)
def test_threadgroups_take_several_rows_where_there_are_many(rows, columns, heads, groups):
    launch, _ = launched(rows, columns, heads)
    threads, places, _ = launch.threadgroup
    assert launch.grid == (groups * threads, heads * places, 1)


@pytest.mark.parametrize(("rows", "columns", "heads"), [(0, 5, 2), (5, 0, 2), (5, 2, 0)])
def test_empty_rows_launch_nothing(rows, columns, heads):
    launch, _ = launched(rows, columns, heads)
    assert launch.empty
