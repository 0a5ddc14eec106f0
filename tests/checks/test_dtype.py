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
    ("006", "h - 1e9"),
    ("006", "-1e9 * h"),
    ("006", "h / 1e6"),
    ("006", "h.astype(mx.bfloat16) - 3.4e38"),
    ("006", "mx.where(y, h, -1e9)"),
    ("006", "mx.where(y, -1e9, h)"),
    ("006", "mx.add(h, -1e9)"),
    ("006", "mx.full_like(h, -1e9)"),
    ("006", "mx.where(y, 0.0, -1e9).astype(h.dtype)"),
    ("006", "mx.full((3,), -1e9).astype(mx.float16)"),
    ("007", "mx.arange(300, dtype=mx.bfloat16)"),
    ("007", "mx.arange(x.shape[0], dtype=mx.float16)"),
    ("007", "mx.arange(x.shape[0]).astype(mx.bfloat16)"),
    ("007", "mx.arange(0, 3000, dtype=h.dtype)"),
    ("007", "mx.cumsum(h, axis=0)"),
    ("007", "h.cumsum()"),
    ("008", "mx.put_along_axis(i.astype(mx.int64), y, i, axis=0)"),
    ("009", "x.astype(mx.float64)"),
    ("009", "mx.zeros((3,), dtype=mx.float64)"),
    ("010", "x.astype(mx.uint8) - 128"),
    ("010", "x.astype(mx.uint8) - i.astype(mx.uint8)"),
    ("010", "mx.argmax(x, axis=-1) - 1"),
    ("010", "mx.argsort(x) - mx.argsort(s)"),
    ("010", "mx.maximum(mx.argmax(x) - 1, 0)"),
    ("010", "mx.clip(mx.argmax(x) - 1, 0, 8)"),
    ("010", "(mx.argmin(x) - 1).astype(mx.int32)"),
    ("011", "mx.log(mx.softmax(x, axis=-1))"),
    ("011", "nn.softmax(x).log()"),
    ("011", "mx.log(mx.sigmoid(x))"),
    ("011", "mx.log(1 - mx.sigmoid(x))"),
    ("011", "-mx.log(1 + mx.exp(-x))"),
    ("011", "(x.exp() + 1).log()"),
    ("011", "mx.log(mx.sum(mx.exp(x), axis=-1))"),
    ("011", "mx.exp(x) / mx.exp(x).sum(axis=-1)"),
    ("012", "mx.log(1 + x)"),
    ("012", "mx.log(x + 1.0)"),
    ("012", "mx.exp(x) - 1"),
    ("013", "mx.fast.scaled_dot_product_attention(h, h, h, scale=1.0, mask=s)"),
    ("013", "mx.fast.scaled_dot_product_attention(h, h, h, scale=1.0, mask=mx.zeros((3, 3)))"),
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
    "h - 1e4",
    "h.astype(mx.bfloat16) - 1e9",
    "s - 1e9",
    "x - 1e9",
    "mx.where(y, s, -1e9)",
    "mx.where(y, x, -1e9)",
    "mx.clip(h, -1e9, 1e9)",
    "mx.maximum(h, -1e9)",
    "mx.where(y, 0.0, -1e9)",
    "mx.where(y, 0.0, -1e4).astype(h.dtype)",
    "mx.arange(256, dtype=mx.bfloat16)",
    "mx.arange(0, x.shape[0], 2, dtype=mx.float16)",
    "mx.arange(x.shape[0], dtype=mx.float32)",
    "mx.arange(x.shape[0], dtype=x.dtype)",
    "mx.cumsum(s)",
    "mx.cumsum(x)",
    "mx.sum(h)",
    "mx.put_along_axis(i, y, i, axis=0)",
    "mx.zeros((3,), dtype=mx.float64, stream=y)",
    "x.astype(mx.uint8) + 2",
    "x.astype(mx.uint8).astype(mx.int32) - 128",
    "x.astype(mx.uint8) - i",
    "255 - x.astype(mx.uint8)",
    "mx.where(y, mx.argmax(x) - 1, 0)",
    "mx.maximum(x.astype(mx.uint8), 1) - 1",
    "mx.clip(mx.argmax(x), 1, 8) - 1",
    "mx.minimum(mx.argmax(x) - mx.argmin(x), mx.argmin(x) - mx.argmax(x))",
    "x.shape[0] - mx.argmax(x) - 1",
    "x - 1",
    "i - 1",
    "mx.log(x)",
    "mx.log(mx.softmax(x) + 1e-9)",
    "mx.log(mx.exp(x - x.max()).sum())",
    "mx.exp(x - x.max()) / mx.exp(x - x.max()).sum()",
    "mx.log(2 + x)",
    "mx.log(mx.sum(x))",
    "mx.exp(x) - 2",
    "mx.logsumexp(x)",
    "mx.fast.scaled_dot_product_attention(h, h, h, scale=1.0, mask=h)",
    "mx.fast.scaled_dot_product_attention(h, h, h, scale=1.0, mask=y)",
    "mx.fast.scaled_dot_product_attention(s, s, s, scale=1.0, mask=s)",
    "mx.fast.scaled_dot_product_attention(h, h, h, scale=1.0, mask='causal')",
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


STATEMENTS = [
    (["006"], "h[y] = -1e9"),
    ([], "h[y] = -1e4"),
    ([], "s[y] = -1e9"),
    (["007"], "t = mx.array(0.0, dtype=mx.bfloat16)\nfor v in y:\n    t += v.astype(mx.bfloat16)"),
    (["007"], "t = mx.array(0, dtype=mx.float16)\nfor _ in range(y):\n    t = t + 1"),
    ([], "t = mx.array(0.0)\nfor v in y:\n    t += v.astype(mx.bfloat16)"),
    ([], "t = mx.array(0, dtype=mx.float16)\nt = t + 1"),
    ([], "for v in y:\n    h = h + v.astype(mx.float16)"),
    (["008"], "t = mx.array(np.arange(9))\nt[i] = 1"),
    (["008"], "t = mx.array(np.array([1, 2]))\nt[i] += 1"),
    ([], "t = mx.array(np.arange(9), dtype=mx.int32)\nt[i] = 1"),
    ([], "t = mx.array(np.arange(9))\nt[0] = 1"),
    ([], "t = mx.array(np.random.permutation(9))\nreturn x[t]"),
    (["011"], "p = mx.softmax(x)\nq = mx.log(p)\nreturn p, q"),
    (["011"], "e = mx.exp(x)\nreturn e / e.sum()"),
    ([], "x = x - x.max()\ne = mx.exp(x)\nreturn e / e.sum()"),
]


@pytest.mark.parametrize(("expected", "body"), STATEMENTS)
def test_statements(expected: list[str], body: str) -> None:
    assert codes(function(body), FAMILY) == [f"{FAMILY}-{number}" for number in expected]


@pytest.mark.parametrize(
    "call", ["run()", "run(mx.float16)", "run(dtype=mx.float16)", "run(dtype=mx.zeros(1, T).dtype)"]
)
def test_dtypes_flow_through_defaults_calls_and_attributes(call: str) -> None:
    program = """
T = mx.float16

class Mask:
    def __init__(self):
        self.dtype = mx.float16

    def make(self, n):
        return mx.full((n, n), -1e9, dtype=self.dtype)

def run(dtype=mx.float16):
    x = mx.zeros((2, 2), dtype=dtype)
    return blocked(x) + Mask().make(2)

def blocked(scores):
    return mx.where(scores > 0, scores, -1e9)

result = CALL
"""
    assert codes(program.replace("CALL", call), FAMILY) == [f"{FAMILY}-006"] * 2


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


USAGE = """
class Usage:
    def __init__(self, n):
        self.hits = mx.zeros((n,), dtype=mx.DTYPE)

    def record(self, hit):
        LINE
"""


@pytest.mark.parametrize(
    ("dtype", "line", "count"),
    [
        ("float16", "self.hits += 1", 1),
        ("bfloat16", "self.hits = self.hits + (hit > mx.ones(1))", 1),
        ("float32", "self.hits += 1", 0),
        ("float16", "self.hits = self.hits + mx.ones(1)", 0),
        ("float16", "other = self.hits + 1", 0),
    ],
)
def test_half_precision_attributes_that_add_up(dtype: str, line: str, count: int) -> None:
    program = USAGE.replace("DTYPE", dtype).replace("LINE", line)
    assert codes(program, "DTYPE-007") == ["DTYPE-007"] * count


def test_a_scalar_attribute_in_half_precision_that_adds_up() -> None:
    start = USAGE.replace("mx.zeros((n,), dtype=mx.DTYPE)", "mx.array(0.0, dtype=mx.bfloat16)")
    assert codes(start.replace("LINE", "self.hits += 1"), "DTYPE-007") == ["DTYPE-007"]


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("np.zeros(3, dtype=np.int64)", 1),
        ("np.ones(3).astype(np.int64)", 1),
        ("np.ones(3).astype(int)", 1),
        ("np.ones(3).astype(np.int32)", 0),
        ("np.ones(3)", 0),
    ],
)
def test_int64_arrays_of_numpy_that_are_written_through_indices(made: str, count: int) -> None:
    program = f"import numpy as np\na = mx.array({made})\na[mx.array([0, 1])] = 1"
    assert codes(program, "DTYPE-008") == ["DTYPE-008"] * count


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("return mx.mean(x * x) - mx.mean(x) ** 2", 1),
        ("m = x.mean(-1)\nreturn mx.mean(mx.square(x), -1) - m * m", 1),
        ("s = mx.mean(mx.power(x, 2))\nm = mx.mean(x)\nv = s - mx.square(m)\nreturn v", 1),
        ("return mx.sum(x**2) / n - (mx.sum(x) / n) ** 2", 1),
        ("return mx.sqrt((x * x).mean() - mx.multiply(x.mean(), x.mean()))", 1),
        ("return mx.mean(x * x) - mx.mean(y) ** 2", 0),
        ("return mx.mean(x * y) - mx.mean(x) ** 2", 0),
        ("return mx.mean(x**3) - mx.mean(x) ** 2", 0),
        ("return mx.mean(x * x) - mx.mean(x)", 0),
        ("return mx.mean(x * x) + mx.mean(x) ** 2", 0),
        ("return mx.mean((x - mx.mean(x)) ** 2)", 0),
    ],
)
def test_variances_by_difference(body: str, count: int) -> None:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    program = f"def f(x: mx.array, y: mx.array, n: int):\n{lines}"
    assert codes(program, "DTYPE-014") == ["DTYPE-014"] * count
