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
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


# --- gradients ---------------------------------------------------------------------------------


def gradients_of(primals, cotangent, device):
    _, found = mx.vjp(
        lambda *arrays: depthwise_conv_3tap(*arrays, backend=device), list(primals), [cotangent]
    )
    return found


@pytest.mark.parametrize("length", [0, 1, 2, 5])
def test_the_oracle_is_the_slope(length):
    normal = np.random.default_rng(5).standard_normal
    x, weight, bias, cotangent = (normal(s) for s in ((2, 3, length), (3, 3), (3,), (2, 3, length)))
    exact = oracle.centred_gradients(x, weight, cotangent)
    slopes = oracle.numeric_gradients(
        lambda *arrays: (cotangent * oracle.centred(*arrays)).sum(), [x, weight, bias]
    )
    for gradient, slope in zip(exact, slopes, strict=True):
        np.testing.assert_allclose(gradient, slope, atol=1e-8)


def test_golden_gradients(device):
    """Taps 1, 10, 100, and y's cotangents 1, 2, 3, 4: digits are y's that an x is seen by."""
    x, weight = mx.array([[[5.0, 6.0, 7.0, 8.0]]]), mx.array([[1.0, 10.0, 100.0]])
    cotangent = mx.array([[[1.0, 2.0, 3.0, 4.0]]])
    found = gradients_of([x, weight, mx.array([0.5])], cotangent, device)
    assert found[0].flatten().tolist() == [12, 123, 234, 340]
    assert found[1].tolist() == [[10 + 18 + 28, 5 + 12 + 21 + 32, 6 + 14 + 24]]
    assert found[2].tolist() == [10]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
def test_gradients(length, biased, device, draw, wide, relative_error):
    primals, cotangent = drawn(draw, 2, 9, length)[: 2 + biased], draw((2, 9, length), mx.float32)
    exact = oracle.centred_gradients(*map(wide, primals[:2]), wide(cotangent))
    found = gradients_of(primals, cotangent, device)
    for actual, expected in zip(found, exact[: 2 + biased], strict=True):
        assert actual.dtype == mx.float32
        assert relative_error(actual, expected) < 5e-6


@pytest.mark.parametrize("others", ["own dtype", "float32"])
def test_dtypes_of_gradients(others, device, precision, draw, wide, relative_error):
    other = mx.float32 if others == "float32" else precision.dtype
    primals = drawn(draw, 2, 11, 165, precision.dtype, other)
    cotangent = draw((2, 11, 165), precision.dtype)
    exact = oracle.centred_gradients(*map(wide, primals[:2]), wide(cotangent))
    for primal, actual, expected in zip(
        primals, gradients_of(primals, cotangent, device), exact, strict=True
    ):
        assert actual.dtype == primal.dtype
        bar = {mx.float32: 5e-6, mx.float16: 2e-3, mx.bfloat16: 1e-2}[actual.dtype]
        assert relative_error(actual, expected) < bar


@pytest.mark.parametrize("shape", [(0, 3, 5), (2, 0, 5), (2, 3, 0), (0, 0, 0)], ids=str)
def test_empty_gradients(shape, device, draw):
    primals = drawn(draw, *shape)
    found = gradients_of(primals, mx.zeros(shape), device)
    assert [f.shape for f in found] == [p.shape for p in primals]
    assert not any(mx.any(gradient).item() for gradient in found)


@given(
    batch=st.integers(0, 4),
    channels=st.integers(0, 20),
    length=st.integers(0, 300),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_gradients_of_any_shape(batch, channels, length, seed, *, device, wide, relative_error):
    normal = np.random.default_rng(seed).standard_normal
    shape = (batch, channels, length)
    x, weight, bias, cotangent = (
        mx.array(normal(s), dtype=mx.float32) for s in (shape, (channels, 3), (channels,), shape)
    )
    numbers = (wide(x), wide(weight), wide(cotangent))
    exact = oracle.centred_gradients(*numbers)
    # Sums may cancel in an array of few elements: errors are those of the terms.
    terms = oracle.centred_gradients(*map(np.abs, numbers))
    found = gradients_of([x, weight, bias], cotangent, device)
    for actual, expected, scale in zip(found, exact, terms, strict=True):
        assert relative_error(actual, expected, scale) < 5e-6


def test_strided_gradients(device, draw, wide, relative_error):
    x = draw((2, 140, 22), mx.float32).transpose(0, 2, 1)[:, ::2, ::-1]
    weight, bias = draw((3, 11), mx.float32).T, draw((22,), mx.float32)[::2]
    cotangent = draw((140, 11, 2), mx.float32).transpose(2, 1, 0)
    exact = oracle.centred_gradients(wide(x), wide(weight), wide(cotangent))
    found = gradients_of([x, weight, bias], cotangent, device)
    for actual, expected in zip(found, exact, strict=True):
        assert relative_error(actual, expected) < 5e-6


@pytest.mark.parametrize("step", [0, 127, 128, 199])
def test_infinite_x_stays_in_its_channel(step, device):
    x = np.ones((1, 3, 200), dtype=np.float32)
    x[0, 1, step] = math.inf
    in_x, in_weight = gradients_of([mx.array(x), mx.ones((3, 3))], mx.ones((1, 3, 200)), device)
    assert np.isfinite(np.array(in_x)).all()
    seen = [math.inf if 0 <= step + shift < 200 else 199 for shift in (1, 0, -1)]
    assert in_weight.tolist() == [[199, 200, 199], seen, [199, 200, 199]]


@pytest.mark.parametrize("shape", [(1, 64, 64), (8, 64, 65), (2, 64, 372), (1, 7, 3000)], ids=str)
def test_memory_is_accessed_once_for_all_gradients(shape, simulator, draw):
    """Of one launch: x and dy are read once, dx is written once."""
    primals = drawn(draw, *shape, mx.bfloat16, mx.float32)
    mx.eval(gradients_of(primals, draw(shape, mx.bfloat16), "metal"))
    (launch,) = [made for made in simulator.launches if "gradient" in made.kernel]
    x, weight, bias = (primal.nbytes for primal in primals)
    assert launch.device_bytes <= 1.1 * (3 * x + 2 * weight + bias)
    strided = {name for name in launch.traffic if name.endswith("_strides")}
    assert strided == {"values_strides", "weight_strides", "cotangent_strides"}


def test_second_derivatives(device, draw, wide, relative_error):
    """Of the gradients' product with fixed directions: symmetric, so differences of gradients."""
    primals, cotangent = drawn(draw, 2, 3, 40), draw((2, 3, 40), mx.float32)
    directions = drawn(draw, 2, 3, 40)

    def along(*arrays):
        found = gradients_of(arrays, cotangent, device)
        return sum(mx.sum(f * d) for f, d in zip(found, directions, strict=True))

    actual = mx.grad(along, argnums=(0, 1, 2))(*primals)
    # Both are linear in the other one, so that a step of one is the slope.
    one, other = (list(map(wide, arrays)) for arrays in (primals, directions))
    ahead, behind = (
        oracle.centred_gradients(one[0] + s * other[0], one[1] + s * other[1], wide(cotangent))
        for s in (0.5, -0.5)
    )
    for result, plus, minus in zip(actual, ahead, behind, strict=True):
        assert relative_error(result, plus - minus) < 5e-6


# --- transformations ---------------------------------------------------------------------------


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
