"""Expressions of which some threads do only a part: ``&&``, ``||`` and ``?:``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.execution.arithmetic import both, choose, truth
from embercoach.metal.execution.conditions import Conditions, narrow
from embercoach.metal.execution.conversions import number
from embercoach.metal.execution.memory import Reference, Result
from embercoach.metal.execution.path_state import joined, met
from embercoach.metal.execution.recursion import evaluate, evaluate_number
from embercoach.metal.execution.values import LaneValue
from embercoach.metal.program.nodes import Assign, Binary, Call, Conditional, Expression
from embercoach.metal.program.walk import below

if TYPE_CHECKING:
    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.execution.path_state import State


def logic(m: Machine, state: State, node: Binary) -> LaneValue:
    """``left && right`` or ``left || right``: the right side runs only where it decides."""
    left = truth(m.pool, evaluate_number(m, state, node.left))
    holds = node.operator == "&&"
    lanes, conditions = narrow(m.pool, state.lanes, state.conditions, left, holds=holds)
    if not lanes:
        return LaneValue(0 if holds else 1)
    right = _within(m, state, lanes, conditions, node.right)
    return both(m.pool, node.operator, left, truth(m.pool, number(m, state, right, node.right)))


def _within(
    m: Machine,
    state: State,
    lanes: int,
    conditions: Conditions,
    node: Expression,
) -> Result:
    """Evaluate for some of the threads only."""
    if (lanes, conditions) == (state.lanes, state.conditions):
        return evaluate(m, state, node)
    kept = state.lanes, state.conditions
    if _is_pure(m, node):
        state.lanes, state.conditions = lanes, conditions
        result = evaluate(m, state, node)
        state.lanes, state.conditions = kept
        return result
    path = state.fork(lanes, conditions)
    result = evaluate(m, path, node)
    rest = state.fork(kept[0] & ~lanes or kept[0], kept[1])
    state.become(met(m.pool, path, rest))
    state.lanes, state.conditions = kept
    return result


def _is_pure(m: Machine, node: Expression) -> bool:
    """Return whether evaluating it changes no variable and stops no thread."""
    known = m.marks.get(("pure", node))
    if known is None:
        known = m.marks["pure", node] = not any(
            isinstance(inner, Assign)
            or (isinstance(inner, Call) and (inner.functions or inner.name.endswith("barrier")))
            for inner in below(node)
        )
    return bool(known)


def conditional(m: Machine, state: State, node: Conditional) -> Result:
    """``condition ? then : otherwise``."""
    condition = truth(m.pool, evaluate_number(m, state, node.condition))
    sides: list[Result] = []
    for holds, side in ((True, node.then), (False, node.otherwise)):
        lanes, conditions = narrow(m.pool, state.lanes, state.conditions, condition, holds=holds)
        if lanes:
            sides.append(_within(m, state, lanes, conditions, side))
    if not sides:
        return m.pool.unknown()
    if len(sides) == 1:
        return sides[0]
    one, other = sides
    if isinstance(one, LaneValue) and isinstance(other, LaneValue):
        return choose(m.pool, condition, one, other)
    found = joined(m.pool, condition, one, other)
    return m.pool.unknown() if isinstance(found, Reference) else found
