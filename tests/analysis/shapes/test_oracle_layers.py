"""Layers, activations, losses and mlx-lm's parts agree with MLX."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("mlx.core")
pytest.importorskip("mlx_lm")

from embercoach.analysis.shapes.arrays import (
    PARAMETERS,
    ArrayShape,
    AxesSymbol,
    DTypeSymbol,
    ShapedArray,
    dtype_symbol,
)
from embercoach.analysis.shapes.requirements import Requirements, ShapeError
from embercoach.analysis.shapes.size_integers import symbol
from embercoach.analysis.shapes.table import LAYER_CALLS, LAYERS
from tests.analysis.shapes import oracle

NAMES = sorted(
    name for name, drawn in oracle.load().items() if drawn.draw.__module__.endswith("draws_layers")
)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=15)
def test_layer_agrees_with_mlx(name: str, seed: int) -> None:
    assert oracle.check(name, seed) is None


B, S, D, H = (symbol(name) for name in "BSDH")
X = AxesSymbol("x")


def called(requirements: Requirements, name: str, made: tuple[Any, ...], *args: Any) -> Any:
    """What a layer of ``mlx.nn`` that is made with arguments returns."""
    attributes = LAYERS[f"mlx.nn.{name}"](requirements, *made)
    return LAYER_CALLS[f"mlx.nn.{name}"](requirements, attributes, *args)


def test_linear_changes_the_last_size_of_unknown_axes() -> None:
    x = ShapedArray(ArrayShape((), X, (D,)), PARAMETERS)
    found = called(Requirements(), "Linear", (D, 4 * 8), x)
    assert found == ShapedArray(ArrayShape((), X, (32,)), PARAMETERS)


def test_a_layer_meets_the_dtype_of_its_input() -> None:
    dtype = DTypeSymbol("x")
    x = ShapedArray(ArrayShape((B, D)), dtype_symbol(dtype))
    found = called(Requirements(), "Linear", (D, D), x)
    (parameters,) = PARAMETERS.symbols  # type: ignore[union-attr]
    meeting = {"float16": "float16", "float32": "float32", "int32": "float16"}
    for given_dtype, expected in meeting.items():
        assert oracle.concrete(found.dtype, {dtype: given_dtype, parameters: "float16"}) == expected


def test_attention_gives_the_shape_of_the_queries() -> None:
    requirements = Requirements()
    x = ShapedArray(ArrayShape((B, S, D)), PARAMETERS)
    found = called(requirements, "MultiHeadAttention", (D, H), x, x, x)
    assert found.shape.head[:2] == (B, S)
    assert str(requirements.conditions[0].left) == "H * (D // H)"


@pytest.mark.parametrize("size", [2.5, None, "64", (64,)])
def test_a_size_that_is_no_integer_fails(size: object) -> None:
    with pytest.raises(ShapeError, match="not an integer"):
        LAYERS["mlx.nn.Linear"](Requirements(), 64, size)
