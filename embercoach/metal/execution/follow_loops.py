"""Loops: turns that are known are followed, of others two on a path that can happen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.execution.arithmetic import truth
from embercoach.metal.execution.conditions import narrow
from embercoach.metal.execution.machine import Turn
from embercoach.metal.execution.memory import Bundle, Cells, Pointer, Reference
from embercoach.metal.execution.path_state import met
from embercoach.metal.execution.recursion import evaluate, evaluate_number, execute
from embercoach.metal.execution.values import ALL_AXES, LANE, SIMD, LaneValue, ValueOrigin
from embercoach.metal.program.nodes import Call, Loop
from embercoach.metal.program.walk import below, changed

if TYPE_CHECKING:
    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.execution.memory import Binding
    from embercoach.metal.execution.path_state import State
    from embercoach.metal.program.nodes import MetalFunction, Statement

MAX_TURNS = 72
#: Turns of a loop whose end is not known.
OPEN_TURNS = 2
#: Share of the steps left that a loop without barriers may take.
_QUIET = 16
_BARRIER = "threadgroup_barrier"
_OWN = LANE | SIMD


def loop(m: Machine, state: State, node: Loop) -> None:
    """Follow a loop."""
    for statement in node.start:
        execute(m, state, statement)
    if not state.lanes:
        return
    exits: list[State] = []
    allowed = m.pool.steps + _allowance(m, node)
    turns = opened = 0
    tested = node.kind != "do"
    while state.lanes:
        if tested and not _test(m, state, node, exits):
            opened += 1
        tested = True
        if not state.lanes:
            break
        if opened > OPEN_TURNS:
            _close(m, state, exits, node)
            break
        if turns >= MAX_TURNS or (turns >= OPEN_TURNS and m.pool.steps > allowed):
            m.cut_short = True
            _skip(m, state, node)
            break
        if not _turn(m, state, node, exits):
            opened += _is_open(state, exits)
        turns += 1
    exits.append(state)
    _meet(m, state, exits)
    if opened > OPEN_TURNS:
        _forget_positions(m, state, node)


def _meet(m: Machine, state: State, exits: list[State]) -> None:
    """The state becomes that of all that left the loop."""
    found = exits[0]
    for path in exits[1:]:
        found = met(m.pool, found, path)
    if found is not state:
        state.become(found)


def _close(m: Machine, state: State, exits: list[State], node: Loop) -> None:
    """On the path that is followed, the loop ends here, for all that can leave it."""
    for path in exits:
        state.lanes &= ~path.lanes
    if state.lanes:
        _skip(m, state, node)


def _allowance(m: Machine, node: Loop) -> int:
    """Steps that the loop may take: more where it may have findings."""
    left = max(m.budget - m.pool.steps, 0)
    return left // 2 if _synchronizes(m, node) else left // _QUIET


def _test(m: Machine, state: State, node: Loop, exits: list[State]) -> bool:
    """Split off those that leave the loop, and return whether it is known who does."""
    if node.condition is None:
        return True
    condition = truth(m.pool, evaluate_number(m, state, node.condition))
    lanes, conditions = narrow(m.pool, state.lanes, state.conditions, condition, holds=False)
    if lanes:
        exits.append(state.fork(lanes, conditions))
    left = lanes
    lanes, conditions = narrow(m.pool, state.lanes, state.conditions, condition, holds=True)
    both_ways = bool(left & lanes)
    state.lanes, state.conditions = lanes, conditions
    return not both_ways


def _turn(m: Machine, state: State, node: Loop, exits: list[State]) -> bool:
    """Follow the body and the step once, and return whether everybody came through."""
    lanes = state.lanes
    turn = Turn()
    m.turns.append(turn)
    execute(m, state, node.body)
    m.turns.pop()
    for path in turn.continues:
        state.become(met(m.pool, state, path))
    exits += turn.breaks
    through = not turn.breaks and state.lanes == lanes
    if state.lanes and node.step is not None:
        evaluate(m, state, node.step)
    return through


def _is_open(state: State, exits: list[State]) -> bool:
    """Return whether it depends on something unknown who left the loop, and somebody stayed."""
    return bool(state.lanes) and any(path.lanes & state.lanes for path in exits)


def _synchronizes(m: Machine, node: Loop) -> bool:
    """Return whether the loop holds a barrier."""
    return "barrier" in _traits(m, node)


def _traits(m: Machine, node: Loop) -> frozenset[str]:
    key = ("traits", node)
    found = m.marks.get(key)
    if not isinstance(found, frozenset):
        found = frozenset(_look(node, set()))
        m.marks[key] = found
    return found


def _look(node: Statement, seen: set[MetalFunction]) -> set[str]:
    found: set[str] = set()
    for inner in below(node):
        if isinstance(inner, Call):
            if inner.name == _BARRIER:
                found.add("barrier")
            for function in inner.functions:
                if function not in seen:
                    seen.add(function)
                    for body in function.bodies:
                        found |= _look(body, seen)
    return found


def _skip(m: Machine, state: State, node: Loop) -> None:
    """Leave out the turns that are left: what they change is not known any more."""
    for variable in changed(node):
        bound = state.variables.get(variable)
        if bound is not None:
            state.variables[variable] = _blurred(m, bound)
    m.epoch += 1
    if "barrier" in _traits(m, node):
        state.phase += 1
        state.threadgroup += 1
        state.device += 1


def _forget_positions(m: Machine, state: State, node: Loop) -> None:
    """After a loop of unknown length, forget the numbers that differ between threads.

    An index that is built bit by bit, as for a bit reversal, is that of two bits here.
    """
    for variable in changed(node):
        bound = state.variables.get(variable)
        if isinstance(bound, LaneValue) and (
            not isinstance(bound.offsets, int) or bound.bits & _OWN
        ):
            state.variables[variable] = _blurred(m, bound)


def _blurred(m: Machine, bound: Binding) -> Binding:
    if isinstance(bound, LaneValue):
        origin = bound.origin
        axes = ValueOrigin(origin.reduced, origin.blurred, origin.single, ALL_AXES)
        return m.pool.fresh("later", (), bound.bits, axes)
    if isinstance(bound, Bundle):
        parts = tuple(_blurred(m, part) for part in bound.parts)
        return Bundle(tuple(part for part in parts if isinstance(part, LaneValue)))
    if isinstance(bound, Cells):
        bits = bound.stale or 0
        for part in bound.known.values():
            if isinstance(part, LaneValue):
                bits |= part.bits
        return Cells({}, bits)
    if isinstance(bound, Reference):
        return bound
    return Pointer(
        bound.root, bound.memory, m.pool.unknown("later"), bound.type, bound.member, known=False
    )
