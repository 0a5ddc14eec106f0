"""The lattice: what inference knows of a Python value.

``UNKNOWN`` is the top: nothing is known, and every check stays silent on it. A ``Union`` holds
what a value may be on different paths. All values are immutable and compare by content.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.facts import CallFact
    from embercoach.analysis.spectra import Extent, Role
    from embercoach.metal.source import FoldedText

NumberKind = Literal["bool", "int", "float", "complex"]
#: Nodes of host synchronisations whose result a value carries on.
Pulls = frozenset["cst.CSTNode"]
NO_PULLS: Pulls = frozenset()


@dataclass(frozen=True, slots=True)
class Value:
    """Base of all values."""


@dataclass(frozen=True, slots=True)
class Unknown(Value):
    """Nothing is known."""


@dataclass(frozen=True, slots=True)
class NoneValue(Value):
    """``None``."""


@dataclass(frozen=True, slots=True)
class Array(Value):
    """An ``mx.array``.

    dtype: MLX's name of the dtype (``"bfloat16"``), None if unknown.
    literal: built from host constants alone (``mx.array(0.5)``, ``mx.zeros(3)``).
    scalar: built by ``mx.array`` from one Python number.
    traced: depends on a parameter of the function at hand.
    role: what its numbers mean, where they come from a Fourier transform or an array's length.
    """

    dtype: str | None = None
    literal: bool = False
    scalar: bool = False
    traced: bool = False
    pulls: Pulls = NO_PULLS
    role: Role | None = None


@dataclass(frozen=True, slots=True)
class Number(Value):
    """A Python number on the host.

    origin: the assignment of a bare literal to a name.
    extent: the length of an array that it is, or that it is one over.
    """

    kind: NumberKind
    const: int | float | complex | None = None
    origin: cst.CSTNode | None = None
    pulls: Pulls = NO_PULLS
    extent: Extent | None = None


class StringLiteral(NamedTuple):
    """A string literal, or the text between two fields of an f-string, and where it stands.

    ``module`` is the ``analysis.module.Module`` of the file, ``raw`` whether an f-string is raw.
    """

    node: cst.SimpleString | cst.FormattedStringText
    statement: cst.CSTNode
    module: Any
    raw: bool = False


class Piece(NamedTuple):
    """Part of a known string, from a literal or, without one, from a value.

    ``stretch`` tells where its characters stand in the literal, if it isn't the literal as it is.
    """

    text: str
    literal: StringLiteral | None = None
    stretch: FoldedText | None = None


@dataclass(frozen=True, slots=True)
class Str(Value):
    """A string; ``pieces`` are its parts if it could be folded, else None."""

    pieces: tuple[Piece, ...] | None = None

    @property
    def text(self) -> str | None:
        """The folded text, None if unknown."""
        return None if self.pieces is None else "".join(p.text for p in self.pieces)


@dataclass(frozen=True, slots=True)
class Bytes(Value):
    """A bytes-like object of the host."""

    pulls: Pulls = NO_PULLS


@dataclass(frozen=True, slots=True)
class Sequence(Value):
    """A list, tuple, set, shape or iterator: known ``items``, or a common ``item``.

    ``array`` is the name of the array that it is the shape of.
    """

    kind: Literal["list", "tuple", "set", "iterator", "shape"]
    item: Value
    items: tuple[Value, ...] | None = None
    pulls: Pulls = NO_PULLS
    array: str | None = None


@dataclass(frozen=True, slots=True)
class Dict(Value):
    """A dictionary: known string keys, and what any other value is."""

    item: Value
    known: tuple[tuple[str, Value], ...] = ()

    def get(self, key: str) -> Value | None:
        """The value under a known key."""
        return next((v for k, v in self.known if k == key), None)


@dataclass(frozen=True, slots=True)
class Tree(Value):
    """Nested dicts and lists with arrays at the leaves (``model.parameters()``)."""


@dataclass(frozen=True, slots=True)
class Numpy(Value):
    """A NumPy array, or with ``scalar`` a NumPy scalar. ``kind`` is its dtype's kind, if known."""

    kind: NumberKind | None = None
    scalar: bool = False
    pulls: Pulls = NO_PULLS
    dtype: str | None = None
    flat: bool = False  # one-dimensional: its elements are scalars


@dataclass(frozen=True, slots=True)
class Torch(Value):
    """A torch tensor."""


@dataclass(frozen=True, slots=True)
class Setting(Value):
    """A configuration object or one of its values: host data, never an array."""


@dataclass(frozen=True, slots=True)
class DType(Value):
    """An MLX dtype; ``name`` is None if it is one that inference can't tell."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Symbol(Value):
    """A name of a library that is not linted: ``mlx.core.sum``, ``numpy``, ``builtins.float``."""

    name: str


@dataclass(frozen=True, slots=True)
class LibraryObject(Value):
    """An instance of a library's class: ``mlx.nn.Linear``."""

    cls: str


@dataclass(frozen=True, slots=True)
class Callable(Value):
    """Something that returns ``result`` when called."""

    result: Value


@dataclass(frozen=True, slots=True)
class Function(Value):
    """A function, lambda or (with ``bound``) method of a linted file."""

    info: FunctionInfo
    bound: Value | None = None


@dataclass(frozen=True, slots=True)
class Transformed(Value):
    """``mx.grad(f)`` and the like: a callable around another."""

    transform: str
    inner: Value


@dataclass(frozen=True, slots=True)
class Class(Value):
    """A class of a linted file."""

    info: ClassInfo


@dataclass(frozen=True, slots=True)
class Instance(Value):
    """An instance of a class of a linted file."""

    info: ClassInfo


@dataclass(frozen=True, slots=True)
class Super(Value):
    """``super()`` within a class."""

    info: ClassInfo


@dataclass(frozen=True, slots=True)
class ModuleRef(Value):
    """An imported module of the linted tree (an ``analysis.module.Module``)."""

    module: Any


@dataclass(frozen=True, slots=True)
class Kernel(Value):
    """What ``mx.fast.metal_kernel`` returned at ``definition``."""

    definition: CallFact


@dataclass(frozen=True, slots=True)
class ArrayAt(Value):
    """``x.at`` and ``x.at[i]``."""

    array: Value


@dataclass(frozen=True, slots=True)
class BoundMember(Value):
    """A method of a value of a library's or builtin type: ``x.reshape``, ``d.items``."""

    owner: Value
    name: str


@dataclass(frozen=True, slots=True)
class Union(Value):
    """One of several; never holds another union."""

    options: frozenset[Value]


UNKNOWN = Unknown()
NONE = NoneValue()
ARRAY = Array()
BOOL = Number("bool")
INT = Number("int")
FLOAT = Number("float")
COMPLEX = Number("complex")
STR = Str()
SETTING = Setting()
SHAPE = Sequence("shape", INT)
TREE = Tree()
TORCH = Torch()
NUMPY = Numpy()
MAYBE_UNKNOWN_LIMIT = 8


def options(value: Value) -> Iterable[Value]:
    """The alternatives of a value: itself unless it is a union."""
    return value.options if type(value) is Union else (value,)


def join(a: Value, b: Value) -> Value:
    """What is known of a value that is ``a`` on one path and ``b`` on another."""
    if a is b or a == b:
        return a
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


def _merge_key(value: Value) -> object:
    kind = type(value)
    if kind is Array or kind is Numpy or kind is Str or kind is Dict or kind is DType:
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
            a.extent if a.extent == b.extent else None,
        )
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        if a.items is not None and b.items is not None and len(a.items) == len(b.items):
            items = tuple(map(join, a.items, b.items))
            return Sequence(a.kind, join_all(items), items, a.pulls | b.pulls)
        # An empty list says nothing of what it will hold.
        if a.items == ():
            return Sequence(b.kind, b.item, None, a.pulls | b.pulls)
        if b.items == ():
            return Sequence(a.kind, a.item, None, a.pulls | b.pulls)
        return Sequence(a.kind, join(a.item, b.item), None, a.pulls | b.pulls)
    if isinstance(a, Dict) and isinstance(b, Dict):
        known = tuple((k, v if (o := b.get(k)) is None else join(v, o)) for k, v in a.known)
        known += tuple((k, v) for k, v in b.known if a.get(k) is None)
        item = b.item if not a.known and a.item is UNKNOWN else a.item
        return Dict(item if a.item == b.item or not b.known else join(a.item, b.item), known)
    if isinstance(a, Numpy) and isinstance(b, Numpy):
        return Numpy(
            a.kind if a.kind == b.kind else None,
            a.scalar and b.scalar,
            a.pulls | b.pulls,
            a.dtype if a.dtype == b.dtype else None,
        )
    if isinstance(a, DType):
        return DType(None)
    return STR if isinstance(a, Str) else a


def without(value: Value, excluded: type[Value] | tuple[type[Value], ...]) -> Value:
    """The value with some kinds of alternatives ruled out; itself if nothing would be left."""
    if type(value) is not Union:
        return value
    left = [o for o in value.options if not isinstance(o, excluded)]
    return join_all(left) if left else value


def as_array(value: Value) -> Array | None:
    """The array that a value is, if all evidence says that it is one.

    ``None`` and unknown alternatives don't count against it: where the value is used as an
    array it can't be None, and unknown is no evidence.
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


#: Alternatives that don't speak against an array: what they stand for can't be used as one.
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
    """The host synchronisations that a value carries the result of."""
    kind = type(value)
    if kind is Union:
        found = NO_PULLS
        for option in value.options:  # type: ignore[attr-defined]
            found |= pulls_of(option)
        return found
    if kind is Sequence:
        found = value.pulls  # type: ignore[attr-defined]
        for item in value.items or (value.item,):  # type: ignore[attr-defined]
            found |= pulls_of(item)
        return found
    return getattr(value, "pulls", NO_PULLS)


def with_pulls(value: Value, pulls: Pulls) -> Value:
    """The value, known to carry the result of more synchronisations."""
    if pulls and isinstance(value, (Array, Number, Numpy, Sequence, Bytes)):
        return replace(value, pulls=value.pulls | pulls)
    return value


def holds_arrays(value: Value, depth: int = 3) -> bool:
    """Whether arrays are in it: an array, a tree, or a container of them."""
    kind = type(value)
    if kind is Array or kind is Tree:
        return True
    if depth == 0:
        return False
    if kind is Union:
        return as_array(value) is not None or any(
            holds_arrays(o, depth)
            for o in value.options
            if type(o) is not Array  # type: ignore[attr-defined]
        )
    if kind is Sequence:
        items = value.items if value.items is not None else (value.item,)  # type: ignore[attr-defined]
        return any(holds_arrays(item, depth - 1) for item in items)
    if kind is Dict:
        return holds_arrays(value.item, depth - 1) or any(  # type: ignore[attr-defined]
            holds_arrays(v, depth - 1)
            for _, v in value.known  # type: ignore[attr-defined]
        )
    return False


@lru_cache(maxsize=None)
def sequence_of(kind: Literal["list", "tuple", "set", "iterator", "shape"], item: Value) -> Value:
    """A sequence of unknown length."""
    return Sequence(kind, item)


def items_of(value: Value) -> tuple[Value, ...] | None:
    """The items of a sequence of known length."""
    return value.items if isinstance(value, Sequence) else None


def walk_sequence(value: Value) -> Iterator[Value]:
    """What may come out of a sequence, at least once."""
    if isinstance(value, Sequence):
        yield from value.items if value.items is not None else (value.item,)
