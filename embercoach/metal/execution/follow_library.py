"""Functions of Metal's library: barriers, atomics, SIMD operations and arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.execution import accessing, places
from embercoach.metal.execution.arithmetic import (
    add,
    choose,
    divide,
    extreme,
    multiply,
    truth,
    wrap,
)
from embercoach.metal.execution.conditions import threads_of
from embercoach.metal.execution.conversions import number
from embercoach.metal.execution.events import LostError, SimdOperation, Synchronization
from embercoach.metal.execution.memory import Bundle, Pointer, Result
from embercoach.metal.execution.recursion import evaluate, evaluate_number
from embercoach.metal.execution.values import (
    ALL_AXES,
    ANYWHERE,
    LANE,
    SIMD,
    SIMD_WIDTH,
    ZERO,
    LaneValue,
    ValueOrigin,
    spread,
    value_of,
)
from embercoach.metal.program.nodes import Binary, Expression, Name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.execution.path_state import State
    from embercoach.metal.program.nodes import Call

#: One result for all lanes, made of what each of them holds.
REDUCTIONS = frozenset({"sum", "product", "max", "min", "and", "or", "xor"})
_TOGETHER = REDUCTIONS | {"all", "any", "ballot", "active_threads_mask", "broadcast_first"}
_BARRIERS = frozenset({"threadgroup_barrier", "simdgroup_barrier", "quadgroup_barrier"})
#: Rows and columns of a SIMD group's matrix.
TILE = 8
#: They write through their pointers.
_WRITING = frozenset({"sincos", "modf", "frexp", "memcpy", "memset", "swap"})


def call(m: Machine, state: State, node: Call) -> Result:
    """The value of a library function."""
    name = node.name
    if name in _BARRIERS or name == "atomic_thread_fence":
        return _synchronize(m, state, node)
    if name.startswith("atomic_"):
        return _atomic(m, state, node)
    if name.startswith("simdgroup_") or name == "make_filled_simdgroup_matrix":
        return _matrix(m, state, node)
    group, _, operation = name.partition("_")
    if group in ("simd", "quad") and operation:
        return _among_lanes(m, state, node, operation)
    given, designated = _given(m, state, node)
    if name in _WRITING:
        _forget_targets(m, state, node, designated)
    elif any(isinstance(g, Pointer) and g.memory != "constant" for g in given) and not all(
        _is_input(g) for g in given if isinstance(g, Pointer)
    ):
        raise LostError(node.spot)
    return _pure(m, state, node, given)


def _is_input(pointer: Pointer) -> bool:
    return pointer.root is not None and pointer.root.kind in ("input", "metadata")


def _given(m: Machine, state: State, node: Call) -> tuple[list[Result], list[Pointer | None]]:
    """The values of a call's arguments and, for a call that writes, what they designate."""
    if node.name not in _WRITING and node.name != "simdgroup_load":
        return [evaluate(m, state, argument) for argument in node.arguments], []
    given: list[Result] = []
    designated: list[Pointer | None] = []
    for argument in node.arguments:
        found = places.designated(m, state, argument)
        given.append(places.held(m, state, argument, found))
        designated.append(found.place)
    return given, designated


def _forget_targets(
    m: Machine, state: State, node: Call, designated: Iterable[Pointer | None]
) -> None:
    for place in designated:
        if place is not None and place.memory == "thread" and place.root in state.variables:
            accessing.store(m, state, place._replace(known=False), m.pool.unknown(), node.spot)


def _pure(m: Machine, state: State, node: Call, given: list[Result]) -> Result:
    widths = [len(g.parts) for g in given if isinstance(g, Bundle)]
    arguments = node.arguments
    # A vector of unknown width has no parts.
    if not all(widths) or not widths or node.type.width == 1:
        values = [number(m, state, g, a) for g, a in zip(given, arguments, strict=True)]
        return _applied(m, node, values)
    width = max(widths)
    parts: list[LaneValue] = []
    for k in range(width):
        values = []
        for g, argument in zip(given, arguments, strict=True):
            if isinstance(g, Bundle):
                values.append(g.parts[min(k, len(g.parts) - 1)])
            else:
                values.append(number(m, state, g, argument))
        parts.append(_applied(m, node, values))
    return Bundle(tuple(parts))


def _applied(m: Machine, node: Call, values: list[LaneValue]) -> LaneValue:
    """A function of numbers."""
    name, pool, count = node.name.removeprefix("f"), m.pool, len(values)
    found: LaneValue | None = None
    if name in ("min", "max") and count == 2:
        found = extreme(pool, name, *values)
    elif node.name == "clamp" and count == 3:
        found = extreme(pool, "min", extreme(pool, "max", values[0], values[1]), values[2])
    elif node.name == "abs" and count == 1 and values[0].exact:
        found = extreme(pool, "max", values[0], add(pool, ZERO, values[0], -1))
    elif node.name == "select" and count == 3:
        found = choose(pool, truth(pool, values[2]), values[1], values[0])
    elif node.name in ("fma", "mad24", "mul24") and count in (2, 3):
        product = multiply(pool, values[0], values[1])
        found = add(pool, product, values[2]) if count == 3 else product
    elif node.name == "ceildiv" and count == 2:
        raised = add(pool, values[0], add(pool, values[1], LaneValue(1), -1))
        found = divide(pool, raised, values[1])
    if found is None:
        return pool.symbol(node.name, (node.namespaces, node.template, *values))
    return wrap(pool, found, m.resolved(node.type).scalar)


# Barriers


def flags_of(expression: Expression) -> frozenset[str] | None:
    """The names after ``mem_flags::`` that an argument joins, None where it is another thing."""
    if isinstance(expression, Name):
        name = expression.variable.name.rpartition("::")[2]
        return frozenset({name}) if name.startswith("mem_") else None
    if isinstance(expression, Binary) and expression.operator == "|":
        left, right = flags_of(expression.left), flags_of(expression.right)
        return None if left is None or right is None else left | right
    return None


def _synchronize(m: Machine, state: State, node: Call) -> LaneValue:
    flags = flags_of(node.arguments[0]) if node.arguments else None
    m.events.append(
        Synchronization(node.name, flags, state.mask, tuple(m.returned), state.phase, node.spot)
    )
    m.tick(node.spot)
    if node.name in ("simdgroup_barrier", "quadgroup_barrier"):
        return ZERO
    # A fence orders too, with what its atomics say; it is not a barrier.
    state.phase += node.name == "threadgroup_barrier"
    state.threadgroup += flags is None or "mem_threadgroup" in flags
    state.device += flags is None or "mem_device" in flags
    return ZERO


# Atomics


def _atomic(m: Machine, state: State, node: Call) -> Result:
    if not node.arguments:
        raise LostError(node.spot)
    target = evaluate(m, state, node.arguments[0])
    values = [evaluate_number(m, state, a) for a in node.arguments[1:2]]
    for argument in node.arguments[2:]:
        evaluate(m, state, argument)
    if not isinstance(target, Pointer):
        return m.pool.unknown("atomic")
    accessing.update(m, state, target, values[0] if values else None, node)
    if node.name.startswith(("atomic_store", "atomic_init")):
        return ZERO
    bits = target.offset.bits | ANYWHERE
    single = not node.name.startswith("atomic_load")
    if not single:
        # All read the same where they read the same element, if at the same time.
        bits = target.offset.bits | SIMD
    return m.pool.fresh("atomic", (), bits, ValueOrigin(single=single, blurred=True, axes=ALL_AXES))


# SIMD groups


def _matrix(m: Machine, state: State, node: Call) -> Result:
    """A SIMD group's matrix: its tile is somewhere after the pointer."""
    given, designated = _given(m, state, node)
    shared = [g for g in given if isinstance(g, Pointer) and g.memory not in ("thread", "constant")]
    if node.name not in ("simdgroup_store", "simdgroup_load"):
        if shared:
            raise LostError(node.spot)
        return m.pool.unknown("matrix")
    stride = given[2] if len(given) == 3 else None
    for pointer in shared:
        _tile(m, state, pointer, stride, node)
    for place in designated[:1]:
        if place is not None and place.memory == "thread":
            accessing.store(m, state, place, m.pool.unknown("matrix"), node.spot)
    return ZERO


def _tile(m: Machine, state: State, start: Pointer, stride: Result | None, node: Call) -> None:
    """Rows of eight elements, a known stride apart; of others the first row is known at best."""
    write = node.name == "simdgroup_store"
    value = m.pool.fresh("matrix", (), SIMD, ValueOrigin(blurred=True, axes=ALL_AXES))
    apart = stride.constant if isinstance(stride, LaneValue) else None
    rows = range(TILE if apart is not None else 1)
    for row in rows:
        place = accessing.component(m, start, row * (apart or 0), TILE)
        if len(node.arguments) > 3:
            place = place._replace(offset=m.pool.unknown("tile"), known=False)
        if write:
            accessing.store(m, state, place, value, node.spot)
        else:
            accessing.load(m, state, place, node.spot)


def _among_lanes(m: Machine, state: State, node: Call, operation: str) -> Result:
    given = [evaluate(m, state, argument) for argument in node.arguments]
    first = given[0] if given else ZERO
    rest = [number(m, state, g, a) for g, a in zip(given[1:], node.arguments[1:], strict=True)]
    operand = first if isinstance(first, LaneValue) else None
    lane = rest[0] if rest else None
    m.events.append(SimdOperation(node, operand, state.mask, node.spot, lane))
    if isinstance(first, Bundle):
        return Bundle(tuple(_lanes(m, state, node, operation, [p, *rest]) for p in first.parts))
    if operand is None:
        operand = number(m, state, first, node.arguments[0]) if given else ZERO
    return _lanes(m, state, node, operation, [operand, *rest])


def _lanes(
    m: Machine, state: State, node: Call, operation: str, values: list[LaneValue]
) -> LaneValue:
    if operation == "is_first":
        return _first_lanes(m, state)
    operand, bits = values[0], 0
    for value in values:
        bits |= value.bits
    bits |= _bits_of_path(m, state)
    origin = operand.origin
    if node.name.startswith("quad_"):
        origin = origin.joined(ValueOrigin(blurred=True))
        return m.pool.result(node.name, (*values, state.mask), bits, origin)
    uniform = operation in _TOGETHER or (
        operation in ("broadcast", "shuffle") and not values[-1].bits & (LANE | SIMD)
    )
    if uniform:
        bits &= ~LANE
        if operation in REDUCTIONS and operand.bits & (LANE | SIMD):
            origin = origin.joined(ValueOrigin(frozenset({node})))
    elif operation.startswith("prefix_"):
        bits |= LANE
    else:
        origin = origin.joined(ValueOrigin(blurred=True))
    return m.pool.result(node.name, (*values, state.mask), bits, origin)


def _bits_of_path(m: Machine, state: State) -> int:
    """How which lanes take part differs between SIMD groups; lanes of one take part alike."""
    bits = 0
    for condition in state.conditions:
        bits |= condition.symbol.bits
    if bits & LANE:
        bits |= SIMD
    flags = tuple([state.lanes >> t & 1 for t in range(m.pool.lanes)])
    return (bits | spread(flags)) & SIMD if len(flags) > SIMD_WIDTH else bits & SIMD


def _first_lanes(m: Machine, state: State) -> LaneValue:
    """``simd_is_first``: the lowest lane of each SIMD group that is here."""
    if any(condition.varies for condition in state.conditions):
        return m.pool.fresh("first", (), LANE | SIMD, ValueOrigin(single=True, axes=ALL_AXES))
    flags = [0] * m.pool.lanes
    seen: set[int] = set()
    for thread in threads_of(state.lanes):
        if thread // SIMD_WIDTH not in seen:
            seen.add(thread // SIMD_WIDTH)
            flags[thread] = 1
    return value_of(tuple(flags))
