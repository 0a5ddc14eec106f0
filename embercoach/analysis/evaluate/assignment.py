"""Binding of assignment targets: names, attributes, items and patterns of them."""

from __future__ import annotations

from collections.abc import Sequence as Items
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.evaluate import mutation
from embercoach.analysis.evaluate.dispatch import element_of, evaluate
from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.facts import (
    AttributeFact,
    InstanceCallFact,
    ItemStoreFact,
    LibraryWrite,
)
from embercoach.analysis.values.inheritance import is_layer, is_module
from embercoach.analysis.values.lattice import (
    NONE,
    UNKNOWN,
    Dict,
    Instance,
    Sequence,
    Str,
    Symbol,
    Union,
    Value,
    any_item,
    as_array,
    join,
    join_all,
    options,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame


def assign(frame: Frame, target: cst.CSTNode, value: Value) -> None:
    """Bind an assignment target: a name, attribute, item or a pattern of them."""
    kind = type(target)
    if kind is cst.Name:
        if _is_outer(frame, target.value):  # type: ignore[attr-defined]
            mutation.note_store(frame, target, value)
        frame.bind(target.value, value)  # type: ignore[attr-defined]
    elif isinstance(target, cst.Attribute):
        _assign_attribute(frame, target, value)
    elif kind is cst.Tuple or kind is cst.List:
        _unpack(frame, target.elements, value)  # type: ignore[attr-defined]
    elif kind is cst.Subscript:
        _assign_item(frame, target, value)  # type: ignore[arg-type]


def _is_outer(frame: Frame, name: str) -> bool:
    if name in frame.global_names:
        return True
    return frame.info is not None and name in frame.info.nonlocal_names


def _assign_attribute(frame: Frame, target: cst.Attribute, value: Value) -> None:
    mutation.note_store(frame, target, value)
    path = dotted(target)
    owner = evaluate(frame, target.value)
    name = target.attr.value
    is_weight = type(owner) is Instance and is_layer(owner.info)
    mutation.record(frame, owner, name, value)
    if type(owner) is Symbol:
        _note_write(frame, target, f"{owner.name}.{name}")
    elif frame.record and is_weight and type(owner) is Instance:
        frame.add(AttributeFact(target, frame.place(), owner.info, name, value))
    if frame.record and name == "__call__" and is_module(owner):
        frame.add(InstanceCallFact(target, frame.place()))
    if path is not None:
        frame.assign_path(path, value)


def _note_write(
    frame: Frame, target: cst.BaseExpression, symbol: str, *, is_item: bool = False
) -> None:
    if frame.record and symbol.startswith("mlx."):
        frame.add(LibraryWrite(target, frame.place(), symbol, is_item))


def _unpack(frame: Frame, elements: Items[cst.BaseElement], value: Value) -> None:
    star = next((i for i, e in enumerate(elements) if isinstance(e, cst.StarredElement)), None)
    if type(value) is Union:
        value = _unpacked_union(frame, value, len(elements))
    items = value.items if isinstance(value, Sequence) else None
    if items is not None and star is None and len(items) == len(elements):
        for element, item in zip(elements, items, strict=True):
            assign(frame, element.value, item)
        return
    element_value = join_all(element_of(frame, o) for o in options(value) if o is not NONE)
    for index, element in enumerate(elements):
        if index == star:
            assign(frame, element.value, Sequence("list", element_value))
        elif items is not None and star is not None and len(items) >= len(elements) - 1:
            at = index if index < star else index - len(elements)
            assign(frame, element.value, items[at])
        else:
            assign(frame, element.value, element_value)


def _unpacked_union(frame: Frame, value: Union, count: int) -> Value:
    """Return the values of ``count`` targets, whichever alternative is unpacked."""
    columns: list[list[Value]] = [[] for _ in range(count)]
    for option in value.options:
        if option is NONE:
            continue
        items = option.items if isinstance(option, Sequence) else None
        if items is not None and len(items) != count:
            continue  # unpacking it would raise
        for at in range(count):
            columns[at].append(element_of(frame, option) if items is None else items[at])
    return Sequence("tuple", None, tuple(join_all(column) for column in columns))


def _assign_item(frame: Frame, target: cst.Subscript, value: Value) -> None:
    mutation.note_store(frame, target, value)
    base = evaluate(frame, target.value)
    evaluate(frame, target)  # for the facts of its indices
    if type(base) is Symbol:
        _note_write(frame, target, base.name, is_item=True)
    elif frame.record and as_array(base) is not None:
        frame.add(ItemStoreFact(target, frame.place(), base, value))
    path = dotted(target.value)
    if path is None:
        return
    if isinstance(base, Dict):
        index = target.slice[0].slice
        key = evaluate(frame, index.value) if isinstance(index, cst.Index) else UNKNOWN
        text = key.text if isinstance(key, Str) else None
        if text is not None and len(base.known) < 64:
            known = {**dict(base.known), text: value}
            frame.assign_path(path, Dict(base.item, tuple(known.items()), base.exact))
        else:
            item = value if base.item is UNKNOWN and not base.known else join(base.item, value)
            frame.assign_path(path, Dict(item, base.known))
    elif isinstance(base, Sequence) and base.kind == "list":
        frame.assign_path(path, Sequence("list", join(any_item(base), value)))
