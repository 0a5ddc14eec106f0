"""rms_norm against a float64 oracle written from its definition."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels import rms_norm
from xlstm_kernels.norm import rows

SHAPES = [(2, 129), (1,), (0,), (0, 5), (3, 0), (5, 1), (4, 32), (2, 3, 33), (3, 2500), (2, 9001)]
EPS = 1e-5


def oracle_scale(x: np.ndarray, eps: float = EPS) -> np.ndarray:
    """1 / rms of each row."""
    columns = max(x.shape[-1], 1)  # the mean of no elements is never used
    return 1 / np.sqrt((x**2).sum(axis=-1, keepdims=True) / columns + eps)


def oracle(x: np.ndarray, weight: np.ndarray | None = None, eps: float = EPS) -> np.ndarray:
    return x * oracle_scale(x, eps) * (1.0 if weight is None else weight)


def oracle_gradients(
    x: np.ndarray, weight: np.ndarray | None, cotangent: np.ndarray, eps: float = EPS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """In x; in the weight; and the part of the first that a norm held constant would give."""
    scale = oracle_scale(x, eps)
    pulled = cotangent * (1.0 if weight is None else weight)
    projection = (pulled * x).sum(axis=-1, keepdims=True) / max(x.shape[-1], 1)
    in_x = scale * pulled - scale**3 * x * projection
    in_weight = (cotangent * x * scale).sum(axis=tuple(range(x.ndim - 1)))
    return in_x, in_weight, scale * pulled


@pytest.fixture(params=["float32", "own dtype", "no weight"])
def weight_dtype(request, precision):
    return {"no weight": None, "own dtype": precision.dtype, "float32": mx.float32}[request.param]


def test_golden_values(device):
    # The mean square of (3, 4, 0, 0) is 25 / 4, its root 5 / 2.
    x, weight = mx.array([[3.0, 4.0, 0.0, 0.0]]), mx.array([1.0, 2.0, 3.0, 4.0])
    assert rms_norm(x, eps=0, backend=device).tolist() == [pytest.approx([1.2, 1.6, 0, 0])]
    weighted = rms_norm(x, weight, eps=0, backend=device)
    assert weighted.tolist() == [pytest.approx([1.2, 3.2, 0, 0])]
    # With eps = 6 the root is that of 49 / 4.
    assert rms_norm(x, eps=6, backend=device).tolist() == [pytest.approx([6 / 7, 8 / 7, 0, 0])]


# --- values and gradients ----------------------------------------------------------------------


@pytest.mark.sampled(12)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_value_and_gradient(shape, weight_dtype, device, precision, draw, wide, relative_error):
    x, cotangent = draw(shape, precision.dtype), draw(shape, precision.dtype)
    primals = [x] if weight_dtype is None else [x, draw(shape[-1:], weight_dtype)]
    weight = None if weight_dtype is None else wide(primals[1])

    (normalised,), gradients = mx.vjp(
        lambda x, weight=None: rms_norm(x, weight, EPS, backend=device), primals, [cotangent]
    )
    assert normalised.dtype == precision.dtype
    assert relative_error(normalised, oracle(wide(x), weight)) < precision.value

    in_x, in_weight, constant_norm = oracle_gradients(wide(x), weight, wide(cotangent))
    assert [g.dtype for g in gradients] == [p.dtype for p in primals]
    # For rows of one element both parts of the gradient cancel: errors are those of the parts.
    assert relative_error(gradients[0], in_x, constant_norm) < precision.gradient
    if weight_dtype is not None:
        limit = 5e-6 if weight_dtype == mx.float32 else precision.gradient
        assert relative_error(gradients[1], in_weight) < limit


@pytest.mark.parametrize("shape", [(700, 40), (100, 300)], ids=str)
def test_many_rows(shape, monkeypatch, device, draw, wide, relative_error):
    """More rows than threadgroups and blocks, as a big batch has them."""
    monkeypatch.setattr(rows, "_MAX_ROW_GROUPS", 7)
    x, cotangent, weight = draw(shape, mx.float32), draw(shape, mx.float32), mx.ones(shape[1:])
    (normalised,), gradients = mx.vjp(
        lambda x, weight: rms_norm(x, weight, EPS, backend=device), [x, weight], [cotangent]
    )
    assert relative_error(normalised, oracle(wide(x))) < 2e-6
    in_x, in_weight, _ = oracle_gradients(wide(x), None, wide(cotangent))
    assert relative_error(gradients[0], in_x) < 5e-6
    assert relative_error(gradients[1], in_weight) < 5e-6


def test_weight_gradient_of_no_rows_is_zero(device):
    in_weight = mx.grad(lambda w: rms_norm(mx.zeros((0, 5)), w, backend=device).sum())(
        mx.ones((5,))
    )
    assert in_weight.tolist() == [0, 0, 0, 0, 0]


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16], ids=str)
def test_squares_beyond_the_dtype(dtype, device):
    """300 squared is no float16; inside, it is a float32."""
    x = mx.array([[300.0, -300.0], [2.0**-14, 2.0**-14]], dtype=dtype)
    assert rms_norm(x, eps=0, backend=device).tolist() == [[1, -1], [1, 1]]


def test_zero_rows(device):
    x = mx.zeros((2, 40))
    normalised = rms_norm(x, backend=device)
    gradient = mx.grad(lambda x: rms_norm(x, eps=1e-6, backend=device).sum())(x)
    assert not mx.any(normalised).item()
    np.testing.assert_allclose(np.array(gradient), 1000, rtol=1e-6)


def test_nan_stays_in_its_row(device):
    x = mx.array([[1.0, math.nan], [1.0, 1.0]])
    normalised = np.array(rms_norm(x, eps=0, backend=device))
    assert np.isnan(normalised[0]).all()
    np.testing.assert_allclose(normalised[1], 1, rtol=1e-6)


def test_strided_inputs(device, draw, wide, relative_error):
    x = draw((33, 6, 4), mx.float32).transpose(2, 1, 0)[:, ::2]
    weight = draw((66,), mx.float32)[::2]
    normalised = rms_norm(x, weight, EPS, backend=device)
    assert relative_error(normalised, oracle(wide(x), wide(weight))) < 2e-6


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((mx.array(1.0),), ValueError, "rms_norm: x must have an axis"),
        *(
            ((mx.ones((3, 5)), mx.ones(shape)), ValueError, r"weight must have shape \(5,\)")
            for shape in ((), (1,), (4,), (1, 5), (5, 1))
        ),
        *(
            ((mx.ones((3,)), None, eps), ValueError, "rms_norm: eps must")
            for eps in (-1e-6, math.nan, math.inf, 1e39)
        ),
        *(
            ((mx.ones((3,)), None, eps), TypeError, "rms_norm: eps must be a number")
            for eps in (None, True, "1e-6", mx.array(1e-6))
        ),
        ((mx.zeros((3,), dtype=mx.int32),), TypeError, "rms_norm: x must be float32"),
        (
            (mx.zeros((3,)), mx.zeros((3,), dtype=mx.int32)),
            TypeError,
            "rms_norm: weight must be float32",
        ),
    ],
)
def test_errors(arguments, error, message):
    with pytest.raises(error, match=message):
        rms_norm(*arguments)
