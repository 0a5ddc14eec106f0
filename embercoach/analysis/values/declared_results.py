"""Results of functions with a return annotation, where the body shows more than it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.analysis.values.joins import any_item, as_array, options
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Array,
    Callable,
    Dict,
    Instance,
    LibraryObject,
    Number,
    Numpy,
    Sequence,
    Str,
    Value,
)

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo

_NO_ARRAYS = (Sequence, Numpy, Number, Str)


def yielded_values(annotated: Value, inferred: Value) -> Value:
    """The items of a generator: from the body, or from the annotation where it shows nothing."""
    if not isinstance(inferred, Sequence) or not isinstance(annotated, Sequence):
        return annotated
    here, declared = inferred.items, annotated.items
    if here is not None and declared is not None and len(here) == len(declared):
        return Sequence(annotated.kind, None, tuple(map(_yielded_item, declared, here)))
    return Sequence(annotated.kind, _yielded_item(any_item(annotated), any_item(inferred)))


def _yielded_item(annotated: Value, inferred: Value) -> Value:
    if isinstance(inferred, Sequence) and isinstance(annotated, Sequence):
        return yielded_values(annotated, inferred)
    return annotated if UNKNOWN in options(inferred) else inferred


def may_be_kernel(info: FunctionInfo, annotated: Value) -> bool:
    """Return whether a value annotated as a callable may be a kernel that the function builds.

    Or, as an instance of a class, a wrapper of one.
    """
    kinds: tuple[type, ...] = (Callable, LibraryObject)
    if info.module.builders:
        kinds = (*kinds, Instance)
    if not any(isinstance(o, kinds) for o in options(annotated)):
        return False
    return info.module.mentions_kernels


def with_traced(value: Value, values: dict[str, Value]) -> Value:
    """The annotated result depends on what the call is given."""
    if type(value) is Array:
        traced = any(isinstance(v, Array) and v.traced for v in values.values())
        return Array(value.dtype, False, False, traced)
    return value


def lacks_dtypes(value: Value) -> bool:
    """Return whether a value is an array of unknown dtype, or a tuple or dictionary of those."""
    if type(value) is Sequence and value.items:
        return all(lacks_dtypes(item) for item in value.items)
    if type(value) is Dict:
        return lacks_dtypes(value.item)
    return type(value) is Array and value.dtype is None


def with_dtypes(annotated: Value, inferred: Value) -> Value:
    """The annotated arrays with the dtypes of those that the body returns.

    Where it visibly returns a dictionary without any array, the annotation is incorrect.
    """
    if type(annotated) is Dict:
        return Dict(UNKNOWN) if _holds_no_array(inferred) else annotated
    if type(annotated) is Sequence and type(inferred) is Sequence:
        declared, found = annotated.items or (), inferred.items or ()
        if len(declared) != len(found):
            return annotated
        return replace(annotated, items=tuple(map(with_dtypes, declared, found)))
    array = as_array(inferred)
    if type(annotated) is not Array or array is None:
        return annotated
    return replace(annotated, dtype=array.dtype)


def _holds_no_array(value: Value) -> bool:
    """Return whether a value is a dictionary, all of whose values are known, and no arrays."""
    if type(value) is not Dict or not value.known:
        return False
    held = (o for v in (value.item, *(v for _, v in value.known)) for o in options(v))
    return all(isinstance(o, _NO_ARRAYS) for o in held)
