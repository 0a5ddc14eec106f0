"""What a value gives when it is iterated over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import (
    ANY_STR,
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    HostArray,
    ShapedArray,
)
from embercoach.analysis.shapes.attributes import is_named_tuple
from embercoach.analysis.shapes.python_values import (
    Attributes,
    DictReference,
    Entries,
    Items,
    Iterator,
    ListReference,
    ObjectReference,
    Options,
)
from embercoach.analysis.shapes.size_integers import ANY_INT

if TYPE_CHECKING:
    from embercoach.analysis.shapes.interpreter import Machine


def elements_of(machine: Machine, value: Any) -> Items:
    """The items of a list, tuple, iterator, range, dictionary (its keys) or array."""
    kind = type(value)
    if kind is tuple:
        if any(type(item) is AxesSymbol for item in value):
            return Items(None, ANY_INT)
        return Items(value)
    if kind is ListReference:
        held = machine.heap.objects.get(value.number)
        return held if type(held) is Items else Items(None)
    if kind is Iterator:
        return Items(value.items, value.common)
    if kind is DictReference:
        held = machine.heap.objects.get(value.number)
        if type(held) is Entries and not held.is_open:
            return Items(tuple(held.known))
        return Items(None, UNKNOWN)
    if kind is ShapedArray:
        shape = machine.heap.shape(value.shape)
        if shape.rank:
            row = ShapedArray(ArrayShape(shape.head[1:]), value.dtype, value.line)
            first = shape.head[0]
            if type(first) is int and 0 <= first <= 16:
                return Items((row,) * first)
            return Items(None, row)
        if shape.middle is not None and shape.head:
            rest = ArrayShape(shape.head[1:], shape.middle, shape.tail)
            return Items(None, ShapedArray(rest, value.dtype, value.line))
        return Items(None, UNKNOWN)
    if kind is HostArray and value.shape.rank:
        return Items(None, HostArray(ArrayShape(value.shape.head[1:])))
    if kind is ObjectReference and is_named_tuple(value.cls):
        held = machine.heap.objects.get(value.number)
        return Items(tuple(held.values.values())) if type(held) is Attributes else Items(None)
    if kind is str:
        return Items(None, ANY_STR)
    if kind is Options:
        parts = [elements_of(machine, option) for option in value.values if option is not None]
        if len(parts) == 1:
            return parts[0]
    return Items(None, UNKNOWN)


def summarized(machine: Machine, value: Any) -> Any:
    """An item of which there are many: its own sizes are those of any of them."""
    return value
