"""Loops and branches: what goes round, what comes out, what each branch leaves."""

from __future__ import annotations

import pytest

from tests.analysis.inference import all_revealed, revealed

CASES = {
    "over an array": (
        "for x in mx.ones((2, 3), mx.float16):\n    reveal(x)",
        "array[float16]",
    ),
    "over a range": ("for i in range(3):\n    reveal(i)", "int"),
    "over a list": ("for x in [mx.ones(2)]:\n    reveal(x)", "array[float32]"),
    "over a string": ("for x in 'ab':\n    reveal(x)", "str"),
    "over a dict": ("for k in {'a': mx.ones(2)}:\n    reveal(k)", "str"),
    "over the unknown": ("for x in something:\n    reveal(x)", "?"),
    "carried round": (
        "x = None\nfor i in range(3):\n    reveal(x)\n    x = mx.ones(2)",
        "None | array[float32]",
    ),
    "after the loop": (
        "x = None\nfor i in range(3):\n    x = mx.ones(2)\nreveal(x)",
        "None | array[float32]",
    ),
    "while, after": ("x = 1\nwhile c:\n    x = mx.ones(2)\nreveal(x)", "array[float32] | int 1"),
    "endless": (
        "while True:\n    x = mx.ones(2)\n    if x.sum() > 0:\n        break\nreveal(x)",
        "array[float32]",
    ),
    "continue": (
        "x = 1\nfor i in y:\n    if i:\n        x = mx.ones(2)\n        continue\nreveal(x)",
        "array[float32] | int 1",
    ),
    "break leaves with what it has": (
        (
            "for i in y:\n    x = mx.ones(2)\n    if i:\n        break\n    x = x > 1\n"
            "reveal(x.dtype)"
        ),
        "dtype",
    ),
    "else after a loop that never breaks": (
        "x = 1\nfor i in y:\n    x = 2\nelse:\n    x = mx.ones(2)\nreveal(x)",
        "array[float32]",
    ),
    "nested": ("for a in [[mx.ones(2)]]:\n    for b in a:\n        reveal(b)", "array[float32]"),
    "if": ("if c:\n    x = mx.ones(2)\nelse:\n    x = 3\nreveal(x)", "array[float32] | int 3"),
    "elif": (
        "if c:\n    x = mx.ones(2)\nelif d:\n    x = 3\nelse:\n    x = 'a'\nreveal(x)",
        "'a' | array[float32] | int 3",
    ),
    "branch that leaves": (
        ("def f(c):\n    if c:\n        return\n    else:\n        x = mx.ones(2)\n    reveal(x)"),
        "array[float32]",
    ),
    "branch that raises": (
        (
            "def f(c):\n    x = mx.ones(2)\n    if c:\n        x = 3\n        raise ValueError\n"
            "    reveal(x)"
        ),
        "array[float32]",
    ),
    "with": ("with mx.stream(mx.cpu):\n    x = mx.ones(2)\nreveal(x)", "array[float32]"),
    "with as": ("with open('a') as f:\n    reveal(f)", "?"),
    "try": (
        (
            "def f(x: mx.array):\n    try:\n        y = x\n    except ValueError:\n        return\n"
            "    else:\n        y = 3\n    reveal(y)"
        ),
        "int 3",
    ),
    "except leaves its own value": (
        (
            "def f(x: mx.array):\n    try:\n        y = 3\n    except ValueError:\n        y = x\n"
            "    reveal(y)"
        ),
        "array | int 3",
    ),
    "finally": (
        "try:\n    y = g()\nfinally:\n    y = mx.ones(2)\nreveal(y)",
        "array[float32]",
    ),
    "exception": ("try:\n    f()\nexcept ValueError as e:\n    reveal(e)", "?"),
    "try star": (
        "x = mx.ones(2)\ntry:\n    f()\nexcept* ValueError:\n    x = 3\nreveal(x)",
        "array[float32] | int 3",
    ),
    "match": (
        "match y:\n    case [a, b]:\n        x = mx.ones(2)\n    case _:\n        x = 3\nreveal(x)",
        "array[float32] | int 3",
    ),
    "match binds the unknown": ("a = 3\nmatch y:\n    case [a, b]:\n        reveal(a)", "?"),
    "match capture hides": (
        "x = mx.ones(2)\nmatch y:\n    case {'k': x, **rest}:\n        reveal(x)",
        "?",
    ),
    "unreachable": ("def f():\n    return 1\n    x = 3\n    reveal(x)\nreveal(f())", "int 1"),
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


def test_an_else_does_not_see_what_only_a_break_leaves() -> None:
    source = """
        x = 1
        for i in y:
            if i:
                x = mx.ones(2)
                break
        else:
            reveal(x)
    """
    assert revealed(source) == "int 1"


def test_enumerate_and_zip_tell_their_items_apart() -> None:
    source = """
        for i, (a, b) in enumerate(zip(mx.ones(2), [1, 2])):
            reveal(i)
            reveal(a)
            reveal(b)
    """
    assert all_revealed(source) == ["int", "array[float32]", "int"]


def test_facts_of_a_loop_are_recorded_once() -> None:
    from embercoach.analysis.facts.facts import BinaryFact
    from tests.analysis.inference import facts_of

    source = """
        def f(x: mx.array):
            for i in range(3):
                while i:
                    x = x * 2
            return x
    """
    assert len(facts_of(source, BinaryFact)) == 1
