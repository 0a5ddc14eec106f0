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
    "assignments and a parameter": (
        (
            "def f(x: mx.array):\n    y = mx.mean(x * 2)\n    z = y.astype(mx.float32)[0]\n"
            "    return z.item()\n"
        ),
        [
            (3, "parameter `x` of `f`, annotated `mx.array`"),
            (4, "`y` is assigned `mx.mean(x * 2)`"),
            (5, "`z` is assigned `y.astype(mx.float32)[0]`"),
        ],
    ),
    "each of several": (
        (
            "def f(x: mx.array, n):\n    if n:\n        y = mx.sum(x)\n    else:\n        y = -x\n"
            "    return y.item()\n"
        ),
        [(5, "`y` may be assigned `mx.sum(x)`"), (7, "`y` may be assigned `-x`")],
    ),
    "a parameter bound again on one way": (
        "def f(x: mx.array, n):\n    if n:\n        x = x + x\n    return x.item()\n",
        [(3, "`x` may be the function's argument"), (5, "`x` may be assigned `x + x`")],
    ),
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
    "unpacked": (
        (
            "def f(x: mx.array):\n    (a, b), c = (x, 1), 2\n    q, r = mx.linalg.qr(a)\n"
            "    return r.item()\n"
        ),
        [
            (3, "parameter `x` of `f`, annotated `mx.array`"),
            (4, "`a` is assigned `x`"),
            (5, "`r` is unpacked from `mx.linalg.qr(a)`"),
        ],
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
    "the only call": (
        "def f(x):\n    return mx.sum(x).item()\ndef g():\n    y = mx.zeros(3)\n    f(y)\n",
        [
            (6, "`y` is assigned `mx.zeros(3)`"),
            (7, "`f` is called with `y`"),
            (3, "parameter `x` of `f`, passed an array by calls in this file"),
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
    "calls of callers that are analysed in another order": (
        (
            "def f(x):\n    return mx.sum(x).item()\ndef g(n):\n    f(mx.zeros(n))\n"
            "def h(n):\n    f(mx.ones(n))\n"
        ),
        [
            (6, "`f` is called with `mx.zeros(n)`"),
            (8, "`f` is called with `mx.ones(n)`"),
            (3, "parameter `x` of `f`, passed an array by calls in this file"),
        ],
    ),
    "a call that can't be followed": (
        "def f(n, x):\n    return mx.sum(x).item()\ndef g(a):\n    f(1, mx.zeros(3))\n    f(*a)\n",
        [(3, "parameter `x` of `f`, passed an array by calls in this file")],
    ),
    "a method called on an instance": (
        (
            "class A:\n    def f(self, x):\n        return mx.sum(x).item()\n"
            "def g(a: mx.array):\n    A().f(a)\n"
        ),
        [
            (6, "parameter `a` of `g`, annotated `mx.array`"),
            (7, "`A.f` is called with `a`"),
            (4, "parameter `x` of `A.f`, passed an array by calls in this file"),
        ],
    ),
    "an attribute set once": (
        (
            "class A(nn.Module):\n    def __init__(self):\n        self.s = mx.array(1.0)\n"
            "    def f(self):\n        return self.s.item()\n"
        ),
        [(5, "`A.__init__` sets `self.s`: `mx.array(1.0)`")],
    ),
    "an attribute set twice": (
        (
            "class A(nn.Module):\n    def __init__(self):\n        self.s = mx.array(1.0)\n"
            "        self.s = mx.array(2.0)\n    def f(self):\n        return self.s.item()\n"
        ),
        [],
    ),
    "of the module": (
        "S = mx.array(1.0)\ndef f():\n    return S.item()\n",
        [(3, "`S` is assigned `mx.array(1.0)`")],
    ),
    "of the module, bound twice": (
        "S = mx.array(1.0)\nS = mx.array(2.0)\ndef f():\n    return S.item()\n",
        [],
    ),
    "of the module, global elsewhere": (
        "S = mx.array(1.0)\ndef f():\n    return S.item()\ndef g():\n    global S\n    S = 1\n",
        [],
    ),
    "of the function around": (
        "def f(x: mx.array):\n    y = mx.sum(x)\n    def g():\n        return y.item()\n    g()\n",
        [(3, "parameter `x` of `f`, annotated `mx.array`"), (4, "`y` is assigned `mx.sum(x)`")],
    ),
    "nonlocal": (
        (
            "def f(x: mx.array):\n    y = mx.sum(x)\n    def g():\n        nonlocal y\n"
            "        y = x\n    g()\n    return y.item()\n"
        ),
        [],
    ),
    "a comprehension's own name": (
        (
            "def f(x: mx.array, xs: list[mx.array]):\n    for y in xs:\n        pass\n"
            "    return [y.item() for y in xs]\n"
        ),
        [],
    ),
    "a lambda's parameter": (
        "def f(x: mx.array):\n    g = lambda y: mx.sum(y).item()\n    g(x)\n",
        [
            (3, "parameter `x` of `f`, annotated `mx.array`"),
            (5, "a lambda is called with `x`"),
            (4, "parameter `y` of a lambda, passed an array by calls in this file"),
        ],
    ),
    "not what only gives the shape": (
        "def f(x: mx.array):\n    y = mx.zeros_like(x)\n    return y.item()\n",
        [(4, "`y` is assigned `mx.zeros_like(x)`")],
    ),
    "an item of a list": (
        (
            "def f(x: mx.array, y: mx.array, i):\n    xs = [-x, -y]\n"
            "    return xs[i].item() + mx.stack([-y, x])[i]\n"
        ),
        [(4, "`xs` is assigned `[-x, -y]`")],
    ),
    "what a call is given in a list": (
        "def f(x: mx.array, y: mx.array):\n    return mx.stack([-y, x]).sum().item()\n",
        [(3, "parameter `y` of `f`, annotated `mx.array`")],
    ),
    "an import": ("from m import y\ndef f():\n    return mx.sum(y).item()\n", []),
    "no steps at all": ("def f():\n    return mx.zeros(1).item()\n", []),
    "long code in one line": (
        (
            "def f():\n    y = mx.array(\n        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0,  8.0, 9.0, "
            "10.]\n    )\n    return y.item()\n"
        ),
        [(4, "`y` is assigned `mx.array( [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.…`")],
    ),
}


@pytest.mark.parametrize(("source", "steps"), FLOWS.values(), ids=FLOWS)
def test_where_an_array_came_from(source: str, steps: list[tuple[int, str]]) -> None:
    assert flow(source) == steps


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("HOST-PULL-001", "y.tolist()"),
        ("HOST-PULL-002", "np.array(y)"),
        ("HOST-PULL-004", "np.ones(3) * y"),
        ("HOST-PULL-009", "x.reshape([1, y.astype(mx.int32)])"),
        ("HOST-PULL-012", "x[:y]"),
        ("GRAPH-BREAK-002", "float(y)"),
        ("GRAPH-BREAK-003", "1 if y > x else 2"),
        ("GRAPH-BREAK-006", "1 in y"),
        ("GRAPH-BREAK-007", "max(y)"),
        ("GRAPH-BREAK-008", "print(y)"),
        ("DTYPE-001", "x.astype(mx.float16) * y"),
        ("DTYPE-003", "np.float32(2) * y"),
        ("PYTHON-SCALAR-002", "2 * y"),
        ("PYTHON-SCALAR-003", "mx.maximum(y, 2)"),
        ("PYTHON-SCALAR-004", "y > 2"),
    ],
)
def test_rules_tell_of_the_array_that_they_mean(code: str, line: str) -> None:
    source = f"import numpy as np\ndef f(x: mx.array):\n    y = mx.array(1.0)\n    return {line}\n"
    assert flow(source, code) == [(5, "`y` is assigned `mx.array(1.0)`")]


CONTEXTS: dict[str, tuple[str, list[tuple[int, str]]]] = {
    "loop": (
        "def f(xs: list[mx.array]):\n    for x in xs:\n        x.item()\n",
        [(4, "loop over `xs`")],
    ),
    "called in a loop": (
        (
            "def pick(x: mx.array):\n    return x.item()\n"
            "def step(x: mx.array):\n    return pick(x)\n"
            "def run(xs: list[mx.array]):\n    for x in xs:\n        step(x)\n"
        ),
        [(8, "loop over `xs`"), (9, "`step` is called"), (6, "`pick` is called")],
    ),
    "while": (
        "def f(x: mx.array):\n    while True:\n        x = x + x\n        x.item()\n",
        [(4, "loop `while True`")],
    ),
    "decorated": (
        "def g(n):\n    @mx.compile\n    def f(x: mx.array):\n        return x.item()\n",
        [(4, "`g.f` is compiled (`mx.compile`)")],
    ),
    "decorated in parentheses": (
        "@(mx.compile)\ndef f(x: mx.array):\n    return x.item()\n",
        [(3, "`f` is compiled (`mx.compile`)")],
    ),
    "handed down": (
        (
            "def h(x):\n    return x.sum().item()\ndef f(x: mx.array):\n    return h(x)\n"
            "g = mx.vmap(f)\n"
        ),
        [(7, "`f` is mapped (`mx.vmap`)"), (6, "`f` calls `h`")],
    ),
    "differentiated": (
        "def loss(w: mx.array):\n    return w * w.sum().item()\nvg = mx.value_and_grad(loss)\n",
        [(5, "`loss` is differentiated")],
    ),
    "vjp": (
        (
            "def loss(w: mx.array):\n    return w * w.sum().item()\n"
            "mx.vjp(loss, [mx.ones(1)], [mx.ones(1)])\n"
        ),
        [(5, "`loss` is differentiated")],
    ),
    "nothing": ("def f(x: mx.array):\n    return x.item()\n", []),
}


@pytest.mark.parametrize(("source", "places"), CONTEXTS.values(), ids=CONTEXTS)
def test_where_a_context_begins(source: str, places: list[tuple[int, str]]) -> None:
    (finding,) = findings(source)
    assert [(place.line, place.message) for place in finding.related] == places


def test_steps_are_placed_exactly() -> None:
    (finding,) = findings("@mx.compile\ndef f(a, x: mx.array):\n    y = -x\n    return y.item()\n")
    places = [
        (s.line, s.column, s.end_line, s.end_column) for s in (*finding.flow, *finding.related)
    ]
    assert places == [(4, 10, 4, 11), (5, 5, 5, 11), (3, 2, 3, 12)]


def test_notes_of_style_tell_nothing_of_their_context() -> None:
    (finding,) = findings(
        "@mx.compile\ndef f(x: mx.array):\n    return x * 2\n", "PYTHON-SCALAR-002"
    )
    assert finding.context == "compiled"
    assert finding.related == ()
