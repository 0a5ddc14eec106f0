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
    "a model of nn.value_and_grad": (
        "def loss(model, x, y):\n    out = model(x)\n    return y.sum() * out.max().item()\n"
        "def main(model):\n    return nn.value_and_grad(model, loss)\n"
    ),
    "a parameter that is nn.Module": (
        "def loss(m: nn.Module, x):\n    out = m(x)\n    return x.sum() * float(out)\n"
        "def main(net):\n    return nn.value_and_grad(net, loss)\n"
    ),
    "a model of the closure": (
        "def main(model, x):\n    def loss(x):\n        return x.sum() * float(model(x))\n"
        "    return nn.value_and_grad(model, loss)(x)\n"
    ),
    "a model of self": (
        "class T:\n    def __init__(self, model):\n        self.model = model\n"
        "        self.f = nn.value_and_grad(model, self.loss)\n"
        "    def loss(self, x):\n        return x.sum() * float(self.model(x))\n"
    ),
    "a module of the file": (
        "class Net(nn.Module):\n    def __call__(self, x, y):\n"
        "        return x / float(y)\n"
        "def loss(model, x):\n    return model(x, model.layer(x)).sum()\n"
        "def main(x):\n    model = Net()\n    return nn.value_and_grad(model, loss)(model, x)\n"
    ).replace(
        "    def __call__",
        "    def __init__(self):\n        self.layer = nn.Linear(1, 1)\n    def __call__",
    ),
    "a weight": (
        "class Net(nn.Module):\n    def __init__(self):\n        self.w = mx.zeros((3,))\n"
        "    def __call__(self, x):\n        return x * self.w.max().item()\n"
        "def loss(model, x):\n    return model(x).sum()\n"
        "def main(x):\n    model = Net()\n    return nn.value_and_grad(model, loss)(model, x)\n"
    ),
    "a function that no one calls": "def f(w):\n    return w * float(w)\ng = mx.grad(f)\n",
    "a lambda": "g = mx.grad(lambda w: w * float(w))\n",
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
    "a method": (
        "class A:\n    def f(self, w):\n        return w * float(w)\n"
        "    def g(self, w):\n        return mx.grad(self.f)(w)\n"
    ),
    "a helper's result": (
        "def s(w):\n    return float(w)\ndef f(w):\n    return w * s(w)\ng = mx.grad(f)\n"
    ),
    "an annotated helper's result": (
        "def s(w: mx.array) -> float:\n    return float(w)\n"
        "def f(w):\n    return w * s(w)\ng = mx.grad(f)\n"
    ),
    "a nested function": (
        "def f(w):\n    def s():\n        return float(w)\n    return w * s()\ng = mx.grad(f)\n"
    ),
    "a method that it calls": (
        "class A:\n    def s(self, w):\n        return float(w)\n"
        "    def f(self, w):\n        return w * self.s(w)\n"
        "    def g(self, w):\n        return mx.grad(self.f)(w)\n"
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
    "data of a model's loss": (
        "def loss(model, x, m: mx.array):\n    n = m.sum().item()\n    return model(x).sum() / n\n"
        "def main(model):\n    return nn.value_and_grad(model, loss)\n"
    ),
    "another argument": ("def f(w, m: mx.array):\n    return w.sum() * float(m)\ng = mx.grad(f)\n"),
    "a second result": (
        "def f(w):\n    return w.sum(), {'norm': w.max().item()}\ng = mx.value_and_grad(f)\n"
    ),
    "a second number": (
        "def f(w):\n    return w.sum(), w.max().item()\ng = mx.value_and_grad(f)\n"
    ),
    "what a helper logs": (
        "def log(w):\n    n = w.max().item()\n    print(n)\n    return n\n"
        "def f(w):\n    log(w)\n    return w.sum()\ng = mx.grad(f)\n"
    ),
    "stop_gradient": (
        "def f(w):\n    s = mx.stop_gradient(w).max().item()\n    return w.sum() / s\n"
        "g = mx.grad(f)\n"
    ),
    "a comparison": (
        "def f(w):\n    n = (w > 0).sum().item()\n    return w.sum() / n\ng = mx.grad(f)\n"
    ),
    "an index": "def f(w):\n    return w[mx.argmax(w).item()]\ng = mx.grad(f)\n",
    "a shape": "def f(w):\n    return w.reshape(int(w[0].item()), -1).sum()\ng = mx.grad(f)\n",
}


@pytest.mark.parametrize("source", KEPT.values(), ids=KEPT)
def test_not_detached(source: str) -> None:
    found = contexts(source)
    assert found
    assert "differentiated" not in found
