"""Values of Python that are neither numbers nor arrays: objects, containers, functions, classes."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.analysis.shapes.arrays import UNKNOWN, ArrayShape

if TYPE_CHECKING:
    import ast

    from embercoach.analysis.shapes.path_states import Frame
    from embercoach.analysis.shapes.size_integers import Integer

_serial = count(1)


class Place(Struct, frozen=True, eq=False):
    """An unknown value of one place, such as a parameter; what it is may be learned later.

    is_setting: of a constructor's argument, or of a configuration's field: no array.
    shape: that of the array that it is, if it is one, as a comment says.
    """

    name: str
    is_setting: bool = False
    scope: object = None
    shape: ArrayShape | None = None

    def __repr__(self) -> str:
        """Return a question mark, and the name."""
        return f"?{self.name}"


class ArgumentScope(Struct, frozen=True, eq=False):
    """The scope of a function's arguments in one run; the place of sizes that are passed to it."""

    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Reference(Struct, frozen=True):
    """A mutable object on the heap, by its number."""

    number: int


class ListReference(Reference, frozen=True):
    """A list; the heap has ``Items``."""


class DictReference(Reference, frozen=True):
    """A dictionary; the heap has ``Entries``."""


class ObjectReference(Reference, frozen=True):
    """An instance of a class of a program or of ``mlx.nn``; the heap has ``Attributes``.

    cls: the class of the program, None for a library's, or where it is unknown.
    library: MLX's name of the class, or of the base that the program's class derives from.
    is_open: it was not made in sight: attributes that were never set exist, too.
    """

    cls: ClassValue | None = None
    library: str = ""
    is_open: bool = False


class Items(Struct, frozen=True):
    """The contents of a list: known ``items``, or ``common`` for any of ``length`` ones."""

    items: tuple[Any, ...] | None
    common: Any = UNKNOWN
    length: Integer | None = None


class Entries(Struct, frozen=True):
    """The contents of a dictionary: known keys, and with ``is_open`` others."""

    known: dict[Any, Any]
    is_open: bool = False


class Attributes(Struct, frozen=True):
    """The attributes of an object.

    is_summary: it stands for several objects.
    doubtful: those that it has on some of the paths.
    """

    values: dict[str, Any]
    is_summary: bool = False
    doubtful: frozenset[str] = frozenset()


def new_number() -> int:
    """Return a number for a new object; later ones are larger."""
    return next(_serial)


class Iterator(Struct, frozen=True):
    """Something that is iterated over: known ``items``, or ``common`` for any."""

    items: tuple[Any, ...] | None
    common: Any = UNKNOWN


class Options(Struct, frozen=True):
    """One of several values, at most ``MOST_OPTIONS``."""

    values: tuple[Any, ...]


MOST_OPTIONS = 8


class Truth(Struct, frozen=True):
    """A condition that is not decided; equal ones are true together.

    is_negated: it is true where the comparison is false.
    """

    operator: str
    left: Any
    right: Any
    is_negated: bool = False


class FunctionValue(Struct, frozen=True, eq=False):
    """A function or lambda of a program, with the frame that it was defined in."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    frame: Frame
    cls: ClassValue | None = None
    defaults: tuple[Any, ...] = ()
    keyword_defaults: tuple[Any, ...] = ()
    decorators: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Return the name."""
        return f"<function {self.name}>"

    @property
    def name(self) -> str:
        """The name, ``lambda`` for one without."""
        return getattr(self.node, "name", "lambda")

    @property
    def positional(self) -> list[ast.arg]:
        """The parameters that arguments are given to by position."""
        return [*self.node.args.posonlyargs, *self.node.args.args]

    @property
    def defaults_by_name(self) -> dict[str, Any]:
        """The values of the parameters that a call may leave out; of some others ``UNKNOWN``."""
        optional = self.positional[len(self.positional) - len(self.defaults) :]
        parameters = (*optional, *self.node.args.kwonlyargs)
        values = (*self.defaults, *self.keyword_defaults)
        return {one.arg: value for one, value in zip(parameters, values, strict=True)}


class BoundFunction(Struct, frozen=True):
    """A method of a program with its first argument."""

    function: FunctionValue
    owner: Any


class ClassValue(Struct, frozen=True, eq=False):
    """A class of a program."""

    name: str
    node: ast.ClassDef
    frame: Frame
    bases: tuple[Any, ...]
    members: dict[str, Any]
    is_dataclass: bool = False

    def __repr__(self) -> str:
        """Return the name."""
        return self.name


class LibraryName(Struct, frozen=True):
    """A name of a library: ``mlx.core.add``, ``builtins.len``, ``numpy``."""

    name: str


class LibraryMethod(Struct, frozen=True):
    """A method of a value that is not the program's: ``x.reshape``, ``d.items``."""

    owner: Any
    name: str


class PartialCall(Struct, frozen=True):
    """``functools.partial`` of a callable."""

    function: Any
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]


class TransformedFunction(Struct, frozen=True):
    """``mx.grad(f)`` and the like, with the arguments of the transformation."""

    transform: str
    function: Any
    arguments: tuple[Any, ...] = ()
    keywords: tuple[tuple[str, Any], ...] = ()


class ModuleValue(Struct, frozen=True, eq=False):
    """A module of the program; its names are those of its frame."""

    frame: Frame


class SuperValue(Struct, frozen=True):
    """``super()`` in a method of a class."""

    cls: ClassValue
    owner: Any


def options_of(value: Any) -> tuple[Any, ...]:
    """Return the values that a value may be."""
    return value.values if type(value) is Options else (value,)


def one_of(values: list[Any]) -> Any:
    """Return one of some values; ``UNKNOWN`` of too many, or of an unknown one."""
    found: list[Any] = []
    for value in values:
        for option in options_of(value):
            if option is UNKNOWN:
                return UNKNOWN
            if not any(option is held or _equal(option, held) for held in found):
                found.append(option)
    if len(found) == 1:
        return found[0]
    return Options(tuple(found)) if 0 < len(found) <= MOST_OPTIONS else UNKNOWN


def _equal(a: Any, b: Any) -> bool:
    """Compare by type and content: 1, 1.0 and True are different values."""
    if type(a) is not type(b):
        return False
    if type(a) is tuple:
        return len(a) == len(b) and all(map(_equal, a, b))
    return bool(a == b)


#: Values that a value is made of at most: ``x = (x, x)`` in a row would else take exponential time.
HEAVIEST = 300


def bounded(value: Any) -> Any:
    """Return the value, or ``UNKNOWN`` if it is made of too many."""
    pending = [value]
    seen = 0
    while pending:
        one = pending.pop()
        seen += 1
        if seen > HEAVIEST:
            return UNKNOWN
        kind = type(one)
        if kind is tuple:
            pending += one
        elif kind is Options:
            pending += one.values
        elif kind is Iterator:
            pending += one.items or (one.common,)
        elif kind is PartialCall or kind is TransformedFunction:
            pending += (one.function, *one.arguments, *(v for _, v in one.keywords))
        elif kind is Truth:
            pending += (one.left, one.right)
    return value
