"""FlashRNN's call against the authors' package flashrnn (Apache-2.0), its PyTorch form."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from tests.xlstm_kernels.recurrent.oracle import single_state_shapes
from xlstm_kernels import flashrnn

pytestmark = pytest.mark.oracle

BATCH, STEPS, HEADS, UNITS = 2, 30, 3, 8


@pytest.mark.parametrize(
    ("function", "gates", "count"),
    [
        ("lstm", (4, 4, 4), 2),
        ("slstm", (4, 4, 4), 4),
        ("gru", (3, 3, 4), 1),
        ("elman", (1, 1, 1), 1),
    ],
)
@pytest.mark.parametrize("started", [False, True])
def test_values_and_gradients(function, gates, count, started, relative_error):
    torch = pytest.importorskip("torch", reason="FlashRNN needs PyTorch")
    theirs = pytest.importorskip("flashrnn.flashrnn", reason="package flashrnn is not here")
    normal = np.random.default_rng(20251123).standard_normal
    shapes = single_state_shapes(gates, BATCH, STEPS, HEADS, UNITS)[:3]
    numbers = [normal(shape).astype(np.float32) for shape in shapes]
    numbers[1] /= np.float32(2)  # a network whose weights are greater amplifies roundings
    if started:
        states = normal((count, BATCH, 1, HEADS, UNITS)).astype(np.float32)
        states[2:3] = np.abs(states[2:3]) + 1  # theirs has no n below 1
        numbers.append(states)
    of_each = normal((count, BATCH, STEPS, HEADS, UNITS)).astype(np.float32)
    of_each[2:] = 0  # theirs has another gradient in n where it is 1, and in m

    tensors = [torch.tensor(array.astype(np.float64), requires_grad=True) for array in numbers]
    given = dict(zip(("Wx", "R", "b", "states"), tensors, strict=False))
    expected = theirs.flashrnn(**given, function=function, backend="vanilla", dtype="float32")
    (expected[0] * torch.tensor(of_each.astype(np.float64))).sum().backward()

    arrays = [mx.array(array) for array in numbers]
    for actual, exact in zip(flashrnn(*arrays, function=function), expected, strict=True):
        assert relative_error(actual, exact.detach().numpy()) < 1e-6
    gradients = mx.grad(
        lambda *at: mx.sum(flashrnn(*at, function=function)[0] * mx.array(of_each)),
        argnums=tuple(range(len(arrays))),
    )(*arrays)
    for actual, tensor in zip(gradients, tensors, strict=True):
        assert relative_error(actual, tensor.grad.numpy()) < 5e-6
