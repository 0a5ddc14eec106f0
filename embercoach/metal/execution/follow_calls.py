"""Calls of functions that the texts define: their bodies are followed in the caller's place."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.metal.execution import follow_library, places
from embercoach.metal.execution.conversions import fitted
from embercoach.metal.execution.events import LostError
from embercoach.metal.execution.machine import CallFrame
from embercoach.metal.execution.memory import Bundle, Cells, Pointer, Reference, Result
from embercoach.metal.execution.path_state import met
from embercoach.metal.execution.recursion import evaluate, evaluate_number, execute, link
from embercoach.metal.execution.structures import bind_structure, bind_template, structure_of
from embercoach.metal.execution.values import LaneValue
from embercoach.metal.msl_names import FUNCTIONS, MLX_NAMES, VALUES
from embercoach.metal.program.nodes import Variable
from embercoach.metal.program.types import NAMED, UNKNOWN
from embercoach.metal.program.walk import base

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.execution.memory import Binding
    from embercoach.metal.execution.path_state import State
    from embercoach.metal.program.nodes import Call, Expression, MetalFunction, Spot
    from embercoach.metal.program.types import Type

#: Steps that comparing an overload with a call takes.
_OVERLOAD = 64
MAX_DEPTH = 8
_LIMITS = frozenset({"numeric_limits", "Limits"})
_KNOWN = FUNCTIONS | MLX_NAMES | VALUES | frozenset(NAMED)


@link("call")
def call(m: Machine, state: State, node: Call) -> Result:
    """The value of a call."""
    functions = node.functions or _own_methods(m, node)
    followed = [function for function in functions if function.bodies]
    if followed:
        return _follow(m, state, node, _fitting(m, followed, node.arguments))
    limits = node.namespaces.rpartition("::")[2].partition("<")[0] in _LIMITS
    if node.method is not None:
        return _method(m, state, node)
    if functions or not (limits or node.name in _KNOWN):
        return unheard(m, state, node.arguments, node.spot)
    return follow_library.call(m, state, node)


@link("unheard")
def unheard(m: Machine, state: State, given: Sequence[Expression], spot: Spot) -> Result:
    """A call of something that the texts do not define, an object perhaps.

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
    """The methods that a method of the same structure calls by name alone."""
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
    """The overload that a call means, as far as its arguments show."""
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
