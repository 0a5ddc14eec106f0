"""What causal_conv1d refuses, and what it says then."""

from __future__ import annotations

import mlx.core as mx
import pytest

from xlstm_kernels.conv.causal_conv1d import causal_conv1d


@pytest.mark.parametrize("shape", [(), (3,), (5, 3), (1, 2, 5, 3)], ids=str)
def test_rejects_x_of_other_ranks(shape):
    with pytest.raises(ValueError, match=r"causal_conv1d: x must be \(B, S, C\)"):
        causal_conv1d(mx.ones(shape), mx.ones((3, 4)))


@pytest.mark.parametrize("shape", [(), (3,), (4, 3), (1, 4), (3, 1, 4)], ids=str)
def test_rejects_weights_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"weight must be \(C, K\) with the C = 3 channels of x"):
        causal_conv1d(mx.ones((2, 5, 3)), mx.ones(shape))


@pytest.mark.parametrize("width", [0, 33])
def test_rejects_widths(width, device):
    with pytest.raises(ValueError, match=f"1 to 32 taps, got K = {width}"):
        causal_conv1d(mx.ones((2, 5, 3)), mx.ones((3, width)), backend=device)


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1)], ids=str)
def test_rejects_biases_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"bias must have shape \(3,\)"):
        causal_conv1d(mx.ones((2, 5, 3)), mx.ones((3, 4)), mx.ones(shape))


@pytest.mark.parametrize("shape", [(2, 4, 3), (1, 3, 3), (2, 3, 1), (3, 3), (2, 3, 2)], ids=str)
def test_rejects_states_that_do_not_fit(shape):
    with pytest.raises(ValueError, match=r"initial_states must be \(B, K-1, C\) = \(2, 3, 3\)"):
        causal_conv1d(mx.ones((2, 5, 3)), mx.ones((3, 4)), None, mx.ones(shape))


@pytest.mark.parametrize("activation", ["relu", "", "SiLU", True])
def test_rejects_activations(activation):
    with pytest.raises(ValueError, match="activation must be None, 'silu' or 'swish', got"):
        causal_conv1d(mx.ones((2, 5, 3)), mx.ones((3, 4)), activation=activation)


@pytest.mark.parametrize("dtype", [mx.int32, mx.complex64, mx.float64], ids=str)
@pytest.mark.parametrize("position", range(4))
def test_rejects_other_dtypes(position, dtype):
    arrays = [mx.ones((2, 5, 3)), mx.ones((3, 4)), mx.ones((3,)), mx.ones((2, 3, 3))]
    arrays[position] = mx.zeros(arrays[position].shape, dtype=dtype)
    name = ("x", "weight", "bias", "initial_states")[position]
    with pytest.raises(TypeError, match=f"causal_conv1d: {name} must be float32"):
        causal_conv1d(*arrays)


def test_rejects_unknown_backends():
    with pytest.raises(ValueError, match="unknown backend 'opencl'"):
        causal_conv1d(mx.ones((2, 5, 3)), mx.ones((3, 4)), backend="opencl")
