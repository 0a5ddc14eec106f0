"""Arrays that are known to be evaluated: in a value, and in what it holds."""

from __future__ import annotations

from dataclasses import replace

from embercoach.analysis.values.joins import any_item, holds_arrays, join_all
from embercoach.analysis.values.lattice import Array, NoneValue, Sequence, Union, Value


def is_evaluated(value: Value, depth: int = 3) -> bool:
    """Return whether all arrays that a value is, or holds, are known to be evaluated."""
    if type(value) is Array:
        return value.evaluated
    if type(value) is Union:
        known = [o for o in value.options if type(o) is not NoneValue]
        return all(is_evaluated(option, depth) for option in known)
    if type(value) is Sequence and depth:
        items = value.items if value.items is not None else (any_item(value),)
        return bool(items) and all(is_evaluated(item, depth - 1) for item in items)
    return False


def with_evaluation(value: Value, *, evaluated: bool, depth: int = 3) -> Value:
    """The value whose arrays are, or are not, known to be evaluated."""
    if type(value) is Array:
        return value if value.evaluated is evaluated else replace(value, evaluated=evaluated)
    if depth == 0:
        return value
    if type(value) is Union:
        return join_all(
            with_evaluation(o, evaluated=evaluated, depth=depth - 1) for o in value.options
        )
    if type(value) is Sequence and holds_arrays(value):
        items, common = value.items, value.common
        if items is not None:
            items = tuple(
                with_evaluation(item, evaluated=evaluated, depth=depth - 1) for item in items
            )
        if common is not None:
            common = with_evaluation(common, evaluated=evaluated, depth=depth - 1)
        return replace(value, items=items, common=common)
    return value
