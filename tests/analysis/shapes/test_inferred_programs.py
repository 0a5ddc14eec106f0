"""Programs with the shapes of their arrays: a line's comment says what it assigns or returns."""

from __future__ import annotations

import tokenize
from io import StringIO

import pytest

from embercoach.analysis.project.project import Project
from embercoach.analysis.shapes.arrays import ArrayShape, PromotedDType
from embercoach.analysis.shapes.node_shapes import AssignedShape, assigned_shapes, written
from embercoach.analysis.shapes.size_integers import ANY_INT, Integer, SizeExpr

IMPORTS = """\
import math
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Optional
import mlx.core as mx
import mlx.nn as nn
import numpy as np
"""

#: ``=`` begins a program, ``-`` a file other than its first.
PROGRAMS = """
= unpacked sizes
def f(x: mx.array):
    B, S, D = x.shape
    y = mx.exp(x)  # [B, S, D]
    return y.reshape(B * S, D)  # [B * S, D]
= a constructor's attributes
class Attention(nn.Module):
    def __init__(self, dims, heads):
        self.heads, self.head_dim = heads, dims // heads
        self.q = nn.Linear(dims, dims)
    def __call__(self, x):
        B, S, _ = x.shape
        q = self.q(x)  # [B, S, dims]
        q = q.reshape(B, S, self.heads, -1)  # [B, S, heads, dims // heads]
        return q.transpose(0, 2, 1, 3)  # [B, heads, S, dims // heads]
= configurations
@dataclass
class Inner:
    dims: int
    heads: int = 4
    head_dim: Optional[int] = None
    def __post_init__(self):
        if self.head_dim is None: self.head_dim = self.dims // self.heads
@dataclass
class Config:
    inner: Inner = field(default_factory=lambda: Inner(8))
    out: int = 3
    @classmethod
    def from_dict(cls, values): return cls(**values)
def f(config: Config): return mx.zeros((config.inner.heads, config.inner.head_dim, config.out))
y = f(Config())  # f32[4, 2, 3]
z = f(Config.from_dict({"inner": Inner(32, head_dim=6), "out": 7}))  # f32[4, 6, 7]
= Sequential
y = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), mx.exp)(mx.zeros((4, 8)))  # f32[4, 16]
= layers in a loop
class MLP(nn.Module):
    def __init__(self, sizes):
        self.layers = [nn.Linear(a, b) for a, b in zip(sizes[:-1], sizes[1:])]
    def __call__(self, x):
        for layer in self.layers: x = nn.relu(layer(x))
        return x
y = MLP([4, 8, 16])(mx.zeros((2, 4)))  # f32[2, 16]
= a conditional layer
class Block(nn.Module):
    def __init__(self, dims, hidden=None):
        self.project = nn.Linear(dims, hidden) if hidden is not None else nn.Identity()
    def __call__(self, x): return self.project(x)
y = Block(8)(mx.zeros((2, 8)))  # f32[2, 8]
z = Block(8, 5)(mx.zeros((2, 8)))  # f32[2, 5]
= an assignment expression
def f(x: mx.array):
    B, S = x.shape
    return (y := x.reshape(B, 1, S)).squeeze(1)  # [B, S]; [B, 1, S]
= a layer that one branch makes
class Block(nn.Module):
    def __init__(self, dims, flag):
        self.flag = flag
        if self.flag: self.a = nn.Linear(dims, 3)
        else: self.b = nn.Linear(dims, 5)
    def __call__(self, x: mx.array):
        if self.flag: y = self.a(x)  # [*x, 3]
        else: y = self.b(x)  # [*x, 5]
        return y
= a branch that narrows an attribute
class Shift(nn.Module):
    def __init__(self, dims, shift=None):
        self.shift = mx.zeros((dims,)) if shift else None
    def __call__(self):
        if self.shift is None: y = mx.zeros(2)
        else: y = self.shift  # f32[dims]
        if self.shift is not None: y = self.shift  # f32[dims]
        return y
= an axis from the end
def f(x):
    p = mx.softmax(x, axis=-1)
    i = mx.argmax(p, axis=-1)[..., None]
    return mx.take_along_axis(p, i, axis=-1).shape[-1] * mx.zeros((4,))  # f32[4]
= a model that a function is called with
class Head(nn.Module):
    def __init__(self): self.out = nn.Linear(8, 3)
    def __call__(self, x): return self.out(x)
def loss(model, x, y):
    z = model(x.reshape(2, 8))  # [2, 3]
    return nn.losses.cross_entropy(z, y)
= an optional input
def attend(q: mx.array, mask: Optional[mx.array] = None, scale: Optional[float] = None):
    B, H, S, D = q.shape
    scores = (q * (scale or D**-0.5)) @ q.swapaxes(-1, -2)  # [B, H, S, S]
    if mask is not None: scores = mx.where(mask.reshape(B, 1, S, S), scores, -1e9)  # [B, H, S, S]
    return mx.softmax(scores, axis=-1)  # [B, H, S, S]
= a branch on ndim
def f(x):
    if x.ndim == 2: x = x[None]
    B, S, D = x.shape
    return x.sum(axis=1)  # f32[B, 4]
y = f(mx.zeros((3, 4)))  # f32[1, 4]
z = f(mx.zeros((2, 3, 4)))  # f32[2, 4]
= a branch on a size
def f(x):
    if x.shape[-1] % 2 == 1: x = mx.pad(x, [(0, 0), (0, 1)])
    return x.reshape(x.shape[0], -1, 2)
y = f(mx.zeros((3, 5)))  # f32[3, 3, 2]
z = f(mx.zeros((3, 4)))  # f32[3, 2, 2]
= a helper
def split(x, heads):
    B, S, D = x.shape
    return x.reshape(B, S, heads, D // heads)  # f32[2, 3, ?, ?]
y = split(mx.zeros((2, 3, 8)), 4)  # f32[2, 3, 4, 2]
z = split(mx.zeros((2, 3, 6)), 2)  # f32[2, 3, 2, 3]
= partial
def split(x, heads, *, axis=-1): return mx.stack(mx.split(x, heads, axis=axis))
y = partial(split, heads=4)(mx.zeros((2, 8)))  # f32[4, 2, 2]
z = partial(split, axis=0)(mx.zeros((2, 8)), 2)  # f32[2, 1, 8]
= batches of a loader
class Loader:
    def __init__(self, arrays, size): self.arrays, self.size = arrays, size
    def __iter__(self):
        for start in range(0, 100, self.size):
            yield [array[start : start + self.size] for array in self.arrays]
def every(loader): yield from loader
loader = Loader([mx.zeros((100, 3)), mx.zeros((100,))], 4)
for step, (x, y) in enumerate(every(loader)):
    z = x  # f32[?, 3]
    w = y  # f32[?]
= properties
class Heads:
    def __init__(self, dims): self.dims = dims
    @property
    def size(self): return self.dims // 4
y = mx.zeros((3, Heads(32).size))  # f32[3, 8]
= inheritance
class Base(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.proj = nn.Linear(dims, 2 * dims)
    def mix(self, x): return x
    def __call__(self, x): return self.mix(self.proj(x))
class Halved(Base):
    def mix(self, x): return x[..., ::2]
class Split(Base):
    def __call__(self, x): return super().__call__(x).reshape(3, 2, -1)
y = Base(4)(mx.zeros((3, 4)))  # f32[3, 8]
z = Halved(4)(mx.zeros((3, 4)))  # f32[3, 4]
w = Split(4)(mx.zeros((3, 4)))  # f32[3, 2, 4]
= vmap
def dot(a, b): return (a * b).sum()
z = mx.vmap(dot, in_axes=(1, None))(mx.zeros((5, 7)), mx.zeros(5))  # f32[7]
= compile
@mx.compile
def f(x): return x[:, None] * x
g = partial(mx.compile, shapeless=True)(lambda x: x.T)
y = f(mx.zeros((3, 3)))  # f32[3, 3, 3]
z = g(mx.zeros((3, 4)))  # f32[4, 3]
= gradients
def loss(w, x): return (x @ w).square().mean()
w, x = mx.zeros((4, 2)), mx.zeros((3, 4))
value, gradient = mx.value_and_grad(loss)(w, x)  # f32[]; f32[4, 2]
y = mx.grad(loss, argnums=1)(w, x)  # f32[3, 4]
= a custom function
@mx.custom_function
def f(x, y): return x @ y
@f.vjp
def f_vjp(primals, cotangent, output): return cotangent @ primals[1].T, primals[0].T @ cotangent
z = f(mx.zeros((2, 3)), mx.zeros((3, 4)))  # f32[2, 4]
= star arguments
def total(*arrays, axis=0): return mx.concatenate(arrays, axis=axis)
parts, options = [mx.zeros((2, 3)), mx.zeros((2, 3))], {"axis": 1}
y = total(*parts, mx.zeros((1, 3)))  # f32[5, 3]
z = total(*parts, **options)  # f32[2, 6]
= comprehensions
x = mx.zeros((2, 6))
parts = [x[:, i : i + 2] for i in range(3)]
y = mx.stack(parts)  # f32[3, 2, 2]
z = {name: mx.zeros(len(name)) for name in ("a", "bc")}["bc"]  # f32[2]
w = sum(part.sum(axis=0) for part in parts)  # f32[2]
= a cache that grows in a loop
def decode(x: mx.array, steps: int):
    B, D = x.shape
    cache = mx.zeros((B, 0, D))
    for _ in range(steps):
        cache = mx.concatenate([cache, x[:, None]], axis=1)  # [B, ?, D]
        x = cache.mean(axis=1)
    return cache  # [B, ?, D]
= NumPy arrays
def f(n: int):
    grid = np.arange(n)[:, None] * np.ones((1, 4))
    return mx.array(grid)  # [n, 4]
y = mx.array(np.zeros((2, 3), dtype=np.float32)[..., None])  # [2, 3, 1]
= einsum
def f(x: mx.array, w: mx.array):
    B, S, D = x.shape
    n, _, k = w.shape
    y = mx.einsum("bsd,ndk->bnsk", x, w)  # [B, n, S, k]
= reshape
def f(x: mx.array):
    B, H, W, C = x.shape
    y = x.reshape(B, H // 2, 2, W // 2, 2, C)  # [B, H // 2, 2, W // 2, 2, C]
    y = x.reshape(B, -1, C)  # [B, H * W, C]
    y = x.reshape(-1, *x.shape[2:])  # [B * H, W, C]
z = mx.zeros((4, 6)).reshape(3, -1, math.prod((2, 2)))  # f32[3, 2, 4]
= leading axes of any number
def f(x: mx.array, heads: int):
    *B, D = x.shape
    y = x.reshape(*x.shape[:-1], heads, -1)  # [*B, heads, D // heads]
    z = y.sum(axis=-1)  # [*B, heads]
= dtypes
def f(x: mx.array, y: mx.array):
    (n,) = x.shape
    a = x.astype(mx.bfloat16) + 1.0  # bf16[n]
    b = mx.zeros(n, dtype=y.dtype)  # [n] dtype of y
    d = b * mx.zeros(n, mx.float16)  # [n] dtype of y and float16
    e = b > 0  # bool[n]
= a layer's parameters
class Norm(nn.Module):
    def __init__(self, dims): self.weight = mx.ones((dims,))
    def __call__(self, x):
        w = self.weight  # [dims] dtype of parameters
        return w * mx.zeros(w.shape, mx.float32)  # f32[dims]
model = nn.Linear(4, 3)
model.set_dtype(mx.bfloat16)
z = model(mx.zeros((2, 4), mx.bfloat16))  # bf16[2, 3]
= named tuples
class State(NamedTuple):
    c: mx.array
    n: mx.array
def step(state: State, x):
    c, n = state
    return State(c + x, n=n.sum(axis=-1))
state = step(State(mx.zeros((2, 3)), mx.zeros((2, 3))), mx.zeros(3))
y = state.c  # f32[2, 3]
c, n = state  # f32[2, 3]; f32[2]
= compared shapes
def check(x, shape):
    if x.shape != shape: raise ValueError
def f(x: mx.array, ids: mx.array, d: int):
    if x.shape[2:] != (d,): raise ValueError
    B, S = x.shape[:2]
    check(ids, (B, S))
    y = x + 1  # [B, S, d]
    return ids + 1  # [B, S]
= sizes that are named later
def f(parts: list, ids: mx.array):
    x = mx.concatenate([mx.zeros((3, n)) for n in parts], axis=1)  # f32[3, total]
    _, total = x.shape
    count = int(ids.max())
    return x[:, None] + mx.zeros((count, 1))  # f32[3, count, total]
= axes that nothing names
def f(x: mx.array):
    B = x.shape[0]
    return x.transpose(0, 2, 1)  # [B, x.2, x.1]
= one rank from two branches
class Model(nn.Module):
    def __init__(self, dims):
        self.embed, self.layers = nn.Embedding(9, dims), [nn.Linear(dims, dims)] * 2
        self.count = 4
    def __call__(self, ids, x=None):
        if x is None: h = self.embed(ids)  # [B, S, dims]
        else: h = x  # [B, S, ?]
        B, S, _ = h.shape
        return mx.zeros((B, self.count))  # f32[B, count]
= a layer of layers alone, and attention with branches out of sight
class Block(nn.Module):
    def __init__(self, dims, heads): self.q, self.norm = nn.Linear(dims, dims), nn.RMSNorm(dims)
    def __call__(self, hidden, other=None, another=None, more=None, still_more=None, last=None):
        residual = hidden
        hidden = self.norm(hidden)
        hidden = self.q(hidden)
        hidden = residual + hidden
        return self.norm(self.q(self.norm(self.q(self.norm(self.q(hidden))))))  # [*hidden, dims]
def scaled_dot_product_attention(queries, keys, values, cache):
    if isinstance(cache, str): return cache.attend(queries)
    return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=1.0)
def f(q: mx.array, v: mx.array, cache):
    (B, H, L, D), (_, G, S, E) = q.shape, v.shape
    return scaled_dot_product_attention(q, q, v, cache)  # [B, H, L, E]
= a choice of functions by name
ACTIVATIONS = {"silu": nn.silu, "gelu": nn.gelu}
def f(kind: str): return ACTIVATIONS[kind](mx.zeros((2, 3)))  # f32[2, 3]
= try and except
def f(x: mx.array):
    n, d = x.shape
    try: y = x.reshape(n, 2, d // 2)  # [n, 2, d // 2]
    except ValueError: y = mx.zeros((n, 2, 1))  # f32[n, 2, 1]
    return y  # [n, 2, ?]
= while
def f(x: mx.array):
    n, d = x.shape
    k = 1
    while k < d:
        x = x + mx.roll(x, k, axis=-1)  # [n, d]
        k *= 2
    return x  # [n, d]
= mutual recursion
def even(x, n): return x if n == 0 else odd(x + 1.0, n - 1)
def odd(x, n): return even(mx.concatenate([x, x]), n - 1)
y = even(mx.zeros(2), 10**9)
z = mx.zeros(3)  # f32[3]
= other files
from layers import Up, up as widen
import pack.sizes as sizes
y = Up(4)(mx.zeros((2, 4)))  # f32[2, 12]
z = widen(mx.zeros((2, 5)))  # f32[2, 10]
w = mx.zeros(sizes.ROWS)  # f32[7]
- layers.py
from pack import ROWS
class Up(nn.Module):
    def __init__(self, dims): self.proj = nn.Linear(dims, 3 * dims)
    def __call__(self, x): return self.proj(x)
def up(x):
    w = mx.zeros(ROWS)  # f32[7]
    return mx.concatenate([x, x], axis=-1)
- pack/__init__.py
from .sizes import ROWS
- pack/sizes.py
ROWS = 7
= files that import each other
import other
def pair(x): return mx.stack([x, x])
y = other.both(mx.zeros(3))  # f32[2, 3]
- other.py
import main
def both(x): return main.pair(x)
= what files beside it import
def scale(x): return mx.exp(x)  # [*x]
def local(x): return mx.exp(x)  # f32[2, 3]
y, z = scale(mx.zeros((2, 3))), local(mx.zeros((2, 3)))  # f32[2, 3]; f32[2, 3]
- other.py
from main import scale
= indices that only arrays take
def f(mask):
    return mask[:, None, None, :]  # [mask.0, 1, 1, mask.1]
= one of two settings
class Conv(nn.Module):
    def __init__(self, config, at=0):
        super().__init__()
        inner = config.sizes[at - 1] if at > 0 else 1
        self.conv = nn.Conv1d(inner, config.sizes[at], 3)
    def __call__(self, x: mx.array):
        return self.conv(x)  # [x.0, x.1 - 2, sizes[at]]
= a layer's input
def f(x: mx.array, layer: nn.Linear):
    y = nn.Linear(8, 4)(x)  # [*x, 4]
    return x.sum(-1)  # [*x]
"""
BY_NAME = dict(part.split("\n", 1) for part in PROGRAMS.split("\n= ")[1:])


@pytest.mark.parametrize("name", BY_NAME)
def test_programs(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("project")
    files = dict(part.split("\n", 1) for part in f"main.py\n{BY_NAME[name]}".split("\n- "))
    for file, program in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(IMPORTS + program)
    for file, program in files.items():
        found = assigned_shapes(Project().open(folder / file, IMPORTS + program))
        for line, text in comments(IMPORTS + program).items():
            arrays = [text_of(one, has_dtype="] " in text) for one in found if one.line == line]
            assert "; ".join(arrays) == text, program.splitlines()[line - IMPORTS.count("\n") - 1]


def comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(StringIO(source).readline)
    return {t.start[0]: t.string.removeprefix("# ") for t in tokens if t.type == tokenize.COMMENT}


def text_of(one: AssignedShape, *, has_dtype: bool) -> str:
    """The array's text; a size that the program gives no name is ``?``."""
    parts = one.shape.head, one.shape.tail
    head, tail = (tuple(n if is_named(n) else ANY_INT for n in part) for part in parts)
    text = written(ArrayShape(head, one.shape.middle, tail), one.dtype)
    return f"{text} {one.dtype}" if has_dtype and isinstance(one.dtype, PromotedDType) else text


def is_named(size: Integer) -> bool:
    return not isinstance(size, SizeExpr) or all(one.is_named for one in size.symbols)
