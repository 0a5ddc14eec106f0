"""`fft_conv` against direct convolutions in float64."""

from __future__ import annotations

import mlx.core as mx
import pytest

from tests.xlstm_kernels.conv.oracle import causal, long_causal, long_causal_gradients
from xlstm_kernels import causal_conv1d, fft_conv, fftconv
from xlstm_kernels.conv.fft_conv import fft_length


@pytest.mark.parametrize("steps", [1, 2, 3, 100, 2049, 4096, 32768])
@pytest.mark.parametrize("taps", ["one", "as many as steps"])
def test_lengths(steps, taps, draw, wide, relative_error):
    width = 1 if taps == "one" else steps
    arrays = draw((1, steps, 1), mx.float32), draw((1, width), mx.float32)
    assert relative_error(fft_conv(*arrays), long_causal(*map(wide, arrays))) < 1e-6


@pytest.mark.parametrize("skipped", [False, True])
@pytest.mark.parametrize("width", [1, 4, 150, 400])
def test_values(width, skipped, precision, draw, wide, relative_error):
    arrays = [draw((2, 150, 5), precision.dtype), draw((5, width), precision.dtype)]
    if skipped:
        arrays.append(draw((5,), precision.dtype))
    y = fft_conv(*arrays)
    assert y.dtype == precision.dtype
    expected = long_causal(*map(wide, arrays))
    assert relative_error(y, expected) < precision.value
    u, *others = arrays
    first = fftconv(u.swapaxes(1, 2), *others)
    assert relative_error(first, expected.swapaxes(1, 2)) < precision.value


def test_is_causal_conv1d_with_its_taps_reversed(draw, wide, relative_error):
    x, weight = draw((2, 70, 6), mx.float32), draw((6, 9), mx.float32)
    expected = wide(causal_conv1d(x, weight, backend="native"))
    assert relative_error(fft_conv(x, weight[:, ::-1]), expected) < 2e-6


def test_gradients(draw, wide, relative_error):
    x, weight, skip = (draw(shape, mx.float32) for shape in ((2, 40, 3), (3, 17), (3,)))
    cotangent = draw(x.shape, mx.float32)
    _, found = mx.vjp(fft_conv, [x, weight, skip], [cotangent])
    expected = long_causal_gradients(*map(wide, (x, weight, skip, cotangent)))
    for gradient, array in zip(found, expected, strict=True):
        assert relative_error(gradient, array) < 2e-6
    _, first = mx.vjp(
        fftconv,
        [x.swapaxes(1, 2), weight, skip],
        [cotangent.swapaxes(1, 2)],
    )
    for gradient, array in zip(first[1:], found[1:], strict=True):
        assert relative_error(gradient, wide(array)) < 2e-6


def test_taps_after_the_sequence_have_a_gradient_of_zero(draw):
    x, weight = draw((1, 6, 2), mx.float32), draw((2, 9), mx.float32)
    slope = mx.grad(lambda w: mx.square(fft_conv(x, w)).sum())(weight)
    assert slope[:, 6:].tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("shape", [(0, 4, 2), (2, 0, 2), (2, 4, 0)])
def test_empty_arrays(shape):
    x, weight = mx.ones(shape), mx.ones((shape[2], 3))
    assert fft_conv(x, weight).shape == shape
    assert fftconv(x.swapaxes(1, 2), weight).shape == (shape[0], shape[2], shape[1])


def test_lengths_that_metal_transforms_fast():
    assert [fft_length(n) for n in (1, 2, 3, 5, 11, 199, 2049, 4095)] == [
        *(2, 2, 4, 6, 12, 224, 2304, 4096)
    ]
    assert [fft_length(n) for n in (4097, 8193, 65535)] == [8192, 16384, 65536]
    for least in range(1, 3000):
        length = fft_length(least)
        assert least <= length < max(2 * least, 3)
        assert length % 2 == 0


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x, w: fft_conv(x.astype(mx.int32), w), TypeError, "fft_conv: x must be float32"),
        (lambda x, w: fft_conv(x[0], w), ValueError, "channels last"),
        (lambda x, w: fftconv(x[0], w), ValueError, "channels first"),
        (lambda x, w: fft_conv(x, w[:2]), ValueError, r"weight must have shape \(3, K\)"),
        (lambda x, w: fft_conv(x, w[:, :0]), ValueError, "at least one tap"),
        (fftconv, ValueError, r"k must have shape \(8, K\)"),
        (lambda x, w: fft_conv(x, w, w), ValueError, r"skip must have shape \(3,\)"),
        (lambda x, w: fft_conv(x, w, w.astype(mx.int32)), TypeError, "skip must be float32"),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call(mx.ones((2, 8, 3)), mx.ones((3, 4)))


def test_equals_the_oracle_of_short_filters(draw, wide, relative_error):
    x, weight = draw((1, 30, 4), mx.float32), draw((4, 5), mx.float32)
    expected, _ = causal(wide(x), wide(weight)[:, ::-1])
    assert relative_error(fft_conv(x, weight), expected) < 2e-6
