"""API-028: functions that MLX calls with other arguments than they take."""

from __future__ import annotations

from tests.checks.marked import check_marked


def test_objects_that_may_be_modules() -> None:
    check_marked(
        """
import mlx.core as mx
import mlx.nn as nn


def half(name, x):
    return x.astype(mx.float16)


def named(name, value):
    return value


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(2, 2)

    def cast(self, x):
        return x.astype(mx.float16)

    def cast_by_name(self, name, x):
        return x.astype(mx.float16)

    def half(self):
        self.apply(self.cast)
        self.apply(self.cast_by_name)  # reported
        self.proj.apply(half)  # reported
        self.proj.apply(map_fn=half)  # reported


class Filter:
    def apply(self, change):
        return change("a", 1)


def changed(model, frame):
    model.apply(half)  # reported
    model.apply_to_modules(lambda module: module.freeze())  # reported
    frame.apply(named)
    Filter().apply(half)
    try:
        model.apply(half)
    except TypeError:
        model.apply(lambda x: half("", x))
""",
        "API-028",
    )


def test_signatures_that_take_more() -> None:
    check_marked(
        """
import mlx.core as mx
import mlx.nn as nn
from functools import partial
from mlx.utils import tree_map


def cast(x, *rest, dtype=mx.float16):
    return x.astype(dtype)


def cast_to(x, *, dtype):
    return x.astype(dtype)


def changed(model: nn.Module, trees, a, b):
    model.apply(cast)
    model.apply(cast_to)  # reported
    model.apply(partial(cast_to, dtype=mx.float16))
    tree_map(cast, a, b)
    tree_map(lambda x, y: x, *trees)
    tree_map(lambda x, y: x + y, a)  # reported
""",
        "API-028",
    )
