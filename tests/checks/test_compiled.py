"""COMPILE: what compiled functions are reported for, read and store, and what is correct."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from embercoach.checks import Project, check_source
from tests.checks.findings import codes, findings, messages
from tests.checks.marked import check_marked

if TYPE_CHECKING:
    from pathlib import Path


FAMILY = "COMPILE"
IMPORTS = (
    "from functools import partial\nimport time\nimport random\nimport mlx.optimizers as optim\n"
)

#: Programs, and the codes that each is reported for.
REPORTED = {
    "partial that is bound to a name": (
        (
            "compiled = partial(mx.compile, inputs=mx.random.state)\n"
            "@compiled\ndef f(x):\n    return x + mx.random.normal()\n"
        ),
        ["001"],
    ),
    "a module": (
        (
            "class A(nn.Module):\n    def __call__(self, x):\n"
            "        return x + mx.random.uniform()\n"
            "f = mx.compile(A())\n"
        ),
        ["001"],
    ),
    "NumPy's random numbers": (
        "import numpy as np\n@mx.compile\ndef f(x):\n    return x + mx.array(np.random.rand(3))\n",
        ["002"],
    ),
    "a helper of a compiled function": (
        "def h(x):\n    return x * time.time()\n@mx.compile\ndef f(x):\n    return h(x)\n",
        ["002"],
    ),
    "an argument that is compiled at each call": (
        (
            "class A:\n    def __call__(self, x, f=None):\n"
            "        f = mx.compile(f) if f is not None else self.f\n        return f(x)[0]\n"
        ),
        ["003"],
    ),
    "a schedule": (
        (
            "@mx.compile\ndef f(x, t):\n    return x + mx.full((1,), t)\n"
            "def rate(i):\n    return 0.5 * 0.9**i\n"
            "def run(x, n):\n    for i in range(n):\n        r = rate(i)\n        x = f(x, r)\n"
            "    return x\n"
        ),
        ["004"],
    ),
    "a ramp": (
        (
            "@mx.compile\ndef f(x, t):\n    return x * t\n"
            "def run(x, n, warmup=10):\n    for i in range(n):\n"
            "        t = min(1.0, (i + 1) / warmup)\n        x = f(x, t)\n    return x\n"
        ),
        ["004"],
    ),
    "a name bound to a counter": (
        (
            "@mx.compile\ndef f(x, t):\n    return x + mx.full((1,), t)\n"
            "def run(x):\n    for i in range(100):\n        t = i * 0.01\n"
            "        x = f(x, t=t)\n    return x\n"
        ),
        ["004"],
    ),
    "a counter of while": (
        (
            "@mx.compile\ndef f(x, t):\n    return x + mx.full((1,), t)\n"
            "def run(x):\n    n = 0\n    while n < 100:\n        x = f(x, n)\n"
            "        n += 1\n    return x\n"
        ),
        ["004"],
    ),
    "mlx issue 3964: an offset that each step increments": (
        (
            "@mx.compile\ndef f(x, t):\n    return x + mx.full((1,), t)\n"
            "class Cache:\n    def __init__(self):\n        self.offset = 0\n"
            "    def update(self, x):\n        x = f(x, self.offset)\n"
            "        self.offset += 1\n        return x\n"
        ),
        ["004"],
    ),
    "mlx issue 4464: a growing sequence": (
        (
            "@mx.compile\ndef f(x):\n    return mx.exp(x)\n"
            "def run(n):\n    ids = [1]\n    for _ in range(n):\n"
            "        mx.eval(f(mx.array(ids)))\n        ids.append(2)\n"
        ),
        ["004"],
    ),
    "a slice that grows": (
        (
            "@mx.compile\ndef f(x):\n    return mx.exp(x)\n"
            "def run(x: mx.array):\n    for i in range(1, 100):\n        mx.eval(f(x[:, :i]))\n"
        ),
        ["004"],
    ),
    "apply_gradients": (
        "opt = optim.Adam(1e-3)\n@mx.compile\ndef f(p, g):\n    return opt.apply_gradients(g, p)\n",
        ["005"],
    ),
    "an optimizer that is an attribute": (
        (
            "class T:\n    def __init__(self, model, opt):\n"
            "        self.model, self.opt = model, opt\n"
            "        self.step = mx.compile(self._step)\n"
            "    def _step(self, x):\n        l, g = nn.value_and_grad(self.model, self.loss)(x)\n"
            "        self.opt.update(self.model, g)\n        return l\n"
            "    def loss(self, x):\n        return self.model(x).sum()\n"
        ),
        ["005"],
    ),
    "a global name": (
        (
            "last = None\n@mx.compile\ndef f(x):\n    global last\n    last = mx.exp(x)\n"
            "    return last\n"
        ),
        ["006"],
    ),
    "an element of an array around": (
        "seen = mx.zeros(4)\n@mx.compile\ndef f(x):\n    seen[0] = x.sum()\n    return x\n",
        ["006"],
    ),
    "an attribute that a script assigns between calls": (
        (
            "class Guide:\n    pass\n"
            "guide = Guide()\nguide.scale = 2.0\n"
            "@mx.compile\ndef f(x):\n    return x * guide.scale\n"
            "for x in [mx.ones(2), mx.ones(2)]:\n    mx.eval(f(x))\n    guide.scale *= 0.5\n"
        ),
        ["007"],
    ),
    "a counter that another function increments": (
        (
            "rate = 1.0\n@mx.compile\ndef f(x):\n    return x + mx.full((1,), rate)\n"
            "def decay():\n    global rate\n    rate *= 0.9\n"
        ),
        ["007"],
    ),
    "a compiled gradient of a model that is trained": (
        (
            "def train(model: nn.Module, data):\n    opt = optim.SGD(0.1)\n"
            "    step = mx.compile(nn.value_and_grad(model, lambda x: model(x).sum()))\n"
            "    for x in data:\n        l, g = step(x)\n        opt.update(model, g)\n"
        ),
        ["007"],
    ),
    "a method": ("class A:\n    @mx.compile\n    def f(self, x):\n        return x\n", ["008"]),
    "a mean": ("f = mx.compile(lambda x: x.sum() / x.shape[0], shapeless=True)\n", ["009"]),
    "mlx pull request 4296: a slice": (
        "@partial(mx.compile, shapeless=True)\ndef f(x):\n    return mx.exp(x[:, 1:])\n",
        ["010"],
    ),
    "a method that splits": (
        "@partial(mx.compile, shapeless=True)\ndef f(x: mx.array):\n    return x.split(2)[0]\n",
        ["010"],
    ),
}


@pytest.mark.parametrize("case", REPORTED, ids=str)
def test_reports(case: str) -> None:
    program, expected = REPORTED[case]
    assert codes(IMPORTS + program, FAMILY) == [f"COMPILE-{code}" for code in expected]


SILENT = {
    "a key": "f = mx.compile(lambda x, k: x + mx.random.normal(key=k))\n",
    "a state that is not known": (
        "def make(state):\n    @partial(mx.compile, inputs=state, outputs=state)\n"
        "    def f(x):\n        return x + mx.random.normal()\n    return f\n"
    ),
    "options that are not known": (
        "def make(options):\n    return mx.compile(lambda x: x + mx.random.normal(), **options)\n"
    ),
    "dropout without training": (
        "class A(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.d = nn.Dropout(0.1)\n    def __call__(self, x):\n        return self.d(x)\n"
        "f = mx.compile(A())\n"
    ),
    "stored in a dictionary": (
        "cache = {}\ndef get(n):\n    if n not in cache:\n        cache[n] = mx.compile(mx.exp)\n"
        "    return cache[n]\n"
    ),
    "a global name": (
        "f = None\ndef run(x):\n    global f\n    if f is None:\n        f = mx.compile(mx.exp)\n"
        "    return f(x)\n"
    ),
    "recompiled once in a loop": (
        "def train(f, data, late):\n    step = mx.compile(f)\n    for i, x in enumerate(data):\n"
        "        mx.eval(step(x))\n        if i == late:\n            step = mx.compile(mx.exp)\n"
    ),
    "a counter that begins again": (
        "@mx.compile\ndef f(x, n):\n    return x + mx.full((1,), n)\n"
        "def run(x, data):\n    n = 0\n    for _ in data:\n        x = f(x, n)\n        n += 1\n"
        "        if n == 4:\n            n = 0\n    return x\n"
    ),
    "a number of the layer": (
        "@mx.compile\ndef f(x, n):\n    return x + mx.full((1,), n)\n"
        "def run(x, layers):\n    for n, layer in enumerate(layers):\n        x = f(layer(x), n)\n"
        "    return x\n"
    ),
    "a number for a shape": (
        "@mx.compile\ndef f(x, n):\n    return x.reshape(n, -1)\n"
        "def run(x):\n    for n in range(1, 100):\n        mx.eval(f(x, n))\n"
    ),
    "the length of a part, which differs for the last": (
        "@mx.compile\ndef f(x, n):\n    return x * n\n"
        "def run(x: mx.array, total, size=512):\n    for i in range(0, total, size):\n"
        "        x = f(x, min(size, total - i))\n    return x\n"
    ),
    "windows of one length": (
        "@mx.compile\ndef f(x):\n    return mx.exp(x)\n"
        "def run(x: mx.array):\n    for i in range(100):\n        mx.eval(f(x[i : i + 8]))\n"
    ),
    "a captured optimizer": (
        "def train(model: nn.Module, opt, data):\n    state = [model.state, opt.state]\n"
        "    @partial(mx.compile, inputs=state, outputs=state)\n    def step(x):\n"
        "        l, g = nn.value_and_grad(model, lambda x: model(x).sum())(x)\n"
        "        opt.update(model, g)\n        return l\n"
        "    for x in data:\n        mx.eval(step(x), state)\n"
    ),
    "a captured optimizer, mlx pull request 629": (
        "def train(model: nn.Module, opt, data):\n    state = [model, opt.state]\n"
        "    @partial(mx.compile, inputs=state, outputs=state)\n    def step(x):\n"
        "        l, g = nn.value_and_grad(model, lambda x: model(x).sum())(x)\n"
        "        opt.update(model, g)\n        return l\n"
        "    for x in data:\n        mx.eval(step(x), state)\n"
    ),
    "pure updates": (
        "def run(model: nn.Module, opt):\n    def loss(p, x):\n        model.update(p)\n"
        "        return model(x).sum()\n    @mx.compile\n    def step(p, s, x):\n"
        "        g = mx.grad(loss)(p, x)\n        opt.state = s\n"
        "        return opt.apply_gradients(g, p), opt.state\n    return step\n"
    ),
    "a set that is updated": (
        "@mx.compile\ndef f(x):\n    names = set()\n    names.update('a', 'b')\n    return x\n"
    ),
    "a list of the function": (
        "@mx.compile\ndef f(x):\n    ys = []\n    for _ in range(3):\n"
        "        ys.append(mx.exp(x))\n"
        "    return ys\n"
    ),
    "an object that the function makes": (
        "class Box:\n    def __init__(self, x):\n        self.x = mx.exp(x)\n"
        "    def add(self, y):\n        self.x = self.x + mx.exp(y)\n"
        "@mx.compile\ndef f(x):\n    box = Box(x)\n    box.add(x)\n    return box.x\n"
        "def g(box: Box):\n    return box.x\n"
    ),
    "an attribute that the same trace reads": (
        "class A:\n    def __init__(self):\n        self.f = mx.compile(self.g)\n"
        "    def g(self, x: mx.array):\n        self.h = mx.exp(x)\n        return self.k()\n"
        "    def k(self):\n        return self.h + self.h\n"
    ),
    "set before the first call": (
        "def run(x):\n    s = 1.0\n    s = s + 1\n"
        "    f = mx.compile(lambda x: x + mx.full((1,), s))\n"
        "    for _ in range(3):\n        x = f(x)\n    return x\n"
    ),
    "a captured model": (
        "def train(model: nn.Module, data):\n    opt = optim.SGD(0.1)\n"
        "    f = mx.compile(lambda x: model(x), inputs=model.state)\n"
        "    for x in data:\n        _, g = nn.value_and_grad(model, lambda x: model(x).sum())(x)\n"
        "        opt.update(model, g)\n        mx.eval(f(x))\n"
    ),
    "the last axis": "f = mx.compile(lambda x: x.sum() / x.shape[-1], shapeless=True)\n",
    "a checked size": (
        "@partial(mx.compile, shapeless=True)\ndef f(x):\n    assert x.shape[0] > 1\n"
        "    return mx.exp(x)\n"
    ),
    "a size of a constant": (
        "w = mx.ones((3, 4))\n@partial(mx.compile, shapeless=True)\ndef f(x):\n"
        "    return x.sum() / w.shape[0]\n"
    ),
    "whole axes": (
        "@partial(mx.compile, shapeless=True)\ndef f(x):\n    return x[:, None] + x[None, :]\n"
    ),
}


@pytest.mark.parametrize("case", SILENT, ids=str)
def test_does_not_report(case: str) -> None:
    assert codes(IMPORTS + SILENT[case], FAMILY) == []


def test_names_what_lacks_the_random_state() -> None:
    program = "f = mx.compile(lambda x: x + mx.random.normal(), inputs=mx.random.state)\n"
    assert messages(program, FAMILY) == [
        "`mx.random.normal` changes mx.random.state, which `outputs=` lacks"
    ]


FILES = {
    "noise.py": (
        "import mlx.core as mx\n"
        "def noisy(x):\n    return x + mx.random.normal(x.shape)\n"
        "def keyed(x, k):\n    return x + mx.random.normal(x.shape, key=k)\n"
    ),
}


@pytest.mark.parametrize(
    ("program", "count"),
    [
        ("f = mx.compile(noisy)\n", 1),
        ("@mx.compile\ndef f(x):\n    return noisy(x)\n", 1),
        ("f = mx.compile(keyed)\n", 0),
        ("s = [mx.random.state]\nf = mx.compile(noisy, inputs=s, outputs=s)\n", 0),
    ],
)
def test_follows_functions_of_other_files(tmp_path: Path, program: str, count: int) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    source = f"import mlx.core as mx\nfrom noise import keyed, noisy\n{program}"
    path = tmp_path / "program.py"
    path.write_text(source)
    found = check_source(source, path, Project()).findings
    assert [finding.code for finding in found] == ["COMPILE-001"] * count


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
import functools
import operator
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

@mx.compile
def total(a, b):
    return functools.reduce(operator.add, [a, operator.add(a, b)])
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

class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def __call__(self, x):
        return self.drop(x)

class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [Dropped() for _ in range(2)]

    def __call__(self, x, cache=(None, None)):
        for layer, _ in zip(self.layers, cache):
            x = layer(x)
        return x
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
    "COMPILE-001": """
import mlx.core as mx
import mlx.nn as nn
from library import Dropping

net = Dropping()
loss_and_grad = nn.value_and_grad(net, lambda net, x: net(x).sum())

@mx.compile  # reported
def step(x):
    return loss_and_grad(net, x)
""",
}


@pytest.mark.parametrize("code", IMPORTING)
def test_other_files(code: str, tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text(LIBRARY)
    path = tmp_path / "program.py"
    path.write_text(IMPORTING[code].lstrip("\n"))
    check_marked(IMPORTING[code], code, path)


@pytest.mark.parametrize(("layer", "more"), [("Dropout(0.5)", ", mx.random.state"), ("ReLU()", "")])
def test_the_help_names_all_states(layer: str, more: str) -> None:
    program = f"""
import mlx.optimizers as optim

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.{layer}
        self.out = nn.Linear(4, 4)
    def __call__(self, x):
        return self.out(self.layer(x))

model, optimizer = Net(), optim.SGD(learning_rate=0.1)
loss_and_grad = nn.value_and_grad(model, lambda model, x: model(x).mean())

@mx.compile
def step(x):
    loss, gradients = loss_and_grad(model, x)
    optimizer.update(model, gradients)
    return loss
"""
    (found,) = findings(program, "COMPILE-005")
    assert f"`[model.state, optimizer.state{more}]`" in found.help
