"""Follows a kernel: one threadgroup, its threads in lockstep, with unknown data."""

from __future__ import annotations

from functools import partial, reduce
from math import prod

from embercoach.metal.contract import MAX_THREADS
from embercoach.metal.execution import (  # noqa: F401  (link the recursion)
    follow_calls,
    follow_expressions,
    places,
)
from embercoach.metal.execution.accessing import fitted, number
from embercoach.metal.execution.arithmetic import both, compare, negate, truth
from embercoach.metal.execution.conditions import narrow
from embercoach.metal.execution.events import Configuration, LostError, Trace
from embercoach.metal.execution.follow_calls import made, structure_of
from embercoach.metal.execution.machine import (
    CallFrame,
    Machine,
    Turn,
    attributes_of,
    evaluate,
    evaluate_number,
    execute,
    link,
)
from embercoach.metal.execution.path_state import (
    Binding,
    Bundle,
    Cells,
    Pointer,
    Reference,
    Result,
    State,
    elements_of,
    met,
)
from embercoach.metal.execution.values import (
    ALL_AXES,
    WITHIN,
    ZERO,
    LaneValue,
    SymbolPool,
    ValueOrigin,
)
from embercoach.metal.program.nodes import (
    Block,
    Call,
    Construct,
    Declare,
    Evaluate,
    If,
    Jump,
    Loop,
    MetalFunction,
    Opaque,
    Program,
    Return,
    Spot,
    Statement,
    Switch,
    Variable,
)
from embercoach.metal.program.types import DTYPES
from embercoach.metal.program.walk import below, changed
from embercoach.metal.work_budget import RUN

MAX_TURNS = 72
#: Turns of a loop whose end is not known.
OPEN_TURNS = 2
#: Share of the steps left that a loop without barriers may take.
_QUIET = 16
_BARRIER = "threadgroup_barrier"


def loop(m: Machine, state: State, node: Loop) -> None:
    """Follow a loop."""
    for statement in node.start:
        execute(m, state, statement)
    if not state.lanes:
        return
    exits: list[State] = []
    # More steps where the loop may have findings.
    left = max(m.budget - m.pool.steps, 0)
    allowed = m.pool.steps + left // (2 if _synchronizes(m, node) else _QUIET)
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
            # It depends on something unknown who left the loop, and somebody stayed.
            opened += any(path.lanes & state.lanes for path in exits)
        turns += 1
    exits.append(state)
    _meet(m, state, exits)
    if opened > OPEN_TURNS:
        _forget_positions(m, state, node)


def _close(m: Machine, state: State, exits: list[State], node: Loop) -> None:
    """On the path that is followed, the loop ends here, for all that can leave it."""
    for path in exits:
        state.lanes &= ~path.lanes
    if state.lanes:
        _skip(m, state, node)


def _test(m: Machine, state: State, node: Loop, exits: list[State]) -> bool:
    """Split off those that leave the loop, and return whether it is known who does."""
    if node.condition is None:
        return True
    condition = truth(m.pool, evaluate_number(m, state, node.condition))
    left, conditions = narrow(m.pool, state.lanes, state.conditions, condition, holds=False)
    if left:
        exits.append(state.fork(left, conditions))
    state.lanes, state.conditions = narrow(
        m.pool, state.lanes, state.conditions, condition, holds=True
    )
    return not left & state.lanes


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


def _synchronizes(m: Machine, node: Loop) -> bool:
    """Return whether the loop holds a barrier, or a function that it calls does."""
    key = ("synchronizes", node)
    known = m.marks.get(key)
    if known is None:
        known = m.marks[key] = _has_barrier(node, set())
    return bool(known)


def _has_barrier(node: Statement, seen: set[MetalFunction]) -> bool:
    for inner in below(node):
        if isinstance(inner, Call):
            fresh = [function for function in inner.functions if function not in seen]
            seen.update(fresh)
            if inner.name == _BARRIER or any(
                _has_barrier(body, seen) for function in fresh for body in function.bodies
            ):
                return True
    return False


def _skip(m: Machine, state: State, node: Loop) -> None:
    """Leave out the turns that are left: what they change is not known any more."""
    for variable in changed(node):
        bound = state.variables.get(variable)
        if bound is not None:
            state.variables[variable] = _blurred(m, bound)
    m.epoch += 1
    if _synchronizes(m, node):
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
            not isinstance(bound.offsets, int) or bound.bits & WITHIN
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
    return bound._replace(offset=m.pool.unknown("later"), known=False)


@link("execute")
def follow_statement(m: Machine, state: State, node: Statement) -> None:
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
                follow_statement(m, state, statement)
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
    """Return an array with its values; the rest of it is 0."""
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
        for one in value.parts if isinstance(value, Bundle) else (value,):
            known["", len(known)] = m.pool.unknown() if isinstance(one, Cells) else one


def _choose(m: Machine, state: State, node: If) -> None:
    condition = truth(m.pool, evaluate_number(m, state, node.condition))
    paths = []
    for holds, branch in ((True, node.then), (False, node.otherwise)):
        lanes, conditions = narrow(m.pool, state.lanes, state.conditions, condition, holds=holds)
        if lanes:
            path = state.fork(lanes, conditions)
            if branch is not None:
                follow_statement(m, path, branch)
            paths.append(path)
    _meet(m, state, paths)


def _meet(m: Machine, state: State, paths: list[State]) -> None:
    """The state becomes that of the paths that are left."""
    left = [path for path in paths if path.lanes]
    if left:
        state.become(reduce(partial(met, m.pool), left))
    else:
        state.lanes = 0


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
            default = both(m.pool, "&&", default, negate(m.pool, test))
    running = state.fork(0, state.conditions)
    for case, test in zip(node.cases, tests, strict=True):
        condition = default if test is None else test
        lanes, conditions = narrow(m.pool, entry.lanes, entry.conditions, condition, holds=True)
        if lanes:
            path = entry.fork(lanes, conditions)
            running = met(m.pool, running, path)
        for statement in case.statements:
            follow_statement(m, running, statement)
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


def follow(
    program: Program,
    configuration: Configuration,
    budget: int = RUN,
) -> Trace:
    """Follow a kernel through one threadgroup.

    Args:
        program: a kernel's body under its header, or that of an entry point under its file.
        configuration: how it is launched.
        budget: thread operations after which it ends.

    Returns:
        What it did up to the first thing that is not followed.
    """
    threads = prod(configuration.threadgroup)
    body = program.body
    if body is None or not 0 < threads <= MAX_THREADS:
        return Trace(configuration, max(threads, 0), (), ())
    m = _machine(program, configuration, threads)
    m.budget = budget
    state = State((1 << threads) - 1)
    too_deep = False
    lost: tuple[Spot, ...] = tuple(problem.spot for problem in program.problems)
    try:
        for declared in program.constants:
            declare(m, state, declared)
        m.globals.update(state.variables)
        state.variables = {}
        m.frames.append(CallFrame(None, None))
        follow_statement(m, state, body)
    except LostError as error:
        lost += (body.spot if error.spot is None else error.spot,)
    except RecursionError:
        too_deep = True
        lost += (body.spot,)
    return Trace(
        configuration,
        threads,
        tuple(m.events),
        (*lost, *m.gaps),
        m.pool.steps,
        too_deep=too_deep,
        cut_short=m.cut_short,
    )


def _machine(program: Program, configuration: Configuration, threads: int) -> Machine:
    pool = SymbolPool(threads)
    given_types = ((name, DTYPES.get(str(given))) for name, given in configuration.template.items())
    types = {name: scalar for name, scalar in given_types if scalar is not None}
    m = Machine(program, configuration, pool, attributes_of(configuration, pool), types)
    if not configuration.assumed and None not in configuration.groups:
        # A kernel that asks for strides may get a view into a larger buffer.
        m.sized_inputs = frozenset(
            one.name
            for one in configuration.inputs
            if one.ndim and one.size and f"{one.name}_strides" not in program.variables
        )
    for name, variable in program.variables.items():
        given = configuration.template.get(name)
        if variable.kind == "template" and isinstance(given, int):
            m.globals[variable] = LaneValue(int(given))
        elif variable.kind == "attribute":
            _narrow(m, variable)
    _metadata(m)
    return m


def _narrow(m: Machine, variable: Variable) -> None:
    """An entry point may take a position as ``uint`` or ``uint2``."""
    known = m.attributes.get(variable.attribute or variable.name)
    width = variable.type.width
    if isinstance(known, Bundle) and width < len(known.parts):
        m.globals[variable] = known.parts[0] if width == 1 else Bundle(known.parts[:width])


def _metadata(m: Machine) -> None:
    """The known ranks and shapes of the inputs."""
    for given in m.configuration.inputs:
        rank = m.program.variables.get(f"{given.name}_ndim")
        if rank is not None and given.ndim is not None:
            m.globals[rank] = LaneValue(given.ndim)
        shape = m.program.variables.get(f"{given.name}_shape")
        if shape is not None and given.ndim == 1 and given.size is not None:
            m.globals[shape] = Cells({("", 0): LaneValue(given.size)}, 0)
