"""DTYPE-021, 024 and 025: dtypes of what models compute, of padding, and of optimizers."""

from __future__ import annotations

import pytest

from tests.checks.findings import findings

LAYER = """
class Conv(nn.Module):
    def __init__(self):
        self.newline = mx.zeros((1, 4))

    def __call__(self, x: mx.array, audio: mx.array) -> mx.array:
        {body}

    def sanitize(self, weights):
        return weights
"""
BUFFER = "padded = mx.zeros(x.shape{}); padded[:, :4] = {}; return padded"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return mx.concatenate([x, mx.zeros(x.shape)], axis=1)", True),
        ("return mx.concatenate([x, mx.full(x.shape, 0.5, x.dtype)], axis=1)", False),
        ("return mx.concatenate([x, mx.full(x.shape, 7)], axis=1)", False),
        ("return mx.concatenate([x, mx.zeros(x.shape, dtype=mx.float32)], axis=1)", False),
        ("return mx.concatenate([audio, mx.zeros(x.shape)], axis=1)", False),
        ("return mx.concatenate([x.astype(mx.float32), mx.zeros(x.shape)], axis=1)", False),
        ("return mx.concatenate([x, self.newline])", False),
        ("end = self.newline; return mx.concatenate([x, end])", False),
        (BUFFER.format("", "x"), True),
        (BUFFER.format(", x.dtype", "x"), False),
        (BUFFER.format("", "mx.arange(4)"), False),
        ("return x / mx.sqrt(2)", True),
        ("scale = 1.0 / mx.sqrt(mx.array(x.shape[-1])); return x * scale", True),
        ("return x / mx.sqrt(mx.array(2, dtype=x.dtype))", False),
        ("return x / mx.sqrt(x.sum())", False),
        ("return (x / mx.sqrt(2)).astype(x.dtype)", False),
    ],
)
def test_padding_that_promotes(body: str, expected: bool) -> None:
    assert bool(findings(LAYER.format(body=body), "DTYPE-024")) is expected


def test_loops_over_tokens_are_left_out() -> None:
    program = LAYER.format(body="return mx.concatenate([x, mx.zeros(x.shape)], axis=1)")
    assert not findings(program.replace("__call__", "decode_beams"), "DTYPE-024")


def test_padding_is_a_note_without_evidence_of_half_precision() -> None:
    program = LAYER.format(body="return mx.concatenate([x, mx.zeros(x.shape)], axis=1)")
    (finding,) = findings(program.partition("    def sanitize")[0], "DTYPE-024")
    assert finding.context == "minor"


OPTIMIZER = """
import mlx.optimizers as optim

class Mine(optim.{base}):
    def apply_single(self, gradient: mx.array, parameter: mx.array, state: dict):
        {body}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return parameter - self.learning_rate * gradient", True),
        ("lr = self.state['learning_rate']; return parameter - lr * gradient", True),
        ("return gradient / (1 - 0.9**self.step)", True),
        ("return gradient * mx.sqrt(self.state['step'])", True),
        ("return gradient * self.learning_rate.astype(gradient.dtype)", False),
        ("return (gradient * self.learning_rate).astype(gradient.dtype)", False),
        ("return gradient * self.momentum", False),
    ],
)
def test_scalars_of_optimizers(body: str, expected: bool) -> None:
    assert bool(findings(OPTIMIZER.format(base="Adam", body=body), "DTYPE-025")) is expected


CONVERTED = """
import numpy as np

def kept(keys: mx.array, values: mx.array, logits: mx.array, optimizer):
    {body}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return np.array(mx.sqrt(mx.sum(keys * values)))", True),
        ("return np.array(values[0])", True),
        ("return np.array(keys.astype(mx.float32))", False),
        ("return np.array(mx.argmax(keys, axis=-1))", False),
        ("return np.array(logits)", False),
        ("return {k: np.array(w) for k, w in mx.load('x').items()}", True),
        ("h = mx.bfloat16; return {k: np.array(w) for k, w in mx.load('x').items()}", False),
        ("import mlx_lm; return np.array(logits)", True),
        ("return np.array(keys if keys.dtype != mx.bfloat16 else 0)", False),
    ],
)
def test_results_of_models_in_numpy(body: str, expected: bool) -> None:
    assert bool(findings(CONVERTED.format(body=body), "DTYPE-021")) is expected


def test_state_of_an_optimizer_in_numpy() -> None:
    loops = """for name, group in optimizer.state.items():
        for key, value in group.items():
            if hasattr(optimizer, "step") and isinstance(value, mx.array):
                np.array(value)"""
    assert findings(CONVERTED.format(body=loops), "DTYPE-021")
