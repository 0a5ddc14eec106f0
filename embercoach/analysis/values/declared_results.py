"""Results of functions with a return annotation, where the body shows more than it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.analysis.values.joins import any_item, as_array, options
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Array,
    Callable,
    Instance,
    LibraryObject,
    Sequence,
    Value,
)

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo


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
        evaluated = value.evaluated
        return Array(value.dtype, False, False, traced, shape=value.shape, evaluated=evaluated)
    return value


def lacks_dtypes(value: Value) -> bool:
    """Return whether a value is an array of unknown dtype, or a tuple of such arrays."""
    if type(value) is Sequence and value.items:
        return all(lacks_dtypes(item) for item in value.items)
    return type(value) is Array and value.dtype is None


def with_dtypes(annotated: Value, inferred: Value) -> Value:
    """The annotated arrays with the dtypes of those that the body returns."""
    if type(annotated) is Sequence and type(inferred) is Sequence:
        declared, found = annotated.items or (), inferred.items or ()
        if len(declared) != len(found):
            return annotated
        return replace(annotated, items=tuple(map(with_dtypes, declared, found)))
    array = as_array(inferred)
    if type(annotated) is not Array or array is None:
        return annotated
    return replace(annotated, dtype=array.dtype)
