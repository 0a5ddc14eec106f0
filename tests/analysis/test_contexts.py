"""Contexts of findings: compiled, differentiated, loop, forward, evaluated, periodic, and so on."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from embercoach.analysis.project.project import Project
from embercoach.checks import check_source
from embercoach.rulebook import CONTEXTS
from tests.analysis.inference import PRELUDE
from tests.checks.findings import effect


def context(source: str, code: str = "GRAPH-BREAK-001", name: str = "program.py") -> str | None:
    """The effect of the first read of a code, None if there is none."""
    text = PRELUDE + "from functools import partial\n" + textwrap.dedent(source)
    report = check_source(text, Path("/nowhere") / name, Project())
    assert {f.context for f in report.findings} <= set(CONTEXTS)
    found = [effect(f) for f in report.findings if f.code == code]
    return found[0] if found else None


F = "def f(x: mx.array):\n    return x.item()\n"
COMPILED = {
    "decorator, called": "@mx.compile()\ndef f(x: mx.array):\n    return x.item()",
    "call with state": F + "g = mx.compile(f, inputs=s, outputs=s)",
    "layer": (
        "class A(nn.Module):\n    def __call__(self, x):\n        x.item()\nf = mx.compile(A())"
    ),
    "without an annotation": "@mx.compile\ndef f(x):\n    return x.item()",
    "vmapped without an annotation": "def f(x):\n    return x.sum().item()\ng = mx.vmap(f)",
    "call of a partial": F + "g = partial(mx.compile, inputs=[])(f)",
}


@pytest.mark.parametrize("source", COMPILED.values(), ids=COMPILED)
def test_compiled(source: str) -> None:
    assert context(source) == "compiled"


LOSS = "def loss(w: mx.array, x: mx.array):\n    {}\n"
DIFFERENTIATED = {
    "vjp": ("return x.sum() * w.item()", "mx.vjp(loss, [w, x], [c])"),
    "jvp": ("return x.sum() * w.item()", "mx.jvp(loss, [w, x], [c])"),
}


@pytest.mark.parametrize(("body", "use"), DIFFERENTIATED.values(), ids=DIFFERENTIATED)
def test_differentiated(body: str, use: str) -> None:
    assert (
        context(LOSS.format(body) + f"def main(model, w, x, c):\n    {use}\n") == "differentiated"
    )


LOGGED = {
    "a shape": "n = int(w.sum().item())\n    return x.reshape(-1).sum()",
    "a condition": "if w.item() > 3:\n        raise ValueError\n    return (x * w).sum()",
    "overwritten": "s = w.item()\n    s = 3\n    return x.sum() * s",
}


@pytest.mark.parametrize("body", LOGGED.values(), ids=LOGGED)
def test_differentiated_without_reaching_the_result(body: str) -> None:
    source = "log = []\n" + LOSS.format(body) + "g = mx.grad(loss)\n"
    assert context(source) == "once"


def test_a_cast_and_a_truth_test_detach_too() -> None:
    body = "s = float(w.sum())\n    return x.sum() * s"
    assert context(LOSS.format(body) + "g = mx.grad(loss)", "GRAPH-BREAK-002") == "differentiated"
    body = "return x.sum() * np.array(w).sum()"
    assert context(LOSS.format(body) + "g = mx.grad(loss)", "HOST-PULL-002") == "differentiated"
    body = "s = mx.array(w.item())\n    return (x * s).sum()"
    assert context(LOSS.format(body) + "g = mx.grad(loss)", "HOST-PULL-007") == "differentiated"


PLACES = {
    "for": ("def f(xs: list[mx.array]):\n    for x in xs:\n        x.item()", "iteration"),
    "for's iterable": (
        "def f(x: mx.array):\n    for i in range(x.item()):\n        pass",
        "once",
    ),
    "comprehension's iterable": (
        "def f(x: mx.array):\n    return [i for i in range(x.item())]",
        "once",
    ),
    "else of a loop": (
        "def f(x: mx.array):\n    for i in range(3):\n        pass\n    else:\n        x.item()",
        "once",
    ),
}


@pytest.mark.parametrize(("source", "expected"), PLACES.values(), ids=PLACES)
def test_place(source: str, expected: str) -> None:
    assert context(source) == expected


EVALUATED = {
    "in a list": "mx.eval([x, y])\n    x.item()",
    "an item": "mx.eval(x)\n    x[0].item()",
    "a view": "mx.eval(x)\n    x.reshape(-1)[0].item()",
    "an item of a dictionary": (
        "out = {'a': x, 'b': y}\n    mx.eval(out['a'])\n    out['a'][0].astype(mx.int32).item()"
    ),
}


@pytest.mark.parametrize("body", EVALUATED.values(), ids=EVALUATED)
def test_evaluated(body: str) -> None:
    assert context(f"def f(x: mx.array, y: mx.array):\n    {body}") == "copy"


NOT_EVALUATED = {
    "in place": "mx.eval(x)\n    x += 1\n    x.item()",
    "another item of a dictionary": (
        "out = {'a': x, 'b': y}\n    mx.eval(out['a'])\n    out['b'].item()"
    ),
}


@pytest.mark.parametrize("body", NOT_EVALUATED.values(), ids=NOT_EVALUATED)
def test_not_evaluated(body: str) -> None:
    assert context(f"def f(x: mx.array, y: mx.array):\n    {body}") == "once"


@pytest.mark.parametrize("test", ["i > 10", "verbose", "n % 2 == 0 or verbose"])
def test_what_runs_every_time_is_not_periodic(test: str) -> None:
    source = f"""
        def f(x: mx.array, n: int, verbose: bool):
            for i in range(100):
                if i % 10 == 0:
                    pass
                elif {test}:
                    pass
                (x + i).item()
    """
    assert context(source) == "iteration"


#: What a function does with `s`, the number that it has read from the array `x`.
USES = {
    "printed": ("print(f'{s:.3f}')", "once"),
    "an operand after host arithmetic": ("t = 2 * s + 1\n    return t - y", "once"),
    "a comparison": ("return y > s", "once"),
}


@pytest.mark.parametrize(("use", "expected"), USES.values(), ids=USES)
def test_a_value_that_no_array_needs_is_a_sink(use: str, expected: str) -> None:
    source = f"def f(x: mx.array, y: mx.array):\n    s = x.max().item()\n    {use}"
    assert context(source) == expected


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        # A look at the first element is no loop.
        (
            "for a in b:\n    (x + a).item()\n    if a:\n        break\n    else:\n        raise a",
            "once",
        ),
        ("for a in b:\n    for c in a:\n        (x + a).item()\n    break", "iteration"),
        ("for a in b:\n    for c in a:\n        (x + a).item()\n        break", "iteration"),
        ("for a in b:\n    (x + a).item()\n    if a:\n        continue\n    break", "iteration"),
    ],
)
def test_what_runs_once_is_no_loop(loop: str, expected: str) -> None:
    assert context(f"x = mx.ones(1)\n{loop}") == expected
