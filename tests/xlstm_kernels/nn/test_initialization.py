"""What weights and biases are at first."""

from __future__ import annotations

import math

import mlx.core as mx
import numpy as np
import pytest
from mlx.utils import tree_flatten

from xlstm_kernels.nn import xLSTM, xLSTMConfig
from xlstm_kernels.nn.initialization import slstm_biases

WIDTH, LAYERS = 256, 3
SMALL, OUTPUT = math.sqrt(2 / (5 * WIDTH)), 2 / (LAYERS * math.sqrt(WIDTH))
EXPECTED = {
    "embeddings": SMALL,
    "lm_head": SMALL,
    "mlstm_layer.q": SMALL,
    "mlstm_layer.k": SMALL,
    "mlstm_layer.v": SMALL,
    "ogate_preact": SMALL,
    "zgate_preact": SMALL,
    "slstm_layer.igate_preact": SMALL,
    "slstm_layer.fgate_preact": SMALL,
    "proj_up_gate": SMALL,
    "proj_up": SMALL,
    "proj_down": OUTPUT,
    "out_proj": OUTPUT,
}


@pytest.fixture(scope="module")
def parameters() -> dict[str, mx.array]:
    mx.random.seed(5)
    config = xLSTMConfig(
        vocab_size=500,
        hidden_size=WIDTH,
        num_hidden_layers=LAYERS,
        num_heads=4,
        use_bias=True,
        slstm_at=(1,),
    )
    return dict(tree_flatten(xLSTM(config).parameters()))


@pytest.mark.parametrize(("name", "deviation"), EXPECTED.items())
def test_normal_weights(name, deviation, parameters):
    weights = [array for key, array in parameters.items() if f"{name}.weight" in key]
    assert weights
    for weight in map(np.array, weights):
        assert weight.std() == pytest.approx(deviation, rel=0.05)
        assert abs(weight.mean()) < 5 * deviation / math.sqrt(weight.size)


def test_gates(parameters):
    """At first the gates i and f are their biases, whatever comes in."""
    place = "backbone.blocks.0.mlstm_layer."
    assert parameters[f"{place}igate_preact.bias"].tolist() == [-10.0] * 4
    assert parameters[f"{place}fgate_preact.bias"].tolist() == [3.0, 4.0, 5.0, 6.0]
    for gate in "if":
        assert not mx.any(parameters[f"{place}{gate}gate_preact.weight"]).item()


def test_ones_and_zeros(parameters):
    place = "backbone.blocks.1.slstm_layer.slstm_cell."
    assert not mx.any(parameters[f"{place}recurrent_weight"]).item()
    norms = [array for name, array in parameters.items() if "norm" in name and "weight" in name]
    biases = [
        array
        for name, array in parameters.items()
        if name.endswith("bias") and "gate_preact" not in name and "slstm_layer" not in name
    ]
    assert len(norms) == 10
    assert all(mx.all(array == 1).item() for array in norms)
    assert len(biases) > 20
    assert not any(mx.any(array).item() for array in biases)


def test_the_convolution(parameters):
    weight = np.array(parameters["backbone.blocks.1.slstm_layer.conv1d.weight"])
    assert np.abs(weight).max() <= 0.5
    assert weight.std() == pytest.approx(0.5 / math.sqrt(3), rel=0.05)


def test_forget_gates_of_an_slstm(parameters):
    """By hand: x = 0, 1/2, 1; in the first block to the 0.3, in the last to the 1.6."""
    first, last = (slstm_biases(2, 3, layer_index=index, num_hidden_layers=5) for index in (0, 4))
    for biases, middle in ((first, 5 - 12 * 0.5**0.3), (last, 5 - 12 * 0.5**1.6)):
        assert biases.shape == (4, 2, 3)
        assert np.allclose(np.array(biases[1]), [[5, middle, -7]] * 2)
        assert not np.array(biases)[[0, 2, 3]].any()
    in_the_middle = np.array(slstm_biases(1, 3, layer_index=2, num_hidden_layers=5))[1, 0, 1]
    assert in_the_middle == pytest.approx(5 - 12 * 0.5**0.95)
    alone = slstm_biases(1, 1, layer_index=0, num_hidden_layers=1)
    assert alone[1].tolist() == [[5.0]]
    bias = parameters["backbone.blocks.1.slstm_layer.slstm_cell.bias"]
    assert mx.array_equal(
        bias, slstm_biases(4, WIDTH // 4, layer_index=1, num_hidden_layers=LAYERS)
    ).item()
