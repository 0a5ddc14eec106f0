"""The oracles of these tests, and the operators, against torch's conv1d in float64."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.conv import oracle
from xlstm_kernels.conv.causal_conv1d import causal_conv1d

pytestmark = pytest.mark.oracle


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="the oracle is torch, which is not installed")


@pytest.fixture
def tensor(torch, wide):
    return lambda array: torch.tensor(wide(array), requires_grad=True)


def torch_causal(torch, x, weight, bias, states):
    """torch puts channels before time, and correlates, so its last tap is the latest, as here."""
    rows = torch.cat([states, x], dim=1).transpose(1, 2)
    y = torch.nn.functional.conv1d(rows, weight[:, None], bias, groups=weight.shape[0])
    return torch.nn.functional.silu(y).transpose(1, 2)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 32])
@pytest.mark.parametrize("steps", [1, 2, 3, 64, 65, 372])
def test_causal_conv1d(steps, width, torch, tensor, device, draw, wide, relative_error):
    shapes = ((2, steps, 33), (33, width), (33,), (2, width - 1, 33))
    arrays = [draw(shape, mx.float32) for shape in shapes]
    tensors = [tensor(array) for array in arrays]
    cotangent = draw(shapes[0], mx.float32)
    expected = torch_causal(torch, *tensors)
    expected.backward(torch.tensor(wide(cotangent)))
    value = expected.detach().numpy()

    in_full, _ = oracle.causal(*map(wide, arrays), "silu")
    np.testing.assert_allclose(in_full, value, rtol=1e-12, atol=1e-12)
    (y,), gradients = mx.vjp(
        lambda *given: causal_conv1d(*given, activation="silu", backend=device), arrays, [cotangent]
    )
    assert relative_error(y, value) < 2e-6
    for actual, exact in zip(gradients, tensors, strict=True):
        assert relative_error(actual, exact.grad.numpy()) < 5e-6
