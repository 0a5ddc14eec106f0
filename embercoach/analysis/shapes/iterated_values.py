"""The elements of a value that is iterated over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.analysis.shapes.arrays import (
    ANY_STR,
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
    from collections.abc import Callable

    from embercoach.analysis.shapes.interpreter import Machine


def elements_of(machine: Machine, value: Any) -> Items:
    """The items of a list, tuple, iterator, range, dictionary (its keys) or array."""
    handler = _HANDLERS.get(type(value))
    return Items(None) if handler is None else handler(machine, value)


def _of_tuple(machine: Machine, value: tuple[Any, ...]) -> Items:
    if any(type(item) is AxesSymbol for item in value):
        return Items(None, ANY_INT)
    return Items(value)


def _of_list(machine: Machine, value: ListReference) -> Items:
    held = machine.heap.read(value.number)
    return held if type(held) is Items else Items(None)


def _of_iterator(machine: Machine, value: Iterator) -> Items:
    return Items(value.items, value.common)


def _of_dict(machine: Machine, value: DictReference) -> Items:
    held = machine.heap.read(value.number)
    if type(held) is Entries and not held.is_open:
        return Items(tuple(held.known))
    return Items(None)


def _of_array(machine: Machine, value: ShapedArray) -> Items:
    shape = machine.heap.shape(value.shape)
    if not shape.head:
        return Items(None)
    rest = ArrayShape(shape.head[1:], shape.middle, shape.tail)
    row = ShapedArray(rest, value.dtype, value.line)
    first = shape.head[0]
    if shape.middle is None and type(first) is int and 0 <= first <= MOST_ROWS:
        return Items((row,) * first)
    return Items(None, row)


#: Rows of an array that are known one by one.
MOST_ROWS = 16


def _of_host_array(machine: Machine, value: HostArray) -> Items:
    if not value.shape.rank:
        return Items(None)
    return Items(None, HostArray(ArrayShape(value.shape.head[1:])))


def _of_object(machine: Machine, value: ObjectReference) -> Items:
    held = machine.heap.read(value.number)
    if type(held) is Attributes and is_named_tuple(value.cls):
        return Items(tuple(held.values.values()))
    return Items(None)


def _of_string(machine: Machine, value: str) -> Items:
    return Items(None, ANY_STR)


def _of_options(machine: Machine, value: Options) -> Items:
    parts = [elements_of(machine, option) for option in value.values if option is not None]
    return parts[0] if len(parts) == 1 else Items(None)


_HANDLERS: dict[type, Callable[[Machine, Any], Items]] = {
    tuple: _of_tuple,
    ListReference: _of_list,
    Iterator: _of_iterator,
    DictReference: _of_dict,
    ShapedArray: _of_array,
    HostArray: _of_host_array,
    ObjectReference: _of_object,
    str: _of_string,
    Options: _of_options,
}
