"""Shapes of arrays in the lattice: what makes them, keeps them and joins them."""

from __future__ import annotations

import pytest

from embercoach.analysis.values.lattice import Array, Shape
from tests.analysis.inference import value_of


def shape_of(expression: str, before: str = "pass") -> Shape | None:
    value = value_of(f"def f(x: mx.array, n: int, flag):\n    {before}\n    reveal({expression})\n")
    assert isinstance(value, Array)
    return value.shape


@pytest.mark.parametrize(
    ("expression", "shape"),
    [
        ("mx.where(mx.ones((2, 1)), mx.ones((3,)), 0.0)", Shape((2, 3))),
        ("mx.ones((2, 3, 4)).transpose(0, 2, 1)", Shape((2, 4, 3))),
        ("mx.ones((2, 3, 4)).transpose(0, 2, -2)", Shape((2, 4, 3))),
        ("mx.ones((2, 3)).transpose()", Shape((3, 2))),
        ("mx.ones((2, 3)).transpose((1, 0))", Shape((None, None))),
        ("mx.ones((2, 3, 4)).swapaxes(-1, 0)", Shape((4, 3, 2))),
        ("mx.reshape(mx.arange(12), (3, -1))", Shape((3, 4))),
        ("mx.ones((2, 3))[None, 0, ...]", Shape((1, 3))),
        ("mx.mean(mx.ones((2, 3)), axis=0, keepdims=True)", Shape((1, 3))),
        ("mx.ones((2, 1)).squeeze(-1)", Shape((2,))),
        ("mx.expand_dims(mx.ones((2, 3)), -1)", Shape((2, 3, 1))),
        ("mx.stack([mx.ones((2, 3)), mx.ones((2, 3))])", Shape((2, 2, 3))),
        ("mx.concatenate([mx.ones((2, 3)), mx.ones((4, 3))])", Shape((6, 3))),
        ("mx.concatenate([mx.ones((2, 3)), mx.ones((2, n))], axis=1)", Shape((2, None))),
        ("nn.Embedding(3, 4)(mx.zeros((2, 3), mx.int32))", Shape((2, 3, None))),
    ],
)
def test_shapes(expression: str, shape: Shape | None) -> None:
    assert shape_of(expression) == shape


@pytest.mark.parametrize(
    ("body", "calls", "shape"),
    [
        ("reveal(x)", "mx.vmap(f)(mx.ones((2, 3)))", None),
        ("x = x[None] if x.ndim == 1 else x\n    reveal(x)", "f(mx.ones((2, 3)))", None),
    ],
)
def test_a_parameter_has_the_axes_that_callers_pass(
    body: str, calls: str, shape: Shape | None
) -> None:
    value = value_of(f"def f(x):\n    {body}\n{calls}")
    assert isinstance(value, Array)
    assert value.shape == shape
