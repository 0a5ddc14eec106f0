"""Pulls that detach a gradient: which arguments are differentiated, and what reaches the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from embercoach.analysis.project.project import Project
from embercoach.checks import check_source
from tests.analysis.inference import PRELUDE


def contexts(source: str) -> list[str]:
    """The contexts of the pulls of a program."""
    text = PRELUDE + "from functools import partial\n" + source
    report = check_source(text, Path("/nowhere/program.py"), Project())
    codes = ("GRAPH-BREAK", "HOST-PULL")
    return [f.context for f in report.findings if f.code.startswith(codes)]


#: Programs with one pull, in which nothing says that a name holds an array but the transform.
UNANNOTATED = {
    "a model of self": (
        "class T:\n    def __init__(self, model):\n        self.model = model\n"
        "        self.f = nn.value_and_grad(model, self.loss)\n"
        "    def loss(self, x):\n        return x.sum() * float(self.model(x))\n"
    ),
    "a weight": (
        "class Net(nn.Module):\n    def __init__(self):\n        self.w = mx.zeros((3,))\n"
        "    def __call__(self, x):\n        return x * self.w.max().item()\n"
        "def loss(model, x):\n    return model(x).sum()\n"
        "def main(x):\n    model = Net()\n    return nn.value_and_grad(model, loss)(model, x)\n"
    ),
    "another argument": (
        "def f(x, w):\n    return x.sum() * float(w)\ng = mx.grad(f, argnums=1)\n"
    ),
    "an argument by name": (
        "def f(x, w):\n    return x.sum() * float(w)\ng = mx.grad(f, argnames='w')\n"
    ),
    "one of several arguments": (
        "def f(x, w):\n    return x.sum() * float(w)\ng = mx.grad(f, argnums=(0, 1))\n"
    ),
    "the rest of a partial": (
        "def f(n, w):\n    return w.sum() * float(w)\ng = mx.grad(partial(f, 3))\n"
    ),
    "a decorator": "@mx.grad\ndef f(w):\n    return w * float(w)\n",
    "a partial decorator": (
        "@partial(mx.grad, argnums=1)\ndef f(x, w):\n    return x * float(w)\n"
    ),
    "a dictionary of arrays": (
        "def f(p):\n    return p['w'].sum() * p['b'].item()\ng = mx.grad(f)\n"
    ),
    "a list of arrays": (
        "def f(p):\n    w, b = p\n    return w.sum() * float(b)\ng = mx.grad(f)\n"
    ),
    "a nested function": (
        "def f(w):\n    def s():\n        return float(w)\n    return w * s()\ng = mx.grad(f)\n"
    ),
    "a compiled function": "def f(w):\n    return w * float(w)\ng = mx.grad(mx.checkpoint(f))\n",
    "vjp": "def f(a, w):\n    return a * float(w)\ndef g(a, w, c):\n    mx.vjp(f, [a, w], [c])\n",
    "a checkpoint": ("def f(w):\n    return w * float(mx.max(w))\ng = mx.checkpoint(f)\n"),
}


@pytest.mark.parametrize("source", UNANNOTATED.values(), ids=UNANNOTATED)
def test_differentiated_arguments_are_arrays(source: str) -> None:
    assert "differentiated" in contexts(source)


#: Pulls of what no gradient is taken for, or that the gradient doesn't depend on.
KEPT = {
    "a shape": "def f(w):\n    return w.reshape(int(w[0].item()), -1).sum()\ng = mx.grad(f)\n",
}


@pytest.mark.parametrize("source", KEPT.values(), ids=KEPT)
def test_not_detached(source: str) -> None:
    found = contexts(source)
    assert found
    assert "differentiated" not in found
