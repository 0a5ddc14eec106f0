"""COMPILE-012 and GRAD-009: exceptions and `async_eval` in functions that MLX transforms."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

COMPILED = """
from functools import partial

import mlx.core as mx
import mlx.nn as nn


@partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
def sample(logits: mx.array, count: int) -> mx.array:
    {}
    return mx.random.categorical(mx.topk(logits, count))
"""
CAUGHT = """try:
        assert count > 0
    except AssertionError:
        count = 1"""
SCHEDULED = """
import mlx.core as mx


def attend(q: mx.array, k: mx.array, v: mx.array):
    y = q @ k @ v
    {}
    return {}
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (COMPILED.format("assert count > 0"), True),
        (COMPILED.format("assert mx.default_device() is not None"), False),
        (COMPILED.format(CAUGHT), False),
        (COMPILED.format("assert count > 0").replace("inputs=mx.random.state, ", ""), False),
    ],
)
def test_refused_arguments_of_a_compiled_function(text: str, expected: bool) -> None:
    assert bool(codes(text, "COMPILE-012")) is expected


def test_a_training_step_ends_with_its_exception() -> None:
    text = """
from functools import partial

import mlx.core as mx
import mlx.nn as nn

model = nn.Linear(2, 2)


def loss(x: mx.array, kind: str) -> mx.array:
    if kind != "mean":
        raise ValueError(kind)
    return model(x).mean()


gradient = nn.value_and_grad(model, loss)


@partial(mx.compile, inputs=model.state, outputs=model.state)
def step(x: mx.array, kind: str):
    return gradient(x, kind)
"""
    assert not codes(text, "COMPILE-012")


@pytest.mark.parametrize(
    ("statement", "result", "expected"),
    [
        ("mx.async_eval(y)", "y", True),
        ("if y.shape[0] > 1: mx.async_eval(y)", "y", False),
        ("mx.async_eval(y)", "y.tolist()", False),
        ("mx.async_eval(y[0])", "y", False),
        ("mx.eval(y)", "y", False),
    ],
)
def test_scheduled_results(statement: str, result: str, expected: bool) -> None:
    assert bool(codes(SCHEDULED.format(statement, result), "GRAD-009")) is expected
