"""Assignments, names, branches and loops: what a name holds after them."""

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
    "del": ("x = mx.ones(2)\ndel x\nreveal(x)", "?"),
    "del of an attribute's owner": ("x = mx.ones(2)\ny = x\ndel x\nreveal(y)", "array[float32]"),
    "walrus": (
        "def f(x: mx.array):\n    if (n := x.sum()) is not None:\n        reveal(n)",
        "array",
    ),
    "guarded import": (
        "try:\n    import mlx.core as m\nexcept ImportError:\n    m = None\nreveal(m.ones(2))",
        "array[float32]",
    ),
    "elif": (
        "if c:\n    x = mx.ones(2)\nelif d:\n    x = 3\nelse:\n    x = 'a'\nreveal(x)",
        "'a' | array[float32] | int 3",
    ),
    "try": (
        (
            "def f(x: mx.array):\n    try:\n        y = x\n    except ValueError:\n        return\n"
            "    else:\n        y = 3\n    reveal(y)"
        ),
        "int 3",
    ),
    "exception": ("try:\n    f()\nexcept ValueError as e:\n    reveal(e)", "?"),
    "match": (
        "match y:\n    case [a, b]:\n        x = mx.ones(2)\n    case _:\n        x = 3\nreveal(x)",
        "array[float32] | int 3",
    ),
    "match binds the unknown": ("a = 3\nmatch y:\n    case [a, b]:\n        reveal(a)", "?"),
    "match capture hides": (
        "x = mx.ones(2)\nmatch y:\n    case {'k': x, **rest}:\n        reveal(x)",
        "?",
    ),
}


@pytest.mark.parametrize(("source", "expected"), CASES.values(), ids=CASES)
def test_a_name_holds_after(source: str, expected: str) -> None:
    assert revealed(source) == expected


def test_a_star_takes_a_list_of_the_rest() -> None:
    assert revealed("x, *y = mx.ones(2), 3, 4\nreveal(y)").startswith("list[")


def test_a_star_import_of_mlx_leaves_builtins_unknown() -> None:
    # mlx.core has a ``max`` of its own, and which names it exports is not decided here.
    assert revealed("from mlx.core import *\nreveal(max(mx.ones(2)))") == "?"


@pytest.mark.parametrize("head", ["for i in y", "while y"])
def test_a_break_skips_the_else(head: str) -> None:
    source = f"""
        {head}:
            x = mx.ones(2)
            break
        else:
            x = 3
        reveal(x)
    """
    assert revealed(source) == "array[float32] | int 3"
