"""Where a flagged array came from, and where the context of a finding begins."""

from __future__ import annotations

from pathlib import Path

import pytest

from embercoach import checks
from embercoach.finding import Finding

HEAD = "import mlx.core as mx\nimport mlx.nn as nn\n"


def findings(source: str, code: str = "GRAPH-BREAK-001") -> list[Finding]:
    report = checks.check_source(HEAD + source, Path("/p/a.py"), checks.Project(()))
    return [finding for finding in report.findings if finding.code == code]


def flow(source: str, code: str = "GRAPH-BREAK-001") -> list[tuple[int, str]]:
    """Line and message of each step; the program's own first line is 3."""
    (finding,) = findings(source, code)
    return [(step.line, step.message) for step in finding.flow]


FLOWS: dict[str, tuple[str, list[tuple[int, str]]]] = {
    "one of them is not known": (
        (
            "def f(x: mx.array, n):\n    try:\n        y = mx.sum(x)\n        g(y)\n"
            "    except E as y:\n        y = x\n    return y.item()\n"
        ),
        [(5, "`y` may be assigned `mx.sum(x)`"), (8, "`y` may be assigned `x`")],
    ),
    "carried by a loop": (
        "def f(x: mx.array):\n    y = x\n    while n():\n        y = y + x\n    return y.item()\n",
        [(4, "`y` may be assigned `x`"), (6, "`y` may be assigned `y + x`")],
    ),
    "updated": (
        "def f(x: mx.array):\n    y = mx.abs(x)\n    y += 1\n    return y.item()\n",
        [
            (3, "parameter `x` of `f`, annotated `mx.array`"),
            (4, "`y` is assigned `mx.abs(x)`"),
            (5, "`y` is updated with `1`"),
        ],
    ),
    "elements": (
        (
            "def f(xs: list[mx.array], n: list[int]):\n    for i, x in zip(n, xs):\n"
            "        print(i)\n        x.item()\n"
        ),
        [
            (3, "parameter `xs` of `f`, annotated `list[mx.array]`"),
            (4, "`x` iterates over `zip(n, xs)`"),
        ],
    ),
    "several calls, by place and by name": (
        (
            "def f(n, x):\n    return mx.sum(x).item()\ndef g(a: mx.array, b: mx.array):\n"
            "    f(1, a)\n    f(x=b, n=2)\n"
        ),
        [
            (6, "`f` is called with `a`"),
            (7, "`f` is called with `b`"),
            (3, "parameter `x` of `f`, passed an array by calls in this file"),
        ],
    ),
    "a call that can't be followed": (
        "def f(n, x):\n    return mx.sum(x).item()\ndef g(a):\n    f(1, mx.zeros(3))\n    f(*a)\n",
        [(3, "parameter `x` of `f`, passed an array by calls in this file")],
    ),
    "an attribute set twice": (
        (
            "class A(nn.Module):\n    def __init__(self):\n        self.s = mx.array(1.0)\n"
            "        self.s = mx.array(2.0)\n    def f(self):\n        return self.s.item()\n"
        ),
        [],
    ),
    "of the module, global elsewhere": (
        "S = mx.array(1.0)\ndef f():\n    return S.item()\ndef g():\n    global S\n    S = 1\n",
        [],
    ),
    "nonlocal": (
        (
            "def f(x: mx.array):\n    y = mx.sum(x)\n    def g():\n        nonlocal y\n"
            "        y = x\n    g()\n    return y.item()\n"
        ),
        [],
    ),
    "not what only gives the shape": (
        "def f(x: mx.array):\n    y = mx.zeros_like(x)\n    return y.item()\n",
        [(4, "`y` is assigned `mx.zeros_like(x)`")],
    ),
    "what a call is given in a list": (
        "def f(x: mx.array, y: mx.array):\n    return mx.stack([-y, x]).sum().item()\n",
        [(3, "parameter `y` of `f`, annotated `mx.array`")],
    ),
    "an import": ("from m import y\ndef f():\n    return mx.sum(y).item()\n", []),
}


@pytest.mark.parametrize(("source", "steps"), FLOWS.values(), ids=FLOWS)
def test_where_an_array_came_from(source: str, steps: list[tuple[int, str]]) -> None:
    assert flow(source) == steps


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("HOST-PULL-009", "x.reshape([1, y.astype(mx.int32)])"),
        ("HOST-PULL-012", "x[:y]"),
        ("GRAPH-BREAK-003", "1 if y > x else 2"),
    ],
)
def test_rules_tell_of_the_array_that_they_mean(code: str, line: str) -> None:
    source = f"import numpy as np\ndef f(x: mx.array):\n    y = mx.array(1.0)\n    return {line}\n"
    assert flow(source, code) == [(5, "`y` is assigned `mx.array(1.0)`")]


CONTEXTS: dict[str, tuple[str, list[tuple[int, str]]]] = {
    "called in a loop": (
        (
            "def pick(x: mx.array):\n    return x.item()\n"
            "def step(x: mx.array):\n    return pick(x)\n"
            "def run(xs: list[mx.array]):\n    for x in xs:\n        step(x)\n"
        ),
        [(8, "loop over `xs`"), (9, "`step` is called"), (6, "`pick` is called")],
    ),
}


@pytest.mark.parametrize(("source", "places"), CONTEXTS.values(), ids=CONTEXTS)
def test_where_a_context_begins(source: str, places: list[tuple[int, str]]) -> None:
    (finding,) = findings(source)
    assert [(place.line, place.message) for place in finding.related] == places
