"""Assignment to names, attributes, items and tuples of these."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from embercoach.analysis.shapes.arrays import (
    PARAMETERS,
    UNKNOWN,
    ArrayShape,
    AxesSymbol,
    ShapedArray,
    is_floating,
)
from embercoach.analysis.shapes.interpreter import Machine, ShapeSite, link
from embercoach.analysis.shapes.operations import iterated_items, joined_items
from embercoach.analysis.shapes.python_values import (
    Attributes,
    DictReference,
    Entries,
    Items,
    ListReference,
    ObjectReference,
    Options,
    Place,
    SuperValue,
)
from embercoach.analysis.shapes.requirements import axis_symbols
from embercoach.analysis.shapes.size_integers import (
    ANY_INT,
    SizeExpr,
    rename,
    symbol,
)
from embercoach.analysis.shapes.table_calls import call_table
from embercoach.analysis.shapes.value_joins import joined_values

if TYPE_CHECKING:
    from embercoach.analysis.shapes.path_states import Frame


@link("assign")
def assign_target(machine: Machine, frame: Frame, target: ast.expr, value: Any) -> None:
    """Bind a target to a value."""
    if isinstance(target, ast.Name):
        name = target.id
        if frame.logged is not None:
            value = with_symbols(frame, machine.heap.value(value), name)
        _name_number(machine, frame, value, name)
        if value is UNKNOWN:
            value = Place(name)
        bind_name(frame, name, value)
        if frame.logged is not None:
            frame.logged.append((target, name, value))
    elif isinstance(target, (ast.Tuple, ast.List)):
        _unpack(machine, frame, target.elts, machine.heap.value(value))
    elif isinstance(target, ast.Attribute):
        owner = machine.heap.value(machine.evaluate(frame, target.value))
        _name_number(machine, frame, value, target.attr)
        set_attribute(machine, owner, target.attr, value)
    elif isinstance(target, ast.Subscript):
        _set_item(machine, frame, target, value)
    elif isinstance(target, ast.Starred):
        assign_target(machine, frame, target.value, value)


def with_symbols(frame: Frame, value: Any, name: str = "") -> Any:
    """Get the value with symbols for unknown sizes, which what follows may give names and relate.

    A number gets its name where it is assigned, but not where the rounds of a loop count it.
    """
    if type(value) is ShapedArray:
        shape = value.shape
        if ANY_INT not in shape.head and ANY_INT not in shape.tail:
            return value
        head, tail = (
            tuple(symbol("?", is_named=False) if n is ANY_INT else n for n in part)
            for part in (shape.head, shape.tail)
        )
        return replace(value, shape=ArrayShape(head, shape.middle, tail))
    if type(value) is Options:
        return Options(tuple(with_symbols(frame, option) for option in value.values))
    if (
        value is ANY_INT
        and name
        and name != "_"
        and not any(name in one.targets for one in frame.loops)
    ):
        return symbol(name, place=scope_of(frame))
    return value


def bind_name(frame: Frame, name: str, value: Any) -> None:
    """Bind a name in the frame that it belongs to."""
    if name in frame.globals_named:
        found = frame.outer.find(name) if frame.outer is not None else None
        (found or frame).names[name] = UNKNOWN  # other calls may change it as well
    else:
        frame.names[name] = value


def _unpack(machine: Machine, frame: Frame, targets: list[ast.expr], value: Any) -> None:
    if type(value) is tuple and any(type(item) is AxesSymbol for item in value):
        value = _unpacked_shape(machine, targets, value)
        if type(value) is list:  # one for each target
            for target, item in zip(targets, value, strict=True):
                assign_target(machine, frame, target, item)
            return
    if type(value) is Options:
        value = _unpacked_options(machine, value, len(targets))
    if type(value) is Place and not any(type(t) is ast.Starred for t in targets):
        value = _items_of_place(machine, value, len(targets))
    held = iterated_items(machine, value)
    star = next((at for at, t in enumerate(targets) if type(t) is ast.Starred), None)
    if held.items is None or (star is None and len(held.items) != len(targets)):
        for target in targets:
            many = type(target) is ast.Starred
            assign_target(machine, frame, target, UNKNOWN if many else held.common)
        return
    items = list(held.items)
    if star is not None:
        after = len(targets) - star - 1
        if len(items) < len(targets) - 1:
            for target in targets:
                assign_target(machine, frame, target, UNKNOWN)
            return
        items[star : len(items) - after] = [tuple(items[star : len(items) - after])]
    for target, item in zip(targets, items, strict=True):
        assign_target(machine, frame, target, item)


def _unpacked_options(machine: Machine, value: Options, number: int) -> Any:
    """Return one of several tuples that are unpacked."""
    found = []
    for option in value.values:
        items = _items_of_place(machine, option, number) if type(option) is Place else option
        if type(items) is tuple and len(items) == number:
            found.append(items)
        elif items is not None:
            return UNKNOWN
    if not found:
        return UNKNOWN
    # A setting that is one number or several: those that are unpacked are named here.
    places = (one for one in found if all(type(v) is Place for v in one))
    return next(places, joined_values(found))


def _items_of_place(machine: Machine, place: Place, number: int) -> Any:
    """Return the items of a setting that is unpacked."""
    if not place.is_setting or number > 8:
        return place
    items = []
    for at in range(number):
        item = machine.part_of(place, f"[{at!r}]", f"{place.name}[{at}]")
        items.append(machine.heap.value(item))
    return tuple(items)


def _name_number(machine: Machine, frame: Frame, value: Any, name: str) -> None:
    """Name a size as the program does, where it has no name: ``B = x.shape[0]``."""
    found = value.symbol if type(value) is SizeExpr else None
    if found is None or name == "_" or found.is_loop:
        return
    is_foreign = frame.module is not machine.file
    if not found.is_named or (found.is_foreign and not is_foreign):
        rename(found, name)
        found.is_foreign = is_foreign
        if found.place is None:
            found.place = scope_of(frame)


def scope_of(frame: Frame) -> object:
    """Return the scope that the names of a function share."""
    return frame.module if frame.function is None else frame.function.node


def _unpacked_shape(machine: Machine, targets: list[ast.expr], value: tuple[Any, ...]) -> Any:
    """Return the sizes of a shape that is unpacked: it has as many axes as there are names."""
    place = next(at for at, item in enumerate(value) if type(item) is AxesSymbol)
    axes = value[place]
    if any(type(target) is ast.Starred for target in targets):
        star = next(at for at, t in enumerate(targets) if type(t) is ast.Starred)
        before, after = star - place, (len(targets) - star - 1) - (len(value) - place - 1)
        if before < 0 or after < 0:
            return [UNKNOWN if type(t) is ast.Starred else ANY_INT for t in targets]
        return _open_unpacked(machine, targets, value, place, before, after)
    missing = len(targets) - (len(value) - 1)
    if missing < 0:
        return UNKNOWN
    sizes = axis_symbols(axes.inner(0, 0), missing)  # those of one shape are meant to differ
    machine.heap.bind_axes(axes, ArrayShape(sizes))
    return machine.heap.value((*value[:place], *sizes, *value[place + 1 :]))


def _open_unpacked(
    machine: Machine,
    targets: list[ast.expr],
    value: tuple[Any, ...],
    place: int,
    before: int,
    after: int,
) -> Any:
    """``*rest, L, D = x.shape``: the unknown axes but for those that are named."""
    group = object()  # sizes of one shape are meant to differ

    def named(part: list[ast.expr]) -> tuple[SizeExpr, ...]:
        return tuple(symbol(getattr(t, "id", "_"), place=group) for t in part)

    star = next(at for at, t in enumerate(targets) if type(t) is ast.Starred)
    head = named(targets[place : place + before])
    tail = named(targets[star + 1 : star + 1 + after])
    middle = AxesSymbol(getattr(targets[star].value, "id", ""))  # type: ignore[attr-defined]
    axes = value[place]
    machine.heap.bind_axes(axes, ArrayShape(head, middle, tail))
    whole = (*value[:place], *head, middle, *tail, *value[place + 1 :])
    return [*whole[:star], (middle,), *whole[star + 1 :]]


def set_attribute(machine: Machine, owner: Any, name: str, value: Any) -> None:
    """``owner.name = value``."""
    if type(owner) is Options:
        for option in owner.values:
            if type(option) is ObjectReference:
                held = machine.heap.read(option.number)
                if type(held) is Attributes and name in held.values:
                    values = {**held.values, name: joined_values([held.values[name], value])}
                    changed = Attributes(values, held.is_summary, held.doubtful)
                    machine.heap.write(option.number, changed)
        return
    if type(owner) is SuperValue:
        owner = owner.owner
    if type(owner) is not ObjectReference:
        return
    held = machine.heap.read(owner.number)
    if type(held) is not Attributes:
        held = Attributes({})
    is_summary, doubtful = held.is_summary, held.doubtful
    if not is_summary:
        doubtful -= {name}
    elif name in held.values:
        value = joined_values([held.values[name], value])
    else:
        doubtful |= {name}
    value = _as_parameter(owner, name, machine.heap.value(value))
    values = {**held.values, name: value}
    machine.heap.write(owner.number, Attributes(values, is_summary, doubtful))


def _as_parameter(owner: ObjectReference, name: str, value: Any) -> Any:
    """Return a floating array of a module is a parameter: a program may cast it."""
    if (
        type(value) is ShapedArray
        and owner.library.startswith("mlx.nn")
        and not name.startswith("_")
        and is_floating(value.dtype) is not False
    ):
        return ShapedArray(value.shape, PARAMETERS, value.line)
    return value


def _set_item(machine: Machine, frame: Frame, target: ast.Subscript, value: Any) -> None:
    owner = machine.heap.value(machine.evaluate(frame, target.value))
    index = machine.heap.value(machine.evaluate(frame, target.slice))
    if type(owner) is ShapedArray:
        call_table(
            ShapeSite(machine, frame, target), "mlx.core.array.__setitem__", (owner, index, value)
        )
    elif type(owner) is ListReference:
        held = machine.heap.read(owner.number)
        if type(held) is not Items:
            return
        if (
            held.items is not None
            and type(index) is int
            and -len(held.items) <= index < len(held.items)
        ):
            items = list(held.items)
            items[index] = value
            machine.heap.write(owner.number, Items(tuple(items)))
        else:
            parts = held.items if held.items is not None else (held.common,)
            machine.heap.write(owner.number, Items(None, joined_values([*parts, value])))
    elif type(owner) is DictReference:
        held = machine.heap.read(owner.number)
        if type(held) is Entries:
            if type(index) in (str, int):
                machine.heap.write(
                    owner.number, Entries({**held.known, index: value}, held.is_open)
                )
            else:
                machine.heap.write(owner.number, Entries({}, is_open=True))
    elif type(owner) is ObjectReference and owner.library and type(index) is str:
        set_attribute(machine, owner, index, value)


def extend(machine: Machine, owner: ListReference, value: Any) -> None:
    """``items += value``."""
    held = machine.heap.read(owner.number)
    added = iterated_items(machine, value)
    if type(held) is Items:
        machine.heap.write(owner.number, joined_items(held, added))
