"""NN: attributes of modules, their modes, and rules about layers, splits and repeated reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes
from tests.checks.marked import check_marked

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

def accuracy(model, x):
    return model(x).argmax(-1)

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
        ("Dropout", "accuracy(model, batch)", "pass\n    model.train(False)", ["NN-005"]),
        ("Dropout", "accuracy(model, batch)", "pass\n    model.eval()", ["NN-005"]),
        ("Dropout", "model.train(False); accuracy(model, batch); model.train()", "pass", []),
        ("Dropout", "accuracy(model, batch)", "model.train(False); model.train()", []),
    ],
)
def test_modes(layer_name: str, first: str, last: str, expected: list[str]) -> None:
    program = NET.replace("LAYER", layer_name).replace("FIRST", first).replace("LAST", last)
    assert codes(program, FAMILY) == expected


@pytest.mark.parametrize(
    ("base", "body", "found"),
    [
        ("nn.Module", "return nn.Dropout(0.1)(x)", 1),
        ("nn.Module", "return nn.Dropout2d(self.rate)(x)", 1),
        ("nn.Module", "return nn.Dropout(p)(x)", 0),
        ("nn.Module", "return nn.Dropout(0.1)(x) if self.training else x", 0),
        ("object", "return nn.Dropout(0.1)(x)", 0),
    ],
)
def test_dropout_made_in_a_call(base: str, body: str, found: int) -> None:
    program = f"class Net({base}):\n    def __call__(self, x, p):\n        {body}\n"
    assert codes(program, FAMILY) == ["NN-005"] * found


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


BLOCKS = """
import mlx.core as mx
import mlx.nn as nn

class Block(nn.Module):
    def __init__(self, dims, rate):
        super().__init__()
        self.dropout = nn.Dropout(rate)

    def __call__(self, x):
        return self.dropout(x)

class Net(nn.Module):
    def __init__(self, dims, rate, depth):
        super().__init__()
        self.layers = nn.Sequential(LAYERS)

    def __call__(self, x):
        return self.layers(x)

class Trainer:
    def __init__(self, model: Net):
        self.model = model

    def loss(self, x):
        return mx.mean(self.model(x))

    def train(self, x):
        self.model.train()
        return nn.value_and_grad(self.model, self.loss)(x)

    def evaluate(self, x):
        return self.model(x)
"""


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ("*[Block(dims, rate) for _ in range(depth)]", ["NN-005"]),
        ("nn.Linear(dims, dims), Block(dims, rate)", ["NN-005"]),
        ("*[nn.Linear(dims, dims), Block(dims, rate)]", ["NN-005"]),
        ("*[nn.Linear(dims, dims) for _ in range(depth)]", []),
    ],
)
def test_layers_of_sequences(layers: str, expected: list[str]) -> None:
    assert codes(BLOCKS.replace("LAYERS", layers), "NN-005") == expected


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


#: Programs whose reported lines end in ``# reported``; the others are near misses.
PROGRAMS = {
    "equal values": (
        "HOST-PULL-013",
        """
import mlx.core as mx

def scale_of(w: mx.array) -> float:
    return float(mx.sqrt(mx.mean(w * w)))

def run1(w: mx.array, xs):
    out = []
    for x in xs:
        out.append(x * (1 / scale_of(w)))  # reported
    return out

def total(w):
    s = mx.sum(w)
    return s.item()
def run2(w: mx.array, n: int):
    acc = 0.0
    for i in range(n):
        acc += i / total(w)  # reported
    return acc
def run3():
    data = mx.random.normal((1000,))
    lens = []
    def med():
        return mx.median(data).item()
    for i in range(100):
        if i > med():  # reported
            lens.append(i)
    return lens
class Vocab:
    def __init__(self, t):
        self.t = mx.array(t)
    def ids(self):
        return mx.argsort(self.t).tolist()
    def enc(self, words):
        out = []
        for w in words:
            out.append(self.ids().index(w))  # reported
        return out
# ok
def ok1(w, n):
    for i in range(n):
        w = w * 0.9
        print(scale_of(w))
def ok2(w, opt, model, n):
    for i in range(n):
        opt.update(model, w)
        print(scale_of(model.w))
def ok3(v, n):
    for i in range(n):
        v.t = v.t + 1
        print(v.ids())
def norm(m):
    return mx.sum(m.w * m.w).item()
def ok4(m, n, step):
    for i in range(n):
        step(m)
        print(norm(m))
def ok6(w, anchors):
    for anchor in anchors:
        if anchor == "last":
            print(scale_of(w))
def ok5(m, n, step):
    @mx.compile
    def f(x):
        return x
    for i in range(n):
        step(i)
        print(norm(m))
""",
    ),
    "sections": (
        "API-009",
        """
import mlx.core as mx
import mlx.nn as nn
class A(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.d = d
        self.h = h
        self.lin = nn.Linear(d, 2 * h)
        self.n = 3
    def f1(self, x):
        gate, up = mx.split(self.lin(x), self.h, axis=-1)  # reported
        return gate * up
    def f2(self, x):
        parts = mx.split(x, self.d // 2, -1)  # reported
        a, b = parts
        return a + b
    def f3(self, x):
        B, L, D = x.shape
        a, b = mx.split(x, D // 2, axis=-1)  # reported
        return a
    def ok1(self, x):
        a, b, c = mx.split(x, self.n, -1)
        return a
    def ok2(self, x):
        a, b, c = mx.split(x, [self.d, 2 * self.d], -1)
        return a
    def f4(self, x):
        a, b = mx.split(x, [self.d, self.d], -1)  # reported
        return a
def f5(x, split_size):
    a, b = map(nn.silu, mx.split(x, split_size, axis=1))  # reported
    return a, b
def ok3(x, n):
    a, b = mx.split(x, n)
    return a, b
def ok4(x, idx):
    a, b = mx.split(x, idx.tolist())
    return a, b
def ok5(x, dims):
    return mx.split(x, dims)
def ok6(x, q, kv):
    a, b, c = mx.split(x, [q, q + kv], axis=-1)
    return a
class Q:
    def __init__(self, args):
        self.dim = args.dim
        self.parts = args.parts
    def ok7(self, x):
        a, b = mx.split(x, self.parts, axis=-1)
        return a
    def ok8(self, x):
        a, b = mx.split(x, [self.dim], axis=-1)
        return a
def ok10(x, y):
    a, b, c = mx.split(x, x.shape[-1] // y.shape[-1], axis=-1)
    return a
def ok9(x):
    a, b = [mx.squeeze(s, -1) for s in mx.split(x, x.shape[-1], axis=-1)]
    return a
""",
    ),
    "constants": (
        "NN-002",
        """
import math
import numpy as np
import mlx.core as mx
import mlx.nn as nn

def inv_freq(d, base=10000.0):
    return 1.0 / (base ** (mx.arange(0, d, 2) / d))

class R(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.inv = inv_freq(d)  # reported

class S(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.window = mx.array(np.hanning(n))  # reported
    def __call__(self, x):
        return x * self.window

class T(nn.Module):
    'Random features.'
    def __init__(self, d, m):
        super().__init__()
        self.B = mx.random.normal((d, m)) * 10.0  # reported
    def __call__(self, x: mx.array):
        p = x @ self.B
        return mx.concatenate([mx.cos(p), mx.sin(p)], -1)

class U(nn.Module):
    def __init__(self, d):
        super().__init__()
        # a hash that is not trained
        self.proj = mx.random.normal((d, 8))  # reported

class Ok1(nn.Module):
    'Learned Fourier features.'
    def __init__(self, d, m):
        super().__init__()
        self.B = mx.random.normal((d, m)) * 10.0
    def __call__(self, x):
        p = x @ self.B
        return mx.concatenate([mx.cos(p), mx.sin(p)], -1)
class Ok2(nn.Module):
    def __init__(self, d, m):
        super().__init__()
        self.weight = mx.random.normal((d, m)) * math.sqrt(1 / d)
    def __call__(self, x):
        return mx.sin(x @ self.weight)
def train(m):
    return nn.value_and_grad(m, lambda m: m)
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    code, program = PROGRAMS[name]
    check_marked(program, code)


CACHE = """
from mlx_lm.models.cache import KVCache

class Own:
    def __init__(self):
        self.keys = None
    def update(self, keys):
        self.keys = keys

class Size:
    def __init__(self, n):
        self.n = n

"""


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("[KVCache()] * n", 1),
        ("n * [[Own()]]", 1),
        ("[nn.Linear(2, 2), nn.ReLU()] * n", 1),
        ("[Size(3)] * n", 0),
        ("[KVCache() for _ in range(n)]", 0),
        ("[mx.zeros(3), None, len('a')] * n", 0),
    ],
)
def test_lists_of_one_object(made: str, found: int) -> None:
    program = f"{CACHE}def make(n):\n    return {made}\n"
    assert codes(program, "NN-013") == ["NN-013"] * found
