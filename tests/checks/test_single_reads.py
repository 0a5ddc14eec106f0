"""Pulls that run once in a call of a function: a warning where there is a remedy, else a note."""

from __future__ import annotations

import pytest

from tests.checks.findings import findings

PULLS = ("GRAPH-BREAK-001", "GRAPH-BREAK-002", "HOST-PULL-001", "HOST-PULL-002")
#: Bodies of a method that takes two arrays, and the context and help of the first pull.
BODIES = {
    "through functions that MLX has": (
        "a = np.array(x)\nreturn mx.array(np.concatenate([a, np.flip(a)]))",
        ("function", "Keep the computation in mx, or convert once at the end"),
    ),
    "through masked arrays": (
        "a = np.array(x)\nreturn mx.array(np.ma.array(a, mask=a < 0).filled(0))",
        ("function", "Keep the computation in mx, or convert once at the end"),
    ),
    "through a function that only NumPy has": (
        "a = np.unique(np.array(x))\nreturn mx.array(a)",
        None,
    ),
    "to indices": ("a = np.where(np.array(x))[0]\nreturn mx.array(a)", None),
    "an attribute": ("self.mean = float(mx.mean(x))\nreturn mx.full((3,), self.mean)", None),
    "a decision": ("t = float(x.max())\nif t > 1: return y * t\nreturn y", None),
    "accepted tokens": (
        (
            "a, b = x.tolist(), y.tolist()\nn = 0\nfor s, t in zip(a, b):\n    if s == t: n += 1\n"
            "return mx.array(a[:n])"
        ),
        None,
    ),
    "a list at hand": (
        (
            "starts = [i * 2 for i in range(n)]\na = mx.array(starts)\n"
            "low = int(mx.min(a).item())\n"
            "return mx.pad(x, [(max(0, -low), 0)])"
        ),
        (
            "function",
            "Compute it from the list that the array is made of: that needs no evaluation",
        ),
    ),
    "a list at hand, returned": (
        "a = mx.array([i * 2 for i in range(n)])\nreturn a.max().item()",
        (
            "function",
            "Compute it from the list that the array is made of: that needs no evaluation",
        ),
    ),
    "a second copy": (
        "a = np.array(y)\nb = np.array(y)\nreturn mx.array(np.concatenate([a, b]))",
        ("function", "Keep the computation in mx, or convert once at the end"),
    ),
    "what may be a list": (
        "if isinstance(y, mx.array):\n    y = y.tolist()\nreturn mx.array(y + [n])",
        None,
    ),
    "what may be a number": ("t = x.item() if isinstance(x, mx.array) else x\nreturn y * t", None),
}


@pytest.mark.parametrize(("body", "expected"), BODIES.values(), ids=BODIES)
def test_a_pull_in_a_function(body: str, expected: tuple[str, str] | None) -> None:
    lines = "\n".join(f"        {line}" for line in body.splitlines())
    program = f"""
import numpy as np
import scipy

class Model:
    def run(self, x: mx.array, y: mx.array, n: int):
{lines}
"""
    first = findings(program, PULLS)[0]
    if expected is None:
        assert first.context == "sink"
    else:
        assert (first.context, first.help) == expected


def test_a_second_copy_of_an_evaluated_array() -> None:
    program = """
import numpy as np

def f(x: mx.array, y: mx.array):
    a = np.array(x)
    b = np.array(x)
    c = y.tolist()
    d = y.tolist()
    return a, b, c, d
"""
    found = findings(program, ("HOST-PULL-001", "HOST-PULL-002"))
    assert [f.context for f in found] == ["sink", "function", "sink", "evaluated"]
    assert {f.message.partition("` ")[2] for f in found[1::2]} == {
        "copies an array that has been read before"
    }


#: Statements of a loop, and the context of the first pull in them.
REPORTS = {
    "an entry by a name": ("report[f'grad_{i}'] = float(mx.max(x * i))", "sink"),
    "an entry of a dictionary": ("table[i] = float(mx.max(x * i))", "sink"),
    "an item": ("rows[i] = float(mx.max(x * i))", "loop"),
    "a check": ("if float(mx.max(x * i)) > 3:\n            raise ValueError", "sink"),
    "an assertion": ("assert (x * i).max().item() < 3", "sink"),
    "entries in a comprehension": ("print({k: (v * i).item() for k, v in report.items()})", "sink"),
    "items in a comprehension": ("print([(v * i).item() for v in rows])", "loop"),
    "a convergence": ("if float(mx.max(x * i)) < 3: break", "loop"),
}


@pytest.mark.parametrize(("statement", "context"), REPORTS.values(), ids=REPORTS)
def test_a_report_in_a_loop(statement: str, context: str) -> None:
    program = f"""
def f(xs, report: dict[str, mx.array], rows: list[mx.array]):
    table = {{}}
    for i in range(9):
        x = xs[i] * 2
        {statement}
    return table
"""
    assert findings(program, PULLS)[0].context == context
