"""LAZY-001 and LAZY-004: windows, running statistics, and archives that are saved in place."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

START = """
class State:
    def __init__(self, size):
        self.size, self.count, self.total = size, 0, mx.array(0.0)
        self.frames, self.mean, self.spread = mx.zeros((8, 4)), mx.zeros((4,)), mx.zeros((4,))

    def push(self, x):
        frames = mx.concatenate([self.frames, x])
        self.frames = frames[-self.size:]
        return frames

    def window(self, x):
        self.frames = mx.stop_gradient(mx.concatenate([self.frames, x])[-8:])

    def observe(self, x):
        self.count += 1
        delta = x - self.mean
        self.mean = self.mean + delta / self.count
        self.spread = self.spread + delta * (x - self.mean)

    def last(self, x):
        self.frames = mx.concatenate([x, x])[-self.size:]

    def number(self, x):
        rows = x.split(2)
        n = len(rows)
        self.count += n
        self.size += sum(len(row) for row in rows)
        start = time.time()
        stop = time.time()
        self.seconds += stop - start

    def __call__(self, x):
        self.total = self.total + x.sum()


def log(sums, x: mx.array):
    sums["loss"] = sums["loss"] + mx.mean(x)


def run(model: nn.Module, stream):
    state, states, sums = State(8), {"a": State(8)}, {"loss": mx.array(0.0)}
    for x in stream:
        y = model(x)
"""


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("state.push(y)", True),
        ("state.window(y)", True),
        ("state.observe(y)", True),
        ("states['a'].observe(y)", True),
        ("log(sums, y)", True),
        ("state.push(y)\n        mx.eval(state.frames)", False),
        ("state.window(y)\n        mx.eval(state.frames)", False),
        ("state.observe(y)\n        mx.eval(state.mean, state.spread)", False),
        ("states['a'].observe(y)\n        mx.eval(states['a'].mean, states['a'].spread)", False),
        ("state.number(y)\n        mx.eval(y)", False),
        ("state = State(8)\n        state.push(y)", False),
    ],
)
def test_what_a_method_adds_to_in_a_loop(body: str, flagged: bool) -> None:
    program = f"{START}        {body}\n    return state, states, sums\n"
    assert bool(codes(program, "LAZY-001")) is flagged


@pytest.mark.parametrize(
    ("scaling", "evaluation", "flagged"),
    [
        ("gradients = tree_map(lambda g: g / 4, gradients)", "", True),
        ("gradients = tree_map(lambda g: g / 4, gradients)", "mx.eval(total)", False),
    ],
)
def test_gradients_that_are_scaled_before_they_are_added(
    scaling: str, evaluation: str, flagged: bool
) -> None:
    program = f"""
from mlx.utils import tree_map

def accumulate(model: nn.Module, loss_fn, batches):
    step = nn.value_and_grad(model, loss_fn)
    total = None
    for x in batches:
        _, gradients = step(model, x)
        {scaling}
        total = gradients if total is None else tree_map(mx.add, total, gradients)
        {evaluation}
    return total
"""
    assert bool(codes(program, "LAZY-001")) is flagged


def saved(body: str) -> list[str]:
    """The codes of LAZY for a function that loads ``w`` from ``path``."""
    lines = "".join(f"    {line}\n" for line in f"w = mx.load(path)\n{body}".splitlines())
    return codes(f"def f(path, other, use):\n{lines}", "LAZY-004")


@pytest.mark.parametrize(
    "body",
    [
        "mx.savez(path, **w)",
        "mx.savez(path, **{k: v * 2 for k, v in w.items()})",
        "mx.savez_compressed(path, a=w['a'], b=w['b'] + 1)",
        "half = {k: v.astype(mx.float16) for k, v in w.items()}\nmx.savez(path, **half)",
        "w['scale'] = mx.array(2.0)\nif other:\n    mx.savez(path, **w)",
        "mx.savez(path, **mx.load(path))",
    ],
)
def test_arrays_that_are_saved_before_they_are_read_are_flagged(body: str) -> None:
    assert saved(body) == ["LAZY-004"]


@pytest.mark.parametrize(
    "body",
    [
        "mx.savez(other, **w)",
        "path = path + '.new'\nmx.savez(path, **w)",
        "use(w)\nmx.savez(path, **w)",
        "print(w)\nmx.savez(path, **w)",
        "mx.savez(path, a=mx.zeros(3))",
        "w = {'a': mx.zeros(3)}\nw = use()\nmx.savez(path, **use())",
    ],
)
def test_other_archives_are_not_flagged(body: str) -> None:
    assert saved(body) == []


def test_a_path_of_another_format_is_not_flagged() -> None:
    program = "w = mx.load('w.safetensors')\nmx.savez('w.safetensors', **w)"
    assert codes(program, "LAZY-004") == []
