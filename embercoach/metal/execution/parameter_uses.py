"""Uses of the arrays that MLX passes: element by element, as a number, as an address."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, TypeGuard

from msgspec import Struct, field

from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Conditional,
    Construct,
    Declare,
    Expression,
    If,
    Index,
    Loop,
    Member,
    Name,
    Program,
    Spot,
    Switch,
    Unary,
    Variable,
)
from embercoach.metal.program.types import FLOATS, INTEGERS, Type, is_address
from embercoach.metal.program.walk import Node, Path, below, with_path

Manner: TypeAlias = Literal["element", "address", "number", "unclear"]
#: Operators that no pointer has.
_OF_NUMBERS = frozenset({"*", "/", "%", "&", "|", "^", "<<", ">>"})
#: Calls within calls that a pointer is followed through.
MAX_CALLS = 4
_PLAIN = INTEGERS.keys() | FLOATS


class ParameterUse(Struct, frozen=True):
    """One use of an input or output.

    Attributes:
        manner: ``element`` for ``x[i]``, ``x[i + 1]`` or ``*(x + i)``; ``address`` where the
            pointer itself goes on, into a variable or a cast; ``number`` where only a value can
            stand; else ``unclear``.
        index: of an element, the expression between the brackets.
        space: of an address, the space that the pointer which takes it is declared for.
        taker: the name of that pointer, or of the function with such a parameter.
        declared: that pointer, None for a cast.
        node: the element, or the use itself.
        path: the nodes around ``node``.
    """

    variable: Variable
    manner: Manner
    spot: Spot
    node: Expression
    path: Path
    index: Expression | None = None
    space: str | None = None
    taker: str = ""
    declared: Variable | None = None


def parameter_uses(program: Program) -> Iterator[ParameterUse]:
    """Yield every use of an input or output in the body of a kernel, in order."""
    if program.body is None:
        return
    for node, path in with_path(program.body):
        if isinstance(node, Name) and node.variable.kind in ("input", "output"):
            yield _use(node, path)


def indices_below(use: ParameterUse) -> Iterator[Expression]:
    """The indices at which functions of the header take elements of a pointer passed to them."""
    if isinstance(use.node, Name):
        yield from _indices_below(use.node, use.path, MAX_CALLS)


def _indices_below(name: Name, path: Path, depth: int) -> Iterator[Expression]:
    call = path[-1] if path else None
    if not isinstance(call, Call) or len(call.functions) != 1 or name not in call.arguments:
        return
    function, place = call.functions[0], call.arguments.index(name)
    if place >= len(function.parameters) or depth == 0:
        return
    parameter = function.parameters[place]
    for body in function.bodies:
        for node, around in with_path(body):
            if isinstance(node, Name) and node.variable is parameter:
                use = _use(node, around)
                if use.manner == "element" and use.index is not None:
                    yield use.index
                yield from _indices_below(node, around, depth - 1)


def _use(name: Name, path: Path) -> ParameterUse:
    """Climb from a name to what its pointer or its value goes into."""
    current: Node = name
    offset: Expression | None = None
    for depth in range(len(path) - 1, -1, -1):
        parent = path[depth]
        if isinstance(parent, Binary) and parent.operator in ("+", "-"):
            offset = parent.right if parent.left is current else parent.left
            if is_address(offset.type):
                # A number advances that pointer, or it is a difference of pointers.
                return ParameterUse(name.variable, "unclear", name.spot, name, path)
            current = parent
            continue
        if isinstance(parent, Conditional) and parent.condition is not current:
            current = parent
            continue
        return _ended(name, current, offset, parent, path[:depth])
    return ParameterUse(name.variable, "unclear", name.spot, name, path)


def _ended(
    name: Name, current: Node, offset: Expression | None, parent: Node, around: Path
) -> ParameterUse:
    variable, spot = name.variable, name.spot
    if isinstance(parent, Index) and parent.base is current:
        index = parent.index if current is name or offset is None else offset
        return ParameterUse(variable, "element", spot, parent, around, index)
    taken = _taken(current, parent)
    if taken is not None:
        pointer, taker = taken
        space = _space(parent) if pointer is None else pointer.type.space
        return ParameterUse(
            variable, "address", spot, name, (*around, parent), offset, space, taker, pointer
        )
    manner: Manner = "number" if _wants_number(current, parent) else "unclear"
    return ParameterUse(variable, manner, spot, name, (*around, parent))


def _taken(current: Node, parent: Node) -> tuple[Variable | None, str] | None:
    """Return the pointer that an address goes into, and its name; a cast is not a variable."""
    if isinstance(parent, Declare) and _is_pointer(parent.variable.type):
        return parent.variable, parent.variable.name
    if _stores(parent, current) and isinstance(parent.target, Name):
        target = parent.target.variable
        return (target, target.name) if _is_pointer(target.type) else None
    if isinstance(parent, Cast) and is_address(parent.type):
        return None, "the cast"
    if isinstance(parent, Call):
        return _parameter(current, parent)
    return None


def _stores(parent: Node, current: Node) -> TypeGuard[Assign]:
    """Return whether an expression is all of what is stored: ``p += n`` advances a pointer."""
    return isinstance(parent, Assign) and parent.value is current and parent.operator == "="


def _is_pointer(kind: Type) -> bool:
    return is_address(kind) and not kind.reference


def _space(parent: Node) -> str | None:
    return parent.type.space if isinstance(parent, Cast) else None


def _parameter(current: Node, call: Call) -> tuple[Variable, str] | None:
    """Get the parameter of a function of the header, if there is one function that may be meant."""
    if len(call.functions) != 1 or current not in call.arguments:
        return None
    function = call.functions[0]
    index = call.arguments.index(current)
    if index >= len(function.parameters):
        return None
    parameter = function.parameters[index]
    return (parameter, call.name) if is_address(parameter.type) else None


def _wants_number(current: Node, parent: Node) -> bool:
    """Return whether only a value is valid in the place of an expression."""
    if isinstance(parent, Binary):
        return parent.operator in _OF_NUMBERS
    if isinstance(parent, Unary):
        return parent.operator in ("-", "~")
    if isinstance(parent, Index):
        return parent.index is current
    if isinstance(parent, Cast):
        # An address fits into 64 bits.
        return _is_number(parent.type) and parent.type.scalar not in ("long", "ulong")
    if isinstance(parent, Declare):
        return _is_number(parent.variable.type)
    if isinstance(parent, Assign):
        return parent.value is current and _is_number(parent.target.type)
    if isinstance(parent, Call):
        return not parent.functions and parent.name in OF_VALUES and not parent.method
    return isinstance(parent, Construct) and _is_number(parent.type)


#: Functions of Metal's library that take numbers, and never a pointer.
OF_VALUES = frozenset(
    {
        *("abs", "clamp", "max", "min", "mix", "fabs", "fma", "fmax", "fmin", "floor", "ceil"),
        *("round", "pow", "powr", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos"),
        *("tan", "tanh", "simd_sum", "simd_max", "simd_min", "simd_shuffle", "simd_broadcast"),
    }
)


def _is_number(kind: Type) -> bool:
    return kind.scalar in _PLAIN and not is_address(kind) and not kind.reference


class AttributeMismatch(Struct, frozen=True):
    """A vector attribute where only a scalar can stand, or a component of a scalar attribute.

    Attributes:
        attribute: the attribute.
        what: in words, where it stands.
    """

    attribute: str
    what: str
    spot: Spot


def attribute_mismatches(program: Program) -> Iterator[AttributeMismatch]:
    """Uses of thread attributes that their type does not allow."""
    if program.body is None:
        return
    for node, path in with_path(program.body):
        if isinstance(node, Name) and node.variable.kind == "attribute" and path:
            what = _mismatch(node, path)
            if what is not None:
                yield AttributeMismatch(node.variable.attribute, what, node.spot)


def _mismatch(name: Name, path: Path) -> str | None:
    kind = name.type
    if isinstance(path[-1], Member):
        field = path[-1].field
        is_missing = kind.width == 1 or set(field) & set("wa")
        return f"has no component `.{field}`" if is_missing else None
    if kind.width == 1:
        return None
    current: Node = name
    for parent in reversed(path):
        if isinstance(parent, Binary) and parent.type.width > 1:
            current = parent
            continue
        return _scalar_place(current, parent)
    return None


def _scalar_place(current: Node, parent: Node) -> str | None:
    """Describe the use of a vector where only a scalar is valid."""
    if isinstance(parent, Declare):
        kind = parent.variable.type
        if kind.width == 1 and _is_number(kind):
            return f"initializes the {kind.scalar} `{parent.variable.name}`"
    elif isinstance(parent, Assign) and parent.value is current:
        kind = parent.target.type
        if kind.width == 1 and _is_number(kind):
            return f"is assigned to a {kind.scalar}"
    elif isinstance(parent, Index) and parent.index is current:
        return "is used as an index"
    elif isinstance(parent, Cast):
        if parent.type.width == 1 and _is_number(parent.type) and not parent.bits:
            return f"is cast to {parent.type.scalar}"
    elif isinstance(parent, (If, Loop, Conditional)):
        if parent.condition is current:
            return "is used as a condition"
    elif isinstance(parent, Switch) and parent.value is current:
        return "is used in a switch"
    return None


_UPDATES = ("atomic_fetch_", "atomic_compare_")
_INITIAL = ("atomic_store", "atomic_init", "atomic_exchange")


class OutputUses(Struct):
    """The uses of one output, in the order of the text.

    Attributes:
        stores: ``y[i] = value``, whose value does not depend on the element itself.
        updates: ``y[i] += value``, and ``y[i] = max(y[i], value)``.
        reads: other uses of an element's value.
        atomic_updates: ``atomic_fetch_add_explicit(&y[i], ...)`` and the like.
        escapes: the address goes elsewhere: into a variable, a cast, a function; or an atomic
            function writes it.
        uncast: the address goes into an atomic function as it is.
    """

    stores: list[Spot] = field(default_factory=list)
    updates: list[Spot] = field(default_factory=list)
    reads: list[Spot] = field(default_factory=list)
    atomic_updates: list[Spot] = field(default_factory=list)
    escapes: list[Spot] = field(default_factory=list)
    uncast: list[Spot] = field(default_factory=list)


def output_uses(program: Program) -> dict[str, OutputUses]:
    """Return the uses of each output that the body mentions, by name."""
    found: dict[str, OutputUses] = {}
    updated: set[int] = set()
    for use in parameter_uses(program):
        if use.variable.kind == "output":
            _sort(use, found.setdefault(use.variable.name, OutputUses()), updated)
    return found


def _sort(use: ParameterUse, uses: OutputUses, updated: set[int]) -> None:
    spot = use.spot
    if use.manner != "element":
        _note_address(use, uses)
        return
    element, parent = _whole_element(use)
    if isinstance(parent, Assign) and parent.target is element:
        if parent.operator == "=" and not _reads(parent.value, use.variable):
            uses.stores.append(spot)
        else:
            uses.updates.append(spot)
            updated.add(id(parent))
    elif isinstance(parent, Unary) and parent.operator == "&":
        _note_address(use, uses)
    elif isinstance(parent, (Binary, Cast)) or _is_value(parent, element):
        if not any(id(node) in updated for node in use.path):
            uses.reads.append(spot)
    else:
        uses.escapes.append(spot)


def _whole_element(use: ParameterUse) -> tuple[Expression, object]:
    """Return the element, with the component of it that is used, and what is around that."""
    element, depth = use.node, len(use.path) - 1
    while depth >= 0 and isinstance(use.path[depth], (Member, Index)):
        outer = use.path[depth]
        if getattr(outer, "base", None) is not element:
            break
        element, depth = outer, depth - 1  # type: ignore[assignment]
    return element, use.path[depth] if depth >= 0 else None


def _is_value(parent: object, element: Expression) -> bool:
    """Return whether an element's value is taken."""
    if isinstance(parent, Call):
        return _by_value(parent, element)
    if isinstance(parent, Declare):
        return not parent.variable.type.reference and not is_address(parent.variable.type)
    return isinstance(parent, Assign) and parent.value is element


def _by_value(call: Call, element: Expression) -> bool:
    """Return whether a call takes an element's value, and nothing that could write to it."""
    if not call.functions:
        return call.name in OF_VALUES
    if element not in call.arguments:
        return False
    place = call.arguments.index(element)
    return all(
        place < len(function.parameters)
        and not function.parameters[place].type.reference
        and not is_address(function.parameters[place].type)
        for function in call.functions
    )


def _reads(value: Expression, variable: Variable) -> bool:
    """Return whether a value is computed from an element of an output."""
    return any(isinstance(node, Name) and node.variable is variable for node in below(value))


def _note_address(use: ParameterUse, uses: OutputUses) -> None:
    """Note what takes an address: an atomic function, or something else."""
    cast = False
    for node in reversed(use.path):
        if isinstance(node, Call) and node.name.startswith("atomic_") and not node.functions:
            if not cast and any(inner is use.node for inner in below(node.arguments[0])):
                uses.uncast.append(use.spot)
            if node.name.startswith(_UPDATES):
                uses.atomic_updates.append(use.spot)
            elif node.name.startswith(_INITIAL):
                uses.escapes.append(use.spot)
            return
        if not isinstance(node, (Unary, Cast, Binary)):
            break
        cast = cast or isinstance(node, Cast)
    uses.escapes.append(use.spot)
