"""What a trace costs, as a ratio of steps in one run: ``python -m tests.benchmarks.trace``.

A training step of a small language model, traced and not, in turn. Nothing here is a test.
"""

from __future__ import annotations

import statistics
import sys
import time

import mlx.core as mx
from mlx import nn, optimizers

from embercoach.trace.instruments import Instruments
from embercoach.trace.trace_recorder import Recorder

ROUNDS, STEPS = 30, 4


def main() -> None:
    """Print, for two models, the time of a step without and with a trace, and their ratio."""
    _measure(width=64, layers=2, length=17)
    _measure(width=128, layers=3, length=33)


def _measure(width: int, layers: int, length: int) -> None:
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

    def step() -> float:
        value, gradients = gradient(model)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
        return value.item()  # type: ignore[return-value]

    seconds: dict[bool, list[float]] = {False: [], True: []}
    # One for all rounds, as in a run of many steps: graphs are counted ever less often.
    recorder = Recorder()
    for number in range(2 * ROUNDS + 2):
        instruments = Instruments(recorder)
        if number % 2:
            instruments.install()
        begin = time.perf_counter()
        for _ in range(STEPS):
            step()
        taken = (time.perf_counter() - begin) / STEPS
        instruments.remove()
        if number > 1:
            seconds[bool(number % 2)].append(taken)
    plain, traced = (statistics.median(seconds[way]) for way in (False, True))
    ratios = [b / a for a, b in zip(seconds[False], seconds[True], strict=True)]
    sys.stdout.write(
        f"step {plain * 1e3:.2f} ms, traced {traced * 1e3:.2f} ms, "
        f"median of paired ratios {statistics.median(ratios):.4f}\n"
    )


if __name__ == "__main__":
    main()
