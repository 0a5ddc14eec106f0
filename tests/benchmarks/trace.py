"""What a trace costs, as ratios of steps in one run: ``python -m tests.benchmarks.trace``.

Training steps with a trace and without one, in turn: of two small language models, and of the
example in examples/train_and_sample, whose size is an option. Nothing here is a test.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn, optimizers

from embercoach.trace.trace_session import TraceSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_and_sample"
ROUNDS, STEPS = 30, 4


def main() -> None:
    """Print, for each program, the time of a step without and with a trace, and their ratio."""
    parser = argparse.ArgumentParser(description="Measure what a trace costs.")
    parser.add_argument("--size", choices=("small", "h200"), default="small")
    size = parser.parse_args().size
    for width, layers, length in ((64, 2, 17), (128, 3, 33)):
        _measure(f"{layers} layers of {width}", _steps(width, layers, length))
    for name in ("before", "after"):
        _measure(f"{name}.py, {size}", _of_example(name, size))


def _measure(name: str, seconds_of_step: Callable[[], float]) -> None:
    ratios, taken = [], []
    # One for all rounds, as in a run of many steps: graphs are counted ever less often.
    session = TraceSession()
    for number in range(ROUNDS + 1):
        plain = seconds_of_step()
        session.start()
        traced = seconds_of_step()
        session.stop()
        # The first round compiles kernels.
        if number:
            ratios.append(traced / plain)
            taken.append(plain)
    low, median, high = statistics.quantiles(ratios, n=4)
    sys.stdout.write(
        f"{name}: step {statistics.median(taken) * 1e3:.2f} ms, "
        f"traced {median:.4f} times (quartiles {low:.4f}, {high:.4f})\n"
    )


def _steps(width: int, layers: int, length: int) -> Callable[[], float]:
    """A function that trains for some steps; it returns the seconds of one."""
    mx.random.seed(0)
    blocks = (nn.TransformerEncoderLayer(width, 4) for _ in range(layers))
    model = nn.Sequential(nn.Embedding(512, width), *blocks)
    head = nn.Linear(width, 512)
    optimizer = optimizers.AdamW(1e-3)
    tokens = mx.random.randint(0, 512, (2, length))

    def loss(model: nn.Module) -> mx.array:
        hidden = tokens[:, :-1]
        for index, layer in enumerate(model.layers):
            hidden = layer(hidden) if index == 0 else layer(hidden, None)
        return nn.losses.cross_entropy(head(hidden), tokens[:, 1:], reduction="mean")

    gradient = nn.value_and_grad(model, loss)

    def train() -> float:
        begin = time.perf_counter()
        for _ in range(STEPS):
            value, gradients = gradient(model)
            optimizer.update(model, gradients)
            mx.eval(model.parameters(), optimizer.state)
            value.item()
        return (time.perf_counter() - begin) / STEPS

    return train


def _of_example(name: str, size: str) -> Callable[[], float]:
    """A function that runs an example's loop; it returns the seconds of a step."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    example: Any = importlib.util.module_from_spec(spec)
    sys.modules[name] = example
    spec.loader.exec_module(example)
    mx.random.seed(0)
    chosen = example.SIZES[size]
    # The first step is not timed.
    batches = example.sequences(chosen, 2 * STEPS + 1)
    model = example.Model(chosen)
    mx.eval(batches, model.parameters())

    def train() -> float:
        with contextlib.redirect_stdout(None):
            _, seconds = example.train(model, batches, chosen.learning_rate)
        return float(seconds)

    return train


if __name__ == "__main__":
    main()
