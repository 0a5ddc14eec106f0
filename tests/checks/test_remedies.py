"""Reads that recur are warnings where a plain change saves them, and its name is the help."""

from __future__ import annotations

from pathlib import Path

import pytest

from embercoach.checks import Project, check_source
from embercoach.checks.arrays.pull_reports import PullRemedy
from tests.checks.findings import findings

PULLS = ("GRAPH-BREAK-00", "HOST-PULL-001", "HOST-PULL-002", "HOST-PULL-008")
PROGRAM = """
import numpy as np

def run(model, x: mx.array, y: mx.array, xs: list[mx.array], ws: dict[str, mx.array], n, opt):
    out, total = [], 0.0
{}
    return out, total
"""
#: Bodies of a function, and the remedy of the last read in them; None for a note.
LOOPS = {
    "an operand again": ("for a in xs:\n    out.append(y * a.max().item())", PullRemedy.PASS_ON),
    "a size": ("for a in xs:\n    out.append(mx.zeros((a.max().item(),)))", None),
    "a slice bound": ("for a in xs:\n    out.append(y[: a.max().item()])", None),
    "an operand of a builtin": ("for a in xs:\n    out.append(y * max(1, int(a.max())))", None),
    "an operand, and printed": ("for a in xs:\n    v = a.max().item()\n    print(y * v, v)", None),
    "through NumPy": (
        "for a in xs:\n    out.append(y + mx.array(np.flip(np.array(a))))",
        PullRemedy.COMPUTE,
    ),
    "by a function that only NumPy has": (
        "for a in xs:\n    out.append(mx.array(np.unique(np.array(a))))",
        None,
    ),
    "the same array": ("for i in range(n):\n    out.append(i + y.sum().item())", PullRemedy.HOIST),
    "an array that the loop changes": (
        "for i in range(n):\n    y = y * 2\n    out.append((i, y.sum().item()))",
        None,
    ),
    "of random numbers": (
        "for i in range(n):\n    out.append((i, mx.random.permutation(y).max().item()))",
        None,
    ),
    "of a list that grows": (
        "for i in range(n):\n    xs.append(y)\n    out.append((i, mx.stack(xs).sum().item()))",
        None,
    ),
    "a part that grows": (
        "for _ in xs:\n    out.append([y[:i].sum().item() for i in range(n)])",
        None,
    ),
    "a row": (
        "for _ in xs:\n    out.append([y[i].sum().item() for i in range(n)])",
        PullRemedy.ELEMENTS,
    ),
    "items that the loop assigns": (
        "for i in range(n):\n    y[0] = i\n    out.append((i, y.sum().item()))",
        None,
    ),
    "a cast": (
        "for i in range(n):\n    out.append((i, y.astype(mx.int32).sum().item()))",
        PullRemedy.HOIST,
    ),
    "an element": ("for i in range(n):\n    out.append((i, y[i].item()))", PullRemedy.ELEMENTS),
    "an element of a list": (
        "for i in range(n):\n    out.append((i, xs[i].item()))",
        None,
    ),
    "an entry of a dictionary": (
        "for k in ws:\n    np.testing.assert_equal(np.array(ws[k]), k)",
        None,
    ),
    "an element, in an iteration that computes": (
        "for a in y:\n    out.append(mx.tanh(x) * a.item())",
        None,
    ),
    "an element, in an iteration that calls a model": (
        "for i in range(n):\n    out.append(opt(x, y[i].item()))",
        None,
    ),
    "an element, for a function of the host": (
        "for i in range(n):\n    out.append(opt(y[i].item()))",
        PullRemedy.ELEMENTS,
    ),
    "read before": (
        "for a in xs:\n    out.append(a.item())\n    out.append(y * a.item())",
        None,
    ),
    "each row": ("for row in y:\n    out.append(np.array(row).tolist())", PullRemedy.ELEMENTS),
    "few iterations": ("for i in range(4):\n    out.append((i, y[i].item()))", None),
    "a return follows": ("for i in range(n):\n    return y[i].item() + i", None),
    "in some iterations": (
        "for i in range(n):\n    if i % 8 == 0:\n        out.append(y[i].item())",
        None,
    ),
    "collected": ("for a in xs:\n    out.append(mx.abs(a).max().item())", None),
    "the same array, as it is": ("for i in range(n):\n    out.append(i + y.item())", None),
    "summed": ("for a in xs:\n    total += float((a * a).sum())", None),
    "summed, of a model": ("for a in xs:\n    total += mx.mean(model(a)).item()", None),
    "summed, of entries": (
        "for k in ws:\n    d = ws[k] - y\n    total += float(mx.sum(d * d))",
        None,
    ),
    "shown": ("for a in xs:\n    print(f'{a.sum().item():.2f}')", None),
    "collected, of a model": ("for a in xs:\n    out.append(mx.mean(model(a)).item())", None),
    "collected, after an evaluation": (
        "for a in xs:\n    b = mx.abs(a).max()\n    mx.eval(b)\n    out.append(b.item())",
        None,
    ),
    "collected, of a step": (
        "for a in xs:\n    opt.update(model, ws)\n    out.append(a.sum().item())",
        None,
    ),
    "the size of a copy": ("for a in xs:\n    print(np.array(a).size)", PullRemedy.METADATA),
    "copied twice": (
        "for a in xs:\n    model.use(np.array(a))\n    model.use(np.array(a))",
        PullRemedy.FIRST_COPY,
    ),
    "a result of other data each time": (
        "for a in xs:\n    model.text(mx.mean(model(a)).item())",
        None,
    ),
    "once in a call": ("out.append(y * x.max().item())", None),
}


@pytest.mark.parametrize(("body", "remedy"), LOOPS.values(), ids=LOOPS)
def test_a_read_in_a_loop(body: str, remedy: PullRemedy | None) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    found = findings(PROGRAM.format(lines), PULLS)[-1]
    assert found.context == ("avoidable" if remedy else "minor")
    assert remedy is None or found.help == remedy.value


@pytest.mark.parametrize(
    ("call", "context"),
    [("out.append(f(a))", "avoidable"), ("if a.size > 9: out.append(f(a))", "minor")],
)
def test_a_function_that_a_loop_calls_for_some_items(call: str, context: str) -> None:
    program = f"""
def f(a: mx.array):
    return a * a.max().item()

def run(xs: list[mx.array]):
    out = []
    for a in xs:
        {call}
"""
    (found,) = findings(program, PULLS)
    assert found.context == context


FORWARD = {
    "a check": ("if mx.any(mx.isnan(x)):\n            raise ValueError", PullRemedy.MOVE_CHECK),
    "an assertion": ("assert mx.all(x > 0)", PullRemedy.MOVE_CHECK),
    "a branch": ("if mx.any(x > 0):\n            x = self.layer(x)", None),
    "an operand": ("x = x / x.max().item()", PullRemedy.PASS_ON),
    "rows of a file": ("x = x @ self.store.load(x.tolist())", None),
}


@pytest.mark.parametrize(("body", "remedy"), FORWARD.values(), ids=FORWARD)
def test_a_read_in_a_forward_pass(body: str, remedy: PullRemedy | None) -> None:
    program = f"class A(nn.Module):\n    def __call__(self, x):\n        {body}\n        return x\n"
    found = findings(program, PULLS)[-1]
    assert found.context == ("avoidable" if remedy else "minor")
    assert remedy is None or found.help == remedy.value


@pytest.mark.parametrize(
    ("file", "context"),
    [("run.py", "avoidable"), ("benchmarks/run.py", "benchmark"), ("tests/run.py", "test")],
)
def test_tests_and_benchmarks_wait_as_they_like(file: str, context: str) -> None:
    source = (
        "import mlx.core as mx\ndef f(x: mx.array, n):\n    return [x[i].item() for i in range(n)]"
    )
    (found,) = check_source(source, Path(file), Project()).findings
    assert found.context == context
