"""Calls that MLX accepts and that compute something else than their author means.

What an axis means is known from the call that makes it (``Origin``), and from the names of sizes.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import ArrayShape, Origin, ShapedArray
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Comparison,
    Integer,
    SizeExpr,
    compare,
    product,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_REDUCTIONS = frozenset(
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
_NORMALIZING = frozenset(("mlx.core.softmax", "mlx.nn.softmax", "mlx.nn.log_softmax"))
#: Operations on two arrays whose elements stand for the same things.
_PAIRED = frozenset(
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
_EXPLICIT = frozenset(
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
_RESHAPES = frozenset(("mlx.core.reshape", "mlx.core.array.reshape"))
#: Calls that reduce all axes where none is named.
_OVER_ALL = frozenset(("mlx.core.softmax", "mlx.core.logsumexp", "mlx.core.array.logsumexp"))
INDEXING = frozenset(("mlx.core.array.__getitem__", "mlx.core.array.__setitem__"))
_LINEAR = "mlx.nn.Linear"
#: Differences of predictions and targets; other losses compare the shapes.
_DIFFERENCES = frozenset(
    (
        "mlx.core.subtract",
        "mlx.nn.losses.hinge_loss",
        "mlx.nn.losses.huber_loss",
        "mlx.nn.losses.log_cosh_loss",
    )
)


def with_origin(
    node: ast.AST, name: str, arguments: list[Any], keywords: dict[str, Any], result: ShapedArray
) -> ShapedArray:
    """The result of a call with its origin, or with that of the one array that it changes."""
    arrays = [value for value in arguments if type(value) is ShapedArray]
    if not arrays:
        return result
    first = arrays[0]
    if name != _LINEAR and first.shape == result.shape and _is_layer(first, _LINEAR):
        return replace(result, origin=first.origin)  # an activation
    if name in _REDUCTIONS or name in _NORMALIZING:
        axes = _axes_of(arguments, keywords, first.shape)
        return replace(result, origin=Origin(name, node, first.shape, axes))
    if name.startswith("mlx.nn.") or name in _EXPLICIT:
        return replace(result, origin=Origin(name, node, first.shape))
    known = [one for one in arrays if one.origin is not None]
    if len(known) == 1 and known[0].shape == result.shape and _is_elementwise(name, arrays):
        return replace(result, origin=known[0].origin)
    return result


def reduced_axis(arguments: list[Any]) -> ast.AST | None:
    """The reduction that drops an axis which its result is then broadcast against.

    ``x - x.mean(axis=1)`` means ``x.mean(axis=1, keepdims=True)``.
    """
    arrays = [value for value in arguments if type(value) is ShapedArray]
    if len(arrays) != 2:
        return None
    for reduced, other in ((arrays[0], arrays[1]), (arrays[1], arrays[0])):
        origin = reduced.origin
        if origin is None or origin.name not in _REDUCTIONS or len(origin.axes) != 1:
            continue
        before, rank = origin.before, reduced.shape.rank
        if rank is not None and before.rank == rank + 1 and before == other.shape:
            return origin.node
    return None


def _is_elementwise(name: str, arrays: list[ShapedArray]) -> bool:
    return len(arrays) == 1 or name in _PAIRED


def _axes_of(arguments: list[Any], keywords: dict[str, Any], shape: ArrayShape) -> tuple[int, ...]:
    """The axes that a call reduces or normalizes, from the end."""
    axis = keywords.get("axis", arguments[1] if len(arguments) > 1 else None)
    named: Any = axis if isinstance(axis, (tuple, list)) else (axis,)
    rank = shape.rank
    found = []
    for one in named:
        if type(one) is not int or (one >= 0 and rank is None):
            return ()
        found.append(one if one < 0 else one - (rank or 0))
    return tuple(found)


def suspicions_of(
    node: ast.AST,
    name: str,
    arguments: list[Any],
    keywords: dict[str, Any],
    result: ShapedArray,
) -> Iterator[tuple[ast.AST, str, str]]:
    """Find what a call does that its author can't mean: the node, the rule, and a reason."""
    arrays = [value for value in arguments if type(value) is ShapedArray]
    if name in _DIFFERENCES and (difference := _of_column(arrays)):
        yield node, "NN-011", difference
    elif name in _OVER_ALL and len(arguments) == 1 and "axis" not in keywords:
        yield from _over_all_axes(node, name, arguments[0])
    elif name in _RESHAPES and arrays:
        axis = moved_axis(arrays[0].shape, result.shape)
        if axis is not None and not _is_shift(arrays[0], result.shape):
            reason = f"from {arrays[0].shape} to {result.shape} the elements of {axis} are mixed"
            yield node, "SHAPE-004", reason
    elif name in _PAIRED and len(arrays) == 2:
        yield from _paired(node, arrays[0], arrays[1])
        yield from _without_axis(arrays[0], arrays[1])
    elif name == "mlx.core.einsum":
        yield from _weighted_einsum(arguments)
    elif name == "mlx.core.array.__getitem__" and arrays:
        yield from _rows_by_rows(node, arrays[0], arguments[1])
    elif name == "mlx.core.matmul" and len(arrays) == 2:
        yield from _weighted(arrays[0])


def moved_axis(before: ArrayShape, after: ArrayShape) -> Integer | None:
    """The axis that a reshape keeps, with other elements before it than it had."""
    if before.rank is None or after.rank is None:
        return None
    if 1 in after.head and 1 not in before.head:
        return None  # one of the axes is meant to be of size 1
    for at, size in enumerate(before.head):
        if not isinstance(size, SizeExpr):
            continue
        if before.head.count(size) != 1 or after.head.count(size) != 1:
            continue
        ahead = product(before.head[:at])
        now = product(after.head[: after.head.index(size)])
        if ahead is ANY_INT or now is ANY_INT:
            continue
        if compare(ahead, now) is not Comparison.EQUAL and _same_factors(before, after):
            return size
    return None


def _is_shift(array: ShapedArray, after: ArrayShape) -> bool:
    """Return whether it may be the shift of relative positions: a row more or less, reshaped."""
    if array.shape.rank != after.rank:
        return False
    is_cut = array.origin is not None and array.origin.name.endswith("__getitem__")
    return is_cut or any(isinstance(n, SizeExpr) and len(n.terms) > 1 for n in after.head)


def _same_factors(before: ArrayShape, after: ArrayShape) -> bool:
    """Return whether both shapes are products of the same sizes."""
    return compare(product(before.head), product(after.head)) is Comparison.EQUAL


def _paired(node: ast.AST, a: ShapedArray, b: ShapedArray) -> Iterator[tuple[ast.AST, str, str]]:
    """``(n, 1) - (n,)``: every element of one with every element of the other."""
    for column, vector in ((a, b), (b, a)):
        sizes, others = column.shape.sizes, vector.shape.sizes
        if sizes is None or others is None or len(sizes) != len(others) + 1 or not others:
            continue
        if sizes[-1] != 1 or type(sizes[-1]) is not int or sizes[-2] is ANY_INT:
            continue
        if sizes[-2] != others[-1] or sizes[-2] == 1:
            continue
        if column.origin is not None and column.origin.name in _EXPLICIT:
            continue
        reason = f"{a.shape} and {b.shape} broadcast to all pairs"
        yield node, "SHAPE-003", reason


def _of_column(arrays: list[ShapedArray]) -> str:
    """The difference of ``nn.Linear(n, 1)`` outputs and a vector; empty if it is none."""
    if len(arrays) < 2:
        return ""
    first, second = arrays[:2]
    for column, vector in ((first, second), (second, first)):
        shape, size = column.shape, vector.shape.size(-1) if vector.shape.rank == 1 else 1
        if size == 1 or shape.rank not in (None, 2) or not _is_layer(column, _LINEAR):
            continue
        if shape.size(-1) == 1:
            return f"outputs {column.shape} and targets {vector.shape} broadcast to all pairs"
    return ""


def _is_layer(array: ShapedArray, name: str) -> bool:
    return array.origin is not None and array.origin.name == name


def _over_all_axes(
    node: ast.AST, name: str, array: ShapedArray
) -> Iterator[tuple[ast.AST, str, str]]:
    """``mx.softmax(scores)`` of two or more axes."""
    if type(array) is not ShapedArray:
        return
    sizes = (*array.shape.head, *array.shape.tail)
    if sum(type(size) is not int or size != 1 for size in sizes) > 1:
        many = f"all {len(sizes)} axes" if array.shape.rank else "all axes"
        yield node, "API-006", f"`{name.rpartition('.')[2]}` without `axis` reduces {many}"


def out_of_bounds(node: ast.AST, array: Any, index: Any) -> Iterator[tuple[ast.AST, str]]:
    """The numbers of an index that are beyond the ends of their axes: ``mx.zeros(3)[3]``."""
    if type(array) is not ShapedArray or not isinstance(node, ast.Subscript):
        return
    indices, nodes = (index,), [node.slice]
    if type(index) is tuple:
        indices = index
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice] * len(index)
    taken = [one is not None and one is not Ellipsis for one in indices]
    rank = array.shape.rank
    if len(nodes) != len(indices) or (rank is not None and sum(taken) > rank):
        return
    is_after = False
    for at, one in enumerate(indices):
        is_after = is_after or one is Ellipsis
        if type(one) is not int:
            continue
        axis = -sum(taken[at:]) if is_after else sum(taken[:at])
        size = array.shape.size(axis)
        if type(size) is int and not -size <= one < size:
            axis = axis if rank is None else axis % rank
            yield nodes[at], f"index {one} is out of bounds for axis {axis} of size {size}"


def _without_axis(a: ShapedArray, b: ShapedArray) -> Iterator[tuple[ast.AST, str, str]]:
    """``x - x.mean(axis=1)``: the mean of a row is combined with a column, for any sizes."""
    for reduced, other in ((a, b), (b, a)):
        origin, rank = reduced.origin, other.shape.rank
        if origin is None or origin.name not in _REDUCTIONS or len(origin.axes) != 1:
            continue
        if rank is None or rank < 2 or reduced.shape.rank != rank - 1:
            continue
        # Without the first axis, the others stay where they are.
        if origin.before == other.shape and origin.axes[0] != -rank:
            reason = f"{reduced.shape} is broadcast along axis {origin.axes[0]} of {other.shape}"
            yield origin.node, "SHAPE-003", reason


def _weighted_einsum(arguments: list[Any]) -> Iterator[tuple[ast.AST, str, str]]:
    """``mx.einsum("bij,bjd->bid", mx.softmax(scores, axis=1), v)``."""
    subscripts, *operands = arguments
    if not isinstance(subscripts, str) or "->" not in subscripts or "." in subscripts:
        return
    inputs, output = subscripts.replace(" ", "").split("->")
    terms = inputs.split(",")
    if len(terms) < 2 or len(terms) != len(operands):
        return
    for term, operand in zip(terms, operands, strict=True):
        origin = operand.origin if isinstance(operand, ShapedArray) else None
        if origin is None or origin.name not in _NORMALIZING or len(origin.axes) != 1:
            continue
        letter = term[origin.axes[0]] if -len(term) <= origin.axes[0] else ""
        summed = [one for one in term if one not in output]
        if letter and letter in output and summed:
            reason = f"axis {origin.axes[0]} is normalized, and {summed[-1]!r} is summed"
            yield origin.node, "SHAPE-005", reason


def _rows_by_rows(
    node: ast.AST, array: ShapedArray, index: Any
) -> Iterator[tuple[ast.AST, str, str]]:
    """``x[:, last]`` of an index for each row: each row gets the elements of all."""
    if not isinstance(index, tuple) or len(index) != 2 or index[0] != slice(None):
        return
    chosen = index[1]
    if not isinstance(chosen, ShapedArray) or chosen.shape.rank != 1 or not array.shape.head:
        return
    rows, number = array.shape.head[0], chosen.shape.head[0]
    if isinstance(rows, SizeExpr) and rows == number and array.shape.least_rank > 1:
        yield node, "SHAPE-003", f"each row of {array.shape} gets the elements of all {rows} rows"


def _weighted(weights: ShapedArray) -> Iterator[tuple[ast.AST, str, str]]:
    """``mx.softmax(scores, axis=-2) @ v``: weights that don't add up to 1 along the sum."""
    origin = weights.origin
    if origin is None or origin.name not in _NORMALIZING or origin.name.endswith("log_softmax"):
        return
    if origin.axes and -1 not in origin.axes and origin.before.rank != 1:
        axis = origin.axes[0]
        yield origin.node, "SHAPE-005", f"axis {axis} is normalized, and the last one is summed"
