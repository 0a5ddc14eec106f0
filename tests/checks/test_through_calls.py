"""Findings that need what callers pass, in code without annotations, and what looks like them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes

if TYPE_CHECKING:
    from pathlib import Path

IMPORTS = (
    "import numpy as np\nimport mlx.optimizers as optim\nfrom functools import partial\n"
    "from mlx.utils import tree_map\n"
)
STEP = "step = nn.value_and_grad(model, lambda m, x: m(x).mean())\n"

REPORTED = {
    "a softmax two calls from the array": (
        (
            "def probs(s):\n    return mx.softmax(s)\n"
            "def attend(q, k):\n    return probs(q @ k.T)\n"
            "attend(mx.ones((2, 3, 4)), mx.ones((5, 4)))\n"
        ),
        "API-006",
    ),
    "a softmax of a method's reshaped array": (
        (
            "class A:\n    def split(self, x):\n        b, n, d = x.shape\n"
            "        return x.reshape(b, n, 4, d // 4)\n"
            "    def probs(self, q: mx.array):\n        return mx.softmax(self.split(q))\n"
        ),
        "API-006",
    ),
    "a logsumexp of a generator's arrays": (
        (
            "def z(logits):\n    return mx.logsumexp(logits)\n"
            "def batches(n):\n    for i in range(n):\n        yield mx.random.normal((n, 4))\n"
            "def run(data):\n    return [z(logits) for logits in data]\n"
            "run(batches(3))\n"
        ),
        "API-006",
    ),
    "a uint8 difference in a helper that is defined first": (
        (
            "def change(a, b):\n    return mx.abs(a - b)\n"
            "class Gate:\n    def score(self, a, b):\n        return change(a, b).mean()\n"
            "    def scan(self, clip):\n"
            "        return [self.score(a, b) for a, b in zip(clip[1:], clip[:-1])]\n"
            "def main(frames):\n"
            "    Gate().scan(mx.stack(frames).astype(mx.uint8))\n"
        ),
        "DTYPE-010",
    ),
    "an int64 table that a helper makes": (
        (
            "def table(n):\n    return mx.array(np.zeros((n, n), dtype=int))\n"
            "def count(n, ids: mx.array):\n    t = table(n)\n    return t.at[0, ids].add(1)\n"
        ),
        "DTYPE-008",
    ),
    "a pull three calls below a gradient": (
        (
            "def clip(z):\n    return mx.array(np.clip(np.array(z), 0, 1))\n"
            "def middle(z):\n    return clip(z * 2)\n"
            "def loss(w, x):\n    return mx.mean(middle(w * x))\n"
            "def train(w, x):\n    return mx.grad(loss)(w, x)\n"
        ),
        "HOST-PULL-002",
    ),
    "dropout of a module that a parameter annotated as nn.Module takes": (
        (
            "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
            "        self.drop = nn.Dropout(0.5)\n"
            "    def __call__(self, x):\n        return self.drop(x)\n"
            "class Trainer:\n    def __init__(self, model: nn.Module):\n"
            "        vg = nn.value_and_grad(model, lambda m, x: m(x).sum())\n"
            "        state = [model.state]\n"
            "        @partial(mx.compile, inputs=state, outputs=state)\n"
            "        def step(x):\n            return vg(model, x)\n"
            "        self.step = step\n"
            "Trainer(Net())\n"
        ),
        "COMPILE-001",
    ),
    "an average of weights in a method": (
        (
            "class Average:\n    def __init__(self, model):\n        self.mean = model.parameters()\n"
            "        self.decay = 0.9\n"
            "    def update(self, model):\n        d = self.decay\n"
            "        self.mean = tree_map(lambda s, p: d * s + p, self.mean, model.parameters())\n"
            "def train(model, batches):\n    average = Average(model)\n    opt = optim.SGD(0.1)\n"
            f"    {STEP}"
            "    for x in batches:\n        loss, g = step(model, x)\n        opt.update(model, g)\n"
            "        average.update(model)\n        mx.eval(model.parameters(), opt.state)\n"
        ),
        "LAZY-001",
    ),
    "probabilities through a helper": (
        (
            "def draw(p):\n    return mx.random.categorical(p[None])\n"
            "def sample(logits):\n    return draw(mx.softmax(logits, axis=-1))\n"
        ),
        "RANDOM-005",
    ),
}


@pytest.mark.parametrize(("program", "code"), REPORTED.values(), ids=REPORTED)
def test_reported(program: str, code: str) -> None:
    assert codes(IMPORTS + program, code) == [code]


SILENT = {
    "a softmax of vectors too": (
        "def probs(s):\n    return mx.softmax(s)\nprobs(mx.ones((2, 3)))\nprobs(mx.ones((3,)))\n",
        "API-006",
    ),
    "a softmax of one row": (
        "def probs(s):\n    return mx.softmax(s)\nprobs(mx.ones((1, 3)))\n",
        "API-006",
    ),
    "a softmax that vmap maps": (
        "def probs(s):\n    return mx.softmax(s)\nmx.vmap(probs)(mx.ones((2, 3)))\n",
        "API-006",
    ),
    "a softmax for each number of axes": (
        (
            "def probs(s):\n    if s.ndim == 1:\n        return mx.softmax(s)\n"
            "    return mx.softmax(s, axis=-1)\nprobs(mx.ones((2, 3)))\n"
        ),
        "API-006",
    ),
    "a row of an array": (
        "def probs(s):\n    return mx.softmax(s)\n[probs(row) for row in mx.ones((2, 3))]\n",
        "API-006",
    ),
    "a gradient of a reduced loss": (
        (
            "def loss(w):\n    return mx.mean(w @ mx.ones((3, 4)))\n"
            "loss(mx.ones((2, 3)))\nmx.grad(loss)(mx.ones((2, 3)))\n"
        ),
        "GRAD",
    ),
    "int64 cast before the update": (
        (
            "def count(n, ids: mx.array):\n    t = mx.array(np.zeros((n,), dtype=int))\n"
            "    return t.astype(mx.int32).at[ids].add(1)\n"
        ),
        "DTYPE-008",
    ),
    "an average that its method evaluates": (
        (
            "class Meter:\n    def __init__(self):\n        self.total = mx.array(0.0)\n"
            "    def add(self, v):\n        self.total = self.total + v\n        mx.eval(self.total)\n"
            "def run(model: nn.Module, batches):\n    meter = Meter()\n"
            "    for x in batches:\n        meter.add(model(x).mean())\n    return meter.total\n"
        ),
        "LAZY-001",
    ),
    "logits and probabilities through one helper": (
        (
            "def draw(p):\n    return mx.random.categorical(p)\n"
            "def sample(x):\n    return draw(x), draw(mx.softmax(x, axis=-1))\n"
        ),
        "RANDOM-005",
    ),
    "the other of two modules is updated": (
        (
            "class A:\n    def __init__(self, model, teacher, opt):\n"
            "        self.model = model\n        self.teacher = teacher\n        self.opt = opt\n"
            "        self.targets = mx.compile(lambda x: teacher(x))\n"
            f"    def run(self, model, batches):\n        {STEP}"
            "        for x in batches:\n            _, g = step(self.model, x)\n"
            "            self.opt.update(self.model, g)\n            mx.eval(self.targets(x))\n"
        ),
        "COMPILE-007",
    ),
}


@pytest.mark.parametrize(("program", "code"), SILENT.values(), ids=SILENT)
def test_silent(program: str, code: str) -> None:
    assert codes(IMPORTS + program, code) == []


@pytest.mark.parametrize(("name", "count"), [("jitter", 1), ("clean", 0)])
def test_a_compiled_function_of_another_file_reads_a_clock(
    tmp_path: Path, name: str, count: int
) -> None:
    (tmp_path / "ops.py").write_text(
        "import time\n\ndef jitter(x):\n    return x + time.time()\n\ndef clean(x):\n    return x\n"
    )
    source = f"import mlx.core as mx\nfrom ops import {name}\nf = mx.compile({name})\n"
    path = tmp_path / "program.py"
    path.write_text(source)
    found = check_source(source, path, Project()).findings
    assert [finding.code for finding in found] == ["COMPILE-002"] * count
