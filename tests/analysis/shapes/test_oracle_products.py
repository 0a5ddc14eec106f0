"""Transfer functions of products, convolutions, transforms and ``mx.fast`` agree with MLX."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("mlx.core")

from embercoach.analysis.shapes.arrays import (
    PARAMETERS,
    ArrayShape,
    AxesSymbol,
    ShapedArray,
)
from embercoach.analysis.shapes.requirements import Requirements, ShapeError
from embercoach.analysis.shapes.size_integers import Comparison, symbol
from embercoach.analysis.shapes.table import TRANSFERS
from tests.analysis.shapes import oracle

NAMES = sorted(
    name
    for name, drawn in oracle.load().items()
    if drawn.draw.__module__.endswith("draws_products")
)


@pytest.mark.parametrize("name", NAMES)
@given(seed=st.integers(0, 1 << 32))
@settings(max_examples=15)
def test_transfer_function_agrees_with_mlx(name: str, seed: int) -> None:
    assert oracle.check(name, seed) is None


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
