"""slstm against the cell that the authors publish, in PyTorch (package xlstm, Apache-2.0)."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels.recurrent.slstm.sequence import slstm

pytestmark = pytest.mark.oracle

BATCH, STEPS, HEADS, UNITS = 3, 17, 2, 33


@pytest.fixture
def torch():
    return pytest.importorskip("torch", reason="the authors' sLSTM needs PyTorch")


@pytest.fixture
def cell(torch):
    """Their cell in float64, with weights drawn for the test."""
    module = pytest.importorskip("xlstm.blocks.slstm.cell", reason="package xlstm is not here")
    config = module.sLSTMCellConfig(
        hidden_size=HEADS * UNITS,
        num_heads=HEADS,
        backend="vanilla",
        input_shape="BSGNH",
        output_shape="BNSH",
    )
    cell = module.sLSTMCell(config).double()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in cell.parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            scale = UNITS**-0.5 if parameter.ndim == 3 else 1.0
            parameter.copy_((drawn * scale).float())
    return cell


@pytest.fixture
def weights(cell):
    """R (4, N, D, D) and b (4, N, D): theirs are (N, 4 D, D) and flat."""
    recurrent, bias = (parameter.detach().numpy() for parameter in cell.parameters())
    r = recurrent.reshape(HEADS, 4, UNITS, UNITS).transpose(1, 0, 2, 3)
    return mx.array(r.astype(np.float32)), mx.array(
        bias.reshape(4, HEADS, UNITS).astype(np.float32)
    )


def reached(torch, cell, wx, states):
    """Their y (B, N, T, D) and last states (4, B, N * D), and the gradients of sum(y^2) in Wx, R,
    b and the states they begin with."""
    inputs = torch.tensor(np.array(wx).astype(np.float64), requires_grad=True)
    start = None
    if states is not None:
        flat = np.array(states).astype(np.float64).reshape(4, BATCH, -1)
        start = torch.tensor(flat, requires_grad=True)
    y, last = cell(inputs.reshape(BATCH, STEPS, -1), start)
    (y**2).sum().backward()
    recurrent, bias = (parameter.grad.numpy() for parameter in cell.parameters())
    slopes = [
        inputs.grad.numpy(),
        recurrent.reshape(HEADS, 4, UNITS, UNITS).transpose(1, 0, 2, 3),
        bias.reshape(4, HEADS, UNITS),
    ]
    if start is not None:
        slopes.append(start.grad.numpy().reshape(4, BATCH, HEADS, UNITS))
    return y.detach().numpy(), last.detach().numpy(), slopes


@pytest.mark.parametrize("scale", [1.0, 10.0])
@pytest.mark.parametrize("started", [False, True])
def test_values_and_gradients(scale, started, torch, cell, weights, device, draw, relative_error):
    wx = draw((BATCH, STEPS, 4, HEADS, UNITS), mx.float32, scale)
    arrays = [wx, *weights]
    if started:
        y, c, n, m = (draw((BATCH, HEADS, UNITS), mx.float32) for _ in range(4))
        arrays.append(mx.stack([mx.tanh(y), c, mx.abs(n) + 1, m]))
    expected_y, expected_last, expected = reached(torch, cell, wx, arrays[3] if started else None)

    def run(*arrays):
        return slstm(*arrays, backend=device)

    states, last = run(*arrays)
    assert relative_error(states[0].transpose(0, 2, 1, 3), expected_y) < 2e-6
    for k in range(4):
        assert relative_error(last[k].reshape((BATCH, -1)), expected_last[k]) < 1e-6
    slopes = mx.grad(
        lambda *arrays: mx.sum(mx.square(run(*arrays)[0][0])), argnums=tuple(range(len(arrays)))
    )(*arrays)
    for gate in range(4):
        assert relative_error(slopes[0][:, :, gate], expected[0][:, :, gate]) < 5e-6
    for actual, exact in zip(slopes[1:], expected[1:], strict=True):
        assert relative_error(actual, exact) < 5e-6
