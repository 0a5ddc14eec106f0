"""Meanings of the axes of arrays, by the calls that made these.

An ``Origin`` names such a call. Values that are sorted, centered, or normalized along an axis keep
theirs through operations on each element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from embercoach.analysis.shapes.arrays import ArrayShape, Origin, ShapedArray
from embercoach.analysis.shapes.size_integers import ANY_INT, Integer

if TYPE_CHECKING:
    import ast

REDUCTIONS = frozenset(
    f"mlx.core.{owner}{name}"
    for owner in ("", "array.")
    for name in [
        *("sum", "mean", "max", "min", "prod", "std", "var", "all", "any", "argmax", "argmin"),
        "logsumexp",
    ]
)
NORMALIZING = frozenset(("mlx.core.softmax", "mlx.nn.softmax", "mlx.nn.log_softmax"))
#: Operations on two arrays whose elements stand for the same things.
PAIRED = frozenset(
    f"mlx.core.{name}"
    for name in [
        *("add", "subtract", "multiply", "divide", "equal", "not_equal", "less", "less_equal"),
        *("greater", "greater_equal", "maximum", "minimum", "array.__and__", "array.__or__"),
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
TILING = "mlx.core.tile"
LINEAR = "mlx.nn.Linear"
_SQUARING = ("square", "power", "__pow__")
#: What ``Origin.name`` says of values that several calls have made.
CENTERED, SQUARED, LOG_NORMALIZED, WEIGHTED_LOGS = "centered", "squared", "logs", "weighted logs"
#: Arrays with weights for each of their rows, of which the sum is one along an axis.
WEIGHTED = "weighted"
#: Scores with something added that is the same along their last axis.
SHIFTED = "shifted"
#: One number for values that are normalized along an axis, each row by itself.
OF_ALL_ROWS = "of all rows"


class TableCall(Struct, frozen=True):
    """A call of a function of MLX, with what it passes as transfer functions take it.

    Attributes:
        node: the call or operation.
        name: of what is called.
        arguments: by position.
        keywords: by name.
    """

    node: ast.AST
    name: str
    arguments: list[Any]
    keywords: dict[str, Any]

    @property
    def short(self) -> str:
        """The last part of the name."""
        return self.name.rpartition(".")[2]

    @property
    def arrays(self) -> list[ShapedArray]:
        """The arrays among the arguments by position."""
        return [value for value in self.arguments if type(value) is ShapedArray]

    def argument(self, at: int, name: str) -> Any:
        """Return an argument by its position or its name; None if it isn't there."""
        return self.keywords.get(name, self.arguments[at] if at < len(self.arguments) else None)

    def axes(self, shape: ArrayShape, at: int = 1) -> tuple[int, ...]:
        """Return the axes that the call works along; empty if they are unknown.

        They count from the end, or as the call does where the number of axes is unknown.

        Args:
            shape: of the first argument.
            at: the position of the axis.
        """
        axis = self.argument(at, "axis")
        named: Any = axis if isinstance(axis, (tuple, list)) else (axis,)
        rank = shape.rank
        found = []
        for one in named:
            if type(one) is not int:
                return ()
            found.append(one if one < 0 or rank is None else one - rank)
        return tuple(found)


def with_origin(call: TableCall, result: ShapedArray) -> ShapedArray:
    """Get the result of a call with its origin, or with that of the one array that it changes."""
    arrays, name, node = call.arrays, call.name, call.node
    if name == STACKING:
        return replace(result, origin=Origin(name, node, result.shape))
    if not arrays:
        return result
    first = arrays[0]
    if name != LINEAR and first.shape == result.shape and is_layer(first, LINEAR):
        return replace(result, origin=first.origin)  # an activation
    origin = (
        _along_axis(call, first)
        or _kept(call, first, result)
        or _of_two(call, arrays, result)
        or _combined(call, arrays)
    )
    if origin is None and (name.startswith("mlx.nn.") or name in EXPLICIT):
        origin = Origin(name, node, first.shape)
    if origin is not None:
        return replace(result, origin=origin)
    known = [one for one in arrays if one.origin is not None]
    if known and known[0].shape == result.shape and _is_elementwise(name, arrays, known):
        return replace(result, origin=known[0].origin)
    return result


def _along_axis(call: TableCall, first: ShapedArray) -> Origin | None:
    """Return the origin of what a call computes along an axis; None for other calls."""
    name, node, arguments = call.name, call.node, call.arguments
    if name in REDUCTIONS or name in NORMALIZING:
        if _is_of_all_rows(call, first):
            return Origin(OF_ALL_ROWS, node, first.shape)
        return Origin(name, node, first.shape, call.axes(first.shape))
    if name in SELECTING or name in ORDERING or name == REPEATING:
        at = 2 if name.endswith(_COUNTED) else 1
        is_named = "axis" in call.keywords or len(arguments) > at or name == REPEATING
        axes = call.axes(first.shape, at) if is_named else (-1,)
        return Origin(name, node, first.shape, axes)
    if name == TILING:
        numbers = arguments[1] if isinstance(arguments[1], (tuple, list)) else ()
        tiled = [at for at, n in enumerate(numbers) if not (type(n) is int and n == 1)]
        return Origin(name, node, first.shape, tuple([at - len(numbers) for at in tiled]))
    return None


def _of_two(call: TableCall, arrays: list[ShapedArray], result: ShapedArray) -> Origin | None:
    """Return the origin of scores with a mask, and of rows with their weights; None for others."""
    if len(arrays) != 2:
        return None
    is_masked = call.name == "mlx.core.where" and arrays[0] is call.arguments[0]
    if (is_masked or call.name == "mlx.core.add") and _is_same_along_last(*arrays):
        return Origin(SHIFTED, call.node, result.shape, (-1,))
    if call.name == "mlx.core.multiply":
        for weights, other in (arrays, arrays[::-1]):
            origin = weights.origin
            if origin is None or origin.name not in NORMALIZING or _ends_with_one(other.shape):
                continue
            if weights.shape.least_rank > 1 and _ends_with_one(weights.shape):
                return replace(origin, name=WEIGHTED, before=weights.shape)
    return None


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


def _ends_with_one(shape: ArrayShape) -> bool:
    return bool(shape.least_rank) and _is_one(shape.size(-1))


def _is_one(size: Integer) -> bool:
    return type(size) is int and size == 1


def _kept(call: TableCall, first: ShapedArray, result: ShapedArray) -> Origin | None:
    """Return the origin that parts and transposes of an array have of it."""
    origin = first.origin
    if origin is None:
        return None
    if origin.name == TILING and call.name.endswith(("transpose", "swapaxes")):
        # Those of the last two axes.
        is_same = result.shape.rank == first.shape.rank == 4
        return origin if is_same and result.shape.head[:2] == first.shape.head[:2] else None
    if not call.name.endswith("__getitem__"):
        return None
    index = call.arguments[1]
    indices = index if type(index) is tuple else (index,)
    if origin.name in ORDERING and all(type(one) is slice or one is Ellipsis for one in indices):
        return origin
    if origin.name in NORMALIZING and _adds_last_axis(first.shape, result.shape):
        return replace(origin, axes=tuple([axis - 1 for axis in origin.axes]))
    return None


def _adds_last_axis(before: ArrayShape, after: ArrayShape) -> bool:
    """``weights[..., None]``."""
    if before.middle is None:
        return after == ArrayShape((*before.head, 1))
    return after == ArrayShape(before.head, before.middle, (*before.tail, 1))


def _is_of_all_rows(call: TableCall, array: ShapedArray) -> bool:
    """Return whether a call reduces all axes of values that are normalized along one."""
    origin = array.origin
    if origin is None or call.name in NORMALIZING:
        return False
    if len(call.arguments) > 1 or "axis" in call.keywords:
        return False
    return origin.name in NORMALIZING and len(origin.axes) == 1 and array.shape.rank != 1


def is_layer(array: ShapedArray, name: str) -> bool:
    """Return whether a layer of a class has made an array."""
    return array.origin is not None and array.origin.name == name


def reduced_axis(call: TableCall) -> ast.AST | None:
    """Return the reduction that drops an axis which its result is then broadcast against.

    ``x - x.mean(axis=1)`` means ``x.mean(axis=1, keepdims=True)``.
    """
    arrays = call.arrays
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


def _combined(call: TableCall, arrays: list[ShapedArray]) -> Origin | None:
    """Return the meaning of values that calls make along an axis, and the axis; None for others."""
    name, origin = call.name, arrays[0].origin
    if len(arrays) == 1:
        is_square = name.endswith(_SQUARING) and call.arguments[-1] in (arrays[0], 2)
        if is_square and origin is not None and origin.name == CENTERED:
            return replace(origin, name=SQUARED, before=arrays[0].shape)
        return None
    other = arrays[1].origin
    if len(arrays) != 2 or other is None:
        return None
    is_same = origin is other and origin is not None
    if name == "mlx.core.multiply" and is_same:
        is_log = other.name == LOG_NORMALIZED or other.name.endswith("log_softmax")
        made = SQUARED if other.name == CENTERED else WEIGHTED_LOGS if is_log else ""
        return replace(other, name=made, before=arrays[0].shape) if made else None
    if name != "mlx.core.subtract" or other.before != arrays[0].shape or len(other.axes) != 1:
        return None
    reduction = other.name.rpartition(".")[2]
    meaning = {"mean": CENTERED, "logsumexp": LOG_NORMALIZED}.get(reduction)
    if meaning is None:
        return None
    return replace(other, name=meaning, before=arrays[0].shape)
