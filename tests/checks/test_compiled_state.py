"""COMPILE rules about what a compiled function reads and stores, in programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.checks.marked import check_marked

if TYPE_CHECKING:
    from pathlib import Path

#: Programs whose reported lines end in ``# reported``; the others are near misses.
PROGRAMS = {
    "captured state": (
        "COMPILE-007",
        """
import mlx.core as mx
import mlx.nn as nn

# 1 python float attribute with setter, annotated
class Blur:
    def __init__(self, sigma: float):
        self.sigma = sigma
        self._run = mx.compile(self._blur)
    def set_sigma(self, sigma: float) -> None:
        self.sigma = sigma
    def _blur(self, x: mx.array) -> mx.array:
        return mx.exp(-x * x / (2 * self.sigma))  # reported
    def __call__(self, x):
        return self._run(x)

# 2 property setter
class Gain:
    def __init__(self):
        self._gain = 1.0
        self.apply = mx.compile(self._apply)
    @property
    def gain(self):
        return self._gain
    @gain.setter
    def gain(self, g):
        self._gain = g
    def _apply(self, x):
        return x * self._gain  # reported

# 3 closure in init
class Cl:
    def __init__(self, alpha=0.5):
        self.alpha = alpha
        @mx.compile
        def mix(a, b):
            return a * self.alpha + b * (1 - self.alpha)  # reported
        self.mix = mix
    def set_alpha(self, a):
        self.alpha = a

# 4 nonlocal
def make():
    scale = 1.0
    @mx.compile
    def f(x):
        return x * scale  # reported
    def set_scale(v):
        nonlocal scale
        scale = v
    return f, set_scale

# 5 global
TEMP = 1.0
@mx.compile
def soft(x):
    return mx.softmax(x / TEMP)  # reported
def set_temp(t):
    global TEMP
    TEMP = t

# 6 outside store in loop
class Guide:
    def __init__(self):
        self.w = 1.0
        self.predict = mx.compile(self._p)
    def _p(self, x):
        return x * self.w  # reported
def sample(x):
    g = Guide()
    for w in [1.0, 2.0, 3.0]:
        g.w = w
        x = g.predict(x)
    return x

# 7 in-method change in the loop itself
class Sched:
    def __init__(self):
        self.beta = 0.1
        self.f = mx.compile(self._f)
    def _f(self, x):
        return x * (1 - self.beta)  # reported
    def run(self, x, betas):
        for b in betas:
            self.beta = b
            x = self.f(x)
        return x

# ok: set before compile, in setup
class Ok1:
    def __init__(self):
        self.w = None
    def setup(self, w):
        self.w = w
        self.f = mx.compile(self._f)
    def _f(self, x):
        return x * self.w
# ok: the setter compiles again
class Ok2:
    def __init__(self, w=1.0):
        self.w = w
        self.f = mx.compile(self._f)
    def _f(self, x):
        return x * self.w
    def set_w(self, w):
        self.w = w
        self.f = mx.compile(lambda x: self._f(x))
# ok: passed
class Ok3:
    def __init__(self, w=1.0):
        self.w = w
        self.f = mx.compile(self._f)
    def _f(self, x, w):
        return x * w
    def set_w(self, w):
        self.w = w
    def __call__(self, x):
        return self.f(x, mx.array(self.w))
# 8 layer in module, called helper method
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(2, 2)
        self.temperature = 1.0
        self._fast = mx.compile(self._forward)
    def _scale(self, h):
        return h / self.temperature  # reported
    def _forward(self, x):
        return self._scale(self.lin(x))
    def set_temperature(self, t):
        self.temperature = t
""",
    ),
    "tracers": (
        "COMPILE-006",
        """
import mlx.core as mx
import mlx.nn as nn

class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc = nn.Linear(d, d)
        self.last = None
    def __call__(self, x):
        y = self.fc(x)
        self.last = y  # reported
        return x + y

class Net(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.block = Block(d)
    def __call__(self, x):
        return self.block(x)

net = Net(4)
fwd = mx.compile(net)
y = fwd(mx.ones((2, 4)))
print(net.block.last)

class Enc(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.layers = [nn.Linear(d, d) for _ in range(3)]
    def __call__(self, x, hook=None):
        for l in self.layers:
            x = l(x)
            if hook is not None:
                hook(x)
        return x

class Probe:
    def __init__(self, enc):
        self.enc = enc
        self.taps = []
        self.f = mx.compile(self._f)
    def _f(self, x):
        return self.enc(x, hook=lambda h: self.taps.append(h))  # reported
    def run(self, x):
        y = self.f(x)
        return y, self.taps

p = Probe(Enc(4))
p.run(mx.ones((2,4)))

class Log:
    def __init__(self):
        self.rows = []
    def add(self, v):
        self.rows.append(v)  # reported

log = Log()

def norm(x):
    n = mx.linalg.norm(x)
    log.add(n)
    return x / n

@mx.compile
def f(x):
    return norm(x) * 2

f(mx.ones((4,)))
print(log.rows)

class Attn:
    def __init__(self):
        self.w = mx.ones((4,4))
    def scores(self, x):
        s = x @ self.w
        self.cached = s  # reported
        return s
    def __call__(self, x):
        return mx.softmax(self.scores(x), axis=-1)

def build(attn):
    @mx.compile
    def f(x):
        return attn(x)
    return f

attn = Attn()
f = build(attn)
f(mx.ones((2,4)))
print(attn.cached)

class Fixed:
    def __init__(self):
        self.seen = []
        self.run = mx.compile(self._run)
    def _apply(self, x, hook):
        hook(x)
        return x
    def _run(self, x):
        seen = []
        y = self._apply(x, seen.append)
        return y, seen
    def __call__(self, x):
        y, self.seen = self.run(x)
        return y
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    code, program = PROGRAMS[name]
    check_marked(program, code)


LIBRARY = """
import mlx.core as mx
import mlx.nn as nn

def frames(x):
    return x.shape[1]

def pooled(x):
    return mx.sum(x, axis=1) / x.shape[1]

class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)
    def __call__(self, x):
        return pooled(self.drop(x))

def make(model):
    @mx.compile
    def f(x):
        return model(x)
    return f


def centred(x):
    mean = mx.mean(x, axis=-1, keepdims=True)
    mx.eval(mean)
    return x - mean

def logged(x, verbose=False):
    if verbose:
        mx.eval(x)
    return x

class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc = nn.Linear(d, d)
        self.last = None
    def __call__(self, x):
        y = self.fc(x)
        self.last = y
        return x + y
"""

#: Programs that import from another file.
IMPORTING = {
    "COMPILE-009": """
import mlx.core as mx
from library import Head, pooled

pool = mx.compile(pooled, shapeless=True)  # reported
same = mx.compile(pooled)
head = Head()
through = mx.compile(lambda x: head(x), shapeless=True)  # reported
""",
    "COMPILE-003": """
import mlx.core as mx
from library import make

def run(model, xs, n):
    for _ in range(n):
        f = make(model)  # reported
        for x in xs:
            mx.eval(f(x))

def run_all(models, xs):
    for model in models:
        f = make(model)
        for x in xs:
            mx.eval(f(x))
""",
    "HOST-PULL-011": """
import mlx.core as mx
from library import centred, logged

@mx.compile  # reported
def spread(x):
    return mx.square(centred(x)).sum()

@mx.compile
def mean(x):
    return logged(x).mean()

def eager(x):
    return centred(x)
""",
    "COMPILE-006": """
import mlx.core as mx
from library import Block

block = Block(4)

@mx.compile  # reported
def forward(x):
    return block(x)

def run(x):
    return forward(x), block.last
""",
}


@pytest.mark.parametrize("code", IMPORTING)
def test_other_files(code: str, tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    path = tmp_path / "program.py"
    path.write_text(IMPORTING[code].lstrip("\n"))
    check_marked(IMPORTING[code], code, path)
