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
    "scores of unknown rank in a test": (
        (
            "import pytest\nmx = pytest.importorskip('mlx.core')\nclass TestScores:\n"
            "    @pytest.mark.parametrize('s', [1])\n    def test_it(self, s):\n"
            "        try:\n            mx.softmax(mx.ones((2, 3)) * unknown(s))\n"
            "        except ValueError:\n            pytest.skip()\n"
        ),
        "API-006",
    ),
    "an activation of a column": (
        "mx.subtract(mx.tanh(nn.Linear(2, 1)(mx.ones((3, 2)))), mx.ones(3))\n",
        "NN-011",
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
            "class Average:\n    def __init__(self, model):\n"
            "        self.mean = model.parameters()\n"
            "        self.decay = 0.9\n"
            "    def update(self, model):\n        d = self.decay\n"
            "        self.mean = tree_map(lambda s, p: d * s + p, self.mean, model.parameters())\n"
            "def train(model, batches):\n    average = Average(model)\n    opt = optim.SGD(0.1)\n"
            f"    {STEP}"
            "    for x in batches:\n        loss, g = step(model, x)\n"
            "        opt.update(model, g)\n"
            "        average.update(model)\n        mx.eval(model.parameters(), opt.state)\n"
        ),
        "LAZY-001",
    ),
}


@pytest.mark.parametrize(("program", "code"), REPORTED.values(), ids=REPORTED)
def test_reported(program: str, code: str) -> None:
    assert codes(IMPORTS + program, code) == [code]


FRAMES = "mx.zeros((4, 8), dtype=mx.uint8)"
CLASS = "class W:\n    def __init__(self, f):\n        self.f = f\n"
CHANGE = "    def change(self):\n        return self.f[1:] - self.f[:-1]\n"
#: Ways from an array of uint8 to a difference; ``U`` is the array.
WAYS = {
    "a base's attribute": (
        f"{CLASS}class V(W):\n    def __init__(self, f):\n        super().__init__(f)\n{CHANGE}"
        "def main():\n    return V(U).change()\n"
    ),
    "a class method": (
        f"{CLASS}    @classmethod\n    def zero(cls):\n        return cls(U)\n{CHANGE}"
        "def main():\n    return W.zero().change()\n"
    ),
    "a list that a method appends to": (
        "class W:\n    def __init__(self):\n        self.fs = []\n"
        "    def add(self, f):\n        self.fs.append(f)\n"
        "    def change(self):\n        return self.fs[-1] - self.fs[0]\n"
        "def main():\n    W().add(U)\n"
    ),
    "a star": "def d(a, b):\n    return a - b\ndef main():\n    p = (U, U)\n    return d(*p)\n",
    "a partial": (
        "def d(n, a, b):\n    return a - b\ndef main():\n    return partial(d, 3)(U, U)\n"
    ),
    "annotated parameters": (
        "def _d(a: mx.array, b: mx.array | None):\n    return a - b\n_d(U, U)\n"
    ),
}


@pytest.mark.parametrize("program", WAYS.values(), ids=WAYS)
def test_the_dtype_of_an_argument_is_known(program: str) -> None:
    assert codes(IMPORTS + program.replace("U", FRAMES), "DTYPE-010") == ["DTYPE-010"]


@pytest.mark.parametrize(
    "program",
    [
        "def d(a: mx.array, b):\n    a = a.astype(mx.int32)\n    return a - b\nd(U, U)\n",
    ],
)
def test_the_dtype_of_an_argument_is_open(program: str) -> None:
    assert codes(IMPORTS + program.replace("U", FRAMES), "DTYPE-010") == []


SILENT = {
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
    "an average that its method evaluates": (
        (
            "class Meter:\n    def __init__(self):\n        self.total = mx.array(0.0)\n"
            "    def add(self, v):\n        self.total = self.total + v\n"
            "        mx.eval(self.total)\n"
            "def run(model: nn.Module, batches):\n    meter = Meter()\n"
            "    for x in batches:\n        meter.add(model(x).mean())\n    return meter.total\n"
        ),
        "LAZY-001",
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
