"""Sizes as symbolic integers: which are equal, which are divisions that round up."""

from __future__ import annotations

import libcst as cst
import pytest

from embercoach.analysis.dataflow.scopes import Expression, scope_of
from embercoach.checks.programs.launch_sizes import (
    SymInt,
    ceil_division,
    grows_with_data,
    is_data_size,
    is_float,
    symbolic,
    whole_multiple,
)
from tests.analysis.inference import module_of

PROGRAM = """
import math
BLOCK = 64
def ceildiv(a, b):
    "Rounded up."
    return (a + b - 1) // b
up = lambda n, by: -(-n // by)
def f(x, n, m, d, flag):
    rows, columns = x.shape
    total = x.size
    size = n
    if flag:
        size = 2 * n
    other = d
    chain1 = n * n
    chain2 = chain1 * chain1
    huge = 10000000000 * 10000000000 * n
    return 0
"""
MODULE = module_of(PROGRAM)
FUNCTION = next(info for info in MODULE.functions if info.name == "f")


def sized(text: str) -> SymInt:
    return symbolic(Expression(cst.parse_expression(text), scope_of(MODULE, FUNCTION)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("2 * n - n", "int(n)"),
        ("up(n, by=d)", "-(-n // d)"),
    ],
)
def test_equal_sizes(one: str, other: str) -> None:
    assert sized(one) == sized(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int(n / 2)", "n / 2"),
    ],
)
def test_sizes_that_may_differ(one: str, other: str) -> None:
    assert sized(one) != sized(other)


@pytest.mark.parametrize(
    ("text", "count", "divisor"),
    [
        ("n // 256 + 1", "n", "256"),
        ("max(1, ceildiv(n, d))", "n", "d"),
        ("up(n, 32)", "n", "32"),
    ],
)
def test_divisions_that_round_up(text: str, count: str, divisor: str) -> None:
    found = ceil_division(sized(text))
    assert found is not None
    assert (found.count, found.divisor) == (sized(count), sized(divisor))


@pytest.mark.parametrize(
    "text",
    [
        "(n // 256 + 1) * 256",
    ],
)
def test_whole_multiples(text: str) -> None:
    found = whole_multiple(sized(text))
    assert found is not None
    assert found.count == sized("n")


def test_sizes_of_arrays() -> None:
    for text in ("x.size", "rows", "rows * columns", "total"):
        assert is_data_size(sized(text))
        assert grows_with_data(sized(text))
    for text in ("x.size * 2", "x.size // 100 * 100", "x.size - 5"):
        assert not is_data_size(sized(text))
        assert grows_with_data(sized(text))
    for text in ("n", "x.ndim", "x.size * n", "x.size // n", "-x.size", "8"):
        assert not is_data_size(sized(text))
        assert not grows_with_data(sized(text))


def test_floats() -> None:
    for text in ("n / 2", "0.5 * n", "math.sqrt(n)", "max(n / 2, 0.5)", "-n / 4 + 1"):
        assert is_float(sized(text)), text
    for text in ("n // 2", "int(n / 2)", "math.ceil(n / 2)", "max(n / 2, 4)", "n"):
        assert not is_float(sized(text)), text


def test_a_size_of_many_operations_is_opaque() -> None:
    text = " + ".join(f"(n // {i})" for i in range(1, 400))
    assert sized(text) != sized(text)
