"""Arguments that MLX accepts and that mean something else in torch: SHAPE-008."""

from __future__ import annotations

import ast
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING

from embercoach.analysis.shapes.arrays import ShapedArray
from embercoach.analysis.shapes.size_integers import (
    Comparison,
    Integer,
    SizeExpr,
    add,
    at_least,
    compare,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.shapes.axis_origins import TableCall

MISREAD = "SHAPE-008"
_TRANSPOSES = frozenset(("mlx.core.transpose", "mlx.core.permute_dims", "mlx.core.array.transpose"))
_SPLITS = frozenset(("mlx.core.split", "mlx.core.array.split"))


def misread_arguments(call: TableCall) -> Iterator[str]:
    """Find what a call's arguments mean in torch and not in MLX: a reason for each."""
    node, name = call.node, call.name
    if not isinstance(node, ast.Call) or not call.arguments:
        return
    if name in _TRANSPOSES:
        axes = _written_axes(node, is_method=name.startswith("mlx.core.array."))
        if len(axes) > 1 and axes == list(range(len(axes))):
            yield f"`transpose` to the axes {', '.join(map(str, axes))} changes nothing"
    elif name in _SPLITS:
        named = _named_lengths(node, 0 if name.startswith("mlx.core.array.") else 1)
        yield from _lengths(named, call)


def _written_axes(node: ast.Call, *, is_method: bool) -> list[object]:
    """The axes that a call names by numbers; empty if it computes some."""
    given = node.args if is_method else node.args[1:]
    given = given or [one.value for one in node.keywords if one.arg == "axes"]
    if len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List)):
        given = given[0].elts
    if not all(isinstance(one, ast.Constant) for one in given):
        return []
    return [one.value for one in given if isinstance(one, ast.Constant)]


def _lengths(named: str, call: TableCall) -> Iterator[str]:
    """``mx.split(x, [a, b], axis=-1)`` of an axis of a + b: lengths, not positions."""
    parts = call.argument(1, "indices_or_sections")
    if type(parts) in (int, SizeExpr):
        return
    sizes = parts if isinstance(parts, (tuple, list)) else ()
    if len(sizes) > 1 and all(type(one) in (int, SizeExpr) for one in sizes):
        size = _split_size(call)
        is_rising = all(at_least(after, before) for before, after in pairwise(sizes))
        if size is not None and not is_rising:
            given = reduce(add, sizes)
            # The last one may be left out, as positions leave out the last part.
            if any(compare(n, size) is Comparison.EQUAL for n in (given, add(given, sizes[-1]))):
                written = ", ".join(map(str, sizes))
                yield f"`split` takes positions, and ({written}) are lengths of {size} elements"
            return
    if named:
        yield f"`split` takes positions, and `{named}` has lengths"


def _split_size(call: TableCall) -> Integer | None:
    """The size of the axis that is split; None if it is unknown."""
    array = call.arguments[0]
    if type(array) is not ShapedArray:
        return None
    shape = array.shape
    if "axis" not in call.keywords and len(call.arguments) < 3:
        return shape.head[0] if shape.head else None
    axes = call.axes(shape, 2)
    if not axes or not -shape.least_rank <= axes[0] < 0:
        return None
    return shape.size(axes[0])


_LENGTHS = ("lengths", "lens", "seqlens")
_CUMULATED = ("cu_", "cum", "offset")


def _named_lengths(node: ast.Call, at: int) -> str:
    """The name of what is passed, or the list of it, where that says lengths; empty for others."""
    found: ast.AST | None = node.args[at] if at < len(node.args) else None
    while isinstance(found, ast.Call) and not found.args:  # ``lengths.tolist()``
        found = found.func.value if isinstance(found.func, ast.Attribute) else None
    name = str(getattr(found, "attr", getattr(found, "id", "")))
    return name if name.endswith(_LENGTHS) and not name.startswith(_CUMULATED) else ""
