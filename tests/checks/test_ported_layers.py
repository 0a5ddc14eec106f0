"""NN-014, NN-015 and NN-016: near misses of layers with the names of PyTorch's."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

LAYER = """
class Layer(nn.Module):
    def __init__(self, channels, groups=8):
        super().__init__()
        self.{name} = nn.{made}

    def __call__(self, x):
        {body}
"""


def layer(made: str, body: str = "return self.layer(x)", name: str = "layer") -> str:
    return LAYER.format(made=made, body=body, name=name)


@pytest.mark.parametrize(
    ("program", "found"),
    [
        (layer("GroupNorm(groups, channels)"), 1),
        (layer("GroupNorm(groups, channels)") + "Layer(8, groups=1)", 0),
        (layer("GroupNorm(8, channels, **more)"), 0),
        (layer("GroupNorm(8, channels)") + "step = nn.value_and_grad(model, loss)", 0),
    ],
)
def test_groups(program: str, found: int) -> None:
    assert codes(program, "NN-01") == ["NN-014"] * found


@pytest.mark.parametrize(
    ("name", "made", "found"),
    [
        ("conv_dw", "Conv1d(channels, channels, 3)", 1),
        ("depthwise", "Conv1d(channels, channels, 3, 1, 0, 1, channels)", 0),
        ("depth", "Conv1d(channels, channels, 3)", 0),
    ],
)
def test_depthwise_convolutions(name: str, made: str, found: int) -> None:
    assert codes(layer(made, f"return self.{name}(x)", name), "NN-01") == ["NN-015"] * found


@pytest.mark.parametrize(
    ("made", "body", "found"),
    [
        ("GRU(4, 4)", "y, hidden = self.layer(x); return y", 1),
        ("GRU(4, 4)", "y, z = self.layer(x); return y", 0),
        ("GRU(4, 4)", "y = self.layer(x)[:, 0]; return y", 0),
        ("RNN(4, 4)", "y, (h, c) = self.layer(x); return y", 1),
        ("MultiHeadAttention(4, 2)", "y, weights = self.layer(x, x, x); return y", 1),
        ("LSTM(4, 4)", "y, c = self.layer(x); return y", 0),
    ],
)
def test_results_of_layers(made: str, body: str, found: int) -> None:
    assert codes(layer(made, body), "NN-01") == ["NN-016"] * found
