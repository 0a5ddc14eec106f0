"""Compositions of MLX's functions: calls that compute an expression, and what they select of."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.syntax.trees import names_below

if TYPE_CHECKING:
    from embercoach.analysis.dataflow.value_sources import Source, Sources

#: Functions of MLX that select, arrange or average the elements of an array: what it is stays.
SHAPING = frozenset(
    (
        *("astype", "reshape", "squeeze", "flatten", "expand_dims", "transpose", "swapaxes"),
        *("take", "take_along_axis", "sort", "topk", "broadcast_to", "moveaxis", "contiguous"),
        "stop_gradient",
    )
)
#: Functions that bound the elements.
_BOUNDING = frozenset(f"mlx.core.{name}" for name in ("clip", "maximum", "minimum"))
_SHAPED = frozenset(f"mlx.core.{name}" for name in SHAPING)
_WHERE = "mlx.core.where"
_MOST_STEPS = 16


def computed(start: Source, sources: Sources, *, bounded: bool = False) -> list[Source]:
    """The expressions that compute an array, before items and changes of shape and dtype.

    Args:
        start: the array.
        sources: those of the file.
        bounded: follow ``mx.clip(x, 0, 1)`` and ``mx.where(mask, x, 0)`` to ``x`` as well.
    """
    pending = [start]
    found: list[Source] = []
    for _ in range(_MOST_STEPS):
        if not pending:
            return found
        for end in sources.ends(pending.pop(), through_callers=True):
            further = _before(end, sources, bounded=bounded)
            if further is None:
                found.append(end)
            else:
                pending += further
    return []


def _before(end: Source, sources: Sources, *, bounded: bool) -> list[Source] | None:
    """The arrays that an expression selects from, None for anything else."""
    node = end.node
    if isinstance(node, cst.Subscript):
        return [end.at(node.value)]
    if not isinstance(node, cst.Call):
        return None
    call = sources.library_call(end)
    if call is not None and call.name in _SHAPED and call.array is not None:
        return [call.array]
    func = node.func
    if call is None and isinstance(func, cst.Attribute) and func.attr.value in SHAPING:
        return [end.at(func.value)]
    if not bounded or call is None or call.array is None:
        return None
    if call.name in _BOUNDING:
        return [call.array]
    if call.name == _WHERE and len(node.args) == 3:
        chosen = [end.at(argument.value) for argument in node.args[1:]]
        return [one for one in chosen if not _is_constant(one, sources)] or None
    return None


def _is_constant(source: Source, sources: Sources) -> bool:
    """Test whether an expression is a number, or an array of equal numbers."""
    node = source.node
    if isinstance(node, cst.UnaryOperation):
        node = node.expression
    if isinstance(node, (cst.Integer, cst.Float)):
        return True
    call = sources.library_call(source)
    filled = ("zeros", "zeros_like", "array", "full_like")
    return call is not None and call.name.removeprefix("mlx.core.") in filled


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
    """Test whether two expressions compute the same, by their text in one function or class."""
    one, other = only_end(first, sources), only_end(second, sources)
    if one.node is other.node:
        return True
    if not one.node.deep_equals(other.node):
        return False
    return one.function is other.function or (_is_of_object(one) and _is_of_object(other))


def _is_of_object(source: Source) -> bool:
    """Return whether an expression of a method reads its object, and no local name."""
    function = source.function
    if function is None or function.cls is None:
        return False
    local = scope_of(source.module, function).reaching.bindings.keys() - {"self"}
    return local.isdisjoint(names_below(source.node))
