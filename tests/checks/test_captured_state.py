"""COMPILE-005: states that ``inputs=`` and ``outputs=`` capture through other names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.checks.marked import check_marked

if TYPE_CHECKING:
    from pathlib import Path

START = """
from dataclasses import dataclass
from functools import partial

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

def loss_fn(model, x):
    return model(x).mean()
"""
STEP = """
        @partial(mx.compile, inputs=CAPTURED, outputs=CAPTURED)
        def step(x):
            loss, gradients = nn.value_and_grad(self.model, loss_fn)(self.model, x)
            self.optimizer.update(self.model, gradients)MARK
            return loss
        return step
"""
#: Programs with both states; without that of the optimizer, the update is reported.
PROGRAMS = {
    "property": (
        """
class Fitter:
    def __init__(self, model):
        self.model = model
        self.optimizer = optim.Adam(learning_rate=0.1)
    @property
    def state(self):
        return [self.model.state, self.optimizer.state]
    def build(self):""",
        "self.state",
    ),
    "method of a dataclass": (
        """
@dataclass
class Fitter:
    model: nn.Module
    optimizer: optim.Optimizer
    def states(self):
        return {"model": self.model.state, "optimizer": self.optimizer.state}
    def build(self):
        states = self.states()""",
        "states",
    ),
    "object": (
        """
class Bundle:
    def __init__(self, net, rule):
        self.state = [net.state, rule.state]

class Fitter:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
    def build(self):
        bundle = Bundle(self.model, self.optimizer)""",
        "bundle.state",
    ),
}
LACKING = {
    ", self.optimizer.state]": "]",
    ", rule.state]": "]",
    ', "optimizer": self.optimizer.state': "",
}
APPENDED = """
class Fitter:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.state = [model.state]
        self.state.append(optimizer.state)
    def build(self):"""


def check(program: str, captured: str, mark: str, tmp_path: Path) -> None:
    """Assert that the update is reported if it is marked, and nothing else."""
    step = STEP.replace("CAPTURED", captured).replace("MARK", mark)
    path = tmp_path / "program.py"
    text = START + program + step
    path.write_text(text.lstrip("\n"))
    check_marked(text, "COMPILE-005", path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_optimizer(name: str, tmp_path: Path) -> None:
    program, captured = PROGRAMS[name]
    check(program, captured, "", tmp_path)


@pytest.mark.parametrize("name", PROGRAMS)
def test_optimizer_that_is_not_captured(name: str, tmp_path: Path) -> None:
    program, captured = PROGRAMS[name]
    for text, shorter in LACKING.items():
        program = program.replace(text, shorter)
    check(program, captured, "  # reported", tmp_path)


def test_state_that_is_added_later(tmp_path: Path) -> None:
    check(APPENDED, "self.state", "", tmp_path)
