"""Reads of a model's results, one for each whole pass, are notes; in chains they are warnings."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes, findings

PULLS = ("GRAPH-BREAK-001", "GRAPH-BREAK-002", "GRAPH-BREAK-003", "HOST-PULL-001", "HOST-PULL-002")
LOOP = """
import numpy as np
import mlx.optimizers as optim

class Net(nn.Module):
    def __call__(self, x):
        return x * 2

class Trainer:
    def __init__(self, model):
        self.model = model

    def loss(self, x):
        return mx.mean(self.model(x))

    def pure(self, x):
        return mx.mean(x * 2)

    def run(self, model, net: Net, module: nn.Module, batches, xs: mx.array, opt: optim.SGD):
        total, out, token = 0.0, [], xs
        step = nn.value_and_grad(module, lambda m, x: m(x).mean())
        for x in batches:
{}
        return total, out
"""
#: Statements of a loop, and the context of the last read in them.
READS = {
    "a model of the file": ("total += mx.mean(net(x)).item()", "sink"),
    "no model": ("total += mx.sum(xs * 2).item()", "loop"),
    "the loss of a step": (
        "loss, grads = step(module, x)\nopt.update(module, grads)\nout.append(loss.item())",
        "loop",
    ),
    "a metric next to a step": (
        "loss, grads = step(module, x)\nopt.update(module, grads)\nprint(mx.array(x).sum().item())",
        "sink",
    ),
    "a test after the evaluation of a step": (
        (
            "loss, grads = step(module, x)\nopt.update(module, grads)\n"
            "mx.eval(module.parameters())\nif mx.mean(loss) < 3:\n    out.append(x)"
        ),
        "sink",
    ),
}


@pytest.mark.parametrize(("body", "expected"), READS.values(), ids=READS)
def test_a_read_of_each_pass(body: str, expected: str) -> None:
    lines = "\n".join(f"            {line}" for line in body.splitlines())
    assert findings(LOOP.format(lines), PULLS)[-1].context == expected


ONCE = {
    "a first token": (
        (
            "def prefill(model, x: mx.array, cache):\n"
            "    t = int(mx.argmax(x).item())\n    cache.append(mx.array([[t]]))\n    return t\n"
        ),
        "sink",
    ),
    "a copy that is checked": (
        (
            "def gather(x: mx.array, y: mx.array):\n    rows = np.array(x)\n"
            "    if np.any(rows < 0):\n        raise ValueError\n    return y[mx.array(rows)]\n"
        ),
        "sink",
    ),
    "a selection": (
        (
            "def bad(weights: dict[str, mx.array]):\n"
            "    return [k for k, v in weights.items() if not bool(mx.all(mx.isfinite(v)))]\n"
        ),
        "sink",
    ),
    "a sum of a script": ("print(sum(x.sum().item() for x in [mx.ones(1)]))\n", "sink"),
    "a fallback": (
        (
            "def ids(xs: list[mx.array], out):\n    for x in xs:\n        try:\n"
            "            out.append(x.shape)\n        except TypeError:\n"
            "            out.append(x.item())\n"
        ),
        "sink",
    ),
    "what may be a list": (
        (
            "def ids(xs: list[mx.array], out):\n    for x in xs:\n"
            "        out.append(x.tolist() if hasattr(x, 'tolist') else list(x))\n"
        ),
        "sink",
    ),
    "an evaluation for its own sake": (
        "def check():\n    test = mx.array([1.0, 2.0])\n    _ = mx.sum(test).item()\n",
        "sink",
    ),
}


@pytest.mark.parametrize(("source", "expected"), ONCE.values(), ids=ONCE)
def test_a_read(source: str, expected: str) -> None:
    assert findings(f"import numpy as np\n{source}", PULLS)[-1].context == expected


ASKED = """
def ids(values, x: mx.array):
    out = []
    for v in values:
        {}
    return mx.array(out) + x
"""


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("out.append(v.tolist() if hasattr(v, 'tolist') else list(v))", 0),
        ("is_array = hasattr(v, 'item'); out.append(v.item() if is_array else v)", 0),
        ("out.append(v.item() if hasattr(v, 'shape') else v)", 1),
        ("hasattr(v, 'tolist'); v = f(v); out.append(v.tolist())", 1),
        ("out.append(x[0].item() if False else v)", 0),
    ],
)
def test_a_method_that_the_code_asks_for_proves_no_array(body: str, count: int) -> None:
    assert len(findings(ASKED.format(body), (*PULLS, "HOST-PULL-008"))) == count


def test_a_mapped_function_may_evaluate() -> None:
    source = """
from mlx.utils import tree_map

def step(grads_of, model, batches):
    total = tree_map(mx.zeros_like, model.parameters())
    for x in batches:
        total = tree_map(lambda a, b: a + b, total, grads_of(x))
        tree_map(lambda g: {}, total)
    return total
"""
    assert codes(source.format("mx.eval(g)"), ("LAZY-001", "API-010")) == []
    assert codes(source.format("mx.abs(g)"), "API-010") == ["API-010"]
