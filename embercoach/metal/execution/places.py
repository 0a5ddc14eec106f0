"""Places: what expressions designate in memory."""

from __future__ import annotations

from msgspec import Struct

from embercoach.metal.execution import accessing
from embercoach.metal.execution.accessing import COMPONENTS, cast, component, number, swizzled
from embercoach.metal.execution.arithmetic import add
from embercoach.metal.execution.machine import Machine, assign, call, evaluate, evaluate_number
from embercoach.metal.execution.path_state import Pointer, Reference, Result, State, moved
from embercoach.metal.execution.values import ZERO
from embercoach.metal.program.nodes import (
    Assign,
    Call,
    Cast,
    Conditional,
    Expression,
    Index,
    Member,
    Name,
)


class Designation(Struct, frozen=True):
    """The place that an expression designates, and results of finding it.

    Nobody evaluates the expression again: that would repeat its effects, and take twice the work
    at each level of nesting.
    """

    #: None for an expression that does not designate memory, or whose place is not known.
    place: Pointer | None = None
    #: What the expression gives, None where that is not evaluated yet.
    value: Result | None = None
    #: What the object of a member, or the operand of a cast, designates.
    base: Designation | None = None


def place_of(m: Machine, state: State, node: Expression) -> Pointer | None:
    """Return the place that an expression designates, None if none is known."""
    return designated(m, state, node).place


def designated(m: Machine, state: State, node: Expression) -> Designation:
    """Return an expression's designation; one without a place may be left unevaluated."""
    match node:
        case Name():
            return Designation(_place_of_name(m, state, node))
        case Index():
            return _element(m, state, node)
        case Member():
            base = designated(m, state, node.base)
            place = None if base.place is None else _place_of_member(m, base.place, node)
            return Designation(place, base=base)
        case Assign():
            value, place = assign(m, state, node)
            return Designation(place, value)
        case Cast():
            base = designated(m, state, node.operand)
            kind = m.resolved(node.type)
            place = None if base.place is None else base.place._replace(type=kind)
            return Designation(place, base=base)
        case Conditional():
            found = evaluate(m, state, node)
            return Designation(found if isinstance(found, Pointer) else None, found)
        case Call():
            found = call(m, state, node)
            if not isinstance(found, Pointer):
                return Designation(None, found)
            reference = any(function.result.reference for function in node.functions)
            return Designation(found, None if reference else found)
        case _:
            return Designation()


def held(m: Machine, state: State, node: Expression, found: Designation) -> Result:
    """Return the value of an expression of which it is known what it designates."""
    if found.value is not None:
        return found.value
    if isinstance(node, Cast) and found.base is not None:
        return cast(m, state, node, held(m, state, node.operand, found.base))
    if isinstance(node, Member) and found.base is not None:
        vector = accessing.is_vector(m.resolved(node.base.type))
        if vector or found.place is None:
            base = held(m, state, node.base, found.base)
            if vector:
                return swizzled(m, base, node)
            return m.pool.symbol("part", (node.field, number(m, state, base, node.base)))
    if found.place is None or isinstance(node, Name):
        return evaluate(m, state, node)
    return accessing.load(m, state, found.place, node.spot)


def _place_of_name(m: Machine, state: State, node: Name) -> Pointer:
    binding = state.variables.get(node.variable)
    if isinstance(binding, Reference):
        return binding.place
    if accessing.holds_pointer(node.variable):
        # The pointer itself, as in ``out += row * n``.
        return Pointer(node.variable, "thread", ZERO, node.variable.type)
    return accessing.place_of_variable(m, node.variable)


def _element(m: Machine, state: State, node: Index) -> Designation:
    index = evaluate_number(m, state, node.index)
    if accessing.is_vector(m.resolved(node.base.type)) and not isinstance(node.base, Call):
        found = designated(m, state, node.base)
        place = found.place
        if place is None or not accessing.is_vector(place.type):
            vector = held(m, state, node.base, found)
            return Designation(None, component(m, state, vector, index, node))
        at = index.constant
        if at is not None:
            return Designation(accessing.components_at(m, place, at, 1))
        kind = accessing.with_width(place.type, 1)
        return Designation(place._replace(type=kind, offset=add(m.pool, place.offset, index)))
    base = evaluate(m, state, node.base)
    if not isinstance(base, Pointer):
        given = number(m, state, base, node.base)
        return Designation(None, m.pool.symbol("part", ("[]", given, index)))
    root = base.root
    return Designation(base if root is None else moved(m.pool, base, index, m.root_type(root)))


def _place_of_member(m: Machine, base: Pointer, node: Member) -> Pointer | None:
    if not accessing.is_vector(base.type):
        kind = m.resolved(node.type)
        return base._replace(type=kind, member=f"{base.member}.{node.field}")
    at = [COMPONENTS.get(letter, 0) for letter in node.field]
    if not at or at != list(range(at[0], at[0] + len(at))):
        return None
    return accessing.components_at(m, base, at[0], len(at))
