"""Reshapes that mix the elements of axes: SHAPE-004.

A reshape splits axes, and merges neighbours; it moves none.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from embercoach.analysis.shapes.axis_origins import REPEATING, STACKING
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Comparison,
    Integer,
    SizeExpr,
    compare,
    exact_quotient,
    product,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.shapes.arrays import ArrayShape, ShapedArray


def mixed_elements(node: ast.AST, array: ShapedArray, after: ArrayShape) -> Iterator[str]:
    """Find the elements that a reshape mixes: a reason, with both shapes.

    Args:
        node: the call.
        array: what is reshaped.
        after: the shape of the result.
    """
    axis = moved_axis(array.shape, after) or _swapped_axis(array, after)
    if axis is None:
        if _puts_copies_ahead(node, array, after):
            yield f"from {array.shape} to {after} copies and elements are mixed"
    elif not _is_shift(array, after) and not _is_of_weight(node):
        yield f"from {array.shape} to {after} the elements of {axis} are mixed"


def moved_axis(before: ArrayShape, after: ArrayShape) -> Integer | None:
    """The axis whose elements a reshape mixes with those of others.

    A reshape splits axes, and merges neighbours. Then of the numbers of elements ahead of two axes,
    before and after it, one divides the other.
    """
    if before.rank is None or after.rank is None:
        return None
    if 1 in after.head and 1 not in before.head:
        return None  # one of the axes is meant to be of size 1
    if ANY_INT in before.head or ANY_INT in after.head:
        return _kept_axis(before, after)
    if compare(product(before.head), product(after.head)) is not Comparison.EQUAL:
        return None
    for at in range(1, len(before.head)):
        ahead = product(before.head[:at])
        for end in range(1, len(after.head)):
            now = product(after.head[:end])
            if not isinstance(ahead, SizeExpr) or not isinstance(now, SizeExpr):
                continue
            if exact_quotient(ahead, now) is None and exact_quotient(now, ahead) is None:
                return before.head[at]
    return None


def _is_of_weight(node: ast.AST) -> bool:
    """Return whether a call reshapes a weight: what is loaded may have the axes of torch."""
    return any(
        isinstance(one, ast.Attribute) and one.attr.endswith("weight") for one in ast.walk(node)
    )


def _kept_axis(before: ArrayShape, after: ArrayShape) -> Integer | None:
    """The axis that a reshape keeps, with more elements ahead of it than it has after."""
    for at, size in enumerate(before.head):
        if not isinstance(size, SizeExpr) or before.head.count(size) != 1:
            continue
        if after.head.count(size) != 1:
            continue
        ahead = product(before.head[:at])
        now = product(after.head[: after.head.index(size)])
        quotient = exact_quotient(ahead, now) if isinstance(ahead, SizeExpr) else None
        if isinstance(quotient, SizeExpr):
            return size
    return None


def _swapped_axis(array: ShapedArray, after: ArrayShape) -> Integer | None:
    """The axis that a reshape moves, ``(B, T, ?)`` to ``(B, ?, T)``, where it keeps others.

    A row more or less, reshaped, is the shift of relative positions: only stacks are meant.
    """
    before, origin = array.shape, array.origin
    if before.rank != after.rank or 1 in after.head or origin is None or origin.name != STACKING:
        return None
    named = [n for n in before.head if isinstance(n, SizeExpr) and after.head.count(n) == 1]
    moved = [n for n in named if before.head.index(n) != after.head.index(n)]
    return moved[0] if moved and len(named) > 1 else None


def _is_shift(array: ShapedArray, after: ArrayShape) -> bool:
    """Return whether it may be the shift of relative positions: a row more or less, reshaped."""
    if array.shape.rank != after.rank:
        return False
    is_cut = array.origin is not None and array.origin.name.endswith("__getitem__")
    return is_cut or any(isinstance(n, SizeExpr) and len(n.terms) > 1 for n in after.head)


def _puts_copies_ahead(node: ast.AST, array: ShapedArray, after: ArrayShape) -> bool:
    """``mx.repeat(x, n, axis=0).reshape(n, ...)``: copies are next to each other, not ahead."""
    origin = array.origin
    if origin is None or origin.name != REPEATING or len(origin.axes) != 1:
        return False
    before, number = origin.before, _argument(origin.node, 1, "repeats")
    at = origin.axes[0] + (before.rank or 0)
    if before.rank is None or at < 0 or before.head[at] == 1 or before.head[:at] != after.head[:at]:
        return False
    sizes = _sizes_of(node)
    if number is None or at >= len(sizes) or ast.dump(sizes[at]) != ast.dump(number):
        return False
    return after.rank != before.rank


def _argument(call: ast.AST, at: int, name: str) -> ast.expr | None:
    """The expression of an argument of a function; None if it isn't there."""
    if not isinstance(call, ast.Call):
        return None
    named = [one.value for one in call.keywords if one.arg == name]
    return named[0] if named else call.args[at] if at < len(call.args) else None


def _sizes_of(call: ast.AST) -> list[ast.expr]:
    """The sizes that a ``reshape`` names."""
    if not isinstance(call, ast.Call):
        return []
    sizes = call.args
    if sizes and isinstance(sizes[-1], (ast.Tuple, ast.List)):
        sizes = sizes[-1].elts
    return sizes
