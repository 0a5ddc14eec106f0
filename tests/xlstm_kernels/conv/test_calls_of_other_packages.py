"""Convolutions by the calls of causal-conv1d and Hyena against definitions in float64."""

from __future__ import annotations

import itertools

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.conv.oracle import causal, long_causal
from xlstm_kernels import (
    causal_conv1d,
    causal_conv1d_fn,
    causal_conv1d_update,
    causal_conv1d_varlen_states,
    fft_conv,
    fftconv,
)
from xlstm_kernels.conv.fft_conv import fft_length

# --- channels first ----------------------------------------------------------------------------


PLACES = [0, 2, 2, 9, 40, 41]
LENGTH, CHANNELS, WIDTH = PLACES[-1], 6, 4


@pytest.fixture
def drawn(draw):
    """x (1, D, L), weight and bias."""
    return (
        draw((1, CHANNELS, LENGTH), mx.float32),
        draw((CHANNELS, WIDTH), mx.float32),
        draw((CHANNELS,), mx.float32),
    )


def alone(x, weight, bias, activation=None):
    """The definition, of each of the sequences by itself: (1, D, L)."""
    rows = x.swapaxes(1, 2)
    pieces = [
        causal(rows[:, begin:end], weight, bias, None, activation)[0]
        for begin, end in itertools.pairwise(PLACES)
    ]
    return np.concatenate(pieces, axis=1).swapaxes(1, 2)


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("steps", [1, 2, 17])
def test_the_call(steps, activation, draw, device, wide, relative_error):
    x, states = (draw((2, CHANNELS, size), mx.float32) for size in (steps, WIDTH - 1))
    weight, bias = draw((CHANNELS, WIDTH), mx.float32), draw((CHANNELS,), mx.float32)
    results = causal_conv1d_fn(
        x, weight, bias, None, states, True, None, activation, backend=device
    )
    arrays = (wide(x).swapaxes(1, 2), wide(weight), wide(bias), wide(states).swapaxes(1, 2))
    for actual, exact in zip(results, causal(*arrays, activation), strict=True):
        assert relative_error(actual, exact.swapaxes(1, 2)) < 2e-6
    y = causal_conv1d_fn(x, weight, bias, initial_states=states, activation=activation)
    assert relative_error(y, wide(results[0])) < 2e-6


@pytest.mark.parametrize("activation", [None, "swish"])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("places", [PLACES, mx.array(PLACES)], ids=["list", "array"])
def test_packed_sequences(places, biased, activation, drawn, wide, relative_error):
    x, weight, bias = (*drawn[:2], drawn[2] if biased else None)
    y = causal_conv1d_fn(x, weight, bias, cu_seqlens=places, activation=activation)
    expected = alone(
        *(None if array is None else wide(array) for array in (x, weight, bias)), activation
    )
    assert relative_error(y, expected) < 2e-6


def test_numbers_and_padding(drawn, wide, relative_error):
    """Each row has its own sequences, and negative numbers are padding, whatever it holds."""
    x, weight, bias = drawn
    lengths = np.diff(PLACES)
    numbers = np.repeat(np.arange(len(lengths)), lengths)
    backward = numbers[::-1]
    rows = mx.concatenate([x, x[:, :, ::-1]])
    y = causal_conv1d_fn(rows, weight, bias, mx.array(np.stack([numbers, backward])))
    assert relative_error(y[:1], alone(*map(wide, drawn))) < 2e-6
    short = causal_conv1d(rows[1:, :, : lengths[-1]].swapaxes(1, 2), weight, bias)
    np.testing.assert_allclose(
        np.array(y[1:, :, : lengths[-1]]), np.array(short.swapaxes(1, 2)), rtol=1e-5, atol=1e-6
    )
    padded = mx.array([[-1] * 5 + [4] * (LENGTH - 5)])
    y = causal_conv1d_fn(mx.where(padded[:, None] < 0, mx.array(np.nan), x), weight, bias, padded)
    assert y[:, :, :5].tolist() == [[[0.0] * 5] * CHANNELS]
    expected = causal_conv1d_fn(x[:, :, 5:], weight, bias)
    np.testing.assert_allclose(np.array(y[:, :, 5:]), np.array(expected), rtol=1e-5, atol=1e-6)


def test_states_of_packed_sequences_continue_them(drawn, draw, wide, relative_error):
    x, weight, bias = drawn
    states = causal_conv1d_varlen_states(mx.squeeze(x.swapaxes(1, 2), 0), PLACES, WIDTH - 1)
    assert states.shape == (len(PLACES) - 1, CHANNELS, WIDTH - 1)
    step = draw((len(PLACES) - 1, CHANNELS), mx.float32)
    y, _ = causal_conv1d_update(step, states.swapaxes(1, 2), weight, bias)
    for row, (begin, end) in enumerate(itertools.pairwise(PLACES)):
        whole = mx.concatenate([x[0, :, begin:end].T, step[row : row + 1]])[None]
        exact = causal(wide(whole), wide(weight), wide(bias))[0][0, -1]
        assert relative_error(y[row], exact) < 2e-6


@pytest.mark.parametrize("dtype", [mx.int32, mx.uint32, mx.int64])
def test_states_of_short_sequences(dtype):
    """Also where the places are unsigned, and where the last is after the end."""
    x = mx.arange(1, 6)[:, None].astype(mx.float32)
    states = causal_conv1d_varlen_states(x, mx.array([0, 2, 10**7], dtype), 3)
    assert states.tolist() == [[[0, 1, 2]], [[3, 4, 5]]]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"x": mx.zeros((6, 5))}, ValueError, r"x must be \(B, D, L\), channels first"),
        ({"x": mx.zeros((1, 6, 5), mx.int32)}, TypeError, "causal_conv1d_fn: x must be float32"),
        (
            {"x": mx.zeros((1, 5, 6))},
            ValueError,
            r"causal_conv1d_fn: weight must be \(D, W\) for x \(B, D, L\) = \(1, 5, 6\), got",
        ),
        ({"final_states_out": mx.zeros((1, 6, 3))}, ValueError, "final_states_out must be None"),
        ({"seq_idx": mx.zeros((1, 4), mx.int32)}, ValueError, r"seq_idx must have shape \(1, 5\)"),
        ({"seq_idx": mx.zeros((1, 5))}, TypeError, "seq_idx must be an array of integers"),
        ({"cu_seqlens": [0, 5], "x": mx.zeros((2, 6, 5))}, ValueError, "cu_seqlens needs B = 1"),
        (
            {"cu_seqlens": [0, 5], "seq_idx": mx.zeros((1, 5), mx.int32)},
            ValueError,
            "cu_seqlens needs B = 1 and no seq_idx",
        ),
        ({"cu_seqlens": [0, 5], "return_final_states": True}, ValueError, "neither initial nor"),
        (
            {"cu_seqlens": [0, 5], "initial_states": mx.zeros((1, 6, 3))},
            ValueError,
            "neither initial nor",
        ),
        (
            {"initial_states": mx.zeros((1, 3, 6))},
            ValueError,
            r"causal_conv1d_fn: initial_states must have shape \(1, 6, 3\), \(B, D, W-1\)",
        ),
        ({"initial_states": mx.zeros((6,))}, ValueError, "initial_states must have shape"),
        ({"activation": "relu"}, ValueError, "activation must be one of None"),
    ],
)
def test_errors_name_what_is_wrong(changes, error, message):
    arguments = {"x": mx.zeros((1, 6, 5)), "weight": mx.zeros((6, 4))} | changes
    with pytest.raises(error, match=message):
        causal_conv1d_fn(**arguments)


# --- fft conv ----------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 2, 3, 100, 2049])
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
