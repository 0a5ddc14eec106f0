"""Statements: how they split a path, and how its parts come together again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.execution import places
from embercoach.metal.execution.arithmetic import both, compare, negate, truth
from embercoach.metal.execution.conditions import narrow
from embercoach.metal.execution.conversions import fitted, number
from embercoach.metal.execution.events import LostError
from embercoach.metal.execution.follow_loops import loop
from embercoach.metal.execution.machine import Turn
from embercoach.metal.execution.memory import (
    Bundle,
    Cells,
    Pointer,
    Reference,
    Result,
    elements_of,
)
from embercoach.metal.execution.path_state import met
from embercoach.metal.execution.recursion import evaluate, evaluate_number, link
from embercoach.metal.execution.structures import made, structure_of
from embercoach.metal.execution.values import ZERO, LaneValue
from embercoach.metal.program.nodes import (
    Block,
    Construct,
    Declare,
    Evaluate,
    If,
    Jump,
    Loop,
    Opaque,
    Return,
    Statement,
    Switch,
)

if TYPE_CHECKING:
    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.execution.path_state import State


@link("execute")
def execute(m: Machine, state: State, node: Statement) -> None:
    """Follow a statement; the state is then that of the threads that reach the next one."""
    if not state.lanes:
        return
    m.tick(node.spot)
    match node:
        case Evaluate():
            evaluate(m, state, node.expression)
        case Declare():
            declare(m, state, node)
        case Block():
            for statement in node.statements:
                execute(m, state, statement)
        case If():
            _choose(m, state, node)
        case Loop():
            loop(m, state, node)
        case Switch():
            _switch(m, state, node)
        case Return():
            _leave(m, state, node)
        case Jump():
            _jump(m, state, node)
        case Opaque():
            raise LostError(node.spot)


def declare(m: Machine, state: State, node: Declare) -> None:
    """A variable comes to life."""
    variable, initial = node.variable, node.initial
    kind = m.resolved(variable.type)
    if kind.space == "threadgroup" and not kind.pointer and not kind.reference:
        return
    if initial is None:
        state.variables.pop(variable, None)
        if kind.dimensions:
            state.variables[variable] = Cells()
        return
    found = places.designated(m, state, initial) if kind.reference else places.Designation()
    if found.place is not None:
        state.variables[variable] = Reference(found.place)
        return
    if kind.dimensions and isinstance(initial, Construct):
        state.variables[variable] = _filled(m, state, node, initial)
        return
    struct = structure_of(m, kind)
    if struct is not None:
        given = initial.parts if isinstance(initial, Construct) else (initial,)
        values = [places.held(m, state, part, found) for part in given]
        whole = len(values) == 1 and isinstance(values[0], Cells)
        # Braces around values: those of the fields.
        state.variables[variable] = values[0] if whole else made(struct, values)
        return
    value = places.held(m, state, initial, found)
    if kind.scalar is None and isinstance(value, Pointer) and not initial.type.pointer:
        # ``auto v = n`` of a 0-d input: its value, not its address.
        inputs = value.root is not None and value.root.kind in ("input", "metadata")
        if inputs and not initial.type.dimensions and initial.type.scalar is not None:
            value = number(m, state, value, initial)
    state.variables[variable] = fitted(m, state, value, kind, initial)


def _filled(m: Machine, state: State, node: Declare, initial: Construct) -> Cells:
    """An array with its values; the rest of it is 0."""
    known: dict[tuple[str, int], LaneValue | Pointer | Bundle] = {}
    _fill(m, state, initial, known)
    count = elements_of(node.variable.type)
    if count is not None and count <= 1024:
        for index in range(count):
            known.setdefault(("", index), ZERO)
    return Cells(known, 0)


def _fill(
    m: Machine,
    state: State,
    initial: Construct,
    known: dict[tuple[str, int], LaneValue | Pointer | Bundle],
) -> None:
    for part in initial.parts:
        if isinstance(part, Construct) and part.type.width == 1:
            _fill(m, state, part, known)
            continue
        value = evaluate(m, state, part)
        if isinstance(value, Bundle):
            for component in value.parts:
                known["", len(known)] = component
        elif isinstance(value, LaneValue | Pointer):
            known["", len(known)] = value
        else:
            known["", len(known)] = m.pool.unknown()


def _choose(m: Machine, state: State, node: If) -> None:
    condition = truth(m.pool, evaluate_number(m, state, node.condition))
    paths = []
    for holds, branch in ((True, node.then), (False, node.otherwise)):
        lanes, conditions = narrow(m.pool, state.lanes, state.conditions, condition, holds=holds)
        if lanes:
            path = state.fork(lanes, conditions)
            if branch is not None:
                execute(m, path, branch)
            paths.append(path)
    _meet(m, state, paths)


def _meet(m: Machine, state: State, paths: list[State]) -> None:
    """The state becomes that of the paths that are left."""
    left = [path for path in paths if path.lanes]
    if not left:
        state.lanes = 0
        return
    found = left[0]
    for path in left[1:]:
        found = met(m.pool, found, path)
    state.become(found)


def _switch(m: Machine, state: State, node: Switch) -> None:
    value = evaluate_number(m, state, node.value)
    turn = Turn()
    m.turns.append(turn)
    tests = [
        None
        if case.value is None
        else compare(m.pool, "==", value, evaluate_number(m, state, case.value))
        for case in node.cases
    ]
    entry = state.fork(state.lanes, state.conditions)
    default = LaneValue(1)
    for test in tests:
        if test is not None:
            default = both(m.pool, "&&", default, _opposite(m, test))
    running = state.fork(0, state.conditions)
    for case, test in zip(node.cases, tests, strict=True):
        condition = default if test is None else test
        lanes, conditions = narrow(m.pool, entry.lanes, entry.conditions, condition, holds=True)
        if lanes:
            path = entry.fork(lanes, conditions)
            running = met(m.pool, running, path)
        for statement in case.statements:
            execute(m, running, statement)
    m.turns.pop()
    paths = [running, *turn.breaks]
    if all(test is not None for test in tests):
        lanes, conditions = narrow(m.pool, entry.lanes, entry.conditions, default, holds=True)
        if lanes:
            paths.append(entry.fork(lanes, conditions))
    outer = m.turns[-1] if m.turns else None
    if turn.continues and outer is not None:
        outer.continues += turn.continues
    _meet(m, state, paths)


def _opposite(m: Machine, test: LaneValue) -> LaneValue:
    return negate(m.pool, test)


def _leave(m: Machine, state: State, node: Return) -> None:
    frame = m.frames[-1]
    value: Result | None = None
    if node.value is not None:
        reference = frame.function is not None and frame.function.result.reference
        found = places.designated(m, state, node.value) if reference else places.Designation()
        value = found.place or places.held(m, state, node.value, found)
    if not state.lanes:
        return
    if frame.function is None or frame.result is None:
        m.returned.append(state.mask)
    else:
        left = state.fork(state.lanes, state.conditions)
        if value is not None:
            kind = m.resolved(frame.function.result)
            if node.value is not None and not kind.reference:
                value = fitted(m, state, value, kind, node.value)
            left.variables[frame.result] = value
        frame.returns.append(left)
    state.lanes = 0


def _jump(m: Machine, state: State, node: Jump) -> None:
    if not m.turns:
        raise LostError(node.spot)
    left = state.fork(state.lanes, state.conditions)
    turn = m.turns[-1]
    (turn.breaks if node.kind == "break" else turn.continues).append(left)
    state.lanes = 0
