"""Numbers that are the lengths of Fourier transforms, as the inference of shapes knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import libcst as cst

from embercoach.analysis.calls.library.fourier import text_of
from embercoach.analysis.facts.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.shapes.arrays import ArrayShape, Ratio, ShapedArray
from embercoach.analysis.shapes.node_shapes import values_by_call
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    Comparison,
    Integer,
    SizeExpr,
    compare,
    product,
)
from embercoach.analysis.syntax.trees import dotted, evaluated, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.spectra import Axes, Length, Spectrum

#: Casts, and names, that a number is followed through.
MOST_FOLLOWED = 8
_CASTS = ("array", "float", "int")


class TransformLengths:
    """The lengths of the transforms of one function."""

    def __init__(self, module: Module, function: FunctionInfo | None) -> None:
        """Prepare for the expressions of a function."""
        self.module = module
        self.scope = scope_of(module, function)

    def is_length(
        self,
        number: cst.BaseExpression,
        spectrum: Spectrum,
        length: Length | None,
        signal: cst.BaseExpression | None = None,
    ) -> bool:
        """Return whether a number is the length of a transform, or one over it.

        length: what the transform was given; without it the length is that of the input.
        signal: an array that has the input's length as well.
        """
        inputs = spectrum.inputs if signal is None else (*spectrum.inputs, signal)
        if length is None or self.measures(length.node, spectrum.inputs, spectrum.axes):
            return self.measures(number, inputs, spectrum.axes)
        return any(
            text_of(core) == length.text or self._is_product(core, length.node)
            for core in self._cores(number)
        )

    def measures(
        self, number: cst.BaseExpression, inputs: tuple[cst.BaseExpression, ...], axes: Axes
    ) -> bool:
        """Return whether a number is the length of those axes of one of some arrays."""
        parts = [part for one in inputs for part in walk(one)]
        names = {dotted(part) for part in parts} - {None}
        return any(
            _counted(core) in names or any(self._is_axes(core, part, axes) for part in parts)
            for core in self._cores(number)
        )

    def is_even(self, spectrum: Spectrum) -> bool:
        """Return whether a transform is known to take an even number of samples."""
        at = spectrum.axes[-1] if isinstance(spectrum.axes, tuple) else -1
        (given, *others) = [self._values(one) for one in spectrum.inputs]
        sizes = [_size(one.shape, (at,)) for one in given if type(one) is ShapedArray]
        return not others and bool(sizes) and all(type(n) is int and n % 2 == 0 for n in sizes)

    def last_size(self, length: Length) -> int | None:
        """The last size of what a transform was given, if it is known."""
        values = [one[-1] if type(one) is tuple else one for one in self._values(length.node)]
        return values[0] if len(values) == 1 and type(values[0]) is int else None

    def _cores(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """A number, and what it is made of by casts, ``1 / n`` and names."""
        for _ in range(MOST_FOLLOWED):
            yield node
            inner = self._inner(node)
            if inner is None:
                return
            node = inner

    def _inner(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        if isinstance(node, cst.Name):
            found = resolve_name(Expression(node, self.scope)).node
            return found if isinstance(found, cst.BaseExpression) and found is not node else None
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Divide):
            is_one = isinstance(node.left, (cst.Integer, cst.Float)) and evaluated(node.left) == 1
            return node.right if is_one else None
        if not isinstance(node, cst.Call) or not node.args:
            return None
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "astype":
            return node.func.value
        name = (dotted(node.func) or "").rpartition(".")[2]
        return node.args[0].value if name in _CASTS else None

    def _values(self, node: cst.CSTNode) -> list[Any]:
        return [one for some in values_by_call(self.module, node).values() for one in some]

    def _pairs(self, a: cst.CSTNode, b: cst.CSTNode) -> list[tuple[Any, Any]]:
        """The values of two expressions in each run of both; none if one has several."""
        first, second = values_by_call(self.module, a), values_by_call(self.module, b)
        lines = [line for line in first if line in second]
        if any(len(first[line]) > 1 or len(second[line]) > 1 for line in lines):
            return []
        return [(first[line][0], second[line][0]) for line in lines]

    def _is_axes(self, number: cst.CSTNode, array: cst.CSTNode, axes: Axes) -> bool:
        if isinstance(axes, str) or not isinstance(array, cst.BaseExpression):
            return False
        pairs = self._pairs(number, array)
        return bool(pairs) and all(
            type(one) is ShapedArray and _is_number(value, _size(one.shape, axes))
            for value, one in pairs
        )

    def _is_product(self, number: cst.CSTNode, sizes: cst.CSTNode) -> bool:
        pairs = self._pairs(number, sizes)
        return bool(pairs) and all(
            _is_number(value, product(size) if type(size) is tuple else size)
            for value, size in pairs
        )


def _size(shape: ArrayShape, axes: tuple[int, ...] | None) -> Integer:
    """The product of the sizes of some axes; of all for None."""
    if axes is None:
        return shape.elements
    if shape.rank is not None and not all(-shape.rank <= axis < shape.rank for axis in axes):
        return ANY_INT
    return product(shape.size(axis) for axis in axes)


def _is_number(value: Any, size: Any) -> bool:
    """Return whether a value is a size, or one over it."""
    if type(value) is Ratio and value.numerator == 1:
        value = value.denominator
    if type(size) is int:
        return size > 1 and value in (size, 1 / size)
    if type(size) is not SizeExpr or type(value) is not SizeExpr:
        return False
    return compare(value, size) is Comparison.EQUAL


def _counted(node: cst.BaseExpression) -> str | None:
    """``x`` of ``x.size`` and ``len(x)``, which for a signal are its length."""
    if isinstance(node, cst.Attribute) and node.attr.value == "size":
        return dotted(node.value)
    if isinstance(node, cst.Call) and dotted(node.func) == "len" and len(node.args) == 1:
        return dotted(node.args[0].value)
    return None
