"""Facts: what inference saw happen to values, and where. Checks read them and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import force_setattr

from embercoach.analysis import mlx_api
from embercoach.analysis.values.inheritance import find_method
from embercoach.analysis.values.lattice import (
    NO_PULLS,
    UNKNOWN,
    Array,
    BoundMember,
    Instance,
    LibraryObject,
    Number,
    Numpy,
    Pulls,
    Symbol,
    Transformed,
    Unknown,
    Value,
    as_array,
    as_number,
    as_numpy,
    options,
    pulls_of,
)
from embercoach.analysis.values.memo import kept_for_file

if TYPE_CHECKING:
    import libcst as cst

    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.evaluate.frame import Frame
    from embercoach.analysis.mlx_api import ApiEntry, Param
    from embercoach.analysis.project.module import Module

TruthForm = Literal[
    "if", "while", "ternary", "comprehension", "guard", "assert", "not", "and", "or", "chained"
]


class FactPlace(NamedTuple):
    """Where a fact stands.

    statement: the innermost statement around it.
    function: the innermost function or lambda, None at module level.
    loops: how many loops of that function (or of the module's top level) are around it.
    loop: the innermost loop statement.
    loop_names: what the targets of those loops bind.
    array_names: those of them that walk over an array's elements.
    periodic: guarded by a test like ``step % 10 == 0``.
    """

    statement: cst.CSTNode
    function: FunctionInfo | None
    loops: int
    loop: cst.For | cst.While | None
    loop_names: frozenset[str]
    array_names: frozenset[str]
    periodic: bool


class Argument(NamedTuple):
    """An argument of a call: its value, its expression, its keyword and its star."""

    value: Value
    node: cst.BaseExpression
    keyword: str | None
    star: str


def first_value(arguments: tuple[Argument, ...]) -> Value:
    """Return the value of a call's first argument; ``UNKNOWN`` if it has none."""
    return arguments[0].value if arguments else UNKNOWN


def keyword_value(arguments: tuple[Argument, ...], *names: str) -> Value | None:
    """Return the value that a call passes by one of these keywords."""
    return next((a.value for a in arguments if a.keyword in names), None)


def pulls_of_arguments(arguments: tuple[Argument, ...]) -> Pulls:
    """Return the host synchronisations that the arguments of a call depend on."""
    return NO_PULLS.union(*(pulls_of(argument.value) for argument in arguments))


def match(entry: ApiEntry, arguments: tuple[Argument, ...]) -> Iterator[tuple[Param, Argument]]:
    """Pair a call's arguments with the parameters that take them; stops at a ``*args``."""
    index = 0
    for argument in arguments:
        if argument.star:
            return
        if argument.keyword is None:
            param = entry.positional(index)
            index += 1
        else:
            param = entry.param(argument.keyword)
        if param is not None:
            yield param, argument


class Operand(NamedTuple):
    """An operand: its value, its expression, and what it is by all evidence.

    ``is_certain``: the value is known on every path.
    """

    value: Value
    node: cst.BaseExpression
    array: Array | None
    number: Number | None
    numpy: Numpy | None
    is_certain: bool

    @classmethod
    def of(cls, value: Value, node: cst.BaseExpression) -> Operand:
        """Return the operand of that value."""
        is_certain = not any(type(option) is Unknown for option in options(value))
        return cls(value, node, as_array(value), as_number(value), as_numpy(value), is_certain)


class Fact(Struct, frozen=True, eq=False):
    """Something that happened at ``node``."""

    node: cst.CSTNode
    place: FactPlace


class FunctionVisit(Fact, frozen=True, eq=False):
    """A call of a function of the file, in a file that builds kernels.

    bound: what the function's first parameter is, if it is called as a method.
    closure: the frame of the function around it, None for one of the top level.
    outer: the call by which the function that makes this one is visited, None in the analysis of
        that function for all its callers.
    """

    node: cst.Call
    function: FunctionInfo
    bound: Value | None
    arguments: tuple[Argument, ...]
    closure: Frame | None
    outer: FunctionVisit | None = None


class LocalCall(Fact, frozen=True, eq=False):
    """A call of a function of the file, in any file; ``is_bound`` if an instance comes first."""

    node: cst.Call
    function: FunctionInfo
    is_bound: bool


class ProjectCall(Fact, frozen=True, eq=False):
    """A call of a function of another linted file, or of one of several functions.

    ``is_certain``: no other function is possible.
    """

    node: cst.Call
    function: FunctionInfo
    is_bound: bool
    arguments: tuple[Argument, ...]
    is_certain: bool = False


class ClassCall(Fact, frozen=True, eq=False):
    """A call of a class of the project in whose lineage no file defines ``__init__``."""

    node: cst.Call
    cls: ClassInfo


class UncallableFact(Fact, frozen=True, eq=False):
    """A call of an object of a layer that has ``forward`` and no ``__call__``."""

    node: cst.Call
    cls: ClassInfo


class CallFact(Fact, frozen=True, eq=False):
    """A call: of what, with which arguments, yielding what.

    ``receiver`` is the owner of a method call (``x`` in ``x.item()``), with its expression.
    ``visit`` is set where a launch is reported as one call of the function around it makes it.

    symbol: the qualified name of the library function that is called.
    array: the array whose method is called.
    entry: what MLX's table says of the function, method or layer that is called.
    matched: the parameters of ``entry`` with the arguments that they take.
    """

    node: cst.Call
    callee: Value
    arguments: tuple[Argument, ...]
    result: Value
    receiver: Value | None = None
    receiver_node: cst.BaseExpression | None = None
    visit: FunctionVisit | None = None
    symbol: str | None = None
    array: Array | None = None
    entry: ApiEntry | None = None
    matched: tuple[tuple[Param, Argument], ...] = ()

    def __post_init__(self) -> None:
        """Look up once what many checks ask for."""
        callee, entry, arguments = self.callee, None, self.arguments
        if isinstance(callee, Symbol):
            force_setattr(self, "symbol", callee.name)
            entry = mlx_api.lookup(callee.name) if callee.name.startswith("mlx.") else None
            if callee.name.startswith("mlx.core.array."):
                arguments = arguments[1:]  # an array, as in ``mx.array.sum(x)``
        elif isinstance(callee, BoundMember):
            array = as_array(callee.owner)
            force_setattr(self, "array", array)
            entry = None if array is None else mlx_api.array_member(callee.name)
        elif isinstance(callee, LibraryObject):
            entry = mlx_api.member(callee.cls, "__call__")
        if entry is not None:
            force_setattr(self, "entry", entry)
            force_setattr(self, "matched", tuple(match(entry, arguments)))

    def positional(self, index: int) -> Argument | None:
        """Return the positional argument at an index, None after a ``*args``."""
        known = takewhile(lambda argument: not argument.star, self.arguments)
        positional = [argument for argument in known if argument.keyword is None]
        return positional[index] if index < len(positional) else None

    def keyword(self, name: str) -> Argument | None:
        """Return the argument passed by a keyword."""
        return next((a for a in self.arguments if a.keyword == name), None)

    def argument(self, index: int, name: str) -> Argument | None:
        """Return the argument of a parameter that can be passed by place or by keyword."""
        return self.keyword(name) or self.positional(index)


class CompileFact(Fact, frozen=True, eq=False):
    """``mx.compile`` of a function, by a call or a decorator.

    function: what is compiled.
    arguments: of ``mx.compile``, those of a ``partial`` of it among them.
    decorated: the function of the file that the decorator is one of.
    """

    function: Value
    arguments: tuple[Argument, ...]
    decorated: FunctionInfo | None = None

    def option(self, index: int, name: str) -> Argument | None:
        """Return the argument for ``inputs`` (1), ``outputs`` (2) or ``shapeless`` (3)."""
        given = next((a for a in self.arguments if a.keyword == name), None)
        positional = [a for a in self.arguments if a.keyword is None and not a.star]
        if given is None and self.decorated is None and len(positional) > index:
            given = positional[index]
        return given

    @property
    def has_star(self) -> bool:
        """Return whether some of the arguments are hidden in a ``*`` or ``**``."""
        return any(argument.star for argument in self.arguments)


class CompiledCall(Fact, frozen=True, eq=False):
    """A call of what ``mx.compile`` returned."""

    node: cst.Call
    callee: Transformed
    arguments: tuple[Argument, ...]


class StoreFact(Fact, frozen=True, eq=False):
    """``owner.name = value``, ``owner[...] = value``, or a global name, in a function."""

    node: cst.CSTNode
    value: Value


@kept_for_file
def calls_of(module: Module) -> dict[cst.CSTNode, CallFact]:
    """Return the calls of a file by their nodes; of few files, as it keeps them in memory."""
    return {f.node: f for f in module.facts() if isinstance(f, CallFact)}


@kept_for_file
def calls_by_function(module: Module) -> dict[FunctionInfo, tuple[LocalCall, ...]]:
    """Return the calls of a file's functions, in the order of the text; of few files."""
    found: dict[FunctionInfo, list[LocalCall]] = {}
    calls = (fact for fact in module.facts() if isinstance(fact, LocalCall))
    # The order of analysis varies: the alternatives of a value are a set.
    ranges = module.parsed.converted.ranges or {}
    for call in sorted(calls, key=lambda call: ranges.get(id(call.node), 0)):
        found.setdefault(call.function, []).append(call)
    return {function: tuple(calls) for function, calls in found.items()}


class BinaryFact(Fact, frozen=True, eq=False):
    """An arithmetic operation; ``in_place`` for an augmented assignment."""

    node: cst.BinaryOperation | cst.AugAssign
    operator: str
    left: Operand
    right: Operand
    in_place: bool = False


#: Functions of MLX that compute what an operator does.
OPERATORS = {
    "mlx.core.add": "+",
    "mlx.core.subtract": "-",
    "mlx.core.multiply": "*",
    "mlx.core.divide": "/",
}


class Arithmetic(NamedTuple):
    """An arithmetic operation, by an operator or a function."""

    operator: str
    left: Operand | Argument
    right: Operand | Argument


def arithmetic_of(fact: Fact) -> Arithmetic | None:
    """Return the operation of ``x - y`` and ``mx.subtract(x, y)``."""
    if isinstance(fact, BinaryFact):
        return Arithmetic(fact.operator, fact.left, fact.right)
    operator = OPERATORS.get(fact.symbol or "") if isinstance(fact, CallFact) else None
    if operator is None or not isinstance(fact, CallFact):
        return None
    first, second = fact.positional(0), fact.positional(1)
    return None if first is None or second is None else Arithmetic(operator, first, second)


class InvertFact(Fact, frozen=True, eq=False):
    """``~value`` of an array."""

    node: cst.UnaryOperation
    value: Value


class CompareFact(Fact, frozen=True, eq=False):
    """One comparison ``left operator right``; membership tests are comparisons too."""

    node: cst.Comparison
    operator: str
    left: Operand
    right: Operand


class TruthFact(Fact, frozen=True, eq=False):
    """The truth value of an expression is taken; ``guarded`` by a host value before ``and``."""

    node: cst.BaseExpression
    value: Value
    form: TruthForm
    guarded: bool = False


class FormatFact(Fact, frozen=True, eq=False):
    """A value is turned into text by an f-string or ``%``."""

    node: cst.BaseExpression
    value: Value
    form: Literal["fstring", "percent"]


class LibraryWrite(Fact, frozen=True, eq=False):
    """An assignment to a member of a library, ``symbol``, or with ``is_item`` to an item of it."""

    node: cst.BaseExpression
    symbol: str
    is_item: bool


class IndexFact(Fact, frozen=True, eq=False):
    """``base[...]`` with an array where an index or a slice bound stands."""

    node: cst.BaseExpression
    base: Value
    index: Value
    form: Literal["index", "slice"]


class ItemStoreFact(Fact, frozen=True, eq=False):
    """``base[...] = value`` of an array; ``in_place`` for an augmented assignment."""

    node: cst.Subscript
    base: Value
    value: Value
    in_place: bool = False


class AttributeFact(Fact, frozen=True, eq=False):
    """``owner.name = value`` for an instance of a class that is derived from ``mlx.nn.Module``."""

    node: cst.Attribute
    owner: ClassInfo
    name: str
    value: Value


class InstanceCallFact(Fact, frozen=True, eq=False):
    """``module.__call__ = value`` for an instance of a class derived from ``mlx.nn.Module``."""

    node: cst.Attribute


class MissingMemberFact(Fact, frozen=True, eq=False):
    """A member that a value of MLX lacks; ``node`` reads or imports it, ``call`` calls it."""

    node: cst.Attribute | cst.ImportAlias
    owner: Value
    name: str
    call: cst.Call | None = None


class MissingAttributeFact(Fact, frozen=True, eq=False):
    """An attribute that no class of an instance's lineage defines or assigns; ``node`` reads it."""

    node: cst.Attribute
    cls: ClassInfo
    name: str


class PropertyCallFact(Fact, frozen=True, eq=False):
    """A call of a property of an array: ``x.size()``."""

    node: cst.Call
    name: str


class ArrayIndexFact(Fact, frozen=True, eq=False):
    """``array[...]``, read or assigned: the expressions in brackets, None for a slice."""

    node: cst.Subscript
    array: Array
    indices: tuple[tuple[cst.BaseExpression, Value] | None, ...]


class PropertyReadFact(Fact, frozen=True, eq=False):
    """``codec.gain`` in a loop, where ``gain`` is a property of a class of the project."""

    node: cst.Attribute
    function: FunctionInfo


def record_read(frame: Frame, node: cst.Attribute, owner: Value, value: Value) -> None:
    """Record the read of a property in a loop, if it returns no array."""
    if not frame.loops or type(owner) is not Instance or type(value) is Array:
        return
    method = find_method(owner.info, node.attr.value)
    if method is not None and method.is_property:
        frame.add(PropertyReadFact(node, frame.place(), method))
