"""PYTHON-SCALAR and ASSIGN-SCALAR: which numbers in array arithmetic are reported, and where."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import IMPORTS, codes, findings

FIRST_LINE = IMPORTS.count("\n") + 1
FAMILY = "PYTHON-SCALAR"


def function(body: str) -> str:
    """A function of an array ``x``, a number ``n`` and an unknown ``y``."""
    start = "import math\nimport numpy as np\ndef work(x: mx.array, n: int, y):\n"
    return start + indent(dedent(body).strip(), "    ")


BODY_LINE = FIRST_LINE + 3


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "**"])
@pytest.mark.parametrize("number", ["2", "0.5", "1e-5", "n", "2j", "True", "math.pi", "x.shape[0]"])
def test_operands(operator: str, number: str) -> None:
    for expression in (f"x {operator} {number}", f"{number} {operator} x"):
        (finding,) = findings(function(f"return {expression}"), FAMILY)
        assert finding.code == f"{FAMILY}-002"
        assert (finding.line, finding.column) == (BODY_LINE, 12)
        assert f"`{operator}`" in finding.message


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "**"])
def test_in_place(operator: str) -> None:
    (finding,) = findings(function(f"x {operator}= 2\nreturn x"), FAMILY)
    assert (finding.code, finding.line) == (f"{FAMILY}-001", BODY_LINE)


@pytest.mark.parametrize("operator", ["==", "!=", "<", "<=", ">", ">="])
def test_comparisons(operator: str) -> None:
    for expression in (f"x {operator} 2", f"0.5 {operator} x"):
        (finding,) = findings(function(f"return {expression}"), FAMILY)
        assert (finding.code, finding.line) == (f"{FAMILY}-004", BODY_LINE)


@pytest.mark.parametrize(
    "call",
    [
        "mx.maximum(x, 1e-7)",
        "mx.minimum(1, x)",
        "mx.multiply(x, 2.0)",
        "mx.power(x, n)",
        "mx.where(y, x, 0.0)",
        "mx.where(y, 0.0, x)",
        "mx.where(y, mx.exp(x), -math.inf)",
        "mx.clip(x, 0, 1)",
        "mx.clip(x, None, 1)",
        "mx.equal(x, 3)",
        "mx.logaddexp(x, 0.0)",
        "mx.add(2, x, stream=mx.cpu)",
    ],
)
def test_arguments(call: str) -> None:
    (finding,) = findings(function(f"return {call}"), FAMILY)
    assert (finding.code, finding.line) == (f"{FAMILY}-003", BODY_LINE)


SILENT = [
    "x + x",
    "x * mx.array(0.5, dtype=x.dtype)",
    "x * y",
    "y * 2",
    "n * 2",
    "x.shape[0] * 2",
    "x.ndim + 1",
    "x[0]",
    "x[n:]",
    "x @ x",
    "-x",
    "~x",
    "x * np.float32(2)",
    "np.ones(3) * 2",
    "[x] * 2",
    "(x, x) * n",
    "x == x",
    "x is None",
    "x.dtype == mx.float16",
    "x.shape[0] > 2",
    "mx.sum(x, axis=1)",
    "mx.zeros((2, 3))",
    "mx.full((2,), 0.5)",
    "mx.arange(3)",
    "mx.exp(x)",
    "mx.rsqrt(x)",
    "mx.softmax(x, -1)",
    "mx.reshape(x, (2, -1))",
    "mx.expand_dims(x, 0)",
    "mx.topk(x, 2)",
    "mx.maximum(x, x)",
    "mx.where(y, x, x)",
    "mx.maximum(n, 2)",
    "x.sum(0)",
    "x.astype(mx.float32)",
    "mx.fast.rms_norm(x, y, 1e-5)",
    "mx.random.normal((2, 3))",
    "nn.gelu(x)",
    "maximum(x, 2)",
    "math.sqrt(2) * n",
]


@pytest.mark.parametrize("expression", SILENT)
def test_what_is_no_number_in_array_arithmetic(expression: str) -> None:
    assert codes(function(f"return {expression}"), FAMILY) == []


def test_each_operation_is_told_once() -> None:
    found = findings(function("return 1 - (x * 2 > 0)"), FAMILY)
    assert [(f.code[-3:], f.column) for f in found] == [("002", 12), ("002", 17), ("004", 17)]


@pytest.mark.parametrize("body", ["for i in range(n):\n    x = x * 2\nreturn x", "return x * 2"])
def test_one_finding_a_place(body: str) -> None:
    assert codes(function(body), FAMILY) == [f"{FAMILY}-002"]


CONTEXTS = {
    "compiled": "@mx.compile\ndef f(x: mx.array):\n    return x * 2",
    "loop": "def f(x: mx.array):\n    for i in range(9):\n        y = x * 2",
    "forward": "class A(nn.Module):\n    def __call__(self, x):\n        return x * 2",
    "function": "def f(x: mx.array):\n    return x * 2",
    "script": "x = mx.ones(3)\ny = x * 2",
    "test": "def test_f():\n    x = mx.ones(3)\n    return x * 2",
    "periodic": (
        "def f(x: mx.array):\n    for i in range(9):\n        if i % 3 == 0:\n            y = x * 2"
    ),
}


@pytest.mark.parametrize("context", CONTEXTS)
def test_contexts(context: str) -> None:
    (finding,) = findings(CONTEXTS[context], FAMILY)
    assert finding.context == context
    assert "x * 2" in (IMPORTS + CONTEXTS[context]).split("\n")[finding.line - 1]


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("scale = 0.5\nx = mx.ones(3)\ny = x * scale", 0),
        ("scale = 0.5\ndef f(x: mx.array):\n    return x * scale", 0),
        ("def f(x: mx.array):\n    eps = 1e-5\n    return mx.maximum(x, eps)", 1),
        ("def f(x: mx.array):\n    limit: float = 3.0\n    return x > limit", 1),
        ("def f(x: mx.array):\n    step = 2\n    x += step\n    return x", 1),
        ("class A(nn.Module):\n    def __call__(self, x):\n        s = 2\n        return s - x", 2),
    ],
)
def test_bare_assignments(program: str, line: int) -> None:
    (finding,) = findings(program, "ASSIGN-SCALAR")
    assert (finding.code, finding.line) == ("ASSIGN-SCALAR-001", FIRST_LINE + line)


def test_a_bare_assignment_is_told_once() -> None:
    program = "s = 0.5\ndef f(x: mx.array):\n    return x * s + s > s"
    assert codes(program, "ASSIGN-SCALAR") == ["ASSIGN-SCALAR-001"]


@pytest.mark.parametrize(
    "program",
    [
        "n = 3\nx = mx.zeros((n, n))",
        "n = 3\nx = mx.ones(4)\ny = x[n]",
        "axis = -1\ndef f(x: mx.array):\n    return x.sum(axis)",
        "n = 3\nm = n * 2",
        "s = mx.array(0.5)\ndef f(x: mx.array):\n    return x * s",
        "s = 0.5\ndef f(x):\n    return x * s",
        "def f(x: mx.array):\n    n = x.shape[0]\n    return x * n",
        "def f(x: mx.array):\n    return x * 0.5",
        "def f(x: mx.array, s=0.5):\n    return x * s",
        "s = 0.5\nt = s + 1\n",
    ],
)
def test_other_assignments(program: str) -> None:
    assert codes(program, "ASSIGN-SCALAR") == []


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("x = mx.ones(3)\nx += 1", "PYTHON-SCALAR-001"),
        ("buckets = 0\nbuckets += mx.ones(3)", "PYTHON-SCALAR-002"),
    ],
)
def test_what_is_assigned_to_is_the_array(program: str, code: str) -> None:
    assert codes(program, "PYTHON-SCALAR") == [code]
