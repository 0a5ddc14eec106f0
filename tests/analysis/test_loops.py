"""Loops and branches: what goes round, what comes out, what each branch leaves."""

from __future__ import annotations

import pytest

from tests.analysis.inference import revealed

CASES = {
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
def test_control_flow_leaves(source: str, expected: str) -> None:
    assert revealed(source) == expected


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
