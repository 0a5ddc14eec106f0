"""DTYPE: constants and NumPy values that change a dtype, and those that keep it."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from tests.checks.findings import IMPORTS, codes, findings

FIRST_LINE = IMPORTS.count("\n") + 1
FAMILY = "DTYPE"


def function(body: str) -> str:
    """A function of a half ``h``, a single ``s``, integers ``i`` and an array ``x``."""
    start = (
        "import numpy as np\ndef work(h, s, i, x: mx.array, y):\n"
        "    h = mx.zeros(3).astype(mx.float16)\n    s = mx.zeros(3).astype(mx.float32)\n"
        "    i = mx.zeros(3).astype(mx.int32)\n"
    )
    return start + indent(dedent(body).strip(), "    ")


BODY_LINE = FIRST_LINE + 5

ONE_FINDING = [
    ("001", "h * mx.array(0.5)"),
    ("001", "mx.array(0.5) + h"),
    ("001", "h.astype(mx.bfloat16) - mx.array(1.0)"),
    ("001", "h / mx.array(2.0, dtype=mx.float32)"),
    ("001", "h * mx.array(0.5, mx.float32)"),
    ("001", "h + mx.zeros((3,))"),
    ("001", "h * mx.ones(3)"),
    ("001", "h ** mx.full((3,), 2.0)"),
    ("001", "h @ mx.eye(3)"),
    ("001", "mx.multiply(h, mx.array(0.5))"),
    ("001", "mx.maximum(mx.array(0.0), h)"),
    ("001", "mx.where(h > 0, h, mx.array(0.0))"),
    ("001", "mx.concatenate([h, mx.zeros(3)])"),
    ("002", "i * np.float32(0.5)"),
    ("002", "i + np.array([0.5, 1.5])"),
    ("002", "i * np.linspace(0, 1, 3)"),
    ("002", "mx.add(i, np.array([0.5]))"),
    ("002", "mx.maximum(np.float32(0.5), i)"),
    ("002", "i.astype(mx.uint8) - np.float16(0.5)"),
    ("003", "np.float32(0.5) * x"),
    ("003", "np.sqrt(2.0) * x"),
    ("003", "np.float64(2) - h"),
    ("003", "np.int64(2) + i"),
    ("003", "np.pi.__class__ and np.log(2.0) * x"),
    ("004", "x * mx.array(0.5)"),
    ("004", "mx.array(0.5) - x"),
    ("004", "mx.multiply(x, mx.array(0.5, dtype=mx.float32))"),
    ("005", "mx.array([np.int64(1), np.int64(2)])"),
    ("005", "mx.array([np.float32(v) for v in range(3)])"),
    ("005", "mx.array((np.float16(1), 2))"),
    ("006", "mx.array(-3.4e38, dtype=mx.float16)"),
    ("006", "mx.array(1e5, mx.float16)"),
    ("006", "mx.array(65520, dtype=mx.float16)"),
    ("006", "mx.array(-70000.0, dtype=mx.float16)"),
    ("006", "mx.array(3.4e38, dtype=mx.bfloat16)"),
    ("006", "mx.full((3,), -1e9, dtype=mx.float16)"),
    ("006", "mx.full((3,), 1e5, mx.float16)"),
]


@pytest.mark.parametrize(("number", "expression"), ONE_FINDING)
def test_expressions(number: str, expression: str) -> None:
    (finding,) = findings(function(f"return {expression}"), FAMILY)
    assert finding.code == f"{FAMILY}-{number}"
    assert (finding.line, finding.context) == (BODY_LINE, "function")


SILENT = [
    "h * 0.5",
    "h * mx.array(0.5, dtype=h.dtype)",
    "h * mx.array(0.5, dtype=mx.float16)",
    "h * mx.array(0.5).astype(h.dtype)",
    "h * mx.array(2)",
    "h * mx.array(True)",
    "h * h",
    "h + mx.zeros((3,), dtype=mx.float16)",
    "h + mx.zeros_like(h)",
    "h + mx.zeros(3, h.dtype)",
    "s * mx.array(0.5)",
    "i * mx.array(0.5)",
    "s + mx.zeros(3)",
    "y * mx.array(0.5)",
    "h > mx.array(0.5)",
    "mx.take(h, mx.array([1, 2]))",
    "mx.where(mx.zeros(3), h, h)",
    "h.astype(mx.float32) * mx.array(0.5)",
    "mx.array(0.5) * mx.array(2.0)",
    "x * mx.zeros(3)",
    "i * 0.5",
    "i * np.int32(2)",
    "i * np.array([1, 2])",
    "i * np.float64(0.5)",
    "i * float(np.float32(0.5))",
    "s * np.float32(0.5)",
    "h * np.float32(0.5)",
    "i.astype(mx.float32) * np.array([0.5])",
    "x * np.array([0.5])",
    "x * np.float32(0.5)",
    "np.float32(0.5) * y",
    "np.float32(0.5) * np.ones(3)",
    "float(np.float32(0.5)) * x",
    "np.pi * x",
    "0.5 * x",
    "mx.array([1, 2])",
    "mx.array([np.float64(1)])",
    "mx.array(np.array([np.int64(1)]))",
    "mx.array([int(np.int64(1))])",
    "mx.array(np.int64(1))",
    "mx.array([y])",
    "mx.array(65504, dtype=mx.float16)",
    "mx.array(65519.0, dtype=mx.float16)",
    "mx.array(1e5, dtype=mx.bfloat16)",
    "mx.array(1e9)",
    "mx.array(-3.38e38, dtype=mx.bfloat16)",
    "mx.array(float('-inf'), dtype=mx.float16)",
    "mx.array(1e5, dtype=h.dtype if y else y)",
    "mx.array(y, dtype=mx.float16)",
    "mx.full((3,), -1e4, dtype=mx.float16)",
    "mx.full((100000,), 1.0, dtype=mx.float16)",
]


@pytest.mark.parametrize("expression", SILENT)
def test_what_keeps_the_dtype(expression: str) -> None:
    assert codes(function(f"return {expression}"), FAMILY) == []


@pytest.mark.parametrize(
    ("number", "program"),
    [
        ("001", "x = mx.zeros(3, dtype=mx.bfloat16)\nhalf = mx.array(0.5)\ny = x * half"),
        ("001", "x = mx.zeros(3, dtype=mx.float16)\nx = x * mx.array(0.5)"),
        ("001", "x = mx.zeros(3, dtype=mx.float16)\nx = x.reshape(3, 1) + mx.ones(3)"),
        ("002", "import numpy as np\nx = mx.array([1, 2])\nx = x * np.array([0.5, 1.0])"),
        ("002", "import numpy as np\nx = mx.arange(3)\nx = mx.add(x, np.linspace(0, 1, 3))"),
        ("003", "import numpy as np\nx = mx.ones(3)\nk = np.sqrt(2.0)\ny = k * x"),
        ("005", "import numpy as np\nv = np.ones(3)\ny = mx.array([np.float32(1), np.float32(2)])"),
        ("006", "low = -1e9\ny = mx.array(low, dtype=mx.float16)"),
        ("006", "t = mx.float16\ny = mx.full((2,), 1e6, t)"),
    ],
)
def test_through_names(number: str, program: str) -> None:
    (finding,) = findings(program, FAMILY)
    assert finding.code == f"{FAMILY}-{number}"
    assert (finding.line, finding.context) == (FIRST_LINE + program.count("\n"), "script")


def test_columns_point_at_the_constant() -> None:
    (finding,) = findings(function("return h * mx.array(0.5)"), FAMILY)
    assert (finding.column, finding.end_column) == (16, 29)
    (finding,) = findings(function("return i * np.float32(0.5)"), FAMILY)
    assert (finding.column, finding.end_column) == (16, 31)


CONTEXTS = {
    "compiled": "@mx.compile\ndef f(x: mx.array):\n    return BODY",
    "differentiated": "def f(x: mx.array):\n    return mx.array(BODY).sum()\ng = mx.grad(f)",
    "loop": "def f(x: mx.array):\n    for i in range(3):\n        y = BODY",
    "forward": "class A(nn.Module):\n    def __call__(self, x):\n        return BODY",
    "function": "def f(x: mx.array):\n    return BODY",
    "script": "x = mx.ones(3)\ny = BODY",
    "test": "def test_f():\n    x = mx.ones(3)\n    y = BODY",
}


@pytest.mark.parametrize("context", CONTEXTS)
def test_contexts_of_numpy_scalars(context: str) -> None:
    body = "np.float32(0.5) * x"
    program = "import numpy as np\n" + CONTEXTS[context].replace("BODY", body)
    (finding,) = findings(program, FAMILY)
    assert (finding.code, finding.context) == (f"{FAMILY}-003", context)
    assert body in (IMPORTS + program).split("\n")[finding.line - 1]
