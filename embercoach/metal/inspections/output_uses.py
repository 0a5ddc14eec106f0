"""The uses of each output in a body: plain writes, updates, atomic operations, reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field

from embercoach.metal.inspections.parameter_uses import OF_VALUES, parameter_uses
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Declare,
    Index,
    Member,
    Name,
    Unary,
)
from embercoach.metal.program.types import is_address
from embercoach.metal.program.walk import below

if TYPE_CHECKING:
    from embercoach.metal.inspections.parameter_uses import ParameterUse
    from embercoach.metal.program.nodes import Expression, Program, Spot

_INITIAL = frozenset({"atomic_store", "atomic_store_explicit", "atomic_init", "atomic_exchange"})


class OutputUses(Struct):
    """The uses of one output, in the order of the text.

    Attributes:
        stores: ``y[i] = value``, whose value does not depend on the element itself.
        updates: ``y[i] += value``, and ``y[i] = max(y[i], value)``.
        reads: other uses of an element's value.
        atomic_updates: ``atomic_fetch_add_explicit(&y[i], ...)`` and the like.
        escapes: the address goes elsewhere: into a variable, a cast, a function; or an atomic
            function writes it.
    """

    stores: list[Spot] = field(default_factory=list)
    updates: list[Spot] = field(default_factory=list)
    reads: list[Spot] = field(default_factory=list)
    atomic_updates: list[Spot] = field(default_factory=list)
    escapes: list[Spot] = field(default_factory=list)


def output_uses(program: Program) -> dict[str, OutputUses]:
    """The uses of each output that the body mentions, by name."""
    found: dict[str, OutputUses] = {}
    updated: set[int] = set()
    for use in parameter_uses(program):
        if use.variable.kind == "output":
            _sort(use, found.setdefault(use.variable.name, OutputUses()), updated)
    return found


def _sort(use: ParameterUse, uses: OutputUses, updated: set[int]) -> None:
    spot = use.spot
    if use.manner != "element":
        call = _atomic_call(use.path)
        _note_call(call, uses, spot) if call is not None else uses.escapes.append(spot)
        return
    element, parent = _whole_element(use)
    if isinstance(parent, Assign) and parent.target is element:
        if parent.operator == "=" and not _reads(parent.value, element):
            uses.stores.append(spot)
        else:
            uses.updates.append(spot)
            updated.add(id(parent))
    elif isinstance(parent, Unary) and parent.operator == "&":
        call = _atomic_call(use.path)
        _note_call(call, uses, spot) if call is not None else uses.escapes.append(spot)
    elif isinstance(parent, (Binary, Cast)) or _is_value(parent, element):
        if not any(id(node) in updated for node in use.path):
            uses.reads.append(spot)
    else:
        uses.escapes.append(spot)


def _whole_element(use: ParameterUse) -> tuple[Expression, object]:
    """The element, with the component of it that is used, and what is around that."""
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


def _reads(value: Expression, element: Expression) -> bool:
    """Return whether a value is computed from the element of the same index."""
    base = _base(element)
    return any(
        isinstance(node, Name) and node.variable is base.variable
        for node in below(value)
        if base is not None
    )


def _base(element: Expression) -> Name | None:
    for node in below(element):
        if isinstance(node, Name) and node.variable.kind == "output":
            return node
    return None


def _atomic_call(path: tuple[object, ...]) -> Call | None:
    """The atomic function that an address is passed to."""
    for node in reversed(path):
        if isinstance(node, Call):
            return node if node.name.startswith("atomic_") and not node.functions else None
        if not isinstance(node, (Unary, Cast, Binary)):
            return None
    return None


def _note_call(call: Call, uses: OutputUses, spot: Spot) -> None:
    if call.name.startswith(("atomic_fetch_", "atomic_compare_")):
        uses.atomic_updates.append(spot)
    elif call.name.startswith(tuple(_INITIAL)):
        uses.escapes.append(spot)
