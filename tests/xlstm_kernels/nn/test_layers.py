"""The layers by themselves: what a model of xLSTM-7B's kind does not use of them."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.conv import oracle as conv
from xlstm_kernels.mlstm.backend import mLSTMBackendConfig
from xlstm_kernels.nn import (
    CausalConv1d,
    FeedForward,
    HeadwiseLinear,
    mLSTMLayer,
    mLSTMLayerConfig,
    sLSTMCell,
    sLSTMLayer,
    sLSTMLayerConfig,
)

SIGING = mLSTMBackendConfig(chunkwise_kernel="chunkwise--metal_xl_chunk_siging", mode="inference")


@pytest.fixture(params=["mlstm", "siging", "slstm", "slstm without convolution"])
def layer(request, draw_weights):
    kinds = {
        "mlstm": lambda: mLSTMLayer(mLSTMLayerConfig(16, 2)),
        "siging": lambda: mLSTMLayer(mLSTMLayerConfig(16, 2, mlstm_backend=SIGING)),
        "slstm": lambda: sLSTMLayer(sLSTMLayerConfig(16, 2)),
        "slstm without convolution": lambda: sLSTMLayer(
            sLSTMLayerConfig(16, 2, conv1d_kernel_size=0)
        ),
    }
    return draw_weights(kinds[request.param]())


def test_a_layer_in_pieces_is_the_whole(layer, draw, relative_error, wide):
    x = draw((2, 9, 16), mx.float32)
    whole, last = layer(x)
    state, outputs = layer.init_state(2), []
    for piece in mx.split(x, [4, 5], axis=1):
        y, state = layer(piece, state)
        outputs.append(y)
    assert relative_error(mx.concatenate(outputs, axis=1), wide(whole)) < 2e-6
    assert [one.shape for one in state] == [one.shape for one in layer.init_state(2)]
    for actual, expected in zip(state, last, strict=True):
        assert relative_error(actual, wide(expected)) < 2e-6


@pytest.mark.parametrize("shape", [(2, 16), (2, 9, 15)])
def test_a_layer_refuses_other_shapes(shape, layer):
    with pytest.raises(ValueError, match=r"LSTMLayer: x must be \(B, S, 16\), got \(2, "):
        layer(mx.zeros(shape))


def test_nothing_to_do(layer):
    y, state = layer(mx.zeros((2, 0, 16)), layer.init_state(2))
    assert y.shape == (2, 0, 16)
    assert [one.shape for one in state] == [one.shape for one in layer.init_state(2)]


# --- the parts ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel_size", [1, 2, 4])
def test_a_convolution_skips_what_is_masked(kernel_size, draw, wide, relative_error):
    layer = CausalConv1d(5, kernel_size, "silu")
    x, state = draw((3, 11, 5), mx.float32), draw((3, kernel_size - 1, 5), mx.float32)
    mask = np.random.default_rng(2).random((3, 11)) < 0.5
    mask[2] = False
    y, last = layer(x, state, mx.array(mask))
    weight, bias = wide(layer.weight), wide(layer.bias)
    for row, live in enumerate(mask):
        alone = wide(x)[row : row + 1, live]
        expected, final = conv.causal(alone, weight, bias, wide(state)[row : row + 1], "silu")
        assert relative_error(mx.array(np.array(y)[row : row + 1, live]), expected) < 2e-6
        assert np.array_equal(wide(last)[row : row + 1], final)


def test_a_convolution_from_the_start(draw):
    layer, x = CausalConv1d(5, 3), draw((2, 7, 5), mx.float32)
    for mask in (None, mx.ones((2, 7), dtype=mx.bool_)):
        y, last = layer(x, mask=mask)
        assert mx.array_equal(y, layer(x, mx.zeros((2, 2, 5)))[0]).item()
        assert mx.array_equal(last, x[:, -2:]).item()


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (mx.ones((2, 7)), TypeError, r"mask must be an array of booleans, got mlx.*float"),
        (mx.ones((2, 6), dtype=mx.bool_), ValueError, r"shape \(2, 7\), \(B, S\); got \(2, 6\)"),
    ],
)
def test_a_convolution_refuses_other_masks(mask, error, message):
    with pytest.raises(error, match=message):
        CausalConv1d(5, 3)(mx.zeros((2, 7, 5)), mask=mask)


def test_a_headwise_layer(draw, wide, relative_error):
    layer, x = HeadwiseLinear(3, 4), draw((2, 5, 12), mx.float32)
    by_head = wide(x).reshape(2, 5, 3, 4)
    expected = np.einsum("noi,bsni->bsno", wide(layer.weight), by_head)
    assert relative_error(layer(x), expected) < 2e-6


def test_a_cell_gives_y_and_its_state(draw):
    cell = sLSTMCell(2, 3)
    y, state = cell(draw((2, 5, 4, 2, 3), mx.float32))
    assert (y.shape, state.shape) == ((2, 5, 2, 3), (2, 4, 2, 3))
    assert mx.array_equal(y[:, -1], state[:, 0]).item()


def test_a_feed_forward_layer(draw, wide, relative_error):
    layer, x = FeedForward(6, 10, "relu", use_bias=True), draw((2, 5, 6), mx.float32)
    layer.proj_up.bias = draw((10,), mx.float32)
    gate = np.maximum(wide(x) @ wide(layer.proj_up_gate.weight).T, 0)
    up = wide(x) @ wide(layer.proj_up.weight).T + wide(layer.proj_up.bias)
    assert relative_error(layer(x), (gate * up) @ wide(layer.proj_down.weight).T) < 2e-6


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", lambda x: np.maximum(x, 0)),
        ("relu^2", lambda x: np.maximum(x, 0) ** 2),
        ("sigmoid", lambda x: 1 / (1 + np.exp(-x))),
        ("silu", conv.silu),
        ("swish", conv.silu),
        ("selu", lambda x: 1.0507009873 * np.where(x > 0, x, 1.6732632423 * np.expm1(x))),
    ],
)
def test_activations_of_a_feed_forward_layer(name, function, draw, wide, relative_error):
    layer, x = FeedForward(6, 10, name), draw((2, 5, 6), mx.float32)
    gate = function(wide(x) @ wide(layer.proj_up_gate.weight).T)
    up = wide(x) @ wide(layer.proj_up.weight).T
    assert relative_error(layer(x), (gate * up) @ wide(layer.proj_down.weight).T) < 2e-6


def test_a_feed_forward_layer_refuses_other_activations():
    with pytest.raises(ValueError, match=r"^FeedForward: .* one of 'silu', .*, got 'tanh'$"):
        FeedForward(6, 10, "tanh")
