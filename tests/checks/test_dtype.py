"""DTYPE: constants and NumPy values that change a dtype, and those that keep it."""

from __future__ import annotations

from functools import partial

import pytest

from tests.checks.findings import IMPORTS, codes, findings, in_function

FIRST_LINE = IMPORTS.count("\n") + 1
FAMILY = "DTYPE"
#: A function of a half ``h``, a single ``s``, integers ``i`` and an array ``x``.
function = partial(
    in_function,
    "import numpy as np\ndef work(h, s, i, x: mx.array, y):\n"
    "    h = mx.zeros(3).astype(mx.float16)\n    s = mx.zeros(3).astype(mx.float32)\n"
    "    i = mx.zeros(3).astype(mx.int32)\n",
)
BODY_LINE = FIRST_LINE + 5

ONE_FINDING = [
    ("001", "h * mx.array(0.5)"),
    ("001", "mx.array(0.5) + h"),
    ("001", "h.astype(mx.bfloat16) - mx.array(1.0)"),
    ("001", "h * mx.array(0.5, mx.float32)"),
    ("001", "h + mx.zeros((3,))"),
    ("001", "h @ mx.eye(3)"),
    ("001", "mx.maximum(mx.array(0.0), h)"),
    ("001", "mx.concatenate([h, mx.zeros(3)])"),
    ("002", "i + np.array([0.5, 1.5])"),
    ("002", "i * np.linspace(0, 1, 3)"),
    ("002", "mx.add(i, np.array([0.5]))"),
    ("002", "mx.maximum(np.float32(0.5), i)"),
    ("002", "i.astype(mx.uint8) - np.float16(0.5)"),
    ("003", "np.float32(0.5) * x"),
    ("003", "np.sqrt(2.0) * x"),
    ("003", "np.float64(2) - h"),
    ("003", "np.int64(2) + i"),
    ("005", "mx.array([np.int64(1), np.int64(2)])"),
    ("005", "mx.array([np.float32(v) for v in range(3)])"),
    ("006", "mx.array(1e5, mx.float16)"),
    ("006", "mx.where(y, 0.0, -1e9).astype(h.dtype)"),
    ("007", "mx.arange(300, dtype=mx.bfloat16)"),
    ("007", "mx.arange(x.shape[0]).astype(mx.bfloat16)"),
    ("007", "mx.cumsum(h, axis=0)"),
    ("007", "h.cumsum()"),
    ("008", "mx.put_along_axis(i.astype(mx.int64), y, i, axis=0)"),
    ("009", "x.astype(mx.float64)"),
    ("009", "mx.zeros((3,), dtype=mx.float64)"),
    ("010", "mx.maximum(mx.argmax(x) - 1, 0)"),
    ("010", "mx.clip(mx.argmax(x) - 1, 0, 8)"),
    ("011", "mx.log(mx.softmax(x, axis=-1))"),
    ("011", "mx.log(mx.sigmoid(x))"),
    ("011", "mx.log(1 - mx.sigmoid(x))"),
    ("011", "-mx.log(1 + mx.exp(-x))"),
    ("011", "(x.exp() + 1).log()"),
    ("011", "mx.log(mx.sum(mx.exp(x), axis=-1))"),
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
    assert finding.line == BODY_LINE


SILENT = [
    "i * np.array([1, 2])",
    "i * np.float64(0.5)",
    "np.float32(0.5) * y",
    "np.float32(0.5) * np.ones(3)",
    "mx.array([np.float64(1)])",
    "mx.array(1e5, dtype=h.dtype if y else y)",
    "mx.arange(256, dtype=mx.bfloat16)",
    "mx.sum(h)",
    "mx.put_along_axis(i, y, i, axis=0)",
    "x.astype(mx.uint8) - i",
    "mx.where(y, mx.argmax(x) - 1, 0)",
    "x.shape[0] - mx.argmax(x) - 1",
    "mx.log(mx.exp(x - x.max()).sum())",
    "mx.log(mx.sum(x))",
    "mx.fast.scaled_dot_product_attention(s, s, s, scale=1.0, mask=s)",
    "mx.fast.scaled_dot_product_attention(h, h, h, scale=1.0, mask='causal')",
]


@pytest.mark.parametrize("expression", SILENT)
def test_what_keeps_the_dtype(expression: str) -> None:
    assert codes(function(f"return {expression}"), FAMILY) == []


STATEMENTS = [
    (["007"], "t = mx.array(0.0, dtype=mx.bfloat16)\nfor v in y:\n    t += v.astype(mx.bfloat16)"),
    (["007"], "t = mx.array(0, dtype=mx.float16)\nfor _ in range(y):\n    t = t + 1"),
    ([], "t = mx.array(0.0)\nfor v in y:\n    t += v.astype(mx.bfloat16)"),
    ([], "for v in y:\n    h = h + v.astype(mx.float16)"),
    (["008"], "t = mx.array(np.array([1, 2]))\nt[i] += 1"),
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
        ("float32", "self.hits += 1", 0),
        ("float16", "self.hits = self.hits + mx.ones(1)", 0),
        ("float16", "other = self.hits + 1", 0),
    ],
)
def test_half_precision_attributes_that_add_up(dtype: str, line: str, count: int) -> None:
    program = USAGE.replace("DTYPE", dtype).replace("LINE", line)
    assert codes(program, "DTYPE-007") == ["DTYPE-007"] * count


@pytest.mark.parametrize(
    ("made", "count"),
    [
        ("np.ones(3).astype(np.int64)", 1),
        ("np.ones(3).astype(int)", 1),
    ],
)
def test_int64_arrays_of_numpy_that_are_written_through_indices(made: str, count: int) -> None:
    program = f"import numpy as np\na = mx.array({made})\na[mx.array([0, 1])] = 1"
    assert codes(program, "DTYPE-008") == ["DTYPE-008"] * count


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("s = mx.mean(mx.power(x, 2))\nm = mx.mean(x)\nv = s - mx.square(m)\nreturn v", 1),
        ("return mx.sum(x**2) / n - (mx.sum(x) / n) ** 2", 1),
        ("return mx.sqrt((x * x).mean() - mx.multiply(x.mean(), x.mean()))", 1),
        ("return mx.mean(x * x) - mx.mean(y) ** 2", 0),
    ],
)
def test_variances_by_difference(body: str, count: int) -> None:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    program = f"def f(x: mx.array, y: mx.array, n: int):\n{lines}"
    assert codes(program, "DTYPE-014") == ["DTYPE-014"] * count
