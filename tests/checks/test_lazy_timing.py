"""LAZY-003: what is an evaluation between two readings of a clock."""

from __future__ import annotations

from textwrap import indent

import pytest

from tests.checks.findings import codes

START = """
import time
import numpy as np


def plain(x):
    return mx.exp(x) @ x


def pulls(x):
    return plain(x).item()


def bench(function, rounds=3):
    start = time.monotonic()
    for _ in range(rounds):
        function()
    return time.monotonic() - start


def work(x: mx.array, w: mx.array, net: nn.Module, run, host: np.ndarray):
    start = time.perf_counter()
"""
STOP = "\nprint(time.perf_counter() - start)\n"


def timed(body: str, *, stop: str = STOP) -> list[str]:
    """The codes of LAZY for statements between two readings."""
    return codes(START + indent(body + stop, "    "), "LAZY-003")


@pytest.mark.parametrize(
    "body",
    [
        "y, _ = mx.linalg.qr(x)",
        "y = mx.compile(plain)(x)",
    ],
)
def test_a_clock_that_stops_before_an_evaluation_is_flagged(body: str) -> None:
    assert timed(body) == ["LAZY-003"]


def test_the_second_reading_may_have_a_name() -> None:
    stop = "\nstop = time.perf_counter()\nprint((stop - start) * 1000)"
    assert timed("y = x @ w", stop=stop) == ["LAZY-003"]


@pytest.mark.parametrize(
    "body",
    [
        "y = plain(x)\nmx.async_eval(y)\nmx.synchronize()",
        "y = plain(x)\nif y.sum() > 0:\n    pass",
        "y = plain(x)\nname = f'{y}'",
        "y = host * plain(x)",
        "y = plain(x)\nassert y.sum()",
        "y = mx.load('weights.npz')",
        "y = mx.array([1, 2])",
        "import mlx.optimizers\ny = plain(x)",
    ],
)
def test_a_clock_that_stops_after_an_evaluation_is_not_flagged(body: str) -> None:
    assert timed(body) == []


@pytest.mark.parametrize(
    "stop",
    [
        "\nreturn y.item(), time.perf_counter() - start",
        "\nprint(time.perf_counter() - other)",
    ],
)
def test_other_readings_are_not_flagged(stop: str) -> None:
    assert timed("y = plain(x)", stop=stop) == []


def test_functions_that_evaluate_are_not_flagged_where_a_benchmark_gets_them() -> None:
    calls = "    pass\nbench(lambda: mx.eval(plain(mx.ones(3))))\nbench(lambda: pulls(mx.ones(3)))"
    assert codes(START + calls, "LAZY-003") == []


TIMERS = """
import time
import timeit
from contextlib import contextmanager

@contextmanager
def timer():
    start = time.perf_counter()
    yield
    print(time.perf_counter() - start)

@contextmanager
def waiting():
    start = time.perf_counter()
    yield
    mx.synchronize()
    print(time.perf_counter() - start)

@contextmanager
def evaluating(results):
    start = time.perf_counter()
    yield
    mx.eval(results)
    print(time.perf_counter() - start)

class Clock:
    def __enter__(self):
        self.start = time.time()
        return self

    def __exit__(self, *_):
        print(time.time() - self.start)

def lazy(x: mx.array):
    return mx.exp(x)

def work(x: mx.array, run):
    """


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("with timer():\n        y = x @ x", True),
        ("clock = Clock()\n    with clock:\n        y = lazy(x)", True),
        ("with timer():\n        y = run(x)\n        mx.async_eval(y)", True),
        ("with waiting():\n        y = x @ x\n        mx.async_eval(y)", False),
        ("with evaluating([]):\n        y = x @ x", False),
        ("with timer():\n        y = x @ x\n        mx.eval(y)", False),
        ("with timer():\n        y = run(x)", False),
        ("with run():\n        y = x @ x", False),
        ("timeit.timeit(lambda: x @ x, number=3)", True),
        ("timeit.timeit(lambda: mx.eval(x @ x), number=3)", False),
        ("timeit.timeit(lambda: run(x), number=3)", False),
        ("timeit.timeit('run(x)', number=3)", False),
    ],
)
def test_a_timer_around_lazy_work(body: str, flagged: bool) -> None:
    # ``synchronize`` in one timer makes the others of a file wait for scheduled work too.
    source = TIMERS if "waiting" in body else TIMERS.replace("    mx.synchronize()\n", "")
    assert bool(codes(source + body + "\n", "LAZY-003")) is flagged


KEPT = """
import time

def lazy(x):
    return mx.exp(x)

def computed(x):
    y = mx.exp(x)
    mx.eval(y)
    return y

class Timer:
    def __init__(self, function):
        self.function = function

    def seconds(self, x):
        start = time.perf_counter()
        self.function(x)
        return time.perf_counter() - start

def seconds(function, x):
    start = time.perf_counter()
    function(x)
    return time.perf_counter() - start

"""


@pytest.mark.parametrize(
    ("program", "count"),
    [
        ("for f in (lazy, lazy):\n    Timer(f).seconds(x)", 1),
        ("for name, f in {'a': lazy, 'b': computed}.items():\n    seconds(f, x)", 1),
        ("for name, f in [('a', lazy)]:\n    seconds(f, x)", 1),
        ("for f in (lazy,):\n    a = time.time()\n    f(x)\n    b = time.time() - a", 1),
        ("for name, f in {'a': computed}.items():\n    seconds(f, x)", 0),
        ("for f in functions():\n    seconds(f, x)", 0),
    ],
)
def test_functions_that_a_timer_gets(program: str, count: int) -> None:
    assert len(codes(f"{KEPT}x = mx.zeros((4,))\n{program}\n", "LAZY-003")) == count
