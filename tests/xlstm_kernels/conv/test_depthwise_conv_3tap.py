"""depthwise_conv_3tap against its definition in float64."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.xlstm_kernels.conv import oracle
from xlstm_kernels.conv.depthwise_conv_3tap import depthwise_conv_3tap

LENGTHS = [0, 1, 2, 3, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256, 257, 372]


def drawn(draw, batch, channels, length, dtype=mx.float32, other_dtype=None):
    other = other_dtype or dtype
    return (
        draw((batch, channels, length), dtype),
        draw((channels, 3), other),
        draw((channels,), other),
    )


# --- the oracle itself -------------------------------------------------------------------------


def test_golden_values(device):
    """Taps 1, 10, 100: the digits of y are the step after, the present, and the one before."""
    x, weight = mx.array([[[1.0, 2.0, 3.0, 4.0]]]), mx.array([[1.0, 10.0, 100.0]])
    y = depthwise_conv_3tap(x, weight, backend=device)
    assert y.flatten().tolist() == [210, 321, 432, 43]
    y = depthwise_conv_3tap(x, weight, mx.array([0.5]), backend=device)
    assert y.flatten().tolist() == [210.5, 321.5, 432.5, 43.5]


def test_golden_values_of_the_oracle():
    x, weight = np.array([[[1.0, 2.0, 3.0, 4.0]]]), np.array([[1.0, 10.0, 100.0]])
    y = oracle.centred(x, weight, np.array([0.5]))
    assert y.flatten().tolist() == [210.5, 321.5, 432.5, 43.5]
    assert oracle.centred(x[:, :, :1], weight).item() == 10


def test_the_other_operator_of_that_name(device):
    """Its window is the present and two steps to come: the docstring says how to get it."""
    x, weight = mx.array([[[1.0, 2.0, 3.0, 4.0]]]), mx.array([[100.0, 10.0, 1.0]])
    prolonged = mx.pad(x, ((0, 0), (0, 0), (0, 1)))
    y = depthwise_conv_3tap(prolonged, weight, backend=device)[:, :, 1:]
    assert y.flatten().tolist() == [123, 234, 340, 400]


# --- values ------------------------------------------------------------------------------------


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_lengths(length, biased, device, draw, wide, relative_error):
    x, weight, bias = drawn(draw, 2, 9, length)
    arrays = (x, weight, bias) if biased else (x, weight)
    y = depthwise_conv_3tap(*arrays, backend=device)
    assert y.dtype == mx.float32
    assert relative_error(y, oracle.centred(*map(wide, arrays))) < 2e-6


@pytest.mark.parametrize("others", ["own dtype", "float32"])
def test_dtypes(others, device, precision, draw, wide, relative_error):
    other = mx.float32 if others == "float32" else precision.dtype
    arrays = drawn(draw, 2, 11, 65, precision.dtype, other)
    y = depthwise_conv_3tap(*arrays, backend=device)
    assert y.dtype == precision.dtype
    assert relative_error(y, oracle.centred(*map(wide, arrays))) < precision.value


@pytest.mark.parametrize("shape", [(0, 3, 5), (2, 0, 5), (2, 3, 0), (0, 0, 0)], ids=str)
def test_empty(shape, device, draw):
    assert depthwise_conv_3tap(*drawn(draw, *shape), backend=device).shape == shape


def test_one_rounding(device):
    """Each partial sum rounds to 1 in bfloat16, the whole to the number above it."""
    x = mx.array([[[2.0**-16, 2.0**-8, 1.0]]], dtype=mx.bfloat16)
    y = depthwise_conv_3tap(x, mx.ones((1, 3), dtype=mx.bfloat16), backend=device)
    assert y.flatten().tolist()[1] == 1 + 2.0**-7


@pytest.mark.parametrize("step", [0, 31, 32, 127, 128, 199])
def test_nan_stays_in_its_channel_and_window(step, device):
    x = np.ones((1, 3, 200), dtype=np.float32)
    x[0, 1, step] = math.nan
    y = np.array(depthwise_conv_3tap(mx.array(x), mx.ones((3, 3)), backend=device))
    seen = [t for t in (step - 1, step, step + 1) if 0 <= t < 200]
    assert sorted(zip(*np.nonzero(np.isnan(y)), strict=True)) == [(0, 1, t) for t in seen]


@given(batch=st.integers(0, 4), channels=st.integers(0, 20), length=st.integers(0, 300))
@settings(
    deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_shape(batch, channels, length, device, draw, wide, relative_error):
    arrays = drawn(draw, batch, channels, length)
    y = depthwise_conv_3tap(*arrays, backend=device)
    # Sums may cancel in an array of few elements: errors are those of the terms.
    terms = oracle.centred(*(np.abs(wide(array)) for array in arrays))
    assert relative_error(y, oracle.centred(*map(wide, arrays)), terms) < 2e-6


def test_strided_inputs(device, draw, wide, relative_error):
    x = draw((2, 140, 22), mx.float32).transpose(0, 2, 1)[:, ::2, ::-1]
    weight, bias = draw((3, 11), mx.float32).T, draw((22,), mx.float32)[::2]
    y = depthwise_conv_3tap(x, weight, bias, backend=device)
    assert relative_error(y, oracle.centred(wide(x), wide(weight), wide(bias))) < 2e-6


# --- cost --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 64, 64), (8, 64, 65), (2, 64, 372), (1, 7, 3000)], ids=str)
def test_memory_is_accessed_once(shape, simulator, draw):
    """Counting each thread's accesses; float32 filters weigh most beside a bfloat16 x."""
    arrays = drawn(draw, *shape, mx.bfloat16, mx.float32)
    y = depthwise_conv_3tap(*arrays)
    mx.eval(y)
    (launch,) = simulator.launches
    assert launch.device_bytes <= 1.1 * sum(array.nbytes for array in (*arrays, y))
    assert math.prod(launch.grid) * 4 >= y.size


# --- transformations ---------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 5])
def test_gradients(length, device, draw, wide, relative_error):
    primals, cotangent = drawn(draw, 2, 3, length), draw((2, 3, length), mx.float32)

    def loss(*arrays):
        return (wide(cotangent) * oracle.centred(*arrays)).sum()

    _, gradients = mx.vjp(
        lambda *arrays: depthwise_conv_3tap(*arrays, backend=device), list(primals), [cotangent]
    )
    numeric = oracle.numeric_gradients(loss, [wide(p) for p in primals])
    for actual, exact in zip(gradients, numeric, strict=True):
        assert relative_error(actual, exact) < 5e-6


def test_compile(device, draw):
    primals = drawn(draw, 2, 3, 40)
    step = mx.grad(
        lambda *arrays: mx.sum(mx.square(depthwise_conv_3tap(*arrays, backend=device))),
        argnums=(0, 1, 2),
    )
    for one, other in zip(mx.compile(step)(*primals), step(*primals), strict=True):
        np.testing.assert_allclose(np.array(one), np.array(other), rtol=1e-5, atol=1e-5)


def test_vmap(draw):
    x, weight, bias = drawn(draw, 3, 4, 20)
    mapped = mx.vmap(lambda x: depthwise_conv_3tap(x[None], weight, bias, backend="native"))(x)
    whole = depthwise_conv_3tap(x, weight, bias, backend="native")
    np.testing.assert_allclose(np.array(mapped)[:, 0], np.array(whole), rtol=1e-6)


# --- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (3, 5), (1, 2, 3, 5)], ids=str)
def test_rejects_x_of_other_ranks(shape):
    with pytest.raises(ValueError, match=r"depthwise_conv_3tap: x must be \(B, C, L\)"):
        depthwise_conv_3tap(mx.ones(shape), mx.ones((3, 3)))


@pytest.mark.parametrize("shape", [(), (3,), (5, 3), (5, 2), (4, 4)], ids=str)
def test_rejects_weights_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"weight must be \(C, 3\) = \(4, 3\), got"):
        depthwise_conv_3tap(mx.ones((2, 4, 6)), mx.ones(shape))


@pytest.mark.parametrize("shape", [(), (1,), (3,), (4, 1)], ids=str)
def test_rejects_biases_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"bias must have shape \(4,\)"):
        depthwise_conv_3tap(mx.ones((2, 4, 6)), mx.ones((4, 3)), mx.ones(shape))


@pytest.mark.parametrize("dtype", [mx.int32, mx.complex64, mx.float64], ids=str)
@pytest.mark.parametrize("position", range(3))
def test_rejects_other_dtypes(position, dtype):
    arrays = [mx.ones((2, 4, 6)), mx.ones((4, 3)), mx.ones((4,))]
    arrays[position] = mx.zeros(arrays[position].shape, dtype=dtype)
    name = ("x", "weight", "bias")[position]
    with pytest.raises(TypeError, match=f"depthwise_conv_3tap: {name} must be float32"):
        depthwise_conv_3tap(*arrays)
