"""Sizes of an array's axes, by the expressions that make it in other functions and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.joins import as_array

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import ArrayIndexFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source, Sources
    from embercoach.analysis.values.lattice import Shape


class AxisSize(NamedTuple):
    """The size of one axis, counted from the end if it is negative."""

    axis: int
    size: int


def made_with(fact: ArrayIndexFact, module: Module) -> list[tuple[AxisSize, ...]]:
    """The axes that are known of each array that may be indexed; none if one is not known."""
    sources = sources_of(module)
    ends = sources.ends(sources.of(fact, fact.node.value))
    if any(end.node is fact.node.value for end in ends):
        return []
    found = [_axes(end, sources) for end in ends]
    return found if all(found) else []


def _axes(end: Source, sources: Sources) -> tuple[AxisSize, ...]:
    array = as_array(sources.value(end))
    if array is not None and array.shape is not None:
        return _all(array.shape)
    stacked = _stacked(end, sources)
    return () if stacked is None else (stacked,)


def _all(shape: Shape) -> tuple[AxisSize, ...]:
    sizes = enumerate(shape.sizes or ())
    return tuple(AxisSize(at, size) for at, size in sizes if size is not None)


def _stacked(end: Source, sources: Sources) -> AxisSize | None:
    """``mx.stack([x, y, z])`` of arrays of any shape has an axis of 3."""
    call = sources.library_call(end)
    node = end.node
    if call is None or call.name != "mlx.core.stack" or not isinstance(node, cst.Call):
        return None
    axis: object = 0
    for argument in node.args[1:]:
        if argument.star or (argument.keyword is not None and argument.keyword.value != "axis"):
            return None
        axis = _number(argument.value)
    lists = () if call.array is None else sources.ends(call.array)
    counts = {_count(one, sources) for one in lists}
    size = counts.pop() if len(counts) == 1 else None
    return AxisSize(axis, size) if size and axis in (0, -1) and isinstance(axis, int) else None


def _count(made: Source, sources: Sources) -> int | None:
    """The number of items of a list as written, of ``mx.split``, or of one over a ``range``."""
    node = made.node
    if isinstance(node, (cst.List, cst.Tuple)):
        has_star = any(isinstance(element, cst.StarredElement) for element in node.elements)
        return None if has_star else len(node.elements)
    call = sources.library_call(made)
    if call is not None and isinstance(node, cst.Call):
        is_split = call.name == "mlx.core.split" and len(node.args) > 1
        return _number(node.args[1].value) if is_split else None
    if not isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        return None
    clause = node.for_in
    iterable = clause.iter
    if clause.ifs or clause.inner_for_in is not None or not isinstance(iterable, cst.Call):
        return None
    if dotted(iterable.func) != "range" or len(iterable.args) != 1:
        return None
    return _number(iterable.args[0].value)


def _number(node: cst.CSTNode) -> int | None:
    """The number of an integer literal, which may have a sign."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        number = _number(node.expression)
        return None if number is None else -number
    value = evaluated(node) if isinstance(node, cst.Integer) else None
    return value if isinstance(value, int) else None
