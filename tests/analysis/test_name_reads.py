"""Each name that is read has the binding before it in its function."""

from __future__ import annotations

import ast

import pytest

from embercoach.analysis.syntax.name_reads import name_reads


def bindings(source: str) -> list[tuple[int, int]]:
    """The lines of the reads of `x` in a program, each with the line of its binding."""
    lines = source.splitlines()
    return [
        (read.place[0], read.binding[0])
        for read in name_reads(ast.parse(source))
        if lines[read.place[0] - 1][read.place[1] : read.end_column] == "x"
    ]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("x = f()\nx = g(x)\nx", [(2, 1), (3, 2)]),
        ("x = 1\nx += x\nx", [(2, 1), (3, 2)]),
        ("x = 1\nfor x in x:\n    x\nx", [(2, 1), (3, 2), (4, 2)]),
        ("x = 1\nwith f(x) as x, g(x):\n    x", [(2, 1), (2, 2), (3, 2)]),
        ("if (x := f()):\n    x", [(2, 1)]),
        ("x = 1\ny = [x for x in x]\nx", [(2, 2), (2, 1), (3, 1)]),
        ("y = [(x := z) for z in w]\nx", [(2, 1)]),
        ("def f():\n    x\n    x = 1\n    def g(): return x\n    return x", [(5, 3)]),
        ("x = 1\ndef f(y=x):\n    return x", [(2, 1)]),
        ("def f(x):\n    x = g(x)\n    return lambda: x", [(2, 1)]),
        ("def f():\n    global x\n    x = 1\n    return x", []),
        ("x = 1\nimport x\nx", [(3, 2)]),
        ("x = 1\ndef x(): ...\nx", [(3, 2)]),
        ("x = 1\ntry: f()\nexcept E as x: x", [(3, 3)]),
        ("match f():\n    case {'a': 1, **x}:\n        x", [(3, 2)]),
        ("x = 1\ndel x\nx", [(3, 2)]),
    ],
)
def test_a_read_has_the_binding_before_it(source: str, expected: list[tuple[int, int]]) -> None:
    assert bindings(source) == expected


def test_deep_nesting_and_long_bodies_take_no_recursion_and_linear_time() -> None:
    source = f"x = 1\ny = {'x + ' * 900}x\n" + "x\n" * 20_000
    assert len(bindings(source)) == 20_901
