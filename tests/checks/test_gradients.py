"""GRAD: programs next to those that the pages show."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes as codes_of

FOUND = {
    "a name of the condition": (
        "GRAD-001",
        "def f(x):\n    m = x > 0\n    return mx.where(m, mx.sqrt(x), 0).sum()\ng = mx.grad(f)",
    ),
    "a distance": (
        "GRAD-001",
        "def f(a, b):\n    return mx.maximum(mx.linalg.norm(a - b), 1e-6)\ng = mx.grad(f)",
    ),
    "distances of rows": (
        "GRAD-005",
        "def f(x):\n    return mx.linalg.norm(x[:, None] - x[None], axis=-1).sum()\ng = mx.grad(f)",
    ),
    "a root of squared distances": (
        "GRAD-005",
        (
            "def d(a):\n    e = a[..., None, :] - a[None]\n    return mx.sum(e * e, -1)\n"
            "def f(x):\n    y = mx.exp(x)\n    return (d(y) ** 0.5).sum()\ng = mx.grad(f)"
        ),
    ),
    "a comparison": ("GRAD-002", "def f(w):\n    return mx.mean(w > 0)\ng = mx.grad(f)"),
    "through a helper": (
        "GRAD-002",
        "def h(w):\n    return mx.round(w)\ng = mx.grad(lambda w: h(w).sum())",
    ),
    "the first of a tuple": (
        "GRAD-003",
        (
            "def f(m, x, y):\n    return nn.losses.cross_entropy(m(x), y), y\n"
            "def g(m):\n    return nn.value_and_grad(m, f)"
        ),
    ),
}
SILENT = {
    "an index of what a test found to be a tuple": (
        "@mx.custom_function\ndef f(x):\n    return x\n"
        "@f.vjp\ndef g(p, c, o):\n"
        "    x = p[0] if isinstance(p, (list, tuple)) else p\n    return c * x"
    ),
    "distances of neighbors": (
        "def f(x):\n    return mx.linalg.norm(x[1:] - x[:-1], axis=-1).sum()\ng = mx.grad(f)"
    ),
    "another value": (
        "def f(x, y):\n    return mx.where(x > 0, x * mx.sqrt(y), 0).sum()\ng = mx.grad(f)"
    ),
    "an added number": (
        "def f(x):\n    return mx.where(x > 0, 1 / (x + 1), 0).sum()\ng = mx.grad(f)"
    ),
    "a large bound": "def f(x):\n    return mx.where(x > 5, 1 / x, x).sum()\ng = mx.grad(f)",
    "a safe clamp": ("def f(x):\n    return mx.sqrt(mx.maximum(x, 1e-6)).sum()\ng = mx.grad(f)"),
    "a number in the root": (
        "def f(x):\n    return mx.maximum(mx.sqrt(x * x + 1e-9), 1e-6).sum()\ng = mx.grad(f)"
    ),
    "weights of an unknown model": (
        "def f(m, x):\n    return mx.mean(m(x) > 0) + m.penalty\n"
        "def g(m):\n    return nn.value_and_grad(m, f)"
    ),
    "regularized weights": (
        "def f(m, x):\n"
        "    norms = [mx.sum(p * p) for _, p in tree_flatten(m.parameters())]\n"
        "    return mx.mean(m(x) > 0) + sum(norms)\n"
        "def g(m):\n    return nn.value_and_grad(m, f)"
    ),
    "a VJP of any outputs": (
        "def f(x):\n    return x.reshape(2, 2)\ndef g(x, c):\n    mx.vjp(f, [x], [c])"
    ),
}


def found(source: str) -> list[str]:
    """The codes of the family that a program gives."""
    prelude = "import mlx.core as mx\nimport mlx.nn as nn\nfrom mlx.utils import tree_flatten\n"
    return codes_of(prelude + source, "GRAD")


@pytest.mark.parametrize(("code", "source"), FOUND.values(), ids=FOUND)
def test_found(code: str, source: str) -> None:
    assert found(source) == [code]


@pytest.mark.parametrize("source", SILENT.values(), ids=SILENT)
def test_silent(source: str) -> None:
    assert found(source) == []
