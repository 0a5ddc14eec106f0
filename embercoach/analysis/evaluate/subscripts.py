"""Subscripts: what ``base[index]`` is, one function a kind of base, found by exact type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import libcst as cst

from embercoach.analysis.calls.library import fourier
from embercoach.analysis.evaluate import evidence, members
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.facts.facts import ArrayIndexFact, IndexFact
from embercoach.analysis.values.gradient_marks import marks_of
from embercoach.analysis.values.joins import (
    any_item,
    as_array,
    join_all,
    options,
    with_pulls,
)
from embercoach.analysis.values.lattice import (
    NONE,
    STR,
    UNKNOWN,
    Array,
    ArrayAt,
    Dict,
    Number,
    Numpy,
    Sequence,
    Setting,
    Str,
    Symbol,
    Tree,
    Union,
    Value,
)
from embercoach.analysis.values.torch_values import Torch

if TYPE_CHECKING:
    from collections.abc import Callable as Fn
    from typing import Literal

    from embercoach.analysis.evaluate.frame import Frame


class Subscript(NamedTuple):
    """The contents of brackets: the last index, ``key``, and whether a slice is among them."""

    key: Value
    is_slice: bool
    node: cst.Subscript


def evaluate_subscript(frame: Frame, node: cst.Subscript) -> Value:
    """``base[index]``; arrays that stand as indices are recorded on the way."""
    base = evaluate(frame, node.value)
    array = as_array(base)
    index: Value = UNKNOWN
    is_slice = False
    indices: list[tuple[cst.BaseExpression, Value] | None] = []
    for element in node.slice:
        part = element.slice
        if type(part) is cst.Index:
            index = evaluate(frame, part.value)
            indices.append((part.value, index))
            if frame.record and array is None and as_array(index) is not None:
                _record_index(frame, part.value, base, index, "index")
        else:
            is_slice = True
            indices.append(None)
            assert isinstance(part, cst.Slice)
            _bounds(frame, part, base)
    if frame.record:
        _note_part(frame, node, base)
    if array is not None:
        if frame.record and type(base) is Array:
            frame.add(ArrayIndexFact(node, frame.place(), array, tuple(indices)))
        role = None if array.role is None else fourier.sliced(array.role, node)
        pulls = array.pulls
        if frame.gradient is not None:
            pulls = pulls.union(*(marks_of(index[1]) for index in indices if index is not None))
        return Array(array.dtype, array.literal, False, array.traced, pulls, role)
    if base is UNKNOWN and frame.module.arrays_are_mlx and _is_array_index(node):
        if type(node.value) is cst.Attribute and node.value.attr.value == "at":
            return ArrayAt(Array(traced=True))
        evidence.show_array(frame, node.value, base)
        return Array(traced=True)
    if base is UNKNOWN and frame.module.arrays_are_mlx and any(map(_is_mask, indices)):
        if frame.record:
            frame.add(ArrayIndexFact(node, frame.place(), Array(traced=True), tuple(indices)))
        return Array(traced=True)
    return _item(frame, base, Subscript(index, is_slice, node))


def _is_mask(index: tuple[cst.BaseExpression, Value] | None) -> bool:
    """Test whether an index is an array of booleans, which lists refuse even if it has no axes."""
    value = None if index is None else index[1]
    return type(value) is Array and value.dtype == "bool"


def _note_part(frame: Frame, node: cst.Subscript, base: Value) -> None:
    """Note the parts of what is certainly an array: each is a copy."""
    if all(type(option) is Array or option is NONE for option in options(base)):
        frame.module.array_parts.add(node)
    else:
        frame.module.array_parts.discard(node)


def _bounds(frame: Frame, part: cst.Slice, base: Value) -> None:
    for bound in (part.lower, part.upper, part.step):
        if bound is not None:
            value = evaluate(frame, bound)
            if frame.record and as_array(value) is not None:
                _record_index(frame, bound, base, value, "slice")


def _is_array_index(node: cst.Subscript) -> bool:
    """``x[:, i]``, ``x[..., 0]``: several axes with a slice among them, as only arrays take."""
    if len(node.slice) == 1:
        only = node.slice[0].slice
        return type(only) is cst.Index and type(only.value) is cst.Ellipsis
    return any(
        type(e.slice) is cst.Slice
        or (type(e.slice) is cst.Index and type(e.slice.value) is cst.Ellipsis)
        for e in node.slice
    )


def _record_index(
    frame: Frame,
    at: cst.BaseExpression,
    base: Value,
    index: Value,
    form: Literal["index", "slice"],
) -> None:
    frame.add(IndexFact(at, frame.place(), base, index, form))


def _item(frame: Frame, base: Value, subscript: Subscript) -> Value:
    handler = _ITEMS.get(type(base))
    if handler is None:
        return members.subscript_result(frame, base, subscript.key)
    return handler(frame, base, subscript)


def _item_of_sequence(frame: Frame, base: Sequence, subscript: Subscript) -> Value:
    if subscript.is_slice:
        return _sliced(base, subscript.node)
    key = subscript.key
    at = key.const if isinstance(key, Number) else None
    if type(at) is int and base.items is not None and -len(base.items) <= at < len(base.items):
        return with_pulls(base.items[at], base.pulls)
    return with_pulls(any_item(base), base.pulls)


def _item_of_dict(frame: Frame, base: Dict, subscript: Subscript) -> Value:
    key = subscript.key
    text = key.text if isinstance(key, Str) else None
    if text is not None:
        found = base.get(text)
        if found is None and type(base.item) is Symbol:
            return UNKNOWN  # one module under a key says nothing of another key's value
        return base.item if found is None else found
    return join_all([base.item, *(v for _, v in base.known)]) if base.known else base.item


def _item_of_any(frame: Frame, base: Union, subscript: Subscript) -> Value:
    return join_all([_item(frame, o, subscript) for o in base.options if o is not NONE])


def _item_of_array(frame: Frame, base: Array, subscript: Subscript) -> Value:
    return Array(base.dtype, base.literal, False, base.traced, base.pulls)


def _item_of_tree(frame: Frame, base: Tree, subscript: Subscript) -> Value:
    return Union(frozenset({Tree(), Array()}))


def _item_of_numpy(frame: Frame, base: Numpy, subscript: Subscript) -> Value:
    return Numpy(base.kind, False, base.pulls, base.dtype)


def _item_of_string(frame: Frame, base: Str, subscript: Subscript) -> Value:
    return STR


def _same(frame: Frame, base: Value, subscript: Subscript) -> Value:
    return base


_ITEMS: dict[type, Fn[[Frame, Any, Subscript], Value]] = {
    Sequence: _item_of_sequence,
    Dict: _item_of_dict,
    Union: _item_of_any,
    Array: _item_of_array,
    Tree: _item_of_tree,
    Numpy: _item_of_numpy,
    Torch: _same,
    ArrayAt: _same,
    Setting: _same,
    Str: _item_of_string,
}


def _sliced(base: Sequence, node: cst.Subscript) -> Value:
    part = node.slice[0].slice
    if base.items is None or not isinstance(part, cst.Slice) or len(node.slice) != 1:
        return Sequence(base.kind, any_item(base), None, base.pulls)
    try:
        bounds = [_constant_bound(b) for b in (part.lower, part.upper, part.step)]
        items = base.items[slice(*bounds)]
    except ValueError:  # unknown bounds, or a step of zero
        return Sequence(base.kind, any_item(base), None, base.pulls)
    return Sequence(base.kind, None, items, base.pulls)


def _constant_bound(node: cst.BaseExpression | None) -> int | None:
    if node is None:
        return None
    if type(node) is cst.Integer:
        return int(node.value, 0)  # a ValueError where Python converts no such number
    if type(node) is not cst.UnaryOperation or type(node.operator) is not cst.Minus:
        raise ValueError(node)
    if type(node.expression) is not cst.Integer:
        raise ValueError(node)
    return -int(node.expression.value, 0)
