"""Shapes of arrays in the lattice: what makes them, keeps them and joins them."""

from __future__ import annotations

import pytest

from embercoach.analysis.values.lattice import SCALAR, SOME_AXES, Array, Number, Shape
from tests.analysis.inference import value_of


def shape_of(expression: str, before: str = "pass") -> Shape | None:
    value = value_of(f"def f(x: mx.array, n: int, flag):\n    {before}\n    reveal({expression})\n")
    assert isinstance(value, Array)
    return value.shape


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("x", None),
        ("mx.zeros((4, n))", Shape((4, None))),
        ("mx.array(0.5)", SCALAR),
        ("mx.array([[1, 2, n], [3, 4, 5]])", Shape((2, 3))),
        ("mx.array([x, x])", SOME_AXES),
        ("-mx.ones(3).astype(mx.float16)", Shape((3,))),
        ("mx.ones((4, 1)) * mx.ones((3,)) + 1", Shape((4, 3))),
        ("mx.ones((4, 1)) * x", SOME_AXES),
        ("mx.ones((4, 1)) @ mx.ones((1, 4))", Shape((4, 4))),
        ("mx.ones((5, 1, 2, 3)) @ mx.ones((6, 3, 4))", Shape((5, 6, 2, 4))),
        ("mx.ones((2, 3)) @ mx.ones((3,))", None),
        ("mx.ones((2, 3, 4)).transpose(0, 2, 1)", Shape((2, 4, 3))),
        ("mx.ones((2, 3, 4)).transpose(0, 2, -2)", Shape((2, 4, 3))),
        ("mx.ones((2, 3)).transpose()", Shape((3, 2))),
        ("mx.ones((2, 3)).transpose((1, 0))", Shape((None, None))),
        ("mx.ones((2, 3, 4)).swapaxes(-1, 0)", Shape((4, 3, 2))),
        ("mx.ones((2, 3)).T", Shape((3, 2))),
        ("mx.zeros(mx.ones((2, 3)).shape)", Shape((2, 3))),
        ("mx.reshape(mx.arange(12), (3, -1))", Shape((3, 4))),
        ("mx.ones((2, 3))[0]", Shape((3,))),
        ("mx.ones((2, 3))[None, 0, ...]", Shape((1, 3))),
        ("mx.ones((2, 3))[..., 0]", Shape((2,))),
        ("mx.ones((2, 3))[1:]", Shape((None, 3))),
        ("mx.ones((2, 3))[x]", None),
        ("mx.ones((2, 3))[0, 0, 0]", None),
        ("x @ mx.ones((2, 3, 4))", Shape((None, None, None))),
        ("x.transpose(0, 2, 1)", Shape((None, None, None))),
        ("mx.ones((2, 3)).sum(axis=-1)", Shape((2,))),
        ("mx.mean(mx.ones((2, 3)), axis=0, keepdims=True)", Shape((1, 3))),
        ("mx.ones((2, 3)).max(axis=n)", None),
        ("mx.ones((2, 3)).max()", SCALAR),
        ("mx.ones((2, 3)).argmax(keepdims=True)", None),
        ("mx.ones((2, 1)).squeeze(-1)", Shape((2,))),
        ("mx.expand_dims(mx.ones((2, 3)), -1)", Shape((2, 3, 1))),
        ("mx.stack([mx.ones((2, 3)), mx.ones((2, 3))])", Shape((2, 2, 3))),
        ("mx.stack([mx.ones((2, 3)), mx.ones((2, 3))], axis=-1)", Shape((2, 3, 2))),
        ("mx.stack([mx.ones((2, 3)), mx.ones((2, 3))], n)", Shape((None, None, None))),
        ("mx.concatenate([mx.ones((2, 3)), mx.ones((4, 3))])", Shape((6, 3))),
        ("mx.concatenate([mx.ones((2, 3)), mx.ones((2, n))], axis=1)", Shape((2, None))),
        ("mx.concatenate([mx.ones((2, 3)), x])", None),
        ("mx.maximum(mx.ones((2, 3)), 0)", Shape((2, 3))),
        ("mx.where(mx.ones((2, 1)), mx.ones((3,)), 0.0)", Shape((2, 3))),
        ("nn.Linear(3, 4)(mx.ones((2, 3)))", Shape((2, None))),
        ("nn.Embedding(3, 4)(mx.zeros((2, 3), mx.int32))", Shape((2, 3, None))),
        ("mx.cumsum(mx.ones((2, 3)))", None),
    ],
)
def test_shapes(expression: str, shape: Shape | None) -> None:
    assert shape_of(expression) == shape


@pytest.mark.parametrize(
    ("first", "second", "shape"),
    [
        ("mx.ones((2, 3))", "mx.ones((2, 4))", Shape((2, None))),
        ("mx.ones((2, 3))", "mx.ones((2,))", SOME_AXES),
        ("mx.ones((2, 3))", "mx.array(1)", None),
        ("mx.ones((2, 3))", "mx.exp(x)", None),
    ],
)
def test_joined_shapes(first: str, second: str, shape: Shape | None) -> None:
    assert shape_of("y", f"y = {first}\n    if flag:\n        y = {second}") == shape


@pytest.mark.parametrize(
    ("body", "calls", "shape"),
    [
        ("reveal(x)", "f(mx.ones((2, 3)))", Shape((None, None))),
        ("reveal(x)", "f(mx.ones((1, 3)))", Shape((1, None))),
        ("reveal(x)", "f(mx.ones((2, 3)))\nf(mx.ones((2,)))", SOME_AXES),
        ("reveal(x)", "mx.vmap(f)(mx.ones((2, 3)))", None),
        ("x = x[None] if x.ndim == 1 else x\n    reveal(x)", "f(mx.ones((2, 3)))", None),
        ("reveal(x)", "for y in mx.ones((2, 3)):\n    f(y)", Shape((None,))),
        ("reveal(x)", "def g(y):\n    f(y)\ng(mx.ones((2, 3)))", Shape((None, None))),
    ],
)
def test_a_parameter_has_the_axes_that_callers_pass(
    body: str, calls: str, shape: Shape | None
) -> None:
    value = value_of(f"def f(x):\n    {body}\n{calls}")
    assert isinstance(value, Array)
    assert value.shape == shape


def test_a_shape_gives_sizes() -> None:
    source = "y = mx.ones((2, 3))\nrows, columns = y.shape\nreveal({})"
    for text, known in {
        "y.size": 6,
        "y.ndim": 2,
        "y.shape[-1]": 3,
        "columns": 3,
        "rows": 2,
    }.items():
        value = value_of(source.format(text))
        assert isinstance(value, Number)
        assert value.const == known


def test_a_function_returns_a_shape() -> None:
    value = value_of("def f():\n    return mx.ones((2, 3))\nreveal(f())")
    assert isinstance(value, Array)
    assert value.shape == Shape((2, 3))
