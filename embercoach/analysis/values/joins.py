"""Operations on the lattice: joins, and what a value is by all evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from embercoach.analysis.values.lattice import (
    FLOAT,
    NO_PULLS,
    STR,
    UNKNOWN,
    Array,
    Bytes,
    CollectedPull,
    Dict,
    DType,
    NoneValue,
    Number,
    Numpy,
    Pulls,
    Sequence,
    Setting,
    Str,
    Tree,
    Union,
    Unknown,
    Value,
)
from embercoach.analysis.values.torch_values import Torch, TorchDevice, merge_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


MAYBE_UNKNOWN_LIMIT = 8
#: A string that may be more than so many is any string.
MAX_EITHER = 6


def options(value: Value) -> Iterable[Value]:
    """The alternatives of a value: itself unless it is a union."""
    return value.options if type(value) is Union else (value,)


def join(a: Value, b: Value) -> Value:
    """Return the facts of a value that is ``a`` on one path and ``b`` on another."""
    if a is b or a == b:
        return a
    kind, other = type(a), type(b)
    if kind is Union:
        if other is not Union and b in a.options:  # type: ignore[attr-defined]
            return a
    elif other is Union:
        if a in b.options:  # type: ignore[attr-defined]
            return b
    elif kind is other and (kind is Array or _merge_key(a) == _merge_key(b)):
        return _merge(a, b)
    return join_all((a, b))


def join_all(values: Iterable[Value]) -> Value:
    """The join of any number of values; of none it is ``UNKNOWN``."""
    values = tuple(values)
    if not values:
        return UNKNOWN
    first = values[0]
    for value in values:
        if value is not first and value != first:
            break
    else:
        return first
    merged: dict[object, Value] = {}
    for value in values:
        for option in options(value):
            key = _merge_key(option)
            other = merged.get(key)
            merged[key] = option if other is None else _merge(other, option)
    if not merged:
        return UNKNOWN
    if len(merged) == 1:
        return next(iter(merged.values()))
    if len(merged) > MAYBE_UNKNOWN_LIMIT:
        return UNKNOWN
    return Union(frozenset(merged.values()))


def any_item(value: Sequence) -> Value:
    """Return what any item of a sequence is; of known items the join, which few ask for."""
    return value.common if value.common is not None else join_all(value.items or ())


#: Of these kinds, a union holds one value.
_MERGED = frozenset((Array, Numpy, Str, Dict, DType, Torch, TorchDevice))


def _merge_key(value: Value) -> object:
    kind = type(value)
    if kind in _MERGED:
        return kind
    if kind is Number:
        return (kind, value.kind)  # type: ignore[attr-defined]
    if kind is Sequence:
        return (kind, value.kind)  # type: ignore[attr-defined]
    return value


def _merge(a: Value, b: Value) -> Value:
    if a is b or a == b:
        return a
    if isinstance(a, Array) and isinstance(b, Array):
        return Array(
            a.dtype if a.dtype == b.dtype else None,
            a.literal and b.literal,
            a.scalar and b.scalar,
            a.traced or b.traced,
            a.pulls | b.pulls,
            a.role if a.role == b.role else None,
        )
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(
            a.kind,
            a.const if a.const == b.const else None,
            a.origin if a.origin is b.origin else None,
            a.pulls | b.pulls,
        )
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        if a.items is not None and b.items is not None and len(a.items) == len(b.items):
            choice = object()
            items = tuple(join_chosen(x, y, choice) for x, y in zip(a.items, b.items, strict=True))
            return Sequence(a.kind, None, items, a.pulls | b.pulls)
        # An empty list says nothing of what it will hold.
        if a.items == ():
            return Sequence(b.kind, any_item(b), None, a.pulls | b.pulls)
        if b.items == ():
            return Sequence(a.kind, any_item(a), None, a.pulls | b.pulls)
        return Sequence(a.kind, join(any_item(a), any_item(b)), None, a.pulls | b.pulls)
    if isinstance(a, Dict) and isinstance(b, Dict):
        known = tuple((k, v if (o := b.get(k)) is None else join(v, o)) for k, v in a.known)
        known += tuple((k, v) for k, v in b.known if a.get(k) is None)
        item = b.item if not a.known and a.item is UNKNOWN else a.item
        exact = a.exact and b.exact and {k for k, _ in a.known} == {k for k, _ in b.known}
        return Dict(item if a.item == b.item or not b.known else join(a.item, b.item), known, exact)
    if isinstance(a, Numpy) and isinstance(b, Numpy):
        return Numpy(
            a.kind if a.kind == b.kind else None,
            a.scalar and b.scalar,
            a.pulls | b.pulls,
            a.dtype if a.dtype == b.dtype else None,
        )
    merge = _MERGES.get(type(a))
    return a if merge is None else merge(a, b)


_MERGES: dict[type, Callable[[Any, Any], Value]] = {
    DType: lambda a, b: DType(None),
    Str: lambda a, b: either((a, b), None),
    Torch: merge_tensors,
    TorchDevice: lambda a, b: TorchDevice(a.kinds | b.kinds),
}


def join_chosen(a: Value, b: Value, choice: object) -> Value:
    """The join; two strings are distinguished by a choice shared with others."""
    if type(a) is Str and type(b) is Str and a != b:
        return either((a, b), choice)
    return join(a, b)


def either(values: Iterable[Value], choice: object | None) -> Value:
    """One of several strings, of which each is known at least in part.

    Without a ``choice`` that others depend on as well, none of them is held twice.
    """
    found: list[Str] = []
    for value in values:
        if not isinstance(value, Str):
            return STR
        for option in value.either or (value,):
            if option.pieces is None:
                return STR
            if choice is not None or option not in found:
                found.append(option)
    if not found or len(found) > MAX_EITHER:
        return STR
    if all(option == found[0] for option in found):
        return found[0]
    return Str(None, tuple(found), object() if choice is None else choice)


def without_alternatives(value: Value, depth: int = 3) -> Value:
    """The value where no string in it is one of several that are known."""
    kind = type(value)
    if kind is Str:
        return STR if value.either else value  # type: ignore[attr-defined]
    if depth == 0:
        return value
    if type(value) is Sequence:
        if value.items is None:
            common = without_alternatives(any_item(value), depth - 1)
            return value if common is value.common else replace(value, common=common)
        items = tuple(without_alternatives(item, depth - 1) for item in value.items)
        return value if items == value.items else replace(value, items=items)
    if type(value) is Dict:
        known = tuple((key, without_alternatives(v, depth - 1)) for key, v in value.known)
        common = without_alternatives(value.item, depth - 1)
        changed = common != value.item or known != value.known
        return Dict(common, known, value.exact) if changed else value
    if type(value) is Union:
        return join_all(without_alternatives(o, depth - 1) for o in value.options)
    return value


def without(value: Value, excluded: type[Value] | tuple[type[Value], ...]) -> Value:
    """The value with some kinds of alternatives ruled out; itself if nothing would be left."""
    if type(value) is not Union:
        return value
    left = [o for o in value.options if not isinstance(o, excluded)]
    return join_all(left) if left else value


def as_array(value: Value) -> Array | None:
    """The array that a value is, if all evidence says that it is one.

    ``None`` and unknown alternatives don't count against it: where the value is used as an
    array it can't be None, and unknown is not evidence.
    """
    if type(value) is Array:
        return value
    if type(value) is Union:
        found: Array | None = None
        for option in value.options:
            if type(option) is Array:
                found = option
            elif type(option) not in _NO_EVIDENCE:
                return None
        return found
    return None


def definite_array(value: Value) -> Array | None:
    """The array that a value is, where nothing else is left open but ``None``.

    For uses that prove nothing of the value, as everything can be printed or tested.
    """
    if type(value) is Union and any(type(o) is Unknown for o in value.options):
        return None
    return as_array(value)


#: Alternatives that aren't evidence against an array: what they stand for can't be used as one.
_NO_EVIDENCE = (NoneValue, Unknown, Tree)


def as_number(value: Value) -> Number | None:
    """The Python number that a value is, if all evidence says so."""
    if type(value) is Number:
        return value
    if type(value) is Setting:
        return FLOAT
    if type(value) is Union:
        found: Number | None = None
        for option in value.options:
            if type(option) is Number:
                found = option if found is None else _wider(found, option)
            elif type(option) is not NoneValue and type(option) is not Unknown:
                return None
        return found
    return None


def _wider(a: Number, b: Number) -> Number:
    order = ("bool", "int", "float", "complex")
    return Number(max(a.kind, b.kind, key=order.index), pulls=a.pulls | b.pulls)


def as_numpy(value: Value) -> Numpy | None:
    """The NumPy value that a value is, if all evidence says so."""
    if type(value) is Numpy:
        return value
    if type(value) is Union:
        known = [o for o in value.options if type(o) not in (NoneValue, Unknown)]
        if len(known) == 1 and isinstance(known[0], Numpy):
            return known[0]
    return None


def pulls_of(value: Value) -> Pulls:
    """The host synchronisations that a value depends on."""
    if type(value) is Union:
        found = NO_PULLS
        for option in value.options:
            found |= pulls_of(option)
        return found
    if type(value) is Sequence:
        found = value.pulls
        for item in value.items or (any_item(value),):
            found |= pulls_of(item)
        return found
    pulls: Pulls = getattr(value, "pulls", NO_PULLS)
    return pulls


def collected(value: Value) -> Pulls:
    """The pulls of a value that is put into a list, with marks that say so."""
    pulls = pulls_of(value)
    if not pulls:
        return pulls
    return pulls | {CollectedPull(p) for p in pulls if not isinstance(p, tuple)}


def with_pulls(value: Value, pulls: Pulls) -> Value:
    """The value, known to depend on more synchronisations."""
    if pulls and isinstance(value, (Array, Number, Numpy, Sequence, Bytes)):
        return replace(value, pulls=value.pulls | pulls)
    return value


def holds_arrays(value: Value, depth: int = 3) -> bool:
    """Return whether a value is an array, a tree, or a container of them."""
    kind = type(value)
    if kind is Array or kind is Tree:
        return True
    if depth == 0:
        return False
    if type(value) is Union:
        return as_array(value) is not None or any(
            holds_arrays(o, depth) for o in value.options if type(o) is not Array
        )
    if type(value) is Sequence:
        items = value.items if value.items is not None else (any_item(value),)
        return any(holds_arrays(item, depth - 1) for item in items)
    if type(value) is Dict:
        return holds_arrays(value.item, depth - 1) or any(
            holds_arrays(v, depth - 1) for _, v in value.known
        )
    return False


def items_of(value: Value) -> tuple[Value, ...] | None:
    """The items of a sequence of known length."""
    return value.items if isinstance(value, Sequence) else None


def may_be_traced(value: Value) -> bool:
    """Return whether a value is, or may be, an array that depends on a parameter."""
    if value is UNKNOWN:
        return True
    array = as_array(value)
    return array is not None and array.traced
