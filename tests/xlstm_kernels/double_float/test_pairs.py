"""Pairs of float32 against float64."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.conftest import wide
from xlstm_kernels.double_float import pairs

INF = math.inf
COMPILED = pytest.mark.parametrize(
    "transform", [lambda f: f, mx.compile], ids=["as is", "compiled"]
)


def total(pair: pairs.Pair) -> np.ndarray:
    return wide(pair.high) + wide(pair.low)


def floats(scale: float, seed: int = 0, count: int = 10_000) -> mx.array:
    numbers = np.random.default_rng(seed).standard_normal(count) * scale
    return mx.array(numbers.astype(np.float32))


@COMPILED
def test_the_sum_of_two_is_exact(transform):
    a, b = floats(100, 1), floats(3, 2)
    summed = transform(pairs.two_sum)(a, b)
    np.testing.assert_array_equal(total(summed), wide(a) + wide(b))
    np.testing.assert_array_equal(wide(summed.high), wide(a + b))


@COMPILED
def test_sums_and_differences_of_pairs(transform):
    """Two hundred numbers of 100, of which all but 0.1 is taken away again."""
    numbers = np.random.default_rng(3).uniform(-100, 100, (200, 50)).astype(np.float32)

    def drift(numbers: mx.array) -> mx.array:
        accumulated = pairs.pair(mx.zeros((50,)))
        for row in numbers:
            accumulated = pairs.add(accumulated, pairs.pair(row))
        return pairs.difference(accumulated, pairs.two_sum(mx.sum(numbers, axis=0), -numbers[0]))

    given = mx.array(numbers)
    rounded = wide(mx.sum(given, axis=0)) - numbers[0].astype(np.float64)
    expected = numbers.astype(np.float64).sum(axis=0) - rounded
    np.testing.assert_allclose(wide(transform(drift)(given)), expected, rtol=2e-7, atol=1e-9)


def test_infinities_make_no_nan():
    a = pairs.pair(mx.array([-INF, -INF, 1.0, INF, 1.0]))
    b = pairs.pair(mx.array([-INF, 2.0, -INF, 3.0, 1.0]))
    assert total(pairs.add(a, b)).tolist() == [-INF, -INF, -INF, INF, 2]
    assert wide(pairs.difference(a, b)).tolist() == [-INF, -INF, INF, INF, 0]
    assert total(pairs.maximum(a, b)).tolist() == [-INF, 2, 1, INF, 1]
    assert pairs.less(a, b).tolist() == [False, True, False, False, False]
    slope = mx.grad(lambda x: mx.exp(pairs.difference(pairs.pair(x), b)).sum())(a.high)
    assert slope.tolist() == [0, 0, INF, INF, 1]


def test_the_low_part_decides_between_equals():
    one, tiny = mx.array([1.0, 1.0]), mx.array([1e-9, -1e-9])
    less = pairs.Pair(one, mx.array([0.0, -2e-9]))
    assert pairs.less(less, pairs.Pair(one, tiny)).tolist() == [True, True]
    assert wide(pairs.maximum(less, pairs.Pair(one, tiny)).low) == pytest.approx(wide(tiny))


@COMPILED
def test_exp(transform):
    """Better than MLX's, which loses up to 6 bits on the CPU."""
    high = np.linspace(-87, 88.5, 100_001).astype(np.float32)
    low = np.random.default_rng(4).uniform(-0.5, 0.5, high.shape) * np.spacing(np.abs(high))
    pair = pairs.Pair(mx.array(high), mx.array(low.astype(np.float32)))
    np.testing.assert_allclose(wide(transform(pairs.exp)(pair)), np.exp(total(pair)), rtol=2e-7)


def test_exp_beyond_the_limits_of_float32():
    x = mx.array([-INF, -1e30, -300.0, -150.0, 0.0, 89.0, 150.0, 300.0, INF, math.nan])
    expected = [0, 0, 0, 0, 1, INF, INF, INF, INF, math.nan]
    np.testing.assert_array_equal(wide(pairs.exp(pairs.pair(x))), expected)
    slope = mx.grad(lambda x: pairs.exp(pairs.pair(x)).sum())(x[:5])
    assert slope.tolist() == [0, 0, 0, 0, 1]


def test_log_sigmoid():
    x = np.concatenate([np.linspace(-110, 110, 100_001), [-INF, -0.0, INF]]).astype(np.float32)
    with np.errstate(over="ignore"):
        expected = -np.logaddexp(0, -x.astype(np.float64))
    actual = pairs.log_sigmoid(mx.array(x))
    # In an exponent the absolute error counts. That of a float32 would be 4e-6 at -100.
    np.testing.assert_allclose(total(actual), expected, rtol=0, atol=8e-8)
    # The right tail keeps its digits, all but those that MLX's exp loses there; exp(-100) is no
    # normal float32.
    np.testing.assert_allclose(total(actual), expected, rtol=5e-6, atol=1e-37)
    slope = mx.grad(lambda x: pairs.log_sigmoid(x).high.sum())(mx.array(x))
    with np.errstate(over="ignore"):
        sigmoid = 1 / (1 + np.exp(x.astype(np.float64)))
    np.testing.assert_allclose(wide(slope), sigmoid, rtol=5e-6, atol=1e-37)
