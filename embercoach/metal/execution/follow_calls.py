"""Calls: of functions whose bodies are followed, of Metal's library, and of structures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from embercoach.metal.execution import accessing, places
from embercoach.metal.execution.accessing import fitted, number
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
from embercoach.metal.execution.events import LostError, SimdOperation, Synchronization
from embercoach.metal.execution.machine import (
    CallFrame,
    Machine,
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
    met,
)
from embercoach.metal.execution.values import (
    ALL_AXES,
    ANYWHERE,
    LANE,
    SIMD,
    SIMD_WIDTH,
    WITHIN,
    ZERO,
    LaneValue,
    ValueOrigin,
    spread,
    value_of,
)
from embercoach.metal.library import FUNCTIONS, MLX_NAMES, VALUES
from embercoach.metal.program.nodes import (
    Binary,
    Call,
    Expression,
    MetalFunction,
    MetalStruct,
    Name,
    Spot,
    Variable,
)
from embercoach.metal.program.types import NAMED, UNKNOWN, Type
from embercoach.metal.program.walk import base
from embercoach.metal.tokens import whole_number

#: One result for all lanes, made of what each of them holds.
REDUCTIONS = frozenset({"sum", "product", "max", "min", "and", "or", "xor"})
_TOGETHER = REDUCTIONS | {"all", "any", "ballot", "active_threads_mask", "broadcast_first"}
_BARRIERS = frozenset({"threadgroup_barrier", "simdgroup_barrier", "quadgroup_barrier"})
#: Rows and columns of a SIMD group's matrix.
TILE = 8
#: They write through their pointers.
_WRITING = frozenset({"sincos", "modf", "frexp", "memcpy", "memset", "swap"})


def call_library(m: Machine, state: State, node: Call) -> Result:
    """Return the value of a library function."""
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
        for place in designated:
            if place is not None and place.memory == "thread" and place.root in state.variables:
                accessing.store(m, state, place._replace(known=False), m.pool.unknown(), node.spot)
    elif any(isinstance(g, Pointer) and g.memory != "constant" for g in given) and not all(
        _is_input(g) for g in given if isinstance(g, Pointer)
    ):
        raise LostError(node.spot)
    return _pure(m, state, node, given)


def _is_input(pointer: Pointer) -> bool:
    return pointer.root is not None and pointer.root.kind in ("input", "metadata")


def _given(m: Machine, state: State, node: Call) -> tuple[list[Result], list[Pointer | None]]:
    """Return the values of a call's arguments and, for a call that writes, what they designate."""
    if node.name not in _WRITING and node.name != "simdgroup_load":
        return [evaluate(m, state, argument) for argument in node.arguments], []
    given: list[Result] = []
    designated: list[Pointer | None] = []
    for argument in node.arguments:
        found = places.designated(m, state, argument)
        given.append(places.held(m, state, argument, found))
        designated.append(found.place)
    return given, designated


def _pure(m: Machine, state: State, node: Call, given: list[Result]) -> Result:
    widths = [len(g.parts) for g in given if isinstance(g, Bundle)]
    arguments = node.arguments
    # A vector of unknown width has no parts.
    if not all(widths) or not widths or node.type.width == 1:
        values = [number(m, state, g, a) for g, a in zip(given, arguments, strict=True)]
        return _applied(m, node, values)
    parts: list[LaneValue] = []
    for k in range(max(widths)):
        values = [
            g.parts[min(k, len(g.parts) - 1)] if isinstance(g, Bundle) else number(m, state, g, a)
            for g, a in zip(given, arguments, strict=True)
        ]
        parts.append(_applied(m, node, values))
    return Bundle(tuple(parts))


def _applied(m: Machine, node: Call, values: list[LaneValue]) -> LaneValue:
    """Return a function of numbers."""
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
    """Return a SIMD group's matrix: its tile is somewhere after the pointer."""
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
        place = accessing.components_at(m, start, row * (apart or 0), TILE)
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
        operation in ("broadcast", "shuffle") and not values[-1].bits & WITHIN
    )
    if uniform:
        bits &= ~LANE
        if operation in REDUCTIONS and operand.bits & WITHIN:
            origin = origin.joined(ValueOrigin(frozenset({node})))
    elif operation.startswith("prefix_"):
        bits |= LANE
    else:
        origin = origin.joined(ValueOrigin(blurred=True))
    return m.pool.result(node.name, (*values, state.mask), bits, origin)


def _bits_of_path(m: Machine, state: State) -> int:
    """Get how which lanes take part differs between SIMD groups; lanes of one take part alike."""
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
        return m.pool.fresh("first", (), WITHIN, ValueOrigin(single=True, axes=ALL_AXES))
    flags = [0] * m.pool.lanes
    seen: set[int] = set()
    for thread in threads_of(state.lanes):
        if thread // SIMD_WIDTH not in seen:
            seen.add(thread // SIMD_WIDTH)
            flags[thread] = 1
    return value_of(tuple(flags))


def structure_of(m: Machine, kind: Type) -> MetalStruct | None:
    """Return the structure that a type names."""
    if kind.pointer or kind.dimensions or kind.scalar is None:
        return None
    return m.program.structs.get(kind.scalar.partition("<")[0])


def made(struct: MetalStruct, parts: Sequence[Result]) -> Cells:
    """Return a structure of the values of its fields, in order."""
    known: dict[tuple[str, int], LaneValue | Pointer | Bundle] = {}
    for variable, part in zip(struct.fields, parts, strict=False):
        member = f".{variable.name}"
        if isinstance(part, Cells):
            known.update({(member + name, at): value for (name, at), value in part.known.items()})
        elif isinstance(part, Bundle):
            known.update({(member, at): value for at, value in enumerate(part.parts)})
        else:
            known[member, 0] = part
    return Cells(known)


def bind_template(
    m: Machine, state: State, parameters: Sequence[Variable], texts: Sequence[str]
) -> None:
    """Give template parameters their values."""
    for parameter, text in zip(parameters, texts, strict=False):
        number = _number(m, state, text)
        if number is not None:
            state.variables[parameter] = number
        kind = NAMED.get(m.types.get(text, text))
        if kind is not None and kind.scalar is not None:
            m.types[parameter.name] = kind.scalar


def bind_structure(m: Machine, state: State, kind: Type) -> None:
    """Give the template parameters of an object's structure what its type names."""
    struct = structure_of(m, kind)
    if struct is not None and kind.scalar is not None and struct.template:
        arguments = kind.scalar.partition("<")[2].removesuffix(">")
        bind_template(m, state, struct.template, [text.strip() for text in arguments.split(",")])


def _number(m: Machine, state: State, text: str) -> LaneValue | None:
    """Return a template argument that is a number or the name of one."""
    number = whole_number(text, 0)
    if number is not None:
        return LaneValue(number)
    if text in ("true", "false"):
        return LaneValue(int(text == "true"))
    named = m.program.variables.get(text)
    candidates = [] if named is None else [named]
    candidates += [declared.variable for declared in m.program.constants]
    candidates += list(state.variables)
    for variable in candidates:
        if variable.name == text:
            bound = state.variables.get(variable, m.globals.get(variable))
            return bound if isinstance(bound, LaneValue) else None
    return None


#: Steps that comparing an overload with a call takes.
_OVERLOAD = 64
MAX_DEPTH = 8
_LIMITS = frozenset({"numeric_limits", "Limits"})
_KNOWN = FUNCTIONS | MLX_NAMES | VALUES | frozenset(NAMED)


@link("call")
def call(m: Machine, state: State, node: Call) -> Result:
    """Return the value of a call."""
    functions = node.functions or _own_methods(m, node)
    followed = [function for function in functions if function.bodies]
    if followed:
        return _follow(m, state, node, _fitting(m, followed, node.arguments))
    limits = node.namespaces.rpartition("::")[2].partition("<")[0] in _LIMITS
    if node.method is not None:
        return _method(m, state, node)
    if functions or not (limits or node.name in _KNOWN):
        return unheard(m, state, node.arguments, node.spot)
    return call_library(m, state, node)


@link("unheard")
def unheard(m: Machine, state: State, given: Sequence[Expression], spot: Spot) -> Result:
    """Return a call of something that the texts do not define, an object perhaps.

    What it is given no shared memory can hardly touch any; but it may change what is passed by
    reference, and one that takes nothing may be a barrier.
    """
    results = [evaluate(m, state, argument) for argument in given]
    shared = any(
        isinstance(result, Pointer) and result.memory in ("device", "threadgroup")
        for result in results
    )
    if shared or not given:
        raise LostError(spot)
    for argument in given:
        variable = base(argument)
        if variable is not None and variable in state.variables and not variable.constant:
            state.variables[variable] = m.pool.unknown("reference")
    m.gaps.append(spot)
    return m.pool.unknown("call")


def _own_methods(m: Machine, node: Call) -> tuple[MetalFunction, ...]:
    """Return the methods that a method of the same structure calls by name alone."""
    function = m.frames[-1].function if m.frames else None
    if node.method is not None or function is None or function.owner is None:
        return ()
    struct = structure_of(m, function.owner.type)
    methods = () if struct is None else struct.methods.get(node.name, ())
    return tuple(one for one in methods if len(one.parameters) == len(node.arguments))


def _method(m: Machine, state: State, node: Call) -> Result:
    """A method of the library's types: of textures, votes, matrices; it touches no memory here."""
    scalar = None if node.method is None else node.method.type.scalar
    own = scalar is None or scalar == "simd_vote" or scalar.startswith("simdgroup_")
    if node.method is None or not own:
        raise LostError(node.spot)
    given = tuple(evaluate_number(m, state, a) for a in (node.method, *node.arguments))
    return m.pool.symbol("method", (node.name, *given))


def _fitting(
    m: Machine, functions: list[MetalFunction], given: tuple[Expression, ...]
) -> MetalFunction:
    """Return the overload that a call means, as far as its arguments show."""
    if len(functions) == 1:
        return functions[0]
    m.pool.steps += _OVERLOAD * len(functions)

    def distance(function: MetalFunction) -> int:
        pairs = zip(function.parameters, given, strict=False)
        return sum(_distance(m, parameter.type, argument.type) for parameter, argument in pairs)

    return min(functions, key=distance)


def _distance(m: Machine, expected: Type, given: Type) -> int:
    expected, given = m.resolved(expected), m.resolved(given)
    apart = 0
    if expected.pointer != (given.pointer or bool(given.dimensions)):
        apart += 4
    if (
        expected.pointer
        and None not in (expected.space, given.space)
        and expected.space != given.space
    ):
        apart += 4
    if expected.width != given.width:
        apart += 2
    return apart + (expected.scalar != given.scalar)


def _follow(m: Machine, state: State, node: Call, function: MetalFunction) -> Result:
    if len(m.frames) > MAX_DEPTH or any(frame.function is function for frame in m.frames):
        raise LostError(node.spot)
    before = dict.fromkeys(state.variables)
    if function.owner is not None and function.owner in state.variables:
        before[function.owner] = state.variables[function.owner]
    types = m.types
    m.types = dict(types)
    _bind_template(m, state, node, function)
    _bind(m, state, node, function)
    result = Variable("", "local", UNKNOWN, function.spot)
    frame = CallFrame(function, result)
    m.frames.append(frame)
    turns, m.turns = m.turns, []
    for body in function.bodies:
        execute(m, state, body)
    m.turns = turns
    m.frames.pop()
    m.types = types
    for left in frame.returns:
        state.become(met(m.pool, state, left))
    found = state.variables.get(result)
    _forget(state, before)
    if isinstance(found, LaneValue | Bundle | Pointer | Cells):
        return found
    return m.pool.unknown("call")


def _forget(state: State, before: Mapping[Variable, Binding | None]) -> None:
    """Drop what a function declared, and give back the object that its caller is a method of."""
    state.variables = {v: before[v] or b for v, b in state.variables.items() if v in before}


def _bind_template(m: Machine, state: State, node: Call, function: MetalFunction) -> None:
    bind_template(m, state, function.template, node.template)
    names = {parameter.name for parameter in function.template[len(node.template) :]}
    for parameter, argument in zip(function.parameters, node.arguments, strict=False):
        expected, given = parameter.type.scalar, m.resolved(argument.type).scalar
        if expected in names and given is not None:
            m.types[expected] = given


def _bind(m: Machine, state: State, node: Call, function: MetalFunction) -> None:
    """Give the parameters the arguments' values, all of them found before any is bound."""
    bound: dict[Variable, LaneValue | Bundle | Pointer | Cells | Reference] = {}
    given = list(node.arguments)
    missing = len(function.parameters) - len(given)
    if missing > 0:
        given += function.defaults[-missing:]
    for parameter, argument in zip(function.parameters, given, strict=False):
        if parameter.type.reference:
            found = places.designated(m, state, argument)
            bound[parameter] = (
                places.held(m, state, argument, found)
                if found.place is None
                else Reference(found.place)
            )
        else:
            value = evaluate(m, state, argument)
            bound[parameter] = fitted(m, state, value, m.resolved(parameter.type), argument)
    if function.owner is not None and node.method is not None:
        place = places.place_of(m, state, node.method)
        if place is None:
            raise LostError(node.spot)
        bound[function.owner] = Reference(place)
        bind_structure(m, state, place.type)
    elif function.owner is not None and function.owner not in state.variables:
        _bind_static(m, state, node, function.owner)
    state.variables.update(bound)


def _bind_static(m: Machine, state: State, node: Call, owner: Variable) -> None:
    """A method that is called without an object: ``Unpack<4>::get(word, k)``."""
    name = node.namespaces.rpartition("::")[2]
    if name.partition("<")[0] != (owner.type.scalar or "").partition("<")[0]:
        raise LostError(node.spot)
    bind_structure(m, state, replace(owner.type, scalar=name, reference=False))
