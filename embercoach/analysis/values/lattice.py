"""The lattice: what inference knows of a Python value.

``UNKNOWN`` is the top: nothing is known, and every check stays silent on it. A ``Union`` holds
what a value may be on different paths. All values are immutable and compare by content.
"""

from __future__ import annotations

from collections.abc import Callable as Fn
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import force_setattr, replace

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.values.facts import Argument, CallFact
    from embercoach.analysis.values.gradient_marks import GradientMark
    from embercoach.metal.source import FoldedText

NumberKind = Literal["bool", "int", "float", "complex"]
#: The narrowest first.
NUMBER_KINDS: tuple[NumberKind, ...] = ("bool", "int", "float", "complex")
SequenceKind = Literal["list", "tuple", "set", "iterator", "shape"]


class CollectedPull(NamedTuple):
    """A mark of a value that depends on a pull through a list that the host has grown."""

    node: cst.CSTNode


#: Nodes of host synchronisations that a value depends on, and marks of gradients and of lists.
Pulls = frozenset["cst.CSTNode | GradientMark | CollectedPull"]
NO_PULLS: Pulls = frozenset()


class Value(Struct, frozen=True):
    """Base of all values."""

    @property
    def merge_key(self) -> object:
        """Return what the values have in common that a union holds as one; itself for its own."""
        return self

    def merged(self, other: Any) -> Value:
        """Return the join with another value of the same key."""
        return self


class OnePerUnion(Value, frozen=True):
    """Base of those of which a union holds one a class."""

    @property
    def merge_key(self) -> object:
        """Return the class."""
        return type(self)


class Unknown(Value, frozen=True):
    """Nothing is known."""


class NoneValue(Value, frozen=True):
    """``None``."""


class Array(OnePerUnion, frozen=True):
    """An ``mx.array``.

    dtype: MLX's name of the dtype (``"bfloat16"``), None if unknown.
    literal: built from host constants alone (``mx.array(0.5)``, ``mx.zeros(3)``).
    scalar: built by ``mx.array`` from one Python number.
    traced: depends on a parameter of the function at hand.
    """

    dtype: str | None = None
    literal: bool = False
    scalar: bool = False
    traced: bool = False
    pulls: Pulls = NO_PULLS

    def merged(self, other: Array) -> Value:
        """Return the join with another one."""
        return Array(
            self.dtype if self.dtype == other.dtype else None,
            self.literal and other.literal,
            self.scalar and other.scalar,
            self.traced or other.traced,
            self.pulls | other.pulls,
        )


class Number(Value, frozen=True):
    """A Python number on the host.

    origin: the assignment of a bare literal to a name.
    """

    kind: NumberKind
    const: int | float | complex | None = None
    origin: cst.CSTNode | None = None
    pulls: Pulls = NO_PULLS

    @property
    def merge_key(self) -> object:
        """Return the class and the kind, of which a union holds one."""
        return (Number, self.kind)

    def merged(self, other: Number) -> Value:
        """Return the join with another one."""
        return Number(
            self.kind,
            self.const if self.const == other.const else None,
            self.origin if self.origin is other.origin else None,
            self.pulls | other.pulls,
        )


class StringLiteral(NamedTuple):
    """A string literal, or the text between two fields of an f-string, and where it stands.

    ``module`` is the ``analysis.module.Module`` of the file, ``raw`` whether an f-string is raw.
    """

    node: cst.SimpleString | cst.FormattedStringText
    statement: cst.CSTNode
    module: Any
    raw: bool = False


class ReadFile(NamedTuple):
    """A file of the project that is read as text."""

    path: str
    text: str


class Piece(NamedTuple):
    """Part of a known string, from a literal or a file or, without one, from a value.

    ``stretch`` says where its characters are in the literal, if it isn't the literal as it is.
    A ``hole`` stands for a part that is not known, but to be a number, or to be anything.
    """

    text: str
    literal: StringLiteral | ReadFile | None = None
    stretch: FoldedText | None = None
    hole: Literal["", "number", "any"] = ""


class Str(OnePerUnion, frozen=True):
    """A string; ``pieces`` are its parts, some of them holes, or None if nothing is known.

    either: the strings, in order, of which it is one, if it may be several.
    choice: what decides which of them it is; strings with the same one are decided together.
    """

    pieces: tuple[Piece, ...] | None = None
    either: tuple[Str, ...] = ()
    choice: object = None

    def __eq__(self, other: object) -> bool:
        return type(other) is Str and self.pieces == other.pieces and self.either == other.either

    def __hash__(self) -> int:
        return hash((self.pieces, self.either))

    @property
    def text(self) -> str | None:
        """The whole text, None if some of it is unknown."""
        if self.pieces is None or any(p.hole for p in self.pieces):
            return None
        return "".join(p.text for p in self.pieces)

    def merged(self, other: Str) -> Value:
        """Return the join with another one."""
        return either((self, other), None)


class Bytes(Value, frozen=True):
    """A bytes-like object of the host."""

    pulls: Pulls = NO_PULLS


#: Values compare and hash by content: a container of more parts, counting those inside its parts,
#: is not followed. ``x = [x, x]`` in a row would else take exponential time.
HEAVIEST = 1_000


def _weight(value: Value) -> int:
    """Return how many values a value is made of."""
    if type(value) is Sequence or type(value) is Dict:
        return value.weight
    if type(value) is Union:
        return sum(map(_weight, value.options))
    return 1


class Sequence(Value, frozen=True):
    """A list, tuple, set, shape or iterator: known ``items``, or what any item is, ``common``."""

    kind: SequenceKind
    common: Value | None
    items: tuple[Value, ...] | None = None
    pulls: Pulls = NO_PULLS
    weight: int = 1

    def __post_init__(self) -> None:
        weight = 1 + sum(map(_weight, self.items or ()))
        weight += 0 if self.common is None else _weight(self.common)
        if weight > HEAVIEST:
            weight = 1
            force_setattr(self, "common", UNKNOWN)
            force_setattr(self, "items", None)
        force_setattr(self, "weight", weight)

    @property
    def merge_key(self) -> object:
        """Return the class and the kind, of which a union holds one."""
        return (Sequence, self.kind)

    def merged(self, other: Sequence) -> Value:
        """Return the join with another one."""
        pulls = self.pulls | other.pulls
        mine, others = self.items, other.items
        if mine is not None and others is not None and len(mine) == len(others):
            choice = object()
            items = tuple(join_chosen(x, y, choice) for x, y in zip(mine, others, strict=True))
            return Sequence(self.kind, None, items, pulls)
        # An empty list says nothing of what it will hold.
        if mine == () or others == ():
            held = other if mine == () else self
            return Sequence(held.kind, any_item(held), None, pulls)
        return Sequence(self.kind, join(any_item(self), any_item(other)), None, pulls)


class Dict(OnePerUnion, frozen=True):
    """A dictionary: known string keys, and what any other value is.

    exact: it certainly has the known keys and no others. Known in files that build kernels only.
    """

    item: Value
    known: tuple[tuple[str, Value], ...] = ()
    exact: bool = False
    weight: int = 1

    def __post_init__(self) -> None:
        weight = 1 + _weight(self.item) + sum(_weight(value) for _, value in self.known)
        if weight > HEAVIEST:
            weight = 1
            force_setattr(self, "item", UNKNOWN)
            force_setattr(self, "known", ())
            force_setattr(self, "exact", False)
        force_setattr(self, "weight", weight)

    def get(self, key: str) -> Value | None:
        """Return the value under a known key."""
        return next((v for k, v in self.known if k == key), None)

    def merged(self, other: Dict) -> Value:
        """Return the join with another one."""
        known = tuple((k, v if (o := other.get(k)) is None else join(v, o)) for k, v in self.known)
        known += tuple((k, v) for k, v in other.known if self.get(k) is None)
        item = other.item if not self.known and self.item is UNKNOWN else self.item
        if self.item != other.item and other.known:
            item = join(self.item, other.item)
        same = {k for k, _ in self.known} == {k for k, _ in other.known}
        return Dict(item, known, self.exact and other.exact and same)


class Tree(OnePerUnion, frozen=True):
    """Nested dicts and lists with arrays at the leaves (``model.parameters()``).

    traced: the leaves depend on a parameter of the function at hand.
    """

    traced: bool = False

    def merged(self, other: Tree) -> Value:
        """Return the join with another one."""
        return Tree(self.traced or other.traced)

    @property
    def leaf(self) -> Array:
        """Return one of its arrays."""
        return TRACED if self.traced else ARRAY

    @property
    def held(self) -> Value:
        """Return what it holds under a key: an array, or another tree."""
        return Union(frozenset((self, self.leaf)))


class Numpy(OnePerUnion, frozen=True):
    """A NumPy array, or with ``scalar`` a NumPy scalar. ``kind`` is its dtype's kind, if known."""

    kind: NumberKind | None = None
    scalar: bool = False
    pulls: Pulls = NO_PULLS
    dtype: str | None = None
    flat: bool = False  # one-dimensional: its elements are scalars

    def merged(self, other: Numpy) -> Value:
        """Return the join with another one."""
        return Numpy(
            self.kind if self.kind == other.kind else None,
            self.scalar and other.scalar,
            self.pulls | other.pulls,
            self.dtype if self.dtype == other.dtype else None,
        )


class Setting(Value, frozen=True):
    """A configuration object or one of its values: host data, never an array."""


class DType(OnePerUnion, frozen=True):
    """An MLX dtype; ``name`` is None if it is one that inference doesn't know."""

    name: str | None

    def merged(self, other: DType) -> Value:
        """Return the join with another one."""
        return DType(None)


class Symbol(Value, frozen=True):
    """A name of a library that is not linted: ``mlx.core.sum``, ``numpy``, ``builtins.float``."""

    name: str


class LibraryObject(Value, frozen=True):
    """An instance of a library's class: ``mlx.nn.Linear``."""

    cls: str


class Callable(Value, frozen=True):
    """Something that returns ``result`` when called."""

    result: Value


class Function(Value, frozen=True):
    """A function, lambda or (with ``bound``) method of a linted file."""

    info: FunctionInfo
    bound: Value | None = None


class Transformed(Value, frozen=True):
    """``mx.grad(f)`` and the like: a callable around another."""

    transform: str
    inner: Value
    taken: int = 0  # positional arguments that a partial call has taken


class Class(Value, frozen=True):
    """A class of a linted file."""

    info: ClassInfo


class Instance(Value, frozen=True):
    """An instance of a class of a linted file."""

    info: ClassInfo


class Super(Value, frozen=True):
    """``super()`` within a class."""

    info: ClassInfo


class ModuleRef(Value, frozen=True):
    """An imported module of the linted tree (an ``analysis.module.Module``)."""

    module: Any


class Kernel(Value, frozen=True):
    """The kernel of ``metal_kernel`` at ``definition``, the file's ``order``-th."""

    definition: CallFact
    order: int = 0


class Wrapped(Value, frozen=True):
    """A kernel, ``value``, in a wrapper of ``metal_kernel``: its calls launch unseen."""

    value: Value
    kernel: Kernel


class FilePath(Value, frozen=True):
    """A path made of ``__file__``, or with ``is_open`` the file of that path, opened to be read."""

    path: Path
    is_open: bool = False


class Template(Value, frozen=True):
    """A ``string.Template`` of a text."""

    text: Str


class ArrayAt(Value, frozen=True):
    """``x.at`` and ``x.at[i]``."""

    array: Value


class BoundMember(Value, frozen=True):
    """A method of a value of a library's or builtin type: ``x.reshape``, ``d.items``."""

    owner: Value
    name: str


class Union(Value, frozen=True):
    """One of several; never holds another union."""

    options: frozenset[Value]


UNKNOWN = Unknown()
NONE = NoneValue()
ARRAY = Array()
TRACED = Array(traced=True)
BOOL = Number("bool")
INT = Number("int")
FLOAT = Number("float")
COMPLEX = Number("complex")
STR = Str()
SETTING = Setting()
SHAPE = Sequence("shape", INT)
TREE = Tree()
NUMPY = Numpy()


MAYBE_UNKNOWN_LIMIT = 8
#: A string that may be more than so many is any string.
MAX_EITHER = 6


def options(value: Value) -> Iterable[Value]:
    """Return the alternatives of a value: itself unless it is a union."""
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
    elif kind is other and (kind is Array or a.merge_key == b.merge_key):
        return _merge(a, b)
    return join_all((a, b))


def join_all(values: Iterable[Value]) -> Value:
    """Return the join of any number of values; of none it is ``UNKNOWN``."""
    values = tuple(values)
    if not values:
        return UNKNOWN
    first = values[0]
    if all(value is first or value == first for value in values):
        return first
    merged: dict[object, Value] = {}
    for value in values:
        for option in options(value):
            key = option.merge_key
            other = merged.get(key)
            merged[key] = option if other is None else _merge(other, option)
    if len(merged) == 1:
        return next(iter(merged.values()))
    return UNKNOWN if len(merged) > MAYBE_UNKNOWN_LIMIT else Union(frozenset(merged.values()))


def any_item(value: Sequence) -> Value:
    """Return what any item of a sequence is; of known items the join, which few ask for."""
    return value.common if value.common is not None else join_all(value.items or ())


def _merge(a: Value, b: Value) -> Value:
    return a if a is b or a == b else a.merged(b)


def join_chosen(a: Value, b: Value, choice: object) -> Value:
    """Return the join; two strings are distinguished by a choice shared with others."""
    if type(a) is Str and type(b) is Str and a != b:
        return either((a, b), choice)
    return join(a, b)


def either(values: Iterable[Value], choice: object | None) -> Value:
    """Return one of several strings, of which each is known at least in part.

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
    """Return the value where no string in it is one of several that are known."""
    kind = type(value)
    if kind is Str:
        return STR if value.either else value  # type: ignore[attr-defined]
    if depth == 0:
        return value
    changed = with_parts(value, lambda part: without_alternatives(part, depth - 1))
    return value if changed == value else changed


def without(value: Value, excluded: type[Value] | tuple[type[Value], ...]) -> Value:
    """Get the value with some kinds of alternatives ruled out; itself if nothing would be left."""
    if type(value) is not Union:
        return value
    left = [o for o in value.options if not isinstance(o, excluded)]
    return join_all(left) if left else value


def as_array(value: Value) -> Array | None:
    """Return the array that a value is, if all evidence says that it is one.

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
    """Return the array that a value is, where nothing else is left open but ``None``.

    For uses that prove nothing of the value, as everything can be printed or tested.
    """
    if type(value) is Union and any(type(o) is Unknown for o in value.options):
        return None
    return as_array(value)


#: Alternatives that aren't evidence against an array: what they stand for can't be used as one.
_NO_EVIDENCE = (NoneValue, Unknown, Tree)


def as_number(value: Value) -> Number | None:
    """Return the Python number that a value is, if all evidence says so."""
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
    return Number(max(a.kind, b.kind, key=NUMBER_KINDS.index), pulls=a.pulls | b.pulls)


def as_numpy(value: Value) -> Numpy | None:
    """Return the NumPy value that a value is, if all evidence says so."""
    if type(value) is Numpy:
        return value
    if type(value) is Union:
        known = [o for o in value.options if type(o) not in (NoneValue, Unknown)]
        if len(known) == 1 and isinstance(known[0], Numpy):
            return known[0]
    return None


def pulls_of(value: Value) -> Pulls:
    """Return the host synchronisations that a value depends on."""
    if type(value) is Union:
        return NO_PULLS.union(*map(pulls_of, value.options))
    if type(value) is Sequence:
        return value.pulls.union(*map(pulls_of, parts_of(value)))
    pulls: Pulls = getattr(value, "pulls", NO_PULLS)
    return pulls


def collected(value: Value) -> Pulls:
    """Return the pulls of a value that is put into a list, with marks that say so."""
    pulls = pulls_of(value)
    if not pulls:
        return pulls
    return pulls | {CollectedPull(p) for p in pulls if not isinstance(p, tuple)}


def with_pulls(value: Value, pulls: Pulls) -> Value:
    """Return the value, known to depend on more synchronisations."""
    if pulls and isinstance(value, (Array, Number, Numpy, Sequence, Bytes)):
        return replace(value, pulls=value.pulls | pulls)
    return value


def parts_of(value: Value) -> tuple[Value, ...]:
    """Return what a container holds: each known item, or what any item is; nothing of others."""
    if type(value) is Sequence:
        return (any_item(value),) if value.items is None else value.items
    if type(value) is Dict:
        return (value.item, *(held for _, held in value.known))
    return ()


def with_parts(value: Value, change: Fn[[Value], Value]) -> Value:
    """Return a container or a union in which each part is changed; other values as they are."""
    if type(value) is Union:
        return join_all(map(change, value.options))
    if type(value) is Dict:
        known = tuple((key, change(held)) for key, held in value.known)
        return Dict(change(value.item), known, value.exact)
    if type(value) is not Sequence:
        return value
    if value.items is None:
        return replace(value, common=change(any_item(value)))
    return replace(value, items=tuple(map(change, value.items)))


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
    return any(holds_arrays(part, depth - 1) for part in parts_of(value))


def items_of(value: Value) -> tuple[Value, ...] | None:
    """Return the items of a sequence of known length."""
    return value.items if isinstance(value, Sequence) else None


def is_traced(value: Value) -> bool:
    """Return whether a value depends on the arguments of its function."""
    array = as_array(value)
    if array is not None:
        return array.traced
    if isinstance(value, (Sequence, Dict)):
        return any(map(is_traced, parts_of(value)))
    return any(getattr(o, "traced", False) for o in options(value))


def may_be_traced(value: Value) -> bool:
    """Return whether a value is, or may be, an array that depends on a parameter."""
    array = as_array(value)
    return value is UNKNOWN or (array is not None and array.traced)


class Torch(OnePerUnion, frozen=True):
    """A torch tensor, or what else may be on a device: a module, a batch, a module's result."""

    devices: frozenset[str] = frozenset()  # kinds, of which the program chooses; empty if unknown
    dtype: str | None = None  # by torch's name
    is_tensor: bool = True

    def merged(self, other: Torch) -> Value:
        """Return a tensor of unknown device if one path leaves it on the host and one moves it."""
        devices = self.devices | other.devices
        are_known = self.devices and other.devices
        if not are_known or (
            self.devices != other.devices and HOST in (self.devices, other.devices)
        ):
            devices = frozenset()
        dtype = self.dtype if self.dtype == other.dtype else None
        return Torch(devices, dtype, self.is_tensor and other.is_tensor)


class TorchDevice(OnePerUnion, frozen=True):
    """A ``torch.device`` of one of these kinds, as the program chooses."""

    kinds: frozenset[str]

    def merged(self, other: TorchDevice) -> Value:
        """Return a device of the kinds of both."""
        return TorchDevice(self.kinds | other.kinds)


class ShaderLibrary(Value, frozen=True):
    """The kernels of ``torch.mps.compile_shader(source)``, as its attributes."""

    source: Str


#: A torch value of which nothing is known.
TORCH = Torch()
#: The device of tensors that no one has moved.
HOST = frozenset(("cpu",))


def as_tensor(value: Value) -> Torch | None:
    """Get the torch tensor that a value is, or None for what may be anything else but ``None``."""
    if type(value) is Torch:
        return value
    if type(value) is Union and len(value.options) == 2:
        found = [option for option in value.options if type(option) is Torch]
        if found and any(type(option) is NoneValue for option in value.options):
            return found[0]
    return None


class BoundTransform(Value, frozen=True):
    """``partial(mx.compile, inputs=state)``: a transform's name, and arguments of its call."""

    name: str
    arguments: tuple[Argument, ...]
