"""The lattice: what inference knows of a Python value.

``UNKNOWN`` is the top: nothing is known, and every check stays silent on it. A ``Union`` holds
what a value may be on different paths. All values are immutable and compare by content.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    import libcst as cst

    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.values.gradient_marks import GradientMark
    from embercoach.analysis.values.spectra import Role
    from embercoach.metal.source import FoldedText

NumberKind = Literal["bool", "int", "float", "complex"]
SequenceKind = Literal["list", "tuple", "set", "iterator", "shape"]


class CollectedPull(NamedTuple):
    """A mark of a value that depends on a pull through a list that the host has grown."""

    node: cst.CSTNode


#: Nodes of host synchronisations that a value depends on, and marks of gradients and of lists.
Pulls = frozenset["cst.CSTNode | GradientMark | CollectedPull"]
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
    role: what its numbers mean, where they come from a Fourier transform.
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
    """

    kind: NumberKind
    const: int | float | complex | None = None
    origin: cst.CSTNode | None = None
    pulls: Pulls = NO_PULLS


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

    ``stretch`` says where its characters are in the literal, if it isn't the literal as it is.
    A ``hole`` stands for a part that is not known, but to be a number, or to be anything.
    """

    text: str
    literal: StringLiteral | None = None
    stretch: FoldedText | None = None
    hole: Literal["", "number", "any"] = ""


@dataclass(frozen=True, slots=True)
class Str(Value):
    """A string; ``pieces`` are its parts, some of them holes, or None if nothing is known.

    either: the strings, in order, of which it is one, if it may be several.
    choice: what decides which of them it is; strings with the same one are decided together.
    """

    pieces: tuple[Piece, ...] | None = None
    either: tuple[Str, ...] = ()
    choice: object = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str | None:
        """The whole text, None if some of it is unknown."""
        if self.pieces is None or any(p.hole for p in self.pieces):
            return None
        return "".join(p.text for p in self.pieces)


@dataclass(frozen=True, slots=True)
class Bytes(Value):
    """A bytes-like object of the host."""

    pulls: Pulls = NO_PULLS


#: Values compare and hash by content: a container of more parts, counting those inside its parts,
#: is not followed. ``x = [x, x]`` in a row would else take exponential time.
HEAVIEST = 1_000


def _weight(value: Value) -> int:
    """How many values a value is made of."""
    if type(value) is Sequence or type(value) is Dict:
        return value.weight
    if type(value) is Union:
        return sum(map(_weight, value.options))
    return 1


@dataclass(frozen=True, slots=True)
class Sequence(Value):
    """A list, tuple, set, shape or iterator: known ``items``, or what any item is, ``common``."""

    kind: SequenceKind
    common: Value | None
    items: tuple[Value, ...] | None = None
    pulls: Pulls = NO_PULLS
    weight: int = field(default=1, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        weight = 1 + sum(map(_weight, self.items or ()))
        weight += 0 if self.common is None else _weight(self.common)
        if weight > HEAVIEST:
            weight = 1
            object.__setattr__(self, "common", UNKNOWN)
            object.__setattr__(self, "items", None)
        object.__setattr__(self, "weight", weight)


@dataclass(frozen=True, slots=True)
class Dict(Value):
    """A dictionary: known string keys, and what any other value is.

    exact: it certainly has the known keys and no others. Known in files that build kernels only.
    """

    item: Value
    known: tuple[tuple[str, Value], ...] = ()
    exact: bool = False
    weight: int = field(default=1, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        weight = 1 + _weight(self.item) + sum(_weight(value) for _, value in self.known)
        if weight > HEAVIEST:
            weight = 1
            object.__setattr__(self, "item", UNKNOWN)
            object.__setattr__(self, "known", ())
            object.__setattr__(self, "exact", False)
        object.__setattr__(self, "weight", weight)

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
class Setting(Value):
    """A configuration object or one of its values: host data, never an array."""


@dataclass(frozen=True, slots=True)
class DType(Value):
    """An MLX dtype; ``name`` is None if it is one that inference doesn't know."""

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
    taken: int = 0  # positional arguments that a partial call has taken


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
    """The kernel of ``metal_kernel`` at ``definition``, the file's ``order``-th."""

    definition: CallFact
    order: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Wrapped(Value):
    """A kernel, ``value``, in a wrapper of ``metal_kernel``: its calls launch unseen."""

    value: Value
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class FilePath(Value):
    """A path made of ``__file__``, or with ``is_open`` the file of that path, opened to be read."""

    path: Path
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Template(Value):
    """A ``string.Template`` of a text."""

    text: Str


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
NUMPY = Numpy()
