"""Fixes of the checks: safe ones compute the same, all of them parse, and they settle."""

from __future__ import annotations

import ast
import math
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embercoach.checks import Project, check_source
from embercoach.fixes.application import apply

if TYPE_CHECKING:
    from embercoach.finding import Finding, Fix

DTYPES = ["float16", "bfloat16", "float32", "int8", "int32", "uint8"]
OPERATORS = ["+", "-", "*", "/", "//", "%", "**"]
COMPARISONS = ["==", "!=", "<", "<=", ">", ">="]
FUNCTIONS = [
    "add",
    "arctan2",
    "bitwise_and",
    "divide",
    "divmod",
    "equal",
    "floor_divide",
    "left_shift",
    "logaddexp",
    "logical_and",
    "logical_or",
    "maximum",
    "multiply",
    "power",
    "remainder",
    "subtract",
]
#: Small, negative, beyond int8, beyond uint8, beyond float16, lost in a half, in every number type.
NUMBERS = [
    "3",
    "-2",
    "200",
    "300",
    "2049",
    "70000",
    "1 << 31",
    "1 << 40",
    "True",
    "0.5",
    "2.0",
    "0.1",
    "-1.5",
    "1e5",
    "1e-8",
    "float('inf')",
    "float('nan')",
    "len('three')",
    "2j",
]


def program(body: str, dtype: str) -> str:
    """A program that leaves its result in ``y``; dtypes are as inference knows them."""
    return f"import mlx.core as mx\nx = mx.array([1, 2, 3]).astype(mx.{dtype})\n{body}\n"


@lru_cache(maxsize=8)  # rounds of safe fixes and of all of them begin and end with the same texts
def lint(source: str) -> tuple[Finding, ...]:
    return check_source(source, Path("program.py"), Project()).findings


def scalars(source: str) -> list[Finding]:
    return [f for f in lint(source) if f.code.startswith("PYTHON-SCALAR")]


def fixes(source: str, *, safe: bool) -> list[Fix]:
    """The fixes of a source: the safe ones, or all."""
    return [f.fix for f in lint(source) if f.fix is not None and (f.fix.safe or not safe)]


def fixed(source: str, *, safe: bool = True) -> str:
    """A source after one round of fixes, which must not overlap and must leave it parsable."""
    text, applied = apply(source, fixes(source, safe=safe))
    edits = sorted((e.start, e.end) for fix in set(applied) for e in fix.edits)
    assert all(left[1] <= right[0] for left, right in pairwise(edits))
    ast.parse(text)
    return text


def settled(source: str, *, safe: bool = True) -> str:
    """A source after as many rounds as fixes take, two or three at most."""
    for _ in range(4):
        text = fixed(source, safe=safe)
        if text == source:
            return text
        source = text
    raise AssertionError(f"the fixes don't settle: {source}")


def outcome(source: str) -> list[Any]:
    """The dtype, shape and elements of ``y`` (an array or a few), or the error's type."""
    names: dict[str, Any] = {}
    try:
        with mx.stream(mx.cpu):
            exec(compile(source, "program.py", "exec"), names)
            y = names["y"]
            parts = y if isinstance(y, (list, tuple)) else [y]
            return [
                (str(p.dtype), p.shape, repr(p.tolist())) if isinstance(p, mx.array) else p
                for p in parts
            ]
    except (ValueError, TypeError, RuntimeError) as error:
        return [type(error)]


def assert_safe(source: str) -> None:
    """The safe fixes of a source keep what it computes, and a second round changes nothing."""
    text = settled(source)
    assert outcome(text) == outcome(source), text
    settled(source, safe=False)


def ends_the_process(expression: str, dtype: str, number: str) -> bool:
    """Whether MLX divides integers by zero, which ends the process on some machines."""
    if "int" not in dtype or not any(
        sign in expression for sign in ("/", "%", "divide", "divmod", "remainder")
    ):
        return False
    value = eval(number)
    if isinstance(value, complex) or not math.isfinite(value):
        return True
    return int(value) % (1 << int(dtype.strip("uint"))) == 0


def cases(expressions: list[str]) -> list[pytest.param]:
    """One case a dtype and expression; ``NUMBER`` stands for each number in turn."""
    return [
        pytest.param(e, d, id=f"{d}-{e}".replace("\n", "; ")) for e in expressions for d in DTYPES
    ]


def assert_safe_with_all_numbers(expression: str, dtype: str) -> None:
    for number in NUMBERS:
        if not ends_the_process(expression, dtype, number):
            assert_safe(program(expression.replace("NUMBER", f"({number})"), dtype))


ARITHMETIC = [f"y = {form}" for o in OPERATORS for form in (f"x {o} NUMBER", f"NUMBER {o} x")]
IN_PLACE = [f"y = x\ny {o}= NUMBER" for o in OPERATORS]
COMPARED = [f"y = {form}" for o in COMPARISONS for form in (f"x {o} NUMBER", f"NUMBER {o} x")]
CALLS = [f"y = mx.{name}({args})" for name in FUNCTIONS for args in ("x, NUMBER", "NUMBER, x")]
MORE_CALLS = [
    "y = mx.where(x > 1, x, NUMBER)",
    "y = mx.where(x > 1, NUMBER, x)",
    "y = mx.where(x > 1, NUMBER, 1)",
    "y = mx.where(x, NUMBER, 1)",
    "y = mx.where(x, x, NUMBER)",
    "y = mx.clip(x, NUMBER, None)",
    "y = mx.clip(x, None, NUMBER)",
    "y = mx.clip(x, 1, NUMBER)",
    "h = mx.array([1, 2, 3]).astype(mx.float16)\ny = mx.clip(x, h, NUMBER)",
    "h = mx.array([1, 2, 3]).astype(mx.float16)\ny = mx.clip(x, NUMBER, h)",
    "h = mx.array([1, 2, 3]).astype(mx.float16)\ny = mx.where(h, x, NUMBER)",
    "h = mx.array([1, 0, 3])\ny = mx.where(h, NUMBER, x)",
    "y = x.__mul__(NUMBER)",
]


@pytest.mark.parametrize(("expression", "dtype"), cases(ARITHMETIC))
@pytest.mark.sampled(11)
def test_arithmetic(expression: str, dtype: str) -> None:
    assert_safe_with_all_numbers(expression, dtype)


@pytest.mark.parametrize(("expression", "dtype"), cases(IN_PLACE))
@pytest.mark.sampled(11)
def test_in_place(expression: str, dtype: str) -> None:
    assert_safe_with_all_numbers(expression, dtype)


@pytest.mark.parametrize(("expression", "dtype"), cases(COMPARED))
@pytest.mark.sampled(11)
def test_comparisons(expression: str, dtype: str) -> None:
    assert_safe_with_all_numbers(expression, dtype)


@pytest.mark.parametrize(("expression", "dtype"), cases(CALLS + MORE_CALLS))
@pytest.mark.sampled(17)
def test_function_arguments(expression: str, dtype: str) -> None:
    assert_safe_with_all_numbers(expression, dtype)


LAYOUTS = {
    "return in brackets": "def f():\n    return(x * 2)\ny = f()",
    "keyword before brackets": "y = 1 if x is None else(x*2)",
    "keyword right after": "y = (x *2)if x.ndim else x",
    "not in brackets": "y = (x[None] if not(x is None)else x)\ny = y + (x*2)",
    "line continued": "y = x * \\\n  2",
    "lines in brackets": "y = (\n    x\n    * 2\n)",
    "nested": "y = 1 - 2 * (3 * x)",
    "nested in a call": "y = mx.maximum(x * 2, 1)",
    "walrus on the left": "y = (n := 2) * x",
    "walrus on the right": "y = x * (n := 2)",
    "brackets around both": "y = (x) * (2)",
    "two on a line": "y = x * 2; y = y if x.ndim else x * 3",
    "f-string": "y = f'{x * 2}' + f\"{(x > 1)!r:>40}\"",
    "f-string that shows its expression": "y = f'{x*2=} {x > 1 = !s:>9}'",
    "comprehension": "y = [x * k for k in (1, 2) if (x > k).any()]",
    "lambda": "y = (lambda n=3: x * 2 + n)()",
    "subscript": "y = (x * 2)[x.shape[0] - 1]",
    "conditional number": "y = x * (1 if len('a') else 2)",
    "annotated": "y: mx.array = x - 1",
    "attribute": "class A: pass\na = A()\na.x = x\ny = a.x * 2",
    "class body": "class A:\n    y = x * 2\ny = A.y",
    "generator argument": "y = list(x * k for k in (1, 2))",
    "starred": "y = list((*x * 2,))",
    "matrix product": "y = x * 2 @ x",
    "non-ASCII before": "s = 'ä€𝄞'; y = x * 2  # ü",
    "form feed": "\x0cy = x * 2",
    "tab": "if x.ndim:\n\ty = x * 2",
    "several aliases": "import mlx.core as other\ny = x * 2",
    "CRLF": "y = (x\r\n  * 2)\r\n",
}


@pytest.mark.parametrize("body", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("dtype", ["float16", "int8"])
def test_layouts(body: str, dtype: str) -> None:
    assert_safe(program(body, dtype))


SHADOWED = {
    "an enclosing function's": (
        "def f():\n    def g():\n        return x * 2\n    mx = 0\n    return g()\ny = f()"
    ),
    "a class's": "class A:\n    mx = 0\n    y = x * 2\ny = A.y",
    "a comprehension's": "y = [x * 2 for mx in (1, 2)]",
    "another module's": "import math\ndef f():\n    mx = math\n    return mx.pi + x * 2\ny = f()",
}


@pytest.mark.parametrize("body", SHADOWED.values(), ids=SHADOWED)
def test_a_name_that_means_something_else_is_no_module(body: str) -> None:
    source = program(body, "float16")
    assert scalars(source)
    assert fixes(source, safe=False) == []
    assert isinstance(outcome(source)[0], (tuple, mx.array))


@pytest.mark.parametrize(
    "body",
    [
        "def mxfp4(mx_bits=4):\n    return x * 2\ny = mxfp4()",
        "y = x * 2  # not mx. but 'mx'",
    ],
)
def test_a_name_that_means_the_module_everywhere(body: str) -> None:
    assert fixes(program(body, "float16"), safe=True)
    assert_safe(program(body, "float16"))


UNSAFE = {
    "a comment would go": "y = (x  # why\n    * 2)",
    "a comment would go, compared": "y = (x >  # why\n    2)",
    "the text is shown, in a call": "y = f'{mx.maximum(x, 2) = }'",
}


@pytest.mark.parametrize("body", UNSAFE.values(), ids=UNSAFE)
def test_unsafe_fixes(body: str) -> None:
    source = program(body, "float16")
    assert fixes(source, safe=True) == []
    assert fixed(source, safe=False) != source


NEVER = {
    "a number by one path only": (
        "002",
        "try:\n    s = unknown()\nexcept NameError:\n    s = 2.0\ny = x * s",
        "float16",
    ),
    "the operands promote": ("003", "h = mx.array([1.0])\ny = mx.clip(x, h, 5)", "int8"),
    "an operand would be computed twice": ("002", "y = abs(x) * 2", "float16"),
    "a chain of comparisons": ("004", "y = (0 < x[:1] < 2)", "float16"),
}


@pytest.mark.parametrize(("number", "body", "dtype"), NEVER.values(), ids=NEVER)
def test_no_fix_where_it_may_compute_something_else(number: str, body: str, dtype: str) -> None:
    found = [f for f in scalars(program(body, dtype)) if f.code == f"PYTHON-SCALAR-{number}"]
    assert found
    assert all(f.fix is None for f in found)


LEAVES = st.sampled_from(["x", "h", "i", "u", "2", "0.5", "-3", "1e5", "n", "f", "7"])


def _joined(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    operators = st.sampled_from(["+", "-", "*", "<", ">=", "==", "**"])
    functions = st.sampled_from(["maximum", "add", "minimum", "logaddexp", "greater"])
    return st.one_of(
        st.tuples(children, operators, children).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(functions, children, children).map(lambda t: f"mx.{t[0]}({t[1]}, {t[2]})"),
        st.tuples(children, children).map(lambda t: f"mx.where(x > 1, {t[0]}, {t[1]})"),
        children.map(lambda c: f"(-{c})"),
    )


EXPRESSIONS = st.recursive(LEAVES, _joined, max_leaves=6)
NAMES = (
    "import mlx.core as mx\n"
    "x = mx.array([1, 2, 3]).astype(mx.float32)\n"
    "h = mx.array([1, 2, 3]).astype(mx.float16)\n"
    "i = mx.array([1, 2, 3])\n"
    "u = mx.array([1, 2, 3]).astype(mx.uint8)\n"
    "n = len('abc')\n"
    "f = float('0.25')\n"
)


@given(EXPRESSIONS)
def test_fixing_random_expressions(expression: str) -> None:
    """All fixes leave a source that parses, and nothing of what they were offered for."""
    source = f"{NAMES}y = {expression}\n"
    before = scalars(source)
    text = settled(source, safe=False)
    after = scalars(text)
    assert not any(f.fix for f in after)
    offered = sum(f.fix is not None for f in before)
    assert len(after) <= len(before) - offered


@given(EXPRESSIONS)
def test_safe_fixes_of_random_expressions_compute_the_same(expression: str) -> None:
    source = f"{NAMES}y = {expression}\n"
    before = named_outcome(source)
    assert named_outcome(settled(source)) == before


def named_outcome(source: str) -> list[Any]:
    """As :func:`outcome`; expressions of numbers alone may overflow."""
    try:
        return outcome(source)
    except (ArithmeticError, MemoryError) as error:
        return [type(error)]
