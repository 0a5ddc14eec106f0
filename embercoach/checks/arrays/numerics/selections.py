"""The expressions that compute an array, before its elements are selected, arranged or bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from embercoach.analysis.value_sources import Source, Sources

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
