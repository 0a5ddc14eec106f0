"""NN-014 to NN-017: near misses of layers that are written as in PyTorch."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, findings

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


CALLED = """
class Inner(nn.Module):
    def NAME(self, x):
        return x + mx.random.normal(x.shape)
    ALIAS

class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Inner() for _ in range(3)]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

@mx.compile
def step(x):
    return model(x)

model = Outer()
"""


@pytest.mark.parametrize(
    ("name", "alias", "found"),
    [
        ("__call__", "", ["COMPILE-001"]),
        ("forward", "", ["COMPILE-001", "NN-017"]),
        ("forward", "__call__ = forward", ["COMPILE-001"]),
        ("forward", "__call__ = call = forward", ["COMPILE-001"]),
        ("forward", "__call__ = mx.compile(forward)", []),
    ],
)
def test_what_a_call_of_a_layer_runs(name: str, alias: str, found: list[str]) -> None:
    program = CALLED.replace("NAME", name).replace("ALIAS", alias)
    assert sorted(codes(program, ("COMPILE-001", "NN-017"))) == found


UNCALLED = """
class Net(nn.Module):
    def forward(self, x):
        return x

def run(x, net: Net, other):
    BODY
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("return Net()(x)", 1),
        ("net = Net(); return net(x) + net(x)", 1),
        ("return net(x)", 0),
        ("return Net().forward(x)", 0),
        ("nets = [Net()]\n    for one in nets:\n        x = one(x)\n    return x", 1),
        ("nets: list[Net] = other\n    for one in nets:\n        x = one(x)\n    return x", 0),
        ("Net.__call__ = Net.forward; return Net()(x)", 0),
        ("try:\n        return Net()(x)\n    except TypeError:\n        return x", 0),
    ],
)
def test_layers_that_cannot_be_called(body: str, found: int) -> None:
    assert codes(UNCALLED.replace("BODY", body), "NN-017") == ["NN-017"] * found


ATTENTION = """
class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)

    def __call__(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        q = q.reshape(B, self.heads, T, D // self.heads)
        k = k.view(B, T, self.heads, -1).transpose(1, 2)
        scores = (q @ k.transpose(-2, -1)).masked_fill(mx.tril(mx.ones((T, T))), -1e9)
        weights = mx.softmax(scores, axis=1)
        return weights @ v.unsqueeze(1)
"""


def test_all_faults_of_a_ported_layer_are_found_at_once() -> None:
    assert codes(ATTENTION, ("API", "SHAPE")) == [
        *("API-002", "SHAPE-004", "API-003", "SHAPE-001", "API-002", "SHAPE-001"),
        *("SHAPE-005", "API-002"),
    ]


@pytest.mark.parametrize(
    ("call", "fix"),
    [
        ("x.view(n, -1)", "reshape"),
        ("x.view(-1)", "reshape"),
        ("x.view((2, 3))", "reshape"),
        ("x.view('int32')", "mx.int32"),
        ("x.transpose(1, 2)", "swapaxes"),
        ("mx.zeros((2, 3, 4)).transpose(0, 1)", "swapaxes"),
        ("x.view(mx.int32)", None),
        ("x.transpose(1, 0)", None),
    ],
)
def test_calls_that_mean_other_functions(call: str, fix: str | None) -> None:
    found = findings(f"def f(x: mx.array, n):\n    return {call}\n", ("API", "SHAPE"))
    edits = [edit.text for one in found if one.fix is not None for edit in one.fix.edits]
    assert edits == ([] if fix is None else [fix])
    assert not any("(x." in one.message for one in found)


SAVED = """
from mlx.utils import tree_flatten

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.MADE

def save(model, other: nn.Module, path):
    PARAMETERS
    mx.CALL

save(Model(), nn.Linear(2, 2), "weights")
"""
LAYERS, FLAT = "layers = [nn.Linear(2, 2)]", "weight = mx.ones((2, 2))"
OF_MODEL = "parameters = model.parameters()"


@pytest.mark.parametrize(
    ("made", "parameters", "call", "found"),
    [
        (LAYERS, OF_MODEL, "savez(path, **parameters)", 1),
        (LAYERS, "pass", "savez(path, **model.trainable_parameters())", 1),
        (LAYERS, OF_MODEL, "save_safetensors(path, parameters)", 1),
        (LAYERS, OF_MODEL, "save_gguf(path, arrays=parameters)", 1),
        (LAYERS, OF_MODEL, "savez(path, **dict(tree_flatten(parameters)))", 0),
        (FLAT, OF_MODEL, "savez(path, **parameters)", 0),
        (LAYERS, "parameters = other.parameters()", "savez(path, **parameters)", 0),
        (LAYERS, "pass", "savez(path, weight=mx.ones((2, 2)))", 0),
        (LAYERS, "pass", "save_safetensors(path, *other)", 0),
    ],
)
def test_saved_parameters(made: str, parameters: str, call: str, found: int) -> None:
    program = SAVED.replace("MADE", made).replace("PARAMETERS", parameters).replace("CALL", call)
    assert codes(program, "API") == ["API-022"] * found


DIFFERENTIATED = """
class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = LAYER

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

def loss_fn(model, x):
    return model.part.layer(x).mean()

def step(x):
    model = Model()
    return CALL(model, x)
"""


@pytest.mark.parametrize(
    ("layer", "call", "found"),
    [
        ("nn.Conv2d(1, 2, 3)", "mx.value_and_grad(loss_fn)", 1),
        ("nn.MaxPool1d(2)", "mx.grad(loss_fn)", 1),
        ("nn.Conv1d(1, 2, 3)", "mx.grad(loss_fn)", 0),
        ("nn.Conv2d(1, 2, 3)", "mx.grad(loss_fn, argnums=1)", 0),
        ("nn.Conv2d(1, 2, 3)", "nn.value_and_grad(model, loss_fn)", 0),
    ],
)
def test_differentiated_models(layer: str, call: str, found: int) -> None:
    program = DIFFERENTIATED.replace("LAYER", layer).replace("CALL", call)
    assert codes(program, "API") == ["API-003"] * found
