"""Transfer functions and layers of symbolic sizes."""

from __future__ import annotations

from typing import Any

import pytest

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
from embercoach.analysis.shapes.size_integers import Comparison, symbol
from embercoach.analysis.shapes.table import LAYER_CALLS, LAYERS, TRANSFERS
from tests.analysis.shapes import oracle

oracle.load()
B, S, H, D, E = (symbol(name) for name in "BSHDE")
X = AxesSymbol("x")


def test_unknown_axes_stay_in_a_product_with_a_matrix() -> None:
    requirements = Requirements()
    x = ShapedArray(ArrayShape((), X, (D,)), PARAMETERS)
    found = TRANSFERS["mlx.core.matmul"](
        requirements, x, ShapedArray(ArrayShape((D, E)), PARAMETERS)
    )
    assert found == ShapedArray(ArrayShape((), X, (E,)), PARAMETERS)
    assert not requirements.conditions


def test_inner_sizes_that_differ_for_all_values_fail() -> None:
    a, b = ShapedArray(ArrayShape((B, 2 * 8))), ShapedArray(ArrayShape((17, E)))
    with pytest.raises(ShapeError, match=r"inner sizes of .B, 16. and .17, E. are 16 and 17"):
        TRANSFERS["mlx.core.matmul"](Requirements(), a, b)


def test_heads_of_keys_may_be_fewer_if_they_divide() -> None:
    requirements = Requirements()
    queries, keys = (ShapedArray(ArrayShape((B, heads, S, D))) for heads in (H, E))
    attention = TRANSFERS["mlx.core.fast.scaled_dot_product_attention"]
    found = attention(requirements, queries, keys, keys, scale=1.0)
    assert found.shape == ArrayShape((B, H, S, D))
    (condition,) = requirements.conditions
    assert (str(condition.left), condition.right) == ("E * (H // E)", H)
    assert condition.comparison is Comparison.POSSIBLE


def test_einsum_keeps_the_axes_of_an_ellipsis() -> None:
    x, w = ShapedArray(ArrayShape((), X, (D,))), ShapedArray(ArrayShape((D, E)))
    found = TRANSFERS["mlx.core.einsum"](Requirements(), "...d,de->...e", x, w)
    assert found.shape == ArrayShape((), X, (E,))


def test_convolution_is_symbolic_in_its_sizes() -> None:
    x, w = ShapedArray(ArrayShape((B, S, D))), ShapedArray(ArrayShape((E, 3, D)))
    found = TRANSFERS["mlx.core.conv1d"](Requirements(), x, w, 2, 1)
    assert str(found.shape) == "(B, ((S - 1) // 2) + 1, E)"


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
