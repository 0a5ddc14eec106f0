"""The values of a module's expressions in the inference of shapes, by their nodes.

Checks ask here for the shape of an array, or for the number that an expression is.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from embercoach.analysis.shapes.arrays import (
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    ShapedArray,
    weak_kind,
)
from embercoach.analysis.shapes.interpreter import MOST_RESULTS, Machine
from embercoach.analysis.shapes.learned_facts import Facts, shape_under
from embercoach.analysis.shapes.program import run_program
from embercoach.analysis.shapes.python_values import Items, ListReference, Options, Truth
from embercoach.analysis.shapes.source_files import shapes_of, source_file
from embercoach.analysis.shapes.table_calls import lowered
from embercoach.analysis.syntax.conversion.conversion_state import packed_range

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.project.module import Module
    from embercoach.analysis.shapes.interpreter import SourceFile
    from embercoach.analysis.shapes.path_states import Frame

#: The sizes of an array's axes; None for those that are unknown.
Sizes = tuple[int | None, ...]
#: Different values of a node that are kept; with more of them it is unknown.
MOST_VALUES = 8
#: Items of a list that are looked at.
MOST_ITEMS = 64
#: The line of calls that are not in sight.
_ANY_CALLER = 0

#: By the line of the call that runs it: the different values of an expression.
_Values = dict[int, list[Any]]


class _RecordingMachine(Machine):
    """A machine that keeps the different values of the file's expressions."""

    def __init__(self, file: SourceFile, characters: int) -> None:
        super().__init__(file, characters=characters)
        self.values: dict[ast.AST, _Values] = {}
        #: What is learned of unknown axes, perhaps after their array is first used.
        self.learned: dict[AxesSymbol, ArrayShape] = {}

    def evaluate(self, frame: Frame, node: ast.AST) -> Any:
        value = super().evaluate(frame, node)
        if frame.module is self.file:
            final = self._final(value)
            line = _ANY_CALLER if frame.is_root else frame.call_line
            known = self.values.setdefault(node, {}).setdefault(line, [])
            if len(known) < MOST_VALUES:
                _keep(known, final)
        return value

    def commit(self) -> None:
        super().commit()
        self.learned.update(self.heap.facts.axes)

    def _final(self, value: Any) -> Any:
        """A value with what is known where it is computed."""
        if type(value) is ListReference:
            held = self.heap.objects.get(value.number)
            if type(held) is not Items or len(held.items or ()) > MOST_ITEMS:
                return UNKNOWN
        return lowered(self, value) if type(value) in _LOWERED else self.heap.value(value)


_LOWERED = (tuple, ListReference, Truth)


def _keep(values: list[Any], value: Any) -> None:
    """Add a value to different ones."""
    if not any(one is value or (type(one) is type(value) and one == value) for one in values):
        values.append(value)


class ArrayAxes(NamedTuple):
    """The axes of an array or a number: their sizes, or only that there are some.

    sizes: None if their number is unknown.
    """

    sizes: Sizes | None
    has_some: bool = False


def shape_at(module: Module, node: cst.CSTNode) -> Sizes | None:
    """The shape of an array; None if an expression may be none, or have other axes."""
    found = value_at(module, node)
    return found.sizes if type(found) is ArrayAxes else None


def is_scalar(module: Module, node: cst.CSTNode) -> bool:
    """Return whether an expression is an array without axes."""
    return shape_at(module, node) == ()


def value_at(module: Module, node: cst.CSTNode, call: cst.CSTNode | None = None) -> Any:
    """The value that an expression has in all runs of it, or in those by a call.

    An integer, a string, ``ArrayAxes`` of arrays and other numbers, or a tuple of such values, also
    for a list. None if it is unknown.
    """
    values = values_by_call(module, node)
    if call is not None:
        span = module.parsed.converted.range_of(call)
        line = _ANY_CALLER if span is None else span.line
        # Calls that pass the same are run once.
        called = {at: some for at, some in values.items() if at != _ANY_CALLER}
        values = {line: values[line]} if line in called else called or values
    return _common([one for some in values.values() for one in some])


def values_by_call(module: Module, node: cst.CSTNode) -> dict[int, list[Any]]:
    """The values of an expression, by the line of the call that runs it; none if unknown."""
    place = (module.parsed.converted.ranges or {}).get(id(node))
    values = {} if place is None else _values(module).get(place, {})
    return {} if any(len(some) == MOST_VALUES for some in values.values()) else values


def returned_by(module: Module, function: cst.CSTNode) -> Any:
    """The value that a function returns, as ``value_at`` gives it."""
    found = _results(module)
    place = (module.parsed.converted.ranges or {}).get(id(function))
    results = [] if place is None else found.get(place, [])
    return None if len(results) > MOST_RESULTS else _common(results)


@lru_cache(maxsize=2)
def _results(module: Module) -> dict[int, list[Any]]:
    machine = shapes_of(module)
    if machine is None:
        return {}
    own = {id(node) for node in ast.walk(machine.file.tree)}
    return {
        packed_range(node): results  # type: ignore[arg-type]
        for node, results in machine.results.items()
        if id(node) in own
    }


@lru_cache(maxsize=2)
def _values(module: Module) -> dict[int, _Values]:
    file = source_file(module)
    if file is None or "mlx" not in module.source:
        return {}
    machine = _RecordingMachine(file, len(module.source))
    run_program(machine, with_names=False)
    learned = Facts({}, machine.learned, {}, {})
    for values in machine.values.values():
        for line, some in values.items():
            if len(some) < MOST_VALUES:
                found: list[Any] = []
                for one in some:
                    _keep(found, _learned(one, learned))
                values[line] = found
    return {packed_range(node): values for node, values in machine.values.items()}  # type: ignore[arg-type]


def _learned(value: Any, facts: Facts) -> Any:
    """A value with what is learned of an array's axes later."""
    if type(value) is not ShapedArray:
        return value
    return replace(value, shape=shape_under(facts, value.shape))


def _common(values: list[Any]) -> Any:
    """The common part of some values."""
    flat = [one for value in values for one in _options(value)]
    kinds = {tuple if type(one) is list else type(one) for one in flat}
    if kinds == {tuple}:
        if len({len(one) for one in flat}) > 1:
            return None
        if any(type(item) is AxesSymbol for one in flat for item in one):
            return None  # it stands for several items, or none
        return tuple(_common(list(items)) for items in zip(*flat, strict=True))
    if len(kinds) == 1 and kinds <= {int, str} and all(one == flat[0] for one in flat):
        return flat[0]
    axes = [_axes(one) for one in flat]
    return _common_axes([one for one in axes if one is not None]) if axes and all(axes) else None


def _common_axes(found: list[ArrayAxes]) -> ArrayAxes:
    shapes = [one.sizes for one in found if one.sizes is not None]
    has_some = all(one.has_some for one in found)
    if len(shapes) < len(found) or len(set(map(len, shapes))) > 1:
        return ArrayAxes(None, has_some)
    sizes = zip(*shapes, strict=True)
    return ArrayAxes(tuple(n[0] if len(set(n)) == 1 else None for n in sizes), has_some)


def _options(value: Any) -> tuple[Any, ...]:
    if type(value) is not Options:
        return (value,)
    return tuple(option for option in value.values if option is not None)


def _axes(value: Any) -> ArrayAxes | None:
    if type(value) is ShapedArray:
        known = value.shape.sizes
        sizes = None if known is None else tuple(n if type(n) is int else None for n in known)
        return ArrayAxes(sizes, value.shape.least_rank > 0)
    return None if value is UNKNOWN or weak_kind(value) is None else ArrayAxes(())
