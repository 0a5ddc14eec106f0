"""DoubleFloat against float64, and dot products against exact fractions."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels import DoubleFloat, default_backend

INF, NAN = math.inf, math.nan
BAR = 1e-12


@pytest.fixture(autouse=True)
def on_device(device):
    with default_backend(device):
        yield


def numbers(shape, seed: int, decades: int = 0) -> DoubleFloat:
    generator = np.random.default_rng(seed)
    scale = 10.0 ** generator.integers(-decades, decades + 1, shape)
    return DoubleFloat.from_numpy(generator.standard_normal(shape) * scale)


def float64(numbers: DoubleFloat) -> np.ndarray:
    return np.array(numbers.to_float64())


def exact_dot(a: DoubleFloat, b: DoubleFloat) -> Fraction:
    terms = zip(float64(a).tolist(), float64(b).tolist(), strict=True)
    return sum((Fraction(x) * Fraction(y) for x, y in terms), Fraction())


def test_conversion_keeps_48_bits():
    generator = np.random.default_rng(1)
    wide = generator.standard_normal(10_000) * 10.0 ** generator.integers(-25, 37, 10_000)
    kept = DoubleFloat.from_numpy(wide)
    np.testing.assert_allclose(float64(kept), wide, rtol=2**-48, atol=0)
    again = DoubleFloat.from_numpy(float64(kept))
    assert again.high.tolist() == kept.high.tolist()
    assert again.low.tolist() == kept.low.tolist()
    special = [INF, -INF, NAN, 1e300, 0.0]
    expected = [INF, -INF, NAN, INF, 0.0]
    np.testing.assert_array_equal(float64(DoubleFloat.from_numpy(np.array(special))), expected)


@pytest.mark.parametrize("apply", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_arithmetic(apply):
    a, b = numbers((7, 1, 30), 2, 8), numbers((5, 30), 3, 8)
    expected = apply(float64(a), float64(b))
    np.testing.assert_allclose(float64(apply(a, b)), expected, rtol=3e-14, atol=0)
    for number in (0.1, 3):
        expected = apply(number, float64(a))
        np.testing.assert_allclose(float64(apply(number, a)), expected, rtol=3e-14, atol=1e-30)
    half = mx.array(0.1, dtype=mx.float16)
    expected = apply(float64(a), half.item())
    np.testing.assert_allclose(float64(apply(a, half)), expected, rtol=3e-14, atol=0)


@pytest.mark.parametrize(
    "index", [1, -1, slice(None, None, -2), (..., 3), (slice(2), None), [2, 0]], ids=str
)
def test_indices(index):
    a = numbers((5, 7), 4)
    np.testing.assert_array_equal(float64(a[index]), float64(a)[index])


def test_iteration_ends():
    a = numbers((5, 7), 4)
    np.testing.assert_array_equal([float64(row) for row in a], float64(a))


def test_abs():
    a = numbers((5, 7), 4, 8)
    np.testing.assert_array_equal(float64(abs(a)), abs(float64(a)))
    slope = mx.grad(lambda high: abs(DoubleFloat(high, a.low)).sum().high)(a.high)
    np.testing.assert_array_equal(np.array(slope), np.sign(np.array(a.high)))


def test_exp():
    x = DoubleFloat.from_numpy(np.linspace(-69, 88.7, 5001))
    np.testing.assert_allclose(float64(x.exp()), np.exp(float64(x)), rtol=5e-14, atol=0)
    # Below, the low part is subnormal; from -87.3 on the result is.
    x = DoubleFloat.from_numpy(np.linspace(-103, -69, 501))
    np.testing.assert_allclose(float64(x.exp()), np.exp(float64(x)), rtol=2e-7, atol=2e-45)


def test_log():
    near_one = 1 + np.concatenate([np.linspace(-0.5, 0.5, 400), 10.0 ** -np.arange(1, 14)])
    everywhere = np.exp(np.linspace(-69, 88, 2001))
    x = DoubleFloat.from_numpy(np.concatenate([near_one, everywhere]))
    np.testing.assert_allclose(float64(x.log()), np.log(float64(x)), rtol=5e-14, atol=1e-300)


def test_sqrt():
    x = DoubleFloat.from_numpy(np.exp(np.linspace(-69, 88, 3001)))
    np.testing.assert_allclose(float64(x.sqrt()), np.sqrt(float64(x)), rtol=2e-14, atol=0)


@pytest.mark.parametrize("name", ["exp", "log", "sqrt"])
def test_special_values_of_functions(name):
    x = np.array([0.0, -0.0, INF, -INF, NAN, -1.0, 1.0])
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x)
    actual = getattr(DoubleFloat.from_numpy(x), name)()
    np.testing.assert_allclose(float64(actual), expected, rtol=1e-14)
    assert bool(mx.all(mx.isfinite(actual.low)))


@pytest.mark.parametrize("apply", [operator.add, operator.sub, operator.mul, operator.truediv])
def test_special_values_of_arithmetic(apply):
    x = np.array([0.0, INF, -INF, NAN, 2.0, -2.0])
    a, b = np.meshgrid(x, x)
    with np.errstate(all="ignore"):
        expected = apply(a, b)
    actual = float64(apply(DoubleFloat.from_numpy(a), DoubleFloat.from_numpy(b)))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    "apply", [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
)
def test_comparison(apply):
    x = np.array([1.0, 1 + 1e-10, 1 - 1e-10, -1.0, INF, -INF, NAN, 0.0])
    a, b = np.meshgrid(x, x)
    actual = apply(DoubleFloat.from_numpy(a), DoubleFloat.from_numpy(b))
    np.testing.assert_array_equal(np.array(actual), apply(a, b))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("count", [1, 2, 3, 31, 255, 256, 257, 1000, 4096])
@pytest.mark.parametrize("decades", [0, 6], ids=["normal", "ill scaled"])
def test_dot(count, decades):
    """With the condition number of random vectors: at most 1e3 here."""
    a, b = numbers((count,), count, decades), numbers((count,), count + 1, decades)
    expected = exact_dot(a, b)
    assert abs(Fraction(float(float64(a.dot(b)))) / expected - 1) < BAR


@pytest.mark.parametrize("shape", [(2, 8192), (1, 9001)], ids=str)
def test_few_long_rows(shape):
    """Several threadgroups add up a row."""
    a, b = numbers(shape, 30), numbers(shape, 31)
    sums, products = float64(a.sum(axis=1)), float64(a.vecdot(b))
    for row in range(shape[0]):
        terms = float64(a)[row], float64(b)[row]
        size = float(np.abs(terms[0] * terms[1]).sum())
        expected = exact_dot(*(DoubleFloat.from_numpy(term) for term in terms))
        assert abs(Fraction(float(products[row])) - expected) < BAR * size
        assert sums[row] == pytest.approx(math.fsum(terms[0]), rel=0, abs=1e-13 * size)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 5), (32, 16), (33, 70), (20, 1000), (4, 4096)], ids=str
)
@pytest.mark.parametrize("decades", [0, 3], ids=["normal", "ill scaled"])
def test_gram_matrix(shape, decades):
    a = numbers(shape, shape[1], decades)
    gram = float64(a @ a.T)
    wide = float64(a).astype(np.longdouble)
    # Relative to the product of norms: an element off the diagonal may be close to zero.
    norms = np.sqrt(np.outer((wide**2).sum(axis=1), (wide**2).sum(axis=1)))
    assert np.max(np.abs(gram - wide @ wide.T) / norms) < BAR
    np.testing.assert_array_equal(gram, gram.T)


def test_matmul_shapes():
    a, b = numbers((2, 1, 3, 4), 10), numbers((5, 4, 6), 11)
    x, y = numbers((4,), 12), numbers((3,), 13)
    for left, right in ((a, b), (a, x), (y, a), (x, x)):
        product = left @ right
        expected = float64(left) @ float64(right)
        assert product.shape == expected.shape
        np.testing.assert_allclose(float64(product), expected, rtol=0, atol=1e-13)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sum(axis, keepdims):
    a = numbers((3, 4, 300), 14, 3)
    expected = float64(a).sum(axis=axis, keepdims=keepdims)
    actual = a.sum(axis, keepdims=keepdims)
    assert actual.shape == expected.shape
    scale = np.abs(float64(a)).sum()
    np.testing.assert_allclose(float64(actual), expected, rtol=0, atol=1e-14 * scale)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 2)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", ["max", "min", "mean"])
def test_extremes_and_mean(name, axis, keepdims):
    """Of numbers that differ in their low parts alone, too."""
    wide = np.round(numbers((3, 4, 50), 14).to_float64()) + 1e-12 * np.arange(600).reshape(3, 4, 50)
    a = DoubleFloat.from_numpy(wide)
    expected = getattr(float64(a), name)(axis=axis, keepdims=keepdims)
    actual = getattr(a, name)(axis, keepdims=keepdims)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(float64(actual), expected, rtol=0, atol=1e-13 * (name == "mean"))


def test_special_values_of_extremes():
    a = DoubleFloat.from_numpy(np.array([[1, NAN, INF], [-INF, 2, -INF], [INF, 0, INF]]))
    np.testing.assert_array_equal(float64(a.max(axis=1)), [NAN, 2, INF])
    np.testing.assert_array_equal(float64(a.min(axis=1)), [NAN, -INF, 0])


@pytest.mark.parametrize("exponent", [2, -3, 7.0, 64, -64, 0.5, 100])
def test_powers_of_numbers(exponent):
    x = DoubleFloat.from_numpy(np.exp(np.linspace(-0.6, 0.6, 1001)))
    expected = float64(x).astype(np.longdouble) ** exponent
    np.testing.assert_allclose(float64(x**exponent), expected.astype(float), rtol=1e-12, atol=0)


def test_powers_of_arrays():
    """The error is that of the exponent, whose size is up to 64."""
    x, y = np.exp(np.linspace(-8, 8, 101))[:, None], np.linspace(-8, 8, 61)
    a, b = DoubleFloat.from_numpy(x), DoubleFloat.from_numpy(y)
    expected = float64(a).astype(np.longdouble) ** float64(b)
    np.testing.assert_allclose(float64(a**b), expected.astype(float), rtol=1e-12, atol=0)
    np.testing.assert_allclose(float64(2**b), 2 ** float64(b), rtol=1e-13, atol=0)


def test_special_values_of_powers():
    x = np.array([0.0, INF, -INF, NAN, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5, 3.0, -3.0])
    a, b = np.meshgrid(x, x)
    with np.errstate(all="ignore"):
        expected = a**b
    actual = float64(DoubleFloat.from_numpy(a) ** DoubleFloat.from_numpy(b))
    np.testing.assert_allclose(actual, expected, rtol=1e-13)
    for number in (0, 1, -1, 3, -2):
        with np.errstate(all="ignore"):
            expected = x ** float(number)
        actual = float64(DoubleFloat.from_numpy(x) ** number)
        np.testing.assert_allclose(actual, expected, rtol=1e-13)


def test_conversion_to_numpy():
    a = numbers((2, 3), 21)
    for found in (np.array(a), np.asarray(a)):
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, float64(a))
    assert np.asarray(a, dtype=np.float32).dtype == np.float32
    assert a.max().item() == float64(a).max()
    with pytest.raises(ValueError, match="copy"):
        np.asarray(a, copy=False)


def test_empty_arrays():
    empty = DoubleFloat.from_numpy(np.zeros((0, 3)))
    assert empty.exp().shape == (0, 3)
    assert (empty + 1).shape == (0, 3)
    assert float64(empty.sum(axis=0)).tolist() == [0, 0, 0]
    assert float64(empty.T @ empty).tolist() == [[0] * 3] * 3


def test_gradients_of_products_and_sums():
    a, b = numbers((3, 40), 15), numbers((40, 5), 16)
    weight = np.random.default_rng(17).standard_normal((3, 5)).astype(np.float32)

    def loss(high, low, other):
        product = DoubleFloat(high, low) @ DoubleFloat(other, b.low)
        return (product * mx.array(weight)).sum().high

    in_high, in_low, in_b = mx.grad(loss, argnums=(0, 1, 2))(a.high, a.low, b.high)
    np.testing.assert_allclose(np.array(in_high), weight @ float64(b).T, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(np.array(in_low), np.array(in_high))
    np.testing.assert_allclose(np.array(in_b), float64(a).T @ weight, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "slope"),
    [
        (lambda x: x.exp(), np.exp),
        (lambda x: x.log(), lambda x: 1 / x),
        (lambda x: x.sqrt(), lambda x: 0.5 / np.sqrt(x)),
        (lambda x: 3 - 1 / x, lambda x: 1 / x**2),
        (lambda x: (x * x).sum(), lambda x: 2 * x),
        (lambda x: x.vecdot(x), lambda x: 2 * x),
        (lambda x: x @ x, lambda x: 2 * x),
        (lambda x: x**3, lambda x: 3 * x**2),
        (lambda x: x**x, lambda x: x**x * (1 + np.log(x))),
        (lambda x: (x * x).mean(), lambda x: x / 6),
        (lambda x: (x * x).max(), lambda x: 2 * x * (x == x.max())),
    ],
    ids=[
        *("exp", "log", "sqrt", "reciprocal", "sum", "vecdot", "matmul"),
        *("power", "general power", "mean", "max"),
    ],
)
def test_derivatives(function, slope):
    x = DoubleFloat.from_numpy(np.linspace(0.5, 3, 12))
    tangent = np.linspace(-1, 1, 12).astype(np.float32)

    def total(high):
        return function(DoubleFloat(high, x.low)).sum().high

    np.testing.assert_allclose(np.array(mx.grad(total)(x.high)), slope(float64(x)), rtol=1e-6)
    _, (found,) = mx.jvp(total, [x.high], [mx.array(tangent)])
    assert found.item() == pytest.approx(float(slope(float64(x)) @ tangent), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda a: DoubleFloat(a.high.astype(mx.float16), a.low), TypeError, "must be float32"),
        (lambda a: DoubleFloat(a.high, a.low[0]), ValueError, "one shape"),
        (lambda a: a + "1", TypeError, "operand"),
        (lambda a: a + mx.array(1), TypeError, "float32, float16 or bfloat16"),
        (lambda a: a + DoubleFloat.from_numpy(np.ones(4)), ValueError, "do not broadcast"),
        (lambda a: a @ a, ValueError, "do not fit"),
        (lambda a: a.dot(a), ValueError, "must be 1-d"),
        (lambda a: a.vecdot(a.T), ValueError, "one length"),
        (lambda a: a.sum(axis=2), ValueError, "axis"),
        (lambda a: a.mean(axis=2), ValueError, r"DoubleFloat\.mean: axis"),
        (lambda a: DoubleFloat.from_numpy(np.ones((2, 0))).max(), ValueError, "have elements"),
        (lambda a: a.item(), ValueError, "one element"),
        (lambda a: a ** "1", TypeError, "operand"),
        (lambda a: a.sum(axis=(0, -2)), ValueError, "axis"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(numbers((2, 3), 20))
