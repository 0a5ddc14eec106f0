"""The sLSTM layer against the one that the authors publish, in PyTorch (xlstm, Apache-2.0)."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from xlstm_kernels.nn import sLSTMLayer, sLSTMLayerConfig
from xlstm_kernels.nn.initialization import slstm_biases

pytestmark = pytest.mark.oracle
WIDTH, HEADS, UNITS = 24, 3, 8


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="the authors' layer needs torch")


@pytest.fixture(scope="module")
def module(torch) -> Any:
    return pytest.importorskip("xlstm.blocks.slstm.layer", reason="package xlstm is not here")


@pytest.fixture(scope="module")
def theirs(torch, module) -> Any:
    """Their layer in float64, with weights drawn for the test."""
    config = module.sLSTMLayerConfig(embedding_dim=WIDTH, num_heads=HEADS, backend="vanilla")
    layer = module.sLSTMLayer(config).double().eval()
    generator = torch.Generator().manual_seed(8)
    with torch.no_grad():
        for parameter in layer.parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            parameter.copy_(0.4 * drawn)
    return layer


def cell_weights(cell: Any) -> tuple[mx.array, mx.array]:
    """R (4, N, D, D) and b (4, N, D): theirs are (N, 4 D, D) and flat."""
    recurrent, bias = (parameter.detach().float().numpy() for parameter in cell.parameters())
    by_gate = recurrent.reshape(HEADS, 4, UNITS, UNITS).transpose(1, 0, 2, 3)
    return mx.array(by_gate), mx.array(bias.reshape(4, HEADS, UNITS))


@pytest.fixture(scope="module")
def ours(theirs) -> sLSTMLayer:
    """The same weights. What they call fgate feeds i, and igate f; their norm's weight lacks 1."""
    numbers = {
        name: mx.array(parameter.detach().float().numpy())
        for name, parameter in theirs.named_parameters()
    }
    recurrent, bias = cell_weights(theirs.slstm_cell)
    layer = sLSTMLayer(sLSTMLayerConfig(WIDTH, HEADS, norm_eps=theirs.group_norm.eps))
    layer.load_weights(
        [
            ("conv1d.weight", numbers["conv1d.conv.weight"][:, 0]),
            ("conv1d.bias", numbers["conv1d.conv.bias"]),
            ("igate_preact.weight", numbers["fgate.weight"]),
            ("fgate_preact.weight", numbers["igate.weight"]),
            ("zgate_preact.weight", numbers["zgate.weight"]),
            ("ogate_preact.weight", numbers["ogate.weight"]),
            ("slstm_cell.recurrent_weight", recurrent),
            ("slstm_cell.bias", bias),
            ("multihead_norm.weight", 1 + numbers["group_norm.weight"]),
        ]
    )
    return layer


def test_values(torch, theirs, ours, draw, relative_error):
    x = draw((2, 21, WIDTH), mx.float32)
    with torch.no_grad():
        expected = theirs(torch.tensor(np.array(x)).double()).numpy()
    y, _ = ours(x)
    assert relative_error(y, expected) < 2e-6
    state, outputs = ours.init_state(2), []
    for piece in mx.split(x, [5, 6], axis=1):
        one, state = ours(piece, state)
        outputs.append(one)
    assert relative_error(mx.concatenate(outputs, axis=1), expected) < 2e-6


@pytest.mark.parametrize(("index", "blocks"), [(0, 1), (0, 4), (1, 4), (3, 4)])
def test_biases_at_first(index, blocks, module):
    config = module.sLSTMLayerConfig(
        embedding_dim=WIDTH,
        num_heads=HEADS,
        backend="vanilla",
        _block_idx=index,
        _num_blocks=blocks,
    )
    layer = module.sLSTMLayer(config)
    layer.reset_parameters()
    recurrent, bias = cell_weights(layer.slstm_cell)
    ours = slstm_biases(HEADS, UNITS, layer_index=index, num_hidden_layers=blocks)
    assert mx.allclose(bias, ours, rtol=0, atol=2e-6).item()
    assert not mx.any(recurrent).item()
