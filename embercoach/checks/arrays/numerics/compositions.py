"""Compositions of MLX's functions: the calls that compute an expression, and its squares."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

if TYPE_CHECKING:
    from embercoach.analysis.value_sources import Source, Sources

SUM = frozenset(["mlx.core.sum"])
MEAN = frozenset(["mlx.core.mean"])
_SQUARE = frozenset(["mlx.core.square"])
_PRODUCTS = frozenset(["mlx.core.multiply", "mlx.core.power"])


class Called(NamedTuple):
    """A call of a function of MLX, or of a method of an array: the name, and the array."""

    name: str
    array: Source


def only_end(source: Source, sources: Sources) -> Source:
    """The expression that computes a value, if it is one."""
    ends = sources.ends(source, through_callers=True)
    return ends[0] if len(ends) == 1 else source


def called(source: Source, sources: Sources) -> Called | None:
    """The call of MLX that computes an expression, through names, functions and methods."""
    ends = sources.ends(source, through_callers=True)
    calls = [sources.library_call(end) for end in ends]
    first = calls[0] if calls else None
    if first is None or any(call is None or call.name != first.name for call in calls):
        return None
    return None if first.array is None else Called(first.name, first.array)


def squared(source: Source, sources: Sources) -> Source | None:
    """Return ``x`` of ``x ** 2``, ``x * x`` and ``mx.square(x)``."""
    found = only_end(source, sources)
    node = found.node
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Power):
            return found.at(node.left) if _is_two(node.right) else None
        is_square = isinstance(node.operator, cst.Multiply) and node.left.deep_equals(node.right)
        return found.at(node.left) if is_square else None
    call = sources.library_call(found)
    if call is None or call.array is None or not isinstance(node, cst.Call):
        return None
    if call.name in _SQUARE:
        return call.array
    if call.name not in _PRODUCTS or len(node.args) < 2:
        return None
    second = node.args[1].value
    is_square = _is_two(second) or call.array.node.deep_equals(second)
    return call.array if is_square else None


def _is_two(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.value.replace("_", "")) == 2


def is_same(first: Source, second: Source, sources: Sources) -> bool:
    """Test whether two expressions compute the same, by their text in one function."""
    one, other = only_end(first, sources), only_end(second, sources)
    if one.node is other.node:
        return True
    return one.function is other.function and one.node.deep_equals(other.node)
