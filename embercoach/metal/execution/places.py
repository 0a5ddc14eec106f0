"""Places: what expressions designate in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.metal.execution import accessing, expressions
from embercoach.metal.execution.arithmetic import add
from embercoach.metal.execution.memory import Pointer, Reference, moved
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

if TYPE_CHECKING:
    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.execution.state import State

COMPONENTS = {letter: k for text in ("xyzw", "rgba") for k, letter in enumerate(text)}


def place_of(m: Machine, state: State, node: Expression) -> Pointer | None:
    """What an expression designates, None for what is no place in memory or is not known."""
    match node:
        case Name():
            binding = state.variables.get(node.variable)
            if isinstance(binding, Reference):
                return binding.place
            if accessing.holds_pointer(node.variable):
                # The pointer itself, as in ``out += row * n``.
                return Pointer(node.variable, "thread", ZERO, node.variable.type)
            return accessing.place_of_variable(m, node.variable)
        case Index():
            return _place_of_element(m, state, node)
        case Member():
            base = place_of(m, state, node.base)
            return None if base is None else _place_of_member(m, base, node)
        case Assign():
            expressions.evaluate(m, state, node)
            return place_of(m, state, node.target)
        case Cast():
            place = place_of(m, state, node.operand)
            return None if place is None else replace(place, type=m.resolved(node.type))
        case Conditional():
            found = expressions.evaluate(m, state, node)
            return found if isinstance(found, Pointer) else None
        case Call():
            from embercoach.metal.execution.calls import call

            found = call(m, state, node)
            return found if isinstance(found, Pointer) else None
        case _:
            return None


def _place_of_element(m: Machine, state: State, node: Index) -> Pointer | None:
    index = expressions.evaluate_number(m, state, node.index)
    if accessing.is_vector(m.resolved(node.base.type)) and not isinstance(node.base, Call):
        place = place_of(m, state, node.base)
        if place is None or not accessing.is_vector(place.type):
            return None
        at = index.constant
        if at is not None:
            return accessing.component(m, place, at, 1)
        kind = replace(place.type, width=1)
        return replace(place, type=kind, offset=add(m.pool, place.offset, index))
    base = expressions.evaluate(m, state, node.base)
    if not isinstance(base, Pointer):
        return None
    root = base.root
    return base if root is None else moved(m.pool, base, index, m.root_type(root))


def _place_of_member(m: Machine, base: Pointer, node: Member) -> Pointer | None:
    if not accessing.is_vector(base.type):
        kind = m.resolved(node.type)
        return replace(base, type=kind, member=f"{base.member}.{node.field}")
    at = [COMPONENTS.get(letter, 0) for letter in node.field]
    if not at or at != list(range(at[0], at[0] + len(at))):
        return None
    return accessing.component(m, base, at[0], len(at))
