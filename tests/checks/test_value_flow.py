"""Rules about values that pass through attributes, dictionaries, methods and calls."""

from __future__ import annotations

import pytest

from tests.checks.marked import check_marked

#: Programs whose reported lines end in ``# reported``; the others are near misses.
PROGRAMS = {
    "modes": (
        "NN-006",
        """
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

# 1: function validate leaves eval
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 2)
        self.d = nn.Dropout(0.1)
    def __call__(self, x):
        return self.d(self.l(x))

def loss_fn(model, x):
    return mx.mean(model(x))

def validate(model, xs):
    model.eval()
    t = [loss_fn(model, x) for x in xs]
    mx.eval(t)
    return sum(v.item() for v in t)

def train1(model, opt, xs, epochs):
    step = nn.value_and_grad(model, loss_fn)
    model.train()
    for _ in range(epochs):
        for x in xs:
            l, g = step(model, x)
            opt.update(model, g)
            mx.eval(model.parameters(), opt.state)
        validate(model, xs)  # reported

# 2: train epoch in a function
def epoch(model, optimizer, xs):
    step = nn.value_and_grad(model, loss_fn)
    for x in xs:
        l, g = step(model, x)
        optimizer.update(model, g)
        mx.eval(model.parameters(), optimizer.state)

def train2(net, xs):
    opt = optim.SGD(learning_rate=0.1)
    net.train()
    for _ in range(10):
        epoch(net, opt, xs)
        print(validate(net, xs))  # reported

# ok: epoch3 calls train
def epoch3(model, optimizer, xs):
    model.train()
    epoch(model, optimizer, xs)
def train3(net, xs):
    opt = optim.SGD(learning_rate=0.1)
    for _ in range(10):
        epoch3(net, opt, xs)
        print(validate(net, xs))
# ok: restores
def validate4(model, xs):
    was = model.training
    model.eval()
    r = loss_fn(model, xs[0])
    model.train(was)
    return r
def train4(net, xs):
    opt = optim.SGD(learning_rate=0.1)
    for _ in range(10):
        epoch(net, opt, xs)
        print(validate4(net, xs))
# ok: other model
def train5(net, ema, xs):
    opt = optim.SGD(learning_rate=0.1)
    for _ in range(10):
        epoch(net, opt, xs)
        print(validate(ema, xs))
# ok: early stop
def train6(net, xs):
    opt = optim.SGD(learning_rate=0.1)
    for i in range(10):
        epoch(net, opt, xs)
        if i == 5:
            net.eval()
            break
# 7 trainer
class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = optim.Adam(learning_rate=1e-3)
    def fit_epoch(self, xs):
        g = nn.value_and_grad(self.model, loss_fn)
        for x in xs:
            l, gr = g(self.model, x)
            self.opt.update(self.model, gr)
            mx.eval(self.model.parameters(), self.opt.state)
    def check(self, xs):
        return validate(self.model, xs)
def main():
    t = Trainer(Net())
    xs = [mx.ones((2, 2))]
    for _ in range(3):
        t.fit_epoch(xs)
        t.check(xs)  # reported
main()
""",
    ),
    "keywords": (
        "API-003",
        """
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

CFG = {"lr": 1e-3, "weight_decay": 0.1}
opt1 = optim.AdamW(**CFG)  # reported
def b2():
    cfg = dict(lr=1e-3)
    return optim.SGD(**cfg)  # reported
class C:
    def __init__(self):
        self.kw = {"bias": False, "device": "gpu"}
        self.lin = nn.Linear(4, 4, **self.kw)  # reported
def make(**kw):
    return nn.Conv2d(3, 8, 3, **kw)
make(padding=1, padding_mode="zeros")  # reported
def make2(**kw):
    return make(**kw)
make2(padding_mode="zeros")  # reported
# ok
def ok1(**kw):
    kw.pop("lr")
    return optim.Adam(learning_rate=1e-3, **kw)
ok1(lr=3)
CFG2 = {"learning_rate": 1e-3}
optim.AdamW(**CFG2)
def ok2(cfg):
    return optim.AdamW(**cfg)
def ok3(name, **kw):
    kw = {k: v for k, v in kw.items() if k != "lr"}
    return optim.AdamW(**kw)
ok3("x", lr=3)
KW = {"axis": -1}
mx.softmax(mx.ones((3,)), **KW)
KW2 = {"dim": -1}
mx.softmax(mx.ones((3,)), **KW2)  # reported
""",
    ),
    "masks": (
        "API-005",
        """
import mlx.core as mx
from dataclasses import dataclass
from typing import NamedTuple

class Batch(NamedTuple):
    x: mx.array
    mask: mx.array

def pick(b: Batch):
    return b.x[b.mask]  # reported

def run():
    x = mx.ones((3,))
    return pick(Batch(x=x, mask=x > 0))

class Holder:
    def __init__(self, x: mx.array):
        self.x = x
        self.keep = None
    def fit(self, t: float):
        self.keep = mx.abs(self.x) > t
    def values(self):
        return self.x[self.keep]  # reported

class Holder2:
    def __init__(self, x: mx.array, keep: mx.array):
        self.x = x
        self.keep = keep
    def values(self) -> mx.array:
        return self.x[self.keep]  # reported
Holder2(mx.ones((3,)), mx.ones((3,)) > 0).values()

def mask_of(x: mx.array) -> mx.array:
    return (x > 0) & (x < 3)
def sel(x: mx.array) -> mx.array:
    m = mask_of(x)
    return x[m]  # reported
def sel2(x: mx.array, m: mx.array) -> mx.array:
    return x[m]  # reported
def use(x: mx.array):
    return sel2(x, mx.isnan(x))
class P:
    def __init__(self, x: mx.array):
        self.x = x
    @property
    def alive(self) -> mx.array:
        return self.x > 0
    def get(self):
        return self.x[self.alive]  # reported
# ok
class Ok:
    def __init__(self, x: mx.array, idx: mx.array):
        self.x = x
        self.idx = idx
    def get(self):
        return self.x[self.idx]
Ok(mx.ones((3,)), mx.array([1, 2])).get()
def okset(x: mx.array, m: mx.array):
    x[m] = 0
    return x
okset(mx.ones((3,)), mx.ones((3,)) > 0)
""",
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    code, program = PROGRAMS[name]
    check_marked(program, code)
