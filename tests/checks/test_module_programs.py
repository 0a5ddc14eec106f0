"""Rules about layers, splits and repeated reads, in programs."""

from __future__ import annotations

import pytest

from tests.checks.marked import check_marked

#: Programs whose reported lines end in ``# reported``; the others are near misses.
PROGRAMS = {
    "equal values": (
        "HOST-PULL-013",
        """
import mlx.core as mx

def scale_of(w: mx.array) -> float:
    return float(mx.sqrt(mx.mean(w * w)))

def run1(w: mx.array, xs):
    out = []
    for x in xs:
        out.append(x * (1 / scale_of(w)))  # reported
    return out

def total(w):
    s = mx.sum(w)
    return s.item()
def run2(w: mx.array, n: int):
    acc = 0.0
    for i in range(n):
        acc += i / total(w)  # reported
    return acc
def run3():
    data = mx.random.normal((1000,))
    lens = []
    def med():
        return mx.median(data).item()
    for i in range(100):
        if i > med():  # reported
            lens.append(i)
    return lens
class Vocab:
    def __init__(self, t):
        self.t = mx.array(t)
    def ids(self):
        return mx.argsort(self.t).tolist()
    def enc(self, words):
        out = []
        for w in words:
            out.append(self.ids().index(w))  # reported
        return out
# ok
def ok1(w, n):
    for i in range(n):
        w = w * 0.9
        print(scale_of(w))
def ok2(w, opt, model, n):
    for i in range(n):
        opt.update(model, w)
        print(scale_of(model.w))
def ok3(v, n):
    for i in range(n):
        v.t = v.t + 1
        print(v.ids())
def norm(m):
    return mx.sum(m.w * m.w).item()
def ok4(m, n, step):
    for i in range(n):
        step(m)
        print(norm(m))
def ok6(w, anchors):
    for anchor in anchors:
        if anchor == "last":
            print(scale_of(w))
def ok5(m, n, step):
    @mx.compile
    def f(x):
        return x
    for i in range(n):
        step(i)
        print(norm(m))
""",
    ),
    "sections": (
        "API-009",
        """
import mlx.core as mx
import mlx.nn as nn
class A(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.d = d
        self.h = h
        self.lin = nn.Linear(d, 2 * h)
        self.n = 3
    def f1(self, x):
        gate, up = mx.split(self.lin(x), self.h, axis=-1)  # reported
        return gate * up
    def f2(self, x):
        parts = mx.split(x, self.d // 2, -1)  # reported
        a, b = parts
        return a + b
    def f3(self, x):
        B, L, D = x.shape
        a, b = mx.split(x, D // 2, axis=-1)  # reported
        return a
    def ok1(self, x):
        a, b, c = mx.split(x, self.n, -1)
        return a
    def ok2(self, x):
        a, b, c = mx.split(x, [self.d, 2 * self.d], -1)
        return a
    def f4(self, x):
        a, b = mx.split(x, [self.d, self.d], -1)  # reported
        return a
def f5(x, split_size):
    a, b = map(nn.silu, mx.split(x, split_size, axis=1))  # reported
    return a, b
def ok3(x, n):
    a, b = mx.split(x, n)
    return a, b
def ok4(x, idx):
    a, b = mx.split(x, idx.tolist())
    return a, b
def ok5(x, dims):
    return mx.split(x, dims)
def ok6(x, q, kv):
    a, b, c = mx.split(x, [q, q + kv], axis=-1)
    return a
class Q:
    def __init__(self, args):
        self.dim = args.dim
        self.parts = args.parts
    def ok7(self, x):
        a, b = mx.split(x, self.parts, axis=-1)
        return a
    def ok8(self, x):
        a, b = mx.split(x, [self.dim], axis=-1)
        return a
def ok10(x, y):
    a, b, c = mx.split(x, x.shape[-1] // y.shape[-1], axis=-1)
    return a
def ok9(x):
    a, b = [mx.squeeze(s, -1) for s in mx.split(x, x.shape[-1], axis=-1)]
    return a
""",
    ),
    "constants": (
        "NN-002",
        """
import math
import numpy as np
import mlx.core as mx
import mlx.nn as nn

def inv_freq(d, base=10000.0):
    return 1.0 / (base ** (mx.arange(0, d, 2) / d))

class R(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.inv = inv_freq(d)  # reported

class S(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.window = mx.array(np.hanning(n))  # reported
    def __call__(self, x):
        return x * self.window

class T(nn.Module):
    'Random features.'
    def __init__(self, d, m):
        super().__init__()
        self.B = mx.random.normal((d, m)) * 10.0  # reported
    def __call__(self, x: mx.array):
        p = x @ self.B
        return mx.concatenate([mx.cos(p), mx.sin(p)], -1)

class U(nn.Module):
    def __init__(self, d):
        super().__init__()
        # a hash that is not trained
        self.proj = mx.random.normal((d, 8))  # reported

class Ok1(nn.Module):
    'Learned Fourier features.'
    def __init__(self, d, m):
        super().__init__()
        self.B = mx.random.normal((d, m)) * 10.0
    def __call__(self, x):
        p = x @ self.B
        return mx.concatenate([mx.cos(p), mx.sin(p)], -1)
class Ok2(nn.Module):
    def __init__(self, d, m):
        super().__init__()
        self.weight = mx.random.normal((d, m)) * math.sqrt(1 / d)
    def __call__(self, x):
        return mx.sin(x @ self.weight)
def train(m):
    return nn.value_and_grad(m, lambda m: m)
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    code, program = PROGRAMS[name]
    check_marked(program, code)
