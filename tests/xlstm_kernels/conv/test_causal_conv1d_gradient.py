"""Gradients of causal_conv1d and causal_conv1d_update against those of the definition."""

from __future__ import annotations

import itertools
import math

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.conv import oracle
from xlstm_kernels.conv import causal_runs
from xlstm_kernels.conv.causal_conv1d import causal_conv1d
from xlstm_kernels.conv.causal_runs import runs

LENGTHS = [65, 0, 1, 2, 16, 17, 372]
BARS = {mx.float32: 5e-6, mx.float16: 2e-3, mx.bfloat16: 1e-2}


@pytest.fixture
def drawn(draw):
    """x, weight, bias, states, and the cotangents of y and of the final states."""

    def arrays(batch, steps, channels, width, dtype=mx.float32, other=None):
        x, states = (batch, steps, channels), (batch, width - 1, channels)
        others = [draw(s, other or dtype) for s in ((channels, width), (channels,), states)]
        return [draw(x, dtype), *others], [draw(x, dtype), draw(states, dtype)]

    return arrays


@pytest.fixture
def judge(wide, relative_error):
    """Hold gradients to the definition's; with `by_terms`, errors to the terms of their sums."""

    def compare(found, primals, cotangents, activation, *, by_terms=False):
        numbers = [None if primal is None else wide(primal) for primal in primals]
        pulled = [None if c is None else wide(c) for c in cotangents]
        if pulled[1] is None:
            batch, _, channels = numbers[0].shape
            pulled[1] = np.zeros((batch, numbers[1].shape[1] - 1, channels))
        exact = oracle.causal_gradients(*numbers, activation, pulled)
        sizes = [None if n is None else np.abs(n) for n in numbers]
        terms = oracle.causal_gradients(*sizes, None, [np.abs(c) for c in pulled])
        rest = iter(found)
        for primal, expected, scale in zip(primals, exact, terms, strict=True):
            if primal is not None:
                gradient = next(rest)
                assert gradient.dtype == primal.dtype
                error = relative_error(gradient, expected, scale if by_terms else None)
                assert error < BARS[primal.dtype]
        assert list(rest) == []

    return compare


def gradients_of(primals, cotangents, activation, device):
    """In those of x, weight, bias and states that there are."""
    present = [primal is not None for primal in primals]
    final = cotangents[1] is not None

    def operator(*arrays):
        given = iter(arrays)
        named = [next(given) if there else None for there in present]
        return causal_conv1d(*named, final, activation, backend=device)

    arrays = [primal for primal in primals if primal is not None]
    _, found = mx.vjp(operator, arrays, cotangents if final else cotangents[:1])
    return found


# --- values ------------------------------------------------------------------------------------


@pytest.mark.sampled(16)
@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize(("steps", "width"), [(1, 4), (7, 4), (70, 1), (131, 4), (90, 8)], ids=str)
def test_packs_of_channels(
    steps, width, activation, monkeypatch, precision, simulator, drawn, judge
):
    """As in arrays that keep a GPU busy: a thread takes several channels."""
    monkeypatch.setattr(causal_runs, "_BUSY_THREADS", 0)
    primals, cotangents = drawn(3, steps, 34, width, precision.dtype)
    found = gradients_of(primals, cotangents, activation, "metal")
    judge(found, primals, cotangents, activation, by_terms=True)


@pytest.mark.parametrize("width", [4, 1])
@pytest.mark.parametrize("steps", LENGTHS)
def test_lengths_and_widths(steps, width, device, drawn, judge):
    primals, cotangents = drawn(2, steps, 33, width)
    judge(gradients_of(primals, cotangents, "silu", device), primals, cotangents, "silu")


@pytest.mark.parametrize(
    ("biased", "continued", "final", "activation"),
    list(itertools.product([True, False], [True, False], [True, False], ["silu", None])),
)
def test_options(biased, continued, final, activation, device, drawn, judge):
    (x, weight, bias, states), (cotangent, final_cotangent) = drawn(2, 70, 33, 4)
    primals = [x, weight, bias if biased else None, states if continued else None]
    cotangents = [cotangent, final_cotangent if final else None]
    judge(gradients_of(primals, cotangents, activation, device), primals, cotangents, activation)


@pytest.mark.parametrize("others", ["own dtype", "float32"])
def test_dtypes(others, device, precision, drawn, judge):
    """Weights of float32 have gradients of float32, though x is half as precise."""
    other = mx.float32 if others == "float32" else precision.dtype
    primals, cotangents = drawn(2, 65, 40, 4, precision.dtype, other)
    judge(gradients_of(primals, cotangents, "silu", device), primals, cotangents, "silu")


@pytest.mark.parametrize("shape", [(0, 5, 3), (2, 5, 0), (2, 0, 3), (0, 0, 0), (2, 1, 0)], ids=str)
@pytest.mark.parametrize("width", [1, 4])
def test_empty(shape, width, device, drawn, judge):
    primals, cotangents = drawn(*shape, width)
    found = gradients_of(primals, cotangents, "silu", device)
    judge(found, primals, cotangents, "silu")
    if not shape[1] or not shape[0]:
        assert not mx.any(found[1]).item()
        assert not mx.any(found[2]).item()


def test_slope_far_out(device):
    """1 at the right, next to nothing at the left, where exp(-z) is infinite."""
    x = mx.array([[[-200.0], [-90.0], [-20.0], [0.0], [20.0], [90.0], [200.0]]])
    slope = mx.grad(
        lambda v: causal_conv1d(v, mx.ones((1, 1)), activation="silu", backend=device).sum()
    )(x)
    far = -19 * math.exp(-20)
    np.testing.assert_allclose(
        slope.flatten().tolist(), [0, 0, far, 0.5, 1 - far, 1, 1], rtol=1e-5, atol=1e-36
    )


# --- layouts and cost --------------------------------------------------------------------------


def test_strided_inputs(device, draw, judge):
    x = draw((2, 66, 90), mx.float32).transpose(0, 2, 1)[:, ::-1, ::2]
    weight = draw((4, 33), mx.float32).transpose(1, 0)
    bias = draw((66,), mx.float32)[::2]
    states = draw((33, 3, 2), mx.float32).transpose(2, 1, 0)[:, ::-1]
    cotangents = [
        draw((33, 2, 90), mx.float32).transpose(1, 2, 0),
        draw((2, 33, 3), mx.float32).transpose(0, 2, 1),
    ]
    primals = [x, weight, bias, states]
    judge(gradients_of(primals, cotangents, "silu", device), primals, cotangents, "silu")


@pytest.mark.parametrize("windows", [1, 2])
@pytest.mark.parametrize("width", range(1, 33))
def test_threadgroups_have_the_memory(width, windows):
    """Metal's 32 KB hold the filters and the ends of all places."""
    places = runs(mx.zeros((9, 500, 3)), width, windows=windows).places
    floats = (width + 1) * 32 + windows * places * max(width - 1, 1) * 32
    assert 4 * floats <= 32 * 1024
    assert places >= 3
