"""GRAD-008: layers whose results only choose an index, in the ways that a loss reaches them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes

if TYPE_CHECKING:
    from pathlib import Path

MODEL = """
import mlx.core as mx
import mlx.nn as nn
from functools import partial

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
        self.book = nn.Embedding(16, 4)
        self.dec = nn.Linear(4, 8)
    @property
    def levels(self):
        return 7
    def nearest(self, z):
        d = mx.sum((z[:, None] - self.book.weight) ** 2, axis=-1)
        return mx.stop_gradient(d.argmin(axis=-1))
    def decode(self, q):
        return self.dec(q)
    def __call__(self, x):
        z = self.enc(x)
        BODY

def mse(m, x):
    return nn.losses.mse_loss(m(x), x)
"""
BY_VALUE = "step = nn.value_and_grad(Model(), mse)"
FOUND = {
    "an embedding": "return self.decode(self.book(self.nearest(z)))",
    "an index": "i = self.nearest(z)\n        return self.dec(self.book.weight[i])",
    "one hot": (
        "s = mx.argmax(z, axis=-1)\n"
        "        return self.dec((s[:, None] == mx.arange(4)).astype(mx.float32))"
    ),
    "rounding": "return self.dec(mx.round(mx.tanh(z) * self.levels) / self.levels)",
}
LOSSES = {
    "a lambda": "step = nn.value_and_grad(Model(), lambda m, x: mse(m, x))",
    "a partial": "step = nn.value_and_grad(Model(), partial(mse))",
    "keywords": "model = Model()\nstep = nn.value_and_grad(model=model, fn=mse)",
}


@pytest.mark.parametrize("body", FOUND.values(), ids=FOUND)
def test_choices_in_layers(body: str) -> None:
    assert codes(MODEL.replace("BODY", body) + BY_VALUE, "GRAD") == ["GRAD-008"]


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_losses(loss: str) -> None:
    program = MODEL.replace("BODY", FOUND["an embedding"]) + loss
    assert codes(program, "GRAD") == ["GRAD-008"]


@pytest.mark.parametrize(
    "loss",
    [
        "best = mx.argmax(m(x), axis=-1)\n    return nn.losses.cross_entropy(t(x), best).mean()",
    ],
)
def test_choices_of_a_loss(loss: str) -> None:
    program = MODEL.replace("BODY", "return self.dec(z)")
    program += f"t = Model()\ndef loss(m, x):\n    {loss}\nstep = nn.value_and_grad(Model(), loss)"
    assert codes(program, "GRAD") == []


def test_a_model_of_another_file(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(MODEL.replace("BODY", FOUND["an embedding"]))
    program = f"import mlx.nn as nn\nfrom library import Model, mse\n{BY_VALUE}\n"
    path = tmp_path / "program.py"
    path.write_text(program)
    found = check_source(program, path, Project()).findings
    assert [(f.code, f.line) for f in found] == [("GRAD-008", 3)]
