"""NN: attributes of modules, and their training and evaluation modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes

if TYPE_CHECKING:
    from pathlib import Path

FAMILY = ("NN-002", "NN-003", "NN-004", "NN-005", "NN-006")


def layer(line: str, rest: str = "") -> str:
    """A layer whose ``__init__`` has one line."""
    return (
        "class Layer(nn.Module):\n    def __init__(self, n, layer):\n        super().__init__()\n"
        f"        {line}\n{rest}"
    )


ONE_FINDING = [
    ("002", "a = mx.exp(mx.log(mx.arange(n))); self.pe = mx.stack([a.sin(), mx.cos(a)])"),
    ("002", "t = mx.arange(n)\n        self.cos = mx.cos(t * 0.5)"),
    ("003", "self.layers = (nn.Linear(n, n), nn.Linear(n, n))"),
    ("003", "self.layers = tuple(nn.Linear(n, n) for _ in range(4))"),
    ("003", "self.blocks = [(nn.Conv1d(n, n, 3), nn.ReLU()) for _ in range(4)]"),
    ("004", "self._head = nn.Linear(n, n)"),
    ("004", "self._layers = [nn.Linear(n, n) for _ in range(4)]"),
]


@pytest.mark.parametrize(("number", "line"), ONE_FINDING)
def test_attributes(number: str, line: str) -> None:
    assert codes(layer(line), FAMILY) == [f"NN-{number}"]


SILENT = [
    "self.weight = mx.random.normal((n, n))",
    "self.scale = mx.array(1.0)",
    "self.ids = mx.arange(n)\n        self.freeze(keys=['ids'], recurse=False)",
    "self.ids = mx.arange(n)\n        self.freeze()",
    "self.up = nn.Linear(n, n)\n        self.order = (self.up, layer)",
]


@pytest.mark.parametrize("line", SILENT)
def test_near_misses(line: str) -> None:
    assert codes(layer(line), FAMILY) == []


NET = """
import mlx.optimizers as optim

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.LAYER(0.5)]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

def loss_fn(model, x):
    return model(x).mean()

def fit(batches):
    model = Net()
    optimizer = optim.SGD(0.1)
    step = nn.value_and_grad(model, loss_fn)
    for batch in batches:
        FIRST
        loss, gradients = step(model, batch)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
        LAST
    return model(batches[0])
"""


@pytest.mark.parametrize(
    ("layer_name", "first", "last", "expected"),
    [
        ("Dropout", "model.train()", "pass", ["NN-005"]),
        ("BatchNorm", "model.train()", "pass", ["NN-005"]),
        ("Dropout", "pass", "pass", []),
        ("Dropout", "pass", "model.eval()", ["NN-006"]),
    ],
)
def test_modes(layer_name: str, first: str, last: str, expected: list[str]) -> None:
    program = NET.replace("LAYER", layer_name).replace("FIRST", first).replace("LAST", last)
    assert codes(program, FAMILY) == expected


LIBRARY = """
import mlx.core as mx
import mlx.nn as nn

class Net(nn.Module):
    def __init__(self, p=0.1):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.blocks = [nn.Dropout(p), nn.ReLU()]

    def __call__(self, x):
        for block in self.blocks:
            x = block(x)
        return self.layer(x)

def loss_fn(model, x):
    return mx.mean(model(x))

def preview(model, x):
    model.eval()
    return mx.max(model(x)).item()
"""
TRAINING = """
import mlx.nn as nn
import mlx.core as mx
import mlx.optimizers as optim
from library import Net, loss_fn, preview

def fit(model, data, n):
    opt = optim.SGD(learning_rate=0.1)
    step = nn.value_and_grad(model, loss_fn)
    for _ in range(n):
        START
        for x in data:
            loss, grads = step(model, x)
            opt.update(model, grads)
            mx.eval(model.parameters(), opt.state)
        END

class Trainer:
    def __init__(self, model: Net):
        self.model = model

    def validate(self, data):
        OTHER
"""
BY_FILES = [
    ("model.train()", "pass", "return loss_fn(self.model, data)", ["NN-005"]),
    ("model.train()", "pass", "return mx.mean(self.model(data))", ["NN-005"]),
    ("model.train()", "pass", "return nn.Linear(2, 2)(data)", []),
    ("pass", "preview(model, data[0])", "pass", ["NN-006"]),
    ("model.train()", "preview(model, data[0])", "pass", []),
    ("pass", "preview(Net(), data[0])", "pass", []),
]


@pytest.mark.parametrize(("start", "end", "other", "expected"), BY_FILES)
def test_modes_of_models_of_other_files(
    tmp_path: Path, start: str, end: str, other: str, expected: list[str]
) -> None:
    program = TRAINING.replace("START", start).replace("END", end).replace("OTHER", other)
    (tmp_path / "library.py").write_text(LIBRARY)
    path = tmp_path / "program.py"
    path.write_text(program)
    found = check_source(program, path, Project()).findings
    assert [f.code for f in found if f.code.startswith(("NN-005", "NN-006"))] == expected


MODELS = """
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

class Net(nn.Module):
    def __init__(self, p=0.1):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(4, 4), LAYER)
        self.drop = nn.Dropout(p)

    def __call__(self, x):
        return self.drop(self.stem(x))

def build(path):
    model = Net()
    model.load_weights(path)
    MODE
    return model

def fit(model, data, opt):
    step = nn.value_and_grad(model, lambda m, x: mx.mean(m(x)))
    for x in data:
        opt.update(model, step(model, x)[1])
        mx.eval(model.state, opt.state)

class Trainer:
    def __init__(self, model: Net):
        self.model = model
        self.opt = optim.SGD(learning_rate=0.1)

    def run(self, data):
        step = nn.value_and_grad(self.model, lambda m, x: mx.mean(m(x)))
        for x in data:
            self.opt.update(self.model, step(self.model, x)[1])
"""
USES = [
    ("def run(path, x):\n    return build(path)(x)", "nn.BatchNorm(4)", "pass", 1),
    ("def run(path, x):\n    return build(path)(x)", "nn.Dropout(0.2)", "pass", 1),
    ("def run(path, x):\n    return build(path)(x)", "nn.LayerNorm(4)", "pass", 0),
    ("def run(path, x):\n    return build(path)(x)", "nn.BatchNorm(4)", "model.train(False)", 0),
    (
        (
            "class App:\n    def __init__(self, path):\n        self.net = Net()\n"
            "        self.net.load_weights(path)\n    def run(self, x):\n        return self.net(x)"
        ),
        "nn.BatchNorm(4)",
        "pass",
        1,
    ),
    (
        (
            "def run(data, opt, x):\n    net = Net()\n    net(x)\n    fit(net, data, opt)\n"
            "    return net(x)"
        ),
        "nn.ReLU()",
        "pass",
        1,
    ),
    (
        (
            "def run(data, x):\n    trainer = Trainer(Net())\n    trainer.run(data)\n"
            "    return trainer.model(x)"
        ),
        "nn.ReLU()",
        "pass",
        1,
    ),
    (
        (
            "class Head(nn.Module):\n    def __init__(self, path):\n        super().__init__()\n"
            "        self.net = build(path)\n    def __call__(self, x):\n        return self.net(x)"
        ),
        "nn.BatchNorm(4)",
        "pass",
        0,
    ),
]


@pytest.mark.parametrize(("use", "layer_name", "mode", "expected"), USES)
def test_inference_with_models_of_other_files(
    tmp_path: Path, use: str, layer_name: str, mode: str, expected: int
) -> None:
    library = MODELS.replace("LAYER", layer_name).replace("MODE", mode)
    (tmp_path / "library.py").write_text(library)
    program = "import mlx.core as mx\nimport mlx.nn as nn\n"
    program += f"from library import Net, Trainer, build, fit\n{use}\n"
    path = tmp_path / "program.py"
    path.write_text(program)
    found = check_source(program, path, Project()).findings
    assert [f.code for f in found if f.code.startswith("NN-")] == ["NN-005"] * expected


@pytest.mark.parametrize(
    ("attribute", "parameters", "expected"),
    [
        ("mx.ones((4, 4))", "group_size, bits", 1),
        ("mx.ones((4, 4))", "group_size=64, mode='affine'", 1),
        ("mx.ones((4, 4))", "**options", 0),
        ("nn.Linear(4, 4)", "bits", 0),
        ("[nn.Linear(4, 4)]", "bits", 0),
    ],
)
def test_arguments_of_quantization(attribute: str, parameters: str, expected: int) -> None:
    program = (
        "class Fused(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.weight = {attribute}\n    def to_quantized(self, {parameters}):\n"
        "        return self\n"
    )
    assert codes(program, "NN-012") == ["NN-012"] * expected
