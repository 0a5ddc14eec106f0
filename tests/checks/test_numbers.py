"""Rules about numbers that go wrong, as they pass through functions and attributes."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

NETWORK = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3){last})
    def __call__(self, x):
        return self.body(x)
def loss(model: Net, x, y):
    return nn.losses.cross_entropy(model(x), y, reduction="mean")
"""
STATS = """
class Running:
    def __init__(self, n):
        self.count, self.total, self.squares = 0, mx.zeros((n,)), mx.zeros((n,))
    def add(self, x: mx.array):
        self.count += len(x)
        self.total = self.total + x.sum(axis=0)
        self.squares = self.squares + {squares}.sum(axis=0)
    def variance(self):
        mean = self.total / self.count
        return self.squares / self.count - mean ** 2
"""
SAMPLER = """
class Sampler:
    def __init__(self):
        self.kept = None
    def feed(self, logits):
        self.kept = {kept}
    def draw(self, key):
        return mx.random.categorical(self.kept, key=key)
"""
USAGE = """
from dataclasses import dataclass, field
@dataclass
class Usage:
    dtype: mx.Dtype = mx.{dtype}
    seen: mx.array = field(init=False)
    def __post_init__(self):
        self.seen = mx.zeros((8,), dtype=self.dtype)
    def add(self, flags):
        self.seen = self.seen + flags.sum(axis=0).astype(self.seen.dtype)
{last}
"""
MASK = """
def mask(keep, dtype):
    low = -1e9
    return mx.where(keep, 0.0, low).astype(dtype)
def scores(x: mx.array, keep):
    return x + mask(keep, {dtype})
"""


@pytest.mark.parametrize(
    ("code", "program"),
    [
        ("NN-008", NETWORK.format(last=", nn.Softmax()")),
        ("NN-008", NETWORK.format(last=", mx.softmax")),
        ("DTYPE-014", STATS.format(squares="mx.square(x)")),
        ("RANDOM-005", SAMPLER.format(kept="logits / mx.sum(logits)")),
        ("DTYPE-007", USAGE.format(dtype="float16", last="")),
        ("DTYPE-006", MASK.format(dtype="mx.float16")),
        ("DTYPE-007", "def f(n: int, dtype=mx.bfloat16):\n    return mx.arange(n, dtype=dtype)"),
        ("DTYPE-011", "def f(x):\n    return mx.exp(x) / (1 + mx.exp(x))"),
        ("DTYPE-011", "def f(x):\n    a, b = mx.exp(x), mx.exp(-x)\n    return (a - b) / (a + b)"),
        ("DTYPE-011", "def f(u):\n    return mx.log(1 - mx.tanh(u) ** 2)"),
        ("DTYPE-016", "def f(i):\n    x = mx.array([0] * 3)\n    x[i] = 0.1 * (2 - x[i])"),
        ("DTYPE-016", "def f(i):\n    x = mx.zeros((3,), dtype=mx.int32)\n    x[i] /= 3"),
        ("DTYPE-019", "def f(x):\n    h = x.astype(mx.float16)\n    return (h ** 2).mean(-1)"),
        ("NN-011", "m = nn.Linear(2, 1)\nx = mx.ones((9, 2))\ne = mx.mean((m(x) - x[:, 0]) ** 2)"),
        ("API-010", "from mlx.utils import tree_map\ndef f(g):\n    tree_map(lambda v: v / 2, g)"),
        ("INDEX-002", "def f(x: mx.array):\n    for row in x:\n        row -= mx.mean(row)"),
        ("INDEX-002", "def f(x: mx.array):\n    x.T[0] = 1"),
        ("INDEX-002", "def g(row):\n    row[:] = 0\ndef f(x: mx.array):\n    g(x[2])"),
    ],
)
def test_values_are_followed(code: str, program: str) -> None:
    assert codes(program, code) == [code]


@pytest.mark.parametrize(
    ("code", "program"),
    [
        ("DTYPE-014", STATS.format(squares="mx.square(x - self.total)")),
        ("RANDOM-005", SAMPLER.format(kept="logits / 0.7")),
        ("RANDOM-005", SAMPLER.format(kept="mx.log(mx.softmax(logits))")),
        ("DTYPE-007", USAGE.format(dtype="float32", last="")),
        ("DTYPE-007", USAGE.format(dtype="float16", last="Usage(mx.float32)")),
        ("DTYPE-006", MASK.format(dtype="x.dtype")),
        ("DTYPE-011", "def f(x, t):\n    e = mx.exp((x - x.max()) / t)\n    return e / mx.sum(e)"),
        ("DTYPE-011", "def f(x):\n    e = mx.exp(mx.clip(x, -9, 9))\n    return e / mx.sum(e)"),
        ("DTYPE-011", "def f(u):\n    return mx.log(1 - mx.tanh(u) ** 2 + 1e-6)"),
        (
            "DTYPE-015",
            "def f(x, y):\n    return (x > 1).astype(mx.uint8) + (y > 1).astype(mx.uint8)",
        ),
        (
            "API-010",
            "def f(x: mx.array):\n    try:\n        x.reshape(2, -1)\n    finally:\n        pass",
        ),
        (
            "INDEX-002",
            "def f(x: mx.array):\n    for row in x:\n        row -= 1\n        yield row",
        ),
        ("INDEX-002", "def g(row):\n    return row * 2\ndef f(x: mx.array):\n    g(x[2])"),
    ],
)
def test_near_misses(code: str, program: str) -> None:
    assert codes(program, code) == []
