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
MASK = mx.array([[True, False, True], [False, False, False]])
X = mx.array([0.5, -2.0, 3.0])
WEIGHT = mx.arange(24, dtype=mx.float32).reshape(2, 3, 4)

#: The body of ``f``, the lines that the fix adds, and the arguments.
CASES: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "rows of enumerate": (
        """
        def f(x: mx.array):
            return [[v for v in row.tolist() if v > i] for i, row in enumerate(x)]
        """,
        "x_values = x.tolist()",
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
    "a counter": (
        """
        def f(x: mx.array, kinds: list):
            index, other = 0, 0
            found = []
            for kind in kinds:
                if kind:
                    found.append(x[index][1].item())
                    index += 1
            return found
        """,
        "x_values = x.tolist()",
        (ROWS, [True, False, True]),
    ),
    "an array or None": (
        """
        def f(x: mx.array, n: int):
            y = x if n else None
            return [0 if y is None else y[i, 0].item() for i in range(2)]
        """,
        "y_values = None if y is None else y.tolist()",
        (ROWS, 1),
    ),
    "a parameter that is None by default": (
        """
        def f(x: mx.array, other: mx.array = None, kinds: list = ()):
            index, found = 0, []
            for kind in kinds:
                if kind:
                    found.append(x[index].tolist())
                else:
                    found.append(other[index].tolist())
                index += 1
            return found
        """,
        "other_values = None if other is None else other.tolist()",
        (ROWS, None, [True, True]),
    ),
    "a parameter that cannot be None there": (
        """
        def f(x: mx.array = None, n: int = 2):
            if x is None:
                return None
            return [x[i].tolist() for i in range(n)]
        """,
        "x_values = x.tolist()",
        (ROWS, 2),
    ),
    "an array behind a condition": (
        """
        def f(x: mx.array, n: int):
            y = x if n else None
            found = []
            if n and y is not None:
                for i in range(n):
                    found.append(y[i].tolist())
            return found
        """,
        "        y_values = y.tolist()",
        (ROWS, 2),
    ),
    "sums of rows": (
        """
        def f(x: mx.array, mask: mx.array):
            found, start = [], 0
            chosen = x > 1
            for i in range(2):
                row = chosen[i]
                count = mx.sum(row).item()
                found.append((count, start))
                start += count
            return found
        """,
        "chosen_sum = mx.sum(chosen.flatten(1), axis=1).tolist()",
        (ROWS, MASK),
    ),
    "the largest of each row": (
        """
        def f(x: mx.array):
            found = []
            for i, row in enumerate(x):
                found.append(i + int(row.max()))
            return found
        """,
        "x_max = mx.max(x.flatten(1), axis=1).tolist()",
        (ROWS,),
    ),
    "a test of each row": (
        """
        def f(mask: mx.array):
            found = []
            for i in range(2):
                if mx.any(mask[i]):
                    found.append(int(mask[i].astype(mx.int32).sum().item()))
            return found
        """,
        "mask_any = mx.any(mask.flatten(1), axis=1).tolist()",
        (MASK,),
    ),
    "a way through NumPy": (
        """
        def f(weights: dict[str, mx.array]):
            return [mx.array(np.array(v + 1).transpose(0, 2, 1)) for v in weights.values()]
        """,
        "(v + 1).transpose(0, 2, 1)",
        ({"a": WEIGHT},),
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
    "a mean that raises": ("np.mean(x, axis=0)", "mx.mean(x, axis=0)"),
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
