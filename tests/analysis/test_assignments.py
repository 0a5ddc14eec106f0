"""Assignments: plain, chained, unpacked, annotated, in place, to attributes and items."""

from __future__ import annotations

import pytest

from tests.analysis.inference import revealed

CASES = {
    "after a star": ("x, *y, z = mx.ones(2), 3, 4, 'a'\nreveal(z)", "'a'"),
    "before a star": ("x, *y = mx.ones(2), 3\nreveal(x)", "array[float32]"),
    "item of a list": ("x = [mx.ones(2)]\nx[0] = 3\nreveal(x[0])", "array[float32] | int 3"),
    "attribute of a rebound name": (
        "def f(a, b):\n    a.x = mx.ones(2)\n    a = b\n    reveal(a.x)",
        "?",
    ),
    "or": ("def f(x: mx.array | None):\n    reveal(x or mx.ones(2))", "array"),
    "or of None": ("reveal(None or mx.ones(2))", "array[float32]"),
}


@pytest.mark.parametrize(("source", "expected"), CASES.values(), ids=CASES)
def test_an_assignment_binds(source: str, expected: str) -> None:
    assert revealed(source) == expected


def test_a_star_takes_a_list_of_the_rest() -> None:
    assert revealed("x, *y = mx.ones(2), 3, 4\nreveal(y)").startswith("list[")
