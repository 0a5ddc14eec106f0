"""Meanings of the axes of arrays, by the calls that made these.

An ``Origin`` names such a call. Values that are sorted, centered, or normalized along an axis keep
theirs through operations on each element.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import ArrayShape, Origin, ShapedArray
from embercoach.analysis.shapes.size_integers import ANY_INT, Integer

if TYPE_CHECKING:
    import ast

REDUCTIONS = frozenset(
    f"mlx.core.{owner}{name}"
    for owner in ("", "array.")
    for name in [
        "sum",
        "mean",
        "max",
        "min",
        "prod",
        "std",
        "var",
        "all",
        "any",
        "argmax",
        "argmin",
        "logsumexp",
    ]
)
NORMALIZING = frozenset(("mlx.core.softmax", "mlx.nn.softmax", "mlx.nn.log_softmax"))
#: Operations on two arrays whose elements stand for the same things.
PAIRED = frozenset(
    f"mlx.core.{name}"
    for name in [
        "add",
        "subtract",
        "multiply",
        "divide",
        "equal",
        "not_equal",
        "less",
        "less_equal",
        "greater",
        "greater_equal",
        "maximum",
        "minimum",
        "array.__and__",
        "array.__or__",
    ]
)
#: Calls that give an axis of size 1 on purpose.
EXPLICIT = frozenset(
    f"mlx.core.{name}"
    for name in [
        "expand_dims",
        "reshape",
        "array.reshape",
        "array.__getitem__",
        "zeros",
        "ones",
        "full",
    ]
)
#: Functions that sort values along an axis, or choose some along it.
SELECTING = frozenset(
    f"mlx.core.{owner}{name}"
    for owner in ("", "array.")
    for name in ("sort", "topk", "take_along_axis", "partition")
)
#: Functions that give the order of values along an axis.
ORDERING = frozenset(
    f"mlx.core.{owner}{name}" for owner in ("", "array.") for name in ("argsort", "argpartition")
)
REPEATING = "mlx.core.repeat"
STACKING = "mlx.core.stack"
LINEAR = "mlx.nn.Linear"
_SQUARING = ("square", "power", "__pow__")
_MEANS = ("mean", "sum")
#: What ``Origin.name`` says of values that several calls have made.
CENTERED, SQUARED, LOG_NORMALIZED, WEIGHTED_LOGS = "centered", "squared", "logs", "weighted logs"
#: Scores with something added that is the same along their last axis.
SHIFTED = "shifted"
#: One number for values that are normalized along an axis, each row by itself.
OF_ALL_ROWS = "of all rows"


def with_origin(
    node: ast.AST, name: str, arguments: list[Any], keywords: dict[str, Any], result: ShapedArray
) -> ShapedArray:
    """The result of a call with its origin, or with that of the one array that it changes."""
    if name == STACKING:
        return replace(result, origin=Origin(name, node, result.shape))
    arrays = [value for value in arguments if type(value) is ShapedArray]
    if not arrays:
        return result
    first = arrays[0]
    if name != LINEAR and first.shape == result.shape and is_layer(first, LINEAR):
        return replace(result, origin=first.origin)  # an activation
    if name in REDUCTIONS or name in NORMALIZING:
        axes = axes_of(arguments, keywords, first.shape)
        if _is_of_all_rows(name, first, arguments, keywords):
            return replace(result, origin=Origin(OF_ALL_ROWS, node, first.shape))
        return replace(result, origin=Origin(name, node, first.shape, axes))
    if name in SELECTING or name in ORDERING or name == REPEATING:
        at = 2 if name.endswith(_COUNTED) else 1
        is_named = "axis" in keywords or len(arguments) > at or name == REPEATING
        axes = axes_of(arguments, keywords, first.shape, at) if is_named else (-1,)
        return replace(result, origin=Origin(name, node, first.shape, axes))
    if _is_order(first) and name.endswith("__getitem__") and _are_slices(arguments[1]):
        return replace(result, origin=first.origin)
    is_masked = name == "mlx.core.add" or (name == "mlx.core.where" and first is arguments[0])
    if is_masked and len(arrays) == 2 and _is_same_along_last(*arrays):
        return replace(result, origin=Origin(SHIFTED, node, result.shape, (-1,)))
    combined = _combined(name, arrays, arguments)
    if combined:
        meaning, origin = combined
        return replace(result, origin=replace(origin, name=meaning, before=first.shape))
    if name.startswith("mlx.nn.") or name in EXPLICIT:
        return replace(result, origin=Origin(name, node, first.shape))
    known = [one for one in arrays if one.origin is not None]
    if known and known[0].shape == result.shape and _is_elementwise(name, arrays, known):
        return replace(result, origin=known[0].origin)
    return result


#: Calls whose second argument is a number or an index, and the third the axis.
_COUNTED = ("_axis", "argpartition", "partition", "topk", REPEATING)


def _is_same_along_last(a: ShapedArray, b: ShapedArray) -> bool:
    """Return whether one of two arrays has one element along the last axis, and the other more."""
    for one, other in ((a, b), (b, a)):
        if (
            one.shape.least_rank < 2
            or not other.shape.least_rank
            or not _is_one(one.shape.size(-1))
        ):
            continue
        is_more = other.shape.size(-1) is not ANY_INT and not _is_one(other.shape.size(-1))
        return is_more and (one.origin is None or one.origin.name not in REDUCTIONS)
    return False


def _is_one(size: Integer) -> bool:
    return type(size) is int and size == 1


def _is_order(array: ShapedArray) -> bool:
    return array.origin is not None and array.origin.name in ORDERING


def _are_slices(index: Any) -> bool:
    return all(
        type(one) is slice or one is Ellipsis
        for one in (index if type(index) is tuple else (index,))
    )


def _is_of_all_rows(
    name: str, array: ShapedArray, arguments: list[Any], keywords: dict[str, Any]
) -> bool:
    """Return whether a call reduces all axes of values that are normalized along one."""
    origin = array.origin
    if origin is None or name in NORMALIZING or len(arguments) > 1 or "axis" in keywords:
        return False
    return origin.name in NORMALIZING and len(origin.axes) == 1 and array.shape.rank != 1


def is_layer(array: ShapedArray, name: str) -> bool:
    """Return whether a layer of a class has made an array."""
    return array.origin is not None and array.origin.name == name


def reduced_axis(arguments: list[Any]) -> ast.AST | None:
    """The reduction that drops an axis which its result is then broadcast against.

    ``x - x.mean(axis=1)`` means ``x.mean(axis=1, keepdims=True)``.
    """
    arrays = [value for value in arguments if type(value) is ShapedArray]
    if len(arrays) != 2:
        return None
    for reduced, other in ((arrays[0], arrays[1]), (arrays[1], arrays[0])):
        origin = reduced.origin
        if origin is None or origin.name not in REDUCTIONS or len(origin.axes) != 1:
            continue
        before, rank = origin.before, reduced.shape.rank
        if rank is not None and before.rank == rank + 1 and before == other.shape:
            return origin.node
    return None


def _is_elementwise(name: str, arrays: list[ShapedArray], known: list[ShapedArray]) -> bool:
    """Return whether each element comes from those of the arrays whose origin is known."""
    if name == "mlx.core.where":
        return all(one.origin is known[0].origin for one in known)
    return len(known) == 1 and (len(arrays) == 1 or name in PAIRED)


def _combined(
    name: str, arrays: list[ShapedArray], arguments: list[Any]
) -> tuple[str, Origin] | None:
    """The meaning of values that a call makes along an axis, and the axis; None for others."""
    origin = arrays[0].origin
    if len(arrays) == 1:
        is_square = name.endswith(_SQUARING) and arguments[-1] in (arrays[0], 2)
        if is_square and origin is not None and origin.name == CENTERED:
            return SQUARED, origin
        return None
    other = arrays[1].origin
    if len(arrays) != 2 or other is None:
        return None
    is_same = origin is other and origin is not None
    if name == "mlx.core.multiply" and is_same:
        is_log = other.name == LOG_NORMALIZED or other.name.endswith("log_softmax")
        made = SQUARED if other.name == CENTERED else WEIGHTED_LOGS if is_log else ""
        return (made, other) if made else None
    if name != "mlx.core.subtract" or other.before != arrays[0].shape or len(other.axes) != 1:
        return None
    reduction = other.name.rpartition(".")[2]
    meaning = {"mean": CENTERED, "logsumexp": LOG_NORMALIZED}.get(reduction)
    return None if meaning is None else (meaning, other)


def axes_of(
    arguments: list[Any], keywords: dict[str, Any], shape: ArrayShape, at: int = 1
) -> tuple[int, ...]:
    """The axes that a call works along; empty if they are unknown.

    They count from the end, or as the call does where the number of axes is unknown.

    Args:
        arguments: by position.
        keywords: by name.
        shape: of the first argument.
        at: the position of the axis.
    """
    axis = keywords.get("axis", arguments[at] if len(arguments) > at else None)
    named: Any = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = shape.rank
    found = []
    for one in named:
        if type(one) is not int:
            return ()
        found.append(one if one < 0 or rank is None else one - rank)
    return tuple(found)
