"""Items that iterating over a value yields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.evaluate.dispatch import iterated
from embercoach.analysis.values.lattice import (
    NONE,
    STR,
    UNKNOWN,
    Array,
    Dict,
    LibraryObject,
    ModuleRef,
    Numpy,
    Sequence,
    Str,
    Torch,
    Union,
    Value,
    any_item,
    join_all,
    with_pulls,
)

if TYPE_CHECKING:
    from embercoach.analysis.evaluate.frame import Frame


def element_of(frame: Frame, value: Value) -> Value:
    """An element of an iterable."""
    kind = type(value)
    if kind is Sequence:
        return with_pulls(any_item(value), value.pulls)  # type: ignore[arg-type, attr-defined]
    if kind is Array:
        return Array(value.dtype, value.literal, False, value.traced, value.pulls)  # type: ignore[attr-defined]
    if kind is Union:
        found = [element_of(frame, o) for o in value.options if o is not NONE]  # type: ignore[attr-defined]
        return join_all(found)
    if kind is Dict or kind is Str:
        return STR
    if kind is Numpy:
        return Numpy(value.kind, value.flat, value.pulls, value.dtype)  # type: ignore[attr-defined]
    if kind is Torch:
        return value
    if kind is LibraryObject or kind is ModuleRef:
        return UNKNOWN
    return iterated(frame, value)
