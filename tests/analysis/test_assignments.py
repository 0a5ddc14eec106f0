"""Assignments: plain, chained, unpacked, annotated, in place, to attributes and items."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

CASES = {
    "chained": ("a = b = mx.ones(2)\nreveal(b)", "array[float32]"),
    "swap": ("x, y = mx.ones(2), 3\nx, y = y, x\nreveal(x)", "int 3"),
    "tuple": ("x, y = mx.ones(2), 3\nreveal((x, y))", "tuple(array[float32], int 3)"),
    "nested": (
        "(x, y), z = (mx.ones(2), 3), 'a'\nreveal([x, y, z])",
        "list(array[float32], int 3, 'a')",
    ),
    "list pattern": ("[x, y] = mx.ones(2), 3\nreveal(x)", "array[float32]"),
    "after a star": ("x, *y, z = mx.ones(2), 3, 4, 'a'\nreveal(z)", "'a'"),
    "before a star": ("x, *y = mx.ones(2), 3\nreveal(x)", "array[float32]"),
    "of split": ("q, k, v = mx.split(mx.ones((3, 3)), 3)\nreveal(k)", "array[float32]"),
    "of a shape": ("b, l, d = mx.ones((1, 2, 3)).shape\nreveal(l)", "int 2"),
    "of an array": ("a, b = mx.ones((2, 3), mx.float16)\nreveal(a)", "array[float16]"),
    "of too few": ("a, b = (mx.ones(2),)\nreveal(a)", "array[float32]"),
    "of the unknown": ("a, b = something()\nreveal(a)", "?"),
    "of a dict's items": ("(k, x), = {'a': mx.ones(2)}.items()\nreveal(x)", "array[float32]"),
    "in place, same dtype": ("x = mx.ones(2, mx.float16)\nx += 1\nreveal(x)", "array[float16]"),
    "in place, number to array": ("x = 0\nx += mx.ones(2)\nreveal(x)", "array[float32]"),
    "in place, list": ("x = []\nx += [mx.ones(2)]\nreveal(x)", "list(array[float32])"),
    "in place, item": ("x = mx.ones(2)\nx[0] += 1\nreveal(x)", "array[float32]"),
    "item of a list": ("x = [mx.ones(2)]\nx[0] = 3\nreveal(x[0])", "array[float32] | int 3"),
    "item of a dict": ("x = {}\nx['a'] = mx.ones(2)\nreveal(x['a'])", "array[float32]"),
    "item of an array": ("x = mx.ones(2)\nx[0] = 3\nreveal(x)", "array[float32]"),
    "attribute": ("class A: pass\na = A()\na.x = mx.ones(2)\nreveal(a.x)", "array[float32]"),
    "attribute of a rebound name": (
        "def f(a, b):\n    a.x = mx.ones(2)\n    a = b\n    reveal(a.x)",
        "?",
    ),
    "attribute bound on one branch": (
        "def f(a, c):\n    if c:\n        a.x = mx.ones(2)\n    reveal(a.x)",
        "?",
    ),
    "declared only": ("x: mx.array\nreveal(x)", "array"),
    "declared, value unknown": ("x: mx.array = something()\nreveal(x)", "array"),
    "declared None": ("x: mx.array = None\nreveal(x)", "None | array"),
    "a value says more than its annotation": (
        "x: mx.array = mx.ones(2, mx.int8)\nreveal(x)",
        "array[int8]",
    ),
    "walrus value": ("reveal((x := mx.ones(2)))", "array[float32]"),
    "ternary": ("reveal(mx.ones(2) if c else 3)", "array[float32] | int 3"),
    "or": ("def f(x: mx.array | None):\n    reveal(x or mx.ones(2))", "array"),
    "or of None": ("reveal(None or mx.ones(2))", "array[float32]"),
    "or of the unknown": ("reveal(x or mx.ones(2))", "? | array[float32]"),
}


@pytest.mark.parametrize(("source", "expected"), CASES.values(), ids=CASES)
def test_an_assignment_binds(source: str, expected: str) -> None:
    assert revealed(source) == expected


def test_a_star_takes_a_list_of_the_rest() -> None:
    assert revealed("x, *y = mx.ones(2), 3, 4\nreveal(y)").startswith("list[")


def test_targets_are_bound_from_left_to_right() -> None:
    assert all_revealed("x, y = y, x = mx.ones(2), 3\nreveal(x)\nreveal(y)") == [
        "int 3",
        "array[float32]",
    ]


def test_the_source_of_a_bare_number_is_kept() -> None:
    from tests.analysis.inference import value_of

    value = value_of("scale = -0.5\nreveal(scale)")
    assert value.origin is not None  # type: ignore[attr-defined]
    value = value_of("scale = 1 / 2\nreveal(scale)")
    assert value.origin is None  # type: ignore[attr-defined]
