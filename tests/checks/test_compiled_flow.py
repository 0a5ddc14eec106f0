"""COMPILE rules that follow values through methods, closures, loops and files."""

from __future__ import annotations

import pytest

from tests.checks.marked import check_marked

#: Programs whose reported lines end in ``# reported``; the others are near misses.
PROGRAMS = {
    "factories": (
        "COMPILE-003",
        """
import mlx.core as mx
import mlx.nn as nn
from functools import partial

def make_step(model, opt):
    state = [model.state, opt.state]
    @partial(mx.compile, inputs=state, outputs=state)
    def step(x):
        return model(x).sum()
    return step, state

def train1(model, opt, data, n):
    for _ in range(n):
        step, state = make_step(model, opt)  # reported
        for x in data:
            mx.eval(step(x), state)

class Trainer:
    def __init__(self, model):
        self.model = model
    def build(self):
        def fwd(x):
            return self.model(x)
        return mx.compile(fwd)
    def run(self, data, n):
        for _ in range(n):
            fwd = self.build()  # reported
            for x in data:
                mx.eval(fwd(x))

def scaled(alpha: float):
    return mx.compile(lambda x: x * alpha)

def run3(xs: list[mx.array]):
    for x in xs:
        f = scaled(0.5)  # reported
        mx.eval(f(x))

def outer(xs):
    def make():
        @mx.compile
        def g(x):
            return mx.sin(x)
        return g
    while True:
        g = make()  # reported
        for x in xs:
            mx.eval(g(x))

# near misses
def ok1(models, opt, data):
    for model in models:
        step, state = make_step(model, opt)
        for x in data:
            mx.eval(step(x), state)
def ok2(model, opt, data, n):
    step, state = make_step(model, opt)
    for _ in range(n):
        for x in data:
            mx.eval(step(x), state)
def ok3(model, opt, data, n):
    for i in range(n):
        if i == 5:
            model.unfreeze()
            step, state = make_step(model, opt)
        for x in data:
            mx.eval(step(x), state)
def ok4(model, opt, data, n):
    for i in range(n):
        model.depth = i
        step, state = make_step(model, opt)
        for x in data:
            mx.eval(step(x), state)
""",
    ),
    "changing numbers": (
        "COMPILE-004",
        """
import math
import mlx.core as mx
import numpy as np

@mx.compile
def f(x, t):
    return x * mx.full((1,), t)

# 1 method schedule
class Cosine:
    def __init__(self, top, n):
        self.top, self.n = top, n
    def at(self, i):
        return self.top * 0.5 * (1 + math.cos(math.pi * i / self.n))

def run1(x, n):
    s = Cosine(1.0, n)
    for i in range(n):
        x = f(x, s.at(i))  # reported
    return x

# 2 math.cos inline
def run2(x, n):
    for i in range(n):
        x = f(x, math.cos(i / n))  # reported
    return x

# 2b returned next to the result; a shape
def cosine(i, n, top):
    return 0.5 * top * (1 + math.cos(math.pi * i / n))

@mx.compile
def momentum(x, m, t):
    return x - t * m, (m, 0.9 * m + t)

@mx.compile
def padded(x, n):
    return mx.concatenate([x, mx.zeros((4, n))], axis=1), n

def run2b(x, m, n):
    pair = mx.compile(lambda x, t: (x * t, x + t))
    for i in range(n):
        rate = cosine(i, n, 0.1)
        x, (m, _) = momentum(x, m, rate)  # reported
        pair(x, rate)  # reported
        padded(x, i)
    return x

# 3 attribute updated by method
class Anneal:
    def __init__(self):
        self.t = 1.0
    def decay(self):
        self.t = max(self.t * 0.9, 0.1)
    def run(self, x, batches):
        for _ in range(100):
            x = f(x, self.t)  # reported
            self.decay()
        return x

# 4 list of floats
def run4(x, n):
    ts = [0.9 ** i for i in range(n)]
    for t in ts:
        x = f(x, t)  # reported
    return x

# 5 zip
def run5(xs, n):
    ts = np.linspace(0, 1, n)
    for x, t in zip(xs, ts):
        y = f(x, float(t))  # reported
    return y

# 6 through method
class M:
    def step(self, x, t):
        return f(x, t)
    def run(self, x, n):
        for i in range(n):
            x = self.step(x, 1.0 - i / n)  # reported
        return x

# 7 two hops
def inner(x, t):
    return f(x, t)
def middle(x, t):
    return inner(x, t)
def outer(x, n):
    for i in range(n):
        x = middle(x, i * 0.1)  # reported
    return x

# 8 closure-captured
def make():
    @mx.compile
    def g(x, lr):
        return x - lr * mx.sin(x)
    def run(x, steps):
        lr = 0.1
        for _ in range(steps):
            x = g(x, lr)  # reported
            lr *= 0.99
        return x
    return run

# 9 while time
def run9(x, t_end, dt):
    t = 0.0
    while t < t_end:
        x = f(x, t)  # reported
        t += dt
    return x

# 10 item of array
def run10(x, n):
    sig = mx.linspace(0, 1, n)
    for i in range(n):
        x = f(x, sig[i].item())  # reported
    return x

# ok: constant config
def ok1(x, n, temp=0.5):
    for i in range(n):
        x = f(x, temp)
    return x
def ok2(x, n):
    for i in range(n):
        x = f(x, mx.array(i * 0.1))
    return x
def ok3(x, cfgs):
    for c in [0.1, 0.2]:
        x = f(x, c)
    return x
""",
    ),
    "sizes": (
        "COMPILE-009",
        """
import mlx.core as mx
from functools import partial

def length_mean(x):
    n = x.shape[1]
    return mx.sum(x, axis=1) / n  # reported

pool = mx.compile(length_mean, shapeless=True)

class Pool:
    def __init__(self):
        self.f = mx.compile(self._f, shapeless=True)
    def _norm(self, x):
        b, t, d = x.shape
        return x / t  # reported
    def _f(self, x):
        return self._norm(x)

def make():
    @partial(mx.compile, shapeless=True)
    def f(x: mx.array) -> mx.array:
        count = x.size
        return mx.sum(x) * (1.0 / count)  # reported
    return f

# near misses
def last(x):
    d = x.shape[-1]
    return x * d**-0.5
f2 = mx.compile(last, shapeless=True)
def shown(x):
    n = x.shape[0]
    assert n > 0
    return mx.mean(x, axis=0)
f3 = mx.compile(shown, shapeless=True)
def fixed(x):
    n = x.shape[0]
    return x / n
f4 = mx.compile(fixed)
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    code, program = PROGRAMS[name]
    check_marked(program, code)
