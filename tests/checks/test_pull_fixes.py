"""Fixes of pulls in loops: the same values, and fewer pulls."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Any

import mlx.core as mx
import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import effect
from tests.checks.test_unsafe_fixes import HEADER, fixed, result

ROWS = mx.array([[1, 2, 0], [3, 4, 7]])
X = mx.array([0.5, -2.0, 3.0])

#: The body of ``f``, the lines that the fix adds, and the arguments.
CASES: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "rows of enumerate": (
        """
        def f(x: mx.array):
            return [[v for v in row.tolist() if v > i] for i, row in enumerate(x)]
        """,
        "enumerate(x.tolist())",
        (ROWS,),
    ),
    "rows of a loop": (
        """
        def f(x: mx.array):
            found = []
            for row in x:
                a, b, c = row.tolist()
                found.append(a * b + c)
            return found
        """,
        "for row in x.tolist():",
        (ROWS,),
    ),
}


def pulls_in_loops(source: str) -> list[str]:
    findings = check_source(source, Path("program.py"), Project()).findings
    pulls = [f for f in findings if f.code.startswith(("GRAPH-BREAK", "HOST-PULL"))]
    return [f.code for f in pulls if effect(f) == "iteration"]


def equal(found: Any, expected: Any) -> bool:
    """Return whether two results are equal, floats but for their last digits."""
    if isinstance(expected, (list, tuple)):
        return len(found) == len(expected) and all(map(equal, found, expected))
    return (
        bool(found == pytest.approx(expected)) if isinstance(expected, float) else found == expected
    )


@pytest.mark.parametrize(("body", "line", "arguments"), CASES.values(), ids=CASES)
def test_fix_computes_the_same(body: str, line: str, arguments: tuple[Any, ...]) -> None:
    before = dedent(body)
    after = fixed(before)
    assert line in after
    assert pulls_in_loops(HEADER + after) == []
    assert equal(result(after, *arguments), result(before, *arguments))


RESULTS = {
    "log of softmax": ("mx.log(mx.softmax(x, axis=-1))", "(x - mx.logsumexp(x, axis=-1"),
    "log of 1 + exp": ("mx.log(1 + mx.exp(x * 3))", "mx.logaddexp(x * 3, 0)"),
    "a dtype by its name": (
        "x + mx.zeros((3,), dtype='float32')",
        "mx.zeros((3,), dtype=mx.float32)",
    ),
    "a dtype of NumPy": ("x.astype(np.float32)", "x.astype(mx.float32)"),
    "a shape in parts": ("x + mx.zeros(2, 3, dtype=x.dtype)", "mx.zeros((2, 3), dtype=x.dtype)"),
}


@pytest.mark.parametrize(("before", "after"), RESULTS.values(), ids=RESULTS)
def test_fix_of_an_expression(before: str, after: str) -> None:
    program = fixed(f"def f(x: mx.array):\n    return {before}\n")
    assert after in program
    found = result(program, X)
    assert found[0] == "mlx.core.float32"
    if "log" in before:
        computed = result(f"def f(x):\n    return {before}\n", X)
        assert found[1] == pytest.approx(computed[1], rel=1e-4)


def test_elements_in_text() -> None:
    body = "def f(x: mx.array):\n    return [f'<{v}>' for v in x]\n"
    assert result(fixed(body), ROWS[0]) == ["<1>", "<2>", "<0>"]
