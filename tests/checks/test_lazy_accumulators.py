"""LAZY-001: accumulators in functions, closures, callers and comprehensions."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes

if TYPE_CHECKING:
    from pathlib import Path

START = """
from mlx.utils import tree_map

def loss_fn(model, x):
    return mx.mean(model(x))

def add(total, gradients):
    return tree_map(mx.add, total, gradients)

class Meter:
    def __init__(self, dims=4):
        self.sums, self.mean, self.values = {}, mx.zeros((dims,)), []

    def add(self, name, value: mx.array):
        self.sums[name] = self.sums.get(name, mx.array(0.0)) + value

    def observe(self, x: mx.array):
        self.mean = self.mean * 0.9 + x

    def keep(self, value: mx.array):
        self.values.append(value)

    def reset(self):
        self.values = []

    @property
    def state(self):
        return [self.mean, self.values, self.sums]
"""
STEP = """
    grad = nn.value_and_grad(model, loss_fn)
    for x in batches:
        loss, gradients = grad(model, x)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
"""
DEFINE = "def train(model, optimizer, batches, log):\n    meter, total, seen = Meter(), None, []"


def found(program: str) -> list[str]:
    """The codes of LAZY-001 in a program."""
    return codes(START + dedent(program), "LAZY-001")


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("meter.add('loss', loss)", True),
        ("total = loss if total is None else mx.maximum(total, loss)", True),
        ("meter.keep(loss)\n        mx.eval(meter.state)", False),
        ("meter.keep(loss)\n        meter.reset()", False),
        ("mx.eval(loss)\n        meter.add('loss', loss)", False),
    ],
)
def test_what_a_training_loop_adds_to(body: str, flagged: bool) -> None:
    program = f"{DEFINE}{STEP}        {body}\n    return meter, total, seen\n"
    assert bool(found(program)) is flagged


@pytest.mark.parametrize(
    ("program", "flagged"),
    [
        ("print(evaluate(model, data).item())", True),
        ("total = evaluate(model, data)\n    print(f'{total}')", True),
        ("return evaluate(model, data)", False),  # a caller may differentiate
        ("return mx.grad(evaluate)(model, data)", False),
    ],
)
def test_a_sum_that_is_returned_is_flagged_if_a_caller_evaluates_it(
    program: str, flagged: bool
) -> None:
    source = f"""
def evaluate(model, data):
    total = mx.array(0.0)
    for x, y in data:
        total += nn.losses.mse_loss(model(x), y)
    return total

def main(model: nn.Module, data):
    {program}
"""
    assert bool(found(source)) is flagged


@pytest.mark.parametrize(
    ("expression", "flagged"),
    [
        ("sum(loss_fn(model, x) for x in batches).item()", True),
        ("mx.stack([loss_fn(model, x) for x in batches]).tolist()", True),
        ("sum(loss_fn(layer, batches) for layer in model.layers).item()", False),
        ("sum(loss_fn(model, x) for x in batches)", False),
    ],
)
def test_losses_of_a_comprehension(expression: str, flagged: bool) -> None:
    assert bool(found(f"def f(model: nn.Module, batches):\n    return {expression}\n")) is flagged


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("model(x[:, i : i + 8], cache=cache)", True),
        ("y = model(x[:, i : i + 8], cache)", True),
        ("model(x[:, i : i + 8], cache=cache)\n        mx.eval([c.state for c in cache])", False),
        ("model(x[:, i : i + 8], cache=cache)\n        log(cache)", False),
        ("y = model(x[:, i : i + 8], cache=cache)\n        log(y)", False),
        ("y = model(x[:, i : i + 8], cache=cache)\n        yield y", False),
        ("x = mx.argmax(model(x, cache=cache), axis=-1)", False),  # a decoding loop
        ("model(i, cache)\n        mx.eval([c.state for c in cache])", False),
        ("y = model(i, cache)", False),  # what becomes of it decides
        ("model(x, cache)", False),
        ("for cache in i:\n            model(cache, x)", False),
    ],
)
def test_chunks_that_fill_a_cache(body: str, flagged: bool) -> None:
    program = f"""
def f(model: nn.Module, x: mx.array, cache, log):
    for i in chunks(x):
        {body}
"""
    sliced = program.replace("chunks(x)", "range(0, x.shape[1], 8)")
    assert bool(found(sliced if "x[" in body or "argmax" in body else program)) is flagged


@pytest.mark.parametrize(
    ("update", "flagged"),
    [
        ("x = mx.array(env.step())", True),
        ("x = x * 0.5", False),  # no data of the host
        ("y = mx.array(env.step())", False),  # not what is observed
    ],
)
def test_statistics_of_data_that_the_last_iteration_reads(update: str, flagged: bool) -> None:
    program = f"""
def warm_up(env, steps):
    meter, x = Meter(), mx.array(env.reset())
    for _ in range(steps):
        meter.observe(x)
        {update}
"""
    assert bool(found(program)) is flagged


@pytest.mark.parametrize(
    ("loop", "flagged"),
    [
        ("for e in x:\n        cache = e['cache']", False),
        ("for e in x:\n        cache = e.state.get('cache')", False),
        ("for e in x:\n        cache = own", True),
        ("for e in x:\n        cache = own[0].cache", True),
    ],
)
def test_caches_of_the_elements_of_a_loop(loop: str, flagged: bool) -> None:
    program = f"""
def f(model: nn.Module, x: list, n: int, own):
    {loop}
        e.layer(e.inputs[:, :n], cache=cache)
"""
    assert bool(found(program)) is flagged


METERS = """
import mlx.core as mx
from mlx.utils import tree_map

class Meter:
    def __init__(self):
        self.total, self.count, self.tree = mx.array(0.0), 0, None
        self.high = mx.array(0.0)

    def add(self, value, count=1):
        self.total = self.total + value
        self.count += count

    def take(self, rows):
        n = rows.shape[0]
        self.count += n

    def average(self, tree):
        self.tree = tree_map(mx.maximum, self.tree, tree)

    def rate(self):
        self.count += 1
        return min(0.999, (1 + self.count) / (10 + self.count))

    def follow(self, model):
        d = self.rate()
        self.tree = tree_map(lambda s, p: d * s + p, self.tree, model.trainable_parameters())

    def follow_high(self, model):
        d = max(self.high, 0.1)
        self.tree = tree_map(lambda s, p: d * s + p, self.tree, model.trainable_parameters())

    def follow_and_check(self, model):
        self.checked(0.0)
        self.tree = tree_map(lambda s, p: s + p, self.tree, model.trainable_parameters())

    def checked(self, value):
        self.total = self.total + value
        mx.eval(self.total)
"""


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("meter.add(loss)", True),
        ("meter.average(gradients)", True),
        ("meter.take(loss)", False),
        ("meter.follow(model)", True),
        ("meter.follow(model)\n        mx.eval(meter.tree)", False),
        ("meter.follow_high(model)", False),  # `max` of arrays evaluates
        ("meter.follow_and_check(model)", False),
        ("meter.add(loss)\n        mx.eval(meter.total)", False),
        ("mx.eval(loss)\n        meter.add(loss)", False),
    ],
)
def test_a_meter_of_another_file(tmp_path: Path, body: str, flagged: bool) -> None:
    (tmp_path / "meters.py").write_text(METERS)
    path = tmp_path / "program.py"
    source = (
        "import mlx.core as mx\nimport mlx.nn as nn\nfrom meters import Meter\n"
        "def loss_fn(model, x):\n    return mx.mean(model(x))\n"
        f"def train(model, optimizer, batches):\n    meter = Meter(){STEP}        {body}\n"
    )
    path.write_text(source)
    found = check_source(source, path, Project()).findings
    assert ("LAZY-001" in [finding.code for finding in found]) is flagged
