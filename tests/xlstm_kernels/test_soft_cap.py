"""soft_cap against a float64 oracle written from its definition."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels import soft_cap
from xlstm_kernels.activation import soft_cap as soft_cap_module

SHAPES = [(2, 3, 33), (), (0,), (1,), (3,), (7,), (8,), (0, 4), (4, 0, 2), (5, 1025)]


def oracle(values: np.ndarray, cap: float) -> np.ndarray:
    return cap * np.tanh(values / cap)


def oracle_gradient(values: np.ndarray, cotangent: np.ndarray, cap: float) -> np.ndarray:
    with np.errstate(over="ignore"):  # one over infinity is the zero wanted
        return cotangent / np.square(np.cosh(values / cap))


def oracle_cap_terms(values: np.ndarray, cotangent: np.ndarray, cap: float) -> np.ndarray:
    """What each element adds to the gradient in the cap."""
    scaled = values / cap
    return cotangent * (np.tanh(scaled) - scaled / np.cosh(scaled) ** 2)


def capped_loss(device, cotangent):
    def loss(values, cap):
        capped = soft_cap(values, cap, backend=device)
        return mx.sum(capped.astype(mx.float32) * cotangent.astype(mx.float32))

    return loss


# --- values and gradients ----------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value(shape, device, precision, draw, wide, relative_error):
    values = draw(shape, precision.dtype, 20.0)
    capped = soft_cap(values, 15.0, backend=device)
    assert capped.dtype == precision.dtype
    assert relative_error(capped, oracle(wide(values), 15.0)) < precision.value


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradient(shape, device, precision, draw, wide, relative_error):
    values, cotangent = draw(shape, precision.dtype, 20.0), draw(shape, precision.dtype)
    loss = capped_loss(device, cotangent)
    in_values, in_cap = mx.grad(loss, argnums=(0, 1))(values, mx.array(15.0))
    assert in_values.dtype == precision.dtype
    expected = oracle_gradient(wide(values), wide(cotangent), 15.0)
    assert relative_error(in_values, expected) < precision.gradient
    # The terms of this sum have both signs, so its error is measured by their size.
    terms = oracle_cap_terms(wide(values), wide(cotangent), 15.0)
    assert in_cap.dtype == mx.float32
    assert relative_error(in_cap, terms.sum(), np.abs(terms).sum()) < 5e-6


@pytest.mark.parametrize("cap_dtype", [mx.float32, mx.float16, mx.bfloat16], ids=str)
def test_array_cap(cap_dtype, device, draw, wide, relative_error):
    values = draw((4, 9), mx.float16, 5.0)
    cap = mx.array(3.0, dtype=cap_dtype)
    capped = soft_cap(values, cap, backend=device)
    assert capped.dtype == mx.float16
    assert relative_error(capped, oracle(wide(values), 3.0)) < 1e-3
    in_cap = mx.grad(capped_loss(device, mx.ones((4, 9))), argnums=1)(values, cap)
    assert in_cap.dtype == cap_dtype


def test_gradient_keeps_its_digits_where_the_cap_bites(device):
    scaled = np.array([1.0, 5.0, 10.0, 20.0, 40.0])
    gradient = mx.grad(capped_loss(device, mx.ones((5,))))(mx.array(scaled), 1.0)
    np.testing.assert_allclose(np.array(gradient), 1 / np.cosh(scaled) ** 2, rtol=2e-5)


@pytest.mark.parametrize("scaled", [1e-4, 1e-2, 0.1, 0.49, 0.51, 1.0, 10.0, 60.0])
def test_cap_gradient_keeps_its_digits(scaled, device):
    in_cap = mx.grad(capped_loss(device, mx.ones((1,))), argnums=1)(
        mx.array([scaled]), mx.array(1.0)
    )
    # Exact in float64 only where tanh(z) and z sech^2(z) are far apart; 2/3 z^3 - 8/15 z^5 below.
    if scaled < 0.05:
        expected = 2 / 3 * scaled**3 - 8 / 15 * scaled**5
    else:
        expected = oracle_cap_terms(np.float64(scaled), np.float64(1), 1.0)
    assert in_cap.item() == pytest.approx(float(expected), rel=3e-6)


def test_infinities_and_nan(device):
    values = mx.array([math.inf, -math.inf, math.nan, 3e38, -3e38])
    capped = soft_cap(values, 15.0, backend=device)
    np.testing.assert_array_equal(np.array(capped), [15, -15, np.nan, 15, -15])
    infinite = values[:2]
    in_values, in_cap = mx.grad(capped_loss(device, mx.ones((2,))), argnums=(0, 1))(
        infinite, mx.array(15.0)
    )
    np.testing.assert_array_equal(np.array(in_values), [0, 0])
    assert in_cap.item() == 0  # +1 from one side, -1 from the other


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_cap_beyond_the_dtype(dtype, device):
    values = mx.array([1.0, -2.0], dtype=dtype)
    capped = soft_cap(values, 1e6, backend=device)
    assert mx.array_equal(capped, values).item()


def test_strided_input(device, draw, wide, relative_error):
    values = draw((6, 5, 4), mx.float32, 10.0).transpose(2, 0, 1)[:, ::2]
    expected = oracle(wide(values), 2.0)
    assert relative_error(soft_cap(values, 2.0, backend=device), expected) < 2e-6


@pytest.mark.parametrize("dtype", [mx.float32, mx.bfloat16], ids=str)
@pytest.mark.parametrize("start", [1, 2, 8])
@pytest.mark.parametrize("count", [8, 31, 64])
def test_views_that_begin_anywhere(start, count, dtype, device, draw, wide, relative_error):
    """Packs of 16 bytes are loaded where the view is aligned, elements where it is not."""
    values = draw((100,), dtype, 20.0)[start : start + count]
    cotangent = draw((100,), dtype)[1 : 1 + count]
    (capped,), (gradient,) = mx.vjp(
        lambda v: soft_cap(v, 15.0, backend=device), [values], [cotangent]
    )
    assert relative_error(capped, oracle(wide(values), 15.0)) < 5e-3
    expected = oracle_gradient(wide(values), wide(cotangent), 15.0)
    assert relative_error(gradient, expected) < 1e-2


def test_each_value_keeps_its_digits(simulator, wide):
    """tanh is made of an exponential above 0.625, of a polynomial below: no value loses digits."""
    near, far = np.geomspace(1e-30, 0.7, 20000), np.linspace(0.5, 12, 20000)
    values = mx.array(np.concatenate([near, far, -near, -far]), dtype=mx.float32)
    expected = oracle(wide(values), 1.0)
    errors = np.abs(wide(soft_cap(values, 1.0, backend="metal")) - expected) / np.abs(expected)
    assert errors.max() < 5e-7


# --- transformations ---------------------------------------------------------------------------


def test_second_derivative_in_the_cap_is_finite_everywhere(device):
    values = mx.array([0.0, 1e-3, 1.0, 1e3, 1e30])
    in_cap = mx.grad(lambda v, c: soft_cap(v, c, backend=device).sum(), argnums=1)
    second = mx.grad(in_cap, argnums=(0, 1))(values, mx.array(1.0))
    assert all(mx.all(mx.isfinite(array)).item() for array in second)


def test_counts_beyond_32_bits_have_64():
    """Of arrays of any size, which take no memory."""
    for columns, index, grid in ((2**16, mx.int64, 2**30), (2**15 - 1, mx.uint32, None)):
        values = mx.broadcast_to(mx.array(0.0), (2**16, columns))
        launch = soft_cap_module._launch(values)
        assert launch.template == (("T", mx.float32), ("Index", index), ("PACK", 4))
        assert launch.grid == (grid or 2**14 * columns, 1, 1)
        assert launch.threadgroup == (256, 1, 1)


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [15, 15.0, np.float32(15), np.float64(15), np.int64(15)])
def test_takes_any_number(cap):
    assert soft_cap(mx.zeros((2,)), cap).tolist() == [0, 0]


def test_no_cap_bounds_nothing():
    assert soft_cap(mx.array([-1e30, 2.5]), None).tolist() == mx.array([-1e30, 2.5]).tolist()


@pytest.mark.parametrize(
    ("values", "cap", "error", "message"),
    [
        *(
            (mx.ones((2,)), cap, ValueError, "soft_cap: cap_value must be")
            for cap in (0, -1.0, math.inf, math.nan, 1e39, 1e38, 1e-39, 10**400)
        ),
        *(
            (mx.ones((2,)), cap, TypeError, "soft_cap: cap_value must be a number")
            for cap in (True, "15", [15.0])
        ),
        (mx.ones((2,)), mx.ones((1,)), ValueError, r"0-d array, got shape \(1,\)"),
        *(
            (mx.zeros((2,), dtype=dtype), 15.0, TypeError, "values must be float32, float16 or bf")
            for dtype in (mx.int32, mx.bool_, mx.complex64, mx.float64)
        ),
        ([1.0], 15.0, TypeError, r"values must be an mlx\.core\.array, got list"),
    ],
)
def test_errors(values, cap, error, message):
    with pytest.raises(error, match=message):
        soft_cap(values, cap)
