"""Lengths of arrays: what an integer is in terms of shapes, and of the lengths of transforms."""

from __future__ import annotations

import ast

import libcst as cst

from embercoach.analysis.syntax.trees import dotted, evaluated
from embercoach.analysis.values.joins import as_array, as_number
from embercoach.analysis.values.lattice import INT, Number, Sequence, Value
from embercoach.analysis.values.spectra import Axes, Extent, Length, Role

ExpressionValue = tuple[Value, cst.BaseExpression]


def axis_length(array: str, axis: int, rank: int | None = None) -> Number:
    """The length of one axis of the array of that name."""
    return Number("int", extent=Extent(array, frozenset({axis}), rank))


def whole_length(array: str) -> Number:
    """``x.size`` and ``len(x)``, which for a signal are the same."""
    return Number("int", extent=Extent(array, None))


def measure(value: Value, path: str) -> Value:
    """The value of ``x.shape`` or ``x.size`` (``path``), known to be that array's."""
    array = path.rpartition(".")[0]
    if isinstance(value, Sequence) and value.kind == "shape":
        if value.items is None:
            return Sequence("shape", INT, array=array)
        rank = len(value.items)
        consts = (item.const if isinstance(item, Number) else None for item in value.items)
        extents = (Extent(array, frozenset({axis}), rank) for axis in range(rank))
        items = (Number("int", n, extent=e) for n, e in zip(consts, extents, strict=True))
        return Sequence("shape", None, tuple(items), array=array)
    if not isinstance(value, Number):
        return value
    return Number("int", value.const, extent=Extent(array, None))


def unpacked_shape(array: str, count: int, star: int | None) -> Value:
    """Return the values of ``count`` targets that a shape is unpacked into.

    Without a starred target the count is the rank.
    """
    rank = count if star is None else None
    items = tuple(
        axis_length(array, i if star is not None and i < star else i - count, rank)
        for i in range(count)
        if i != star
    )
    return Sequence("shape", INT, items)


def role_of(value: Value) -> Role | None:
    """Return the known facts of an array's numbers."""
    array = as_array(value)
    return None if array is None else array.role


def is_length(
    operand: ExpressionValue, length: Length | None, axes: Axes, paths: frozenset[str]
) -> bool:
    """Return whether an operand is the length of a transform, or one over it.

    length: what the transform was given; without it the length is that of the input's ``axes``.
    paths: names of arrays that have the input's length.
    """
    value, node = operand
    number = as_number(value)
    extent = number.extent if number is not None else role_of(value)
    if isinstance(extent, Extent) and measures(extent, axes, paths):
        given = None if length is None else length.extent
        if length is None or (given is not None and measures(given, axes, paths)):
            return True
    if length is None:
        return False
    if extent is not None and extent == length.extent:
        return True
    if _text_of_factor(node) == length.text:
        return True
    total = 1
    for const in length.consts:
        total *= const or 0
    return number is not None and total > 1 and number.const in (total, 1 / total)


def measures(extent: Extent, axes: Axes, paths: frozenset[str]) -> bool:
    """Return whether an extent is the length of those axes of one of the arrays."""
    if extent.path not in paths:
        return False
    if extent.axes is None:
        return True
    if axes is None or isinstance(axes, str):
        return False
    rank = extent.rank
    if rank is None:
        return extent.axes == frozenset(axes)
    return {axis % rank for axis in extent.axes} == {axis % rank for axis in axes}


def _text_of_factor(node: cst.BaseExpression) -> str:
    """``size`` of ``size``, ``1 / size``, ``float(size)`` and ``mx.array(size, dtype=...)``."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
        one = isinstance(node.left, (cst.Integer, cst.Float)) and evaluated(node.left) == 1
        return _text_of_factor(node.right) if one else text_of(node)
    if isinstance(node, cst.Call) and node.args:
        path = dotted(node.func) or ""
        if path.rpartition(".")[2] in ("array", "float", "int"):
            return _text_of_factor(node.args[0].value)
    return text_of(node)


def text_of(node: cst.BaseExpression) -> str:
    """An expression in one spelling, whatever its spaces and parentheses are."""
    return ast.unparse(ast.parse(f"({cst.Module([]).code_for_node(node)}\n)", mode="eval"))


def extent_of_result(symbol: str, left: Number, right: Number) -> Extent | None:
    """The length that an operation on lengths gives: ``1 / n``, ``height * width``."""
    a, b = left.extent, right.extent
    if symbol == "*" and a is not None and b is not None:
        if a.path != b.path or a.rank != b.rank or a.axes is None or b.axes is None:
            return None
        return Extent(a.path, a.axes | b.axes, a.rank)
    if symbol in ("*", "/") and right.const == 1:
        return a
    return b if symbol in ("*", "/") and left.const == 1 else None
