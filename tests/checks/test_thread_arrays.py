"""THREAD-002: arrays that are lazy where another thread gets them."""

from __future__ import annotations

import pytest

from tests.checks.findings import codes

START = """
import asyncio
import queue
import threading
from concurrent.futures import ThreadPoolExecutor

data = mx.array([1.0, 2.0])
jobs = queue.Queue()

def show(x):
    print(x.tolist())

def pulled(x: mx.array):
    return (x * 2).tolist()

def lazy(x: mx.array):
    return mx.exp(x)

def evaluated(x: mx.array):
    y = mx.exp(x)
    mx.eval(y)
    return y

def made(value):
    return mx.array([value])

def puts(x: mx.array):
    jobs.put(mx.exp(x))

def puts_evaluated(x: mx.array):
    y = mx.exp(x)
    mx.eval(y)
    jobs.put(y)

def main(x: mx.array, unknown, pool: ThreadPoolExecutor):
    y = mx.exp(x)
    """


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("threading.Thread(target=show, args=(y,)).start()", True),
        ("pool.submit(show, y)", True),
        ("pool.submit(lazy, x)", True),
        ("list(pool.map(lazy, [x]))", True),
        ("asyncio.to_thread(lazy, x)", True),
        ("threading.Thread(target=puts, args=(x,))", True),
        ("unknown(y)\n    threading.Thread(target=show, args=(y,)).start()", False),
        ("threading.Thread(target=puts_evaluated, args=(x,))", False),
        ("list(pool.map(made, [1.0]))", False),
        ("pool = ThreadPoolExecutor(max_workers=1)\n    pool.submit(lazy, x)", False),
        ("local = mx.new_thread_local_stream(mx.cpu)\n    pool.submit(lazy, x)", False),
        ("def work(y):\n        mx.eval(y)\n    threading.Thread(target=work).start()", False),
    ],
)
def test_an_array_that_another_thread_evaluates(body: str, flagged: bool) -> None:
    assert bool(codes(START + body + "\n", "THREAD-002")) is flagged


LAYER = """
class Rotary(nn.Module):
    def __init__(self, dims: int):
        super().__init__()
        self.BODY

    def __call__(self, x: mx.array) -> mx.array:
        return mx.multiply(x, self._cos)
"""


@pytest.mark.parametrize(
    ("body", "flagged"),
    [
        ("_cos = mx.cos(mx.arange(dims))", True),
        ("_cos = mx.ones((dims, 2)).T", True),
        ("_cos = mx.array([1.0, 2.0])", False),
        ("cos = mx.cos(mx.arange(dims))", False),
        ("_cos = mx.cos(mx.arange(dims))\n        mx.eval(self._cos)", False),
        ("_cos = mx.cos(mx.arange(dims))\n        prepare(self)", False),
    ],
)
def test_a_private_array_that_a_constructor_leaves_lazy(body: str, flagged: bool) -> None:
    assert bool(codes(LAYER.replace("BODY", body), "THREAD-003")) is flagged


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("x = read(path)", "if n == 1:", "    x = mx.mean(x, axis=0)"), 1),
        (("x = read(path)", "if n == 1:", "    x = mx.mean(x, axis=0)", "mx.eval(x)"), 0),
        (("x = read(path)", "if n == 1:", "    x = other(x)"), 0),
    ],
)
def test_arrays_that_one_branch_of_a_producer_computes(lines: tuple[str, ...], found: int) -> None:
    body = "\n    ".join(lines)
    program = f"""
import queue
import threading

def load(path, n):
    {body}
    return x

def start(paths, n):
    results = queue.Queue()

    def produce():
        for path in paths:
            results.put((path, load(path, n)))

    threading.Thread(target=produce).start()
    return results
"""
    assert codes(program, "THREAD-002") == ["THREAD-002"] * found
