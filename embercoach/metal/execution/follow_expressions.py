"""Expressions: what they give, and the accesses that they make on the way."""

from __future__ import annotations

from embercoach.metal.execution import accessing, places
from embercoach.metal.execution.accessing import (
    cast,
    component,
    converted,
    fitted,
    number,
    swizzled,
)
from embercoach.metal.execution.arithmetic import (
    add,
    binary,
    both,
    choose,
    negate,
    truth,
    whole,
    wrap,
)
from embercoach.metal.execution.conditions import Conditions, narrow
from embercoach.metal.execution.events import LostError
from embercoach.metal.execution.follow_calls import made, structure_of
from embercoach.metal.execution.machine import (
    RULES,
    Machine,
    call,
    evaluate,
    evaluate_number,
    link,
    unheard,
)
from embercoach.metal.execution.path_state import (
    Bundle,
    Cells,
    Pointer,
    Reference,
    Result,
    State,
    joined,
    met,
    moved,
)
from embercoach.metal.execution.values import ANYWHERE, ZERO, LaneValue
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Call,
    Cast,
    Conditional,
    Construct,
    Expression,
    Index,
    Member,
    Name,
    NumberLiteral,
    OpaqueExpression,
    Unary,
    Variable,
)
from embercoach.metal.program.types import FLOATS
from embercoach.metal.program.walk import below


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


#: Beginnings of what the lowering says of expressions that may hide an effect.
_ANYTHING = ("not understood", "a lambda")
_LOGIC = frozenset({"&&", "||"})


def _number(m: Machine, _state: State, node: NumberLiteral) -> LaneValue:
    known = whole(node.value)
    return m.pool.symbol("number", (node.value,)) if known is None else LaneValue(known)


def _opaque(m: Machine, state: State, node: OpaqueExpression) -> Result:
    """Return a value that is not known; what is not even understood may have done anything."""
    if node.why == "not understood: what is called":
        return unheard(m, state, node.parts, node.spot)
    if node.why.startswith(_ANYTHING):
        raise LostError(node.spot)
    values = tuple(evaluate_number(m, state, part) for part in node.parts)
    if node.why == "a constructor":
        # It keeps what it was given, or stores it: the kernel is not followed whole.
        m.gaps.append(node.spot)
        return Cells({}, ANYWHERE)
    return m.pool.symbol("opaque", (node, *values))


def _called(m: Machine, state: State, node: Call) -> Result:
    found = call(m, state, node)
    if isinstance(found, Pointer) and any(f.result.reference for f in node.functions):
        return accessing.load(m, state, found, node.spot)
    return found


def _name(m: Machine, state: State, node: Name) -> Result:
    variable = node.variable
    binding = state.variables.get(variable)
    if binding is None:
        binding = m.globals.get(variable)
    if binding is None or (isinstance(binding, Cells) and variable.kind == "metadata"):
        return _unbound(m, state, node, variable)
    if isinstance(binding, Reference):
        return accessing.load(m, state, binding.place, node.spot)
    if isinstance(binding, Cells) and variable.type.dimensions:
        return accessing.decayed(accessing.place_of_variable(m, variable))
    return binding


def _unbound(m: Machine, state: State, node: Name, variable: Variable) -> Result:
    if variable.kind in ("input", "output", "metadata") or variable.type.pointer:
        return accessing.given_pointer(m, variable)
    if variable.kind == "attribute":
        known = m.attributes.get(variable.attribute or variable.name)
        return m.pool.unknown("attribute") if known is None else known
    if variable.kind == "template":
        return m.pool.symbol("template", (variable.name,))
    if variable.kind == "unknown":
        if variable.name.isupper() or variable.name.startswith("M_"):
            return m.pool.symbol("constant", (variable.name,))
        return m.pool.unknown("name")
    place = accessing.place_of_variable(m, variable)
    return accessing.load(m, state, place, node.spot)


def _part(m: Machine, state: State, node: Index | Member) -> Result:
    if accessing.is_vector(m.resolved(node.base.type)):
        vector = evaluate(m, state, node.base)
        if isinstance(node, Member):
            return swizzled(m, vector, node)
        return component(m, state, vector, evaluate_number(m, state, node.index), node)
    return places.held(m, state, node, places.designated(m, state, node))


def _unary(m: Machine, state: State, node: Unary) -> Result:
    if node.operator == "&":
        found = places.designated(m, state, node.operand)
        if found.place is None:
            places.held(m, state, node.operand, found)
            return Pointer(None, "device", ZERO, m.resolved(node.operand.type), known=False)
        return found.place
    operand = evaluate(m, state, node.operand)
    if isinstance(operand, Bundle):
        return Bundle(tuple([_negative(m, part, node) for part in operand.parts]))
    return _negative(m, number(m, state, operand, node), node)


def _negative(m: Machine, value: LaneValue, node: Unary) -> LaneValue:
    pool, scalar = m.pool, m.scalar(node.type)
    if node.operator == "!":
        return negate(pool, truth(pool, value))
    if node.operator == "-":
        return wrap(pool, add(pool, ZERO, value, -1), scalar)
    if node.operator == "~":
        return wrap(pool, add(pool, LaneValue(-1), value, -1), scalar)
    return value


def _binary(m: Machine, state: State, node: Binary) -> Result:
    if node.operator in _LOGIC:
        return logic(m, state, node)
    left = evaluate(m, state, node.left)
    right = evaluate(m, state, node.right)
    if node.operator == ",":
        return right
    return combined(m, state, node.operator, left, right, node)


def combined(
    m: Machine, state: State, sign: str, left: Result, right: Result, node: Binary | Assign
) -> Result:
    """Return an arithmetic operation, or one on pointers."""
    scalar = m.scalar(node.type)
    if isinstance(node, Assign):
        # ``x /= y`` is done in the wider type; of integers that is an integer.
        kinds = (m.scalar(node.target.type), m.scalar(node.value.type))
        scalar = next((kind for kind in kinds if kind in FLOATS or kind is None), scalar)
    if isinstance(left, LaneValue) and isinstance(right, LaneValue):
        return binary(m.pool, sign, left, right, scalar)
    left, right = _valued(m, state, left, node), _valued(m, state, right, node)
    if isinstance(left, Pointer) and isinstance(right, LaneValue) and sign in ("+", "-"):
        if left.root is None:
            return left
        root = m.root_type(left.root)
        return moved(m.pool, left, right, root, sign=1 if sign == "+" else -1)
    if isinstance(right, Pointer) and isinstance(left, LaneValue) and sign == "+" and right.root:
        return moved(m.pool, right, left, m.root_type(right.root))
    if isinstance(left, Bundle) or isinstance(right, Bundle):
        return _by_component(m, state, sign, left, right, node)
    a, b = number(m, state, left, node), number(m, state, right, node)
    return binary(m.pool, sign, a, b, scalar)


def _valued(m: Machine, state: State, side: Result, node: Expression) -> Result:
    """Of a 0-d input, which is a reference, the value."""
    root = side.root if isinstance(side, Pointer) else None
    if root is not None and root.kind in ("input", "metadata") and not root.type.pointer:
        return number(m, state, side, node)
    return side


def _by_component(
    m: Machine, state: State, sign: str, left: Result, right: Result, node: Binary | Assign
) -> Result:
    width = max(len(side.parts) for side in (left, right) if isinstance(side, Bundle))
    sides = []
    for side in (left, right):
        parts = side.parts if isinstance(side, Bundle) else (number(m, state, side, node),)
        if len(parts) not in (1, width):
            return m.pool.unknown("vector")
        sides.append(parts * width if len(parts) == 1 else parts)
    scalar = m.scalar(node.type)
    pairs = zip(*sides, strict=True)
    return Bundle(tuple([binary(m.pool, sign, a, b, scalar) for a, b in pairs]))


def _construct(m: Machine, state: State, node: Construct) -> Result:
    parts: list[LaneValue] = []
    kind = m.resolved(node.type)
    struct = structure_of(m, kind)
    if struct is not None:
        return made(struct, [evaluate(m, state, part) for part in node.parts])
    for part in node.parts:
        found = evaluate(m, state, part)
        if isinstance(found, Pointer) and kind.pointer:
            return found
        if isinstance(found, Bundle):
            parts += found.parts
        else:
            parts.append(number(m, state, found, part))
    if kind.dimensions or (kind.width == 1 and len(parts) != 1):
        bits = 0
        for value in parts:
            bits |= value.bits
        return Cells({("", k): value for k, value in enumerate(parts)}, bits)
    if kind.width > 1:
        wrapped = [wrap(m.pool, value, kind.scalar) for value in parts]
        return Bundle(tuple(wrapped * kind.width if len(parts) == 1 else wrapped[: kind.width]))
    return converted(m, parts[0], node.parts[0].type, kind)


@link("assign")
def assign(m: Machine, state: State, node: Assign) -> tuple[Result, Pointer | None]:
    """Return the value of an assignment, and the place that it designates."""
    value = evaluate(m, state, node.value)
    found = places.designated(m, state, node.target)
    place = found.place
    if place is None:
        _scattered(m, state, node, found)
        return value, None
    old: Result = ZERO
    if node.operator != "=" or node.postfix:
        if place.memory == "thread" and isinstance(node.target, Name):
            old = evaluate(m, state, node.target)
        else:
            old = accessing.load(m, state, place, node.target.spot)
    if node.operator != "=":
        value = combined(m, state, node.operator[:-1], old, value, node)
    value = fitted(m, state, value, place.type, node.value)
    accessing.store(m, state, place, value, node.spot)
    return old if node.postfix else value, place


def _scattered(m: Machine, state: State, node: Assign, found: places.Designation) -> None:
    """A swizzle like ``v.zx`` is assigned: its vector is not known any more."""
    target = node.target
    while isinstance(target, Member) and found.base is not None:
        target, found = target.base, found.base
    place = found.place
    if place is not None and place.memory == "thread" and place.root is not None:
        width = m.resolved(place.type).width
        parts = tuple(m.pool.unknown() for _ in range(width))
        accessing.store(m, state, place, Bundle(parts) if width > 1 else parts[0], node.spot)


RULES |= {
    NumberLiteral: _number,
    Name: _name,
    Binary: _binary,
    Index: _part,
    Member: _part,
    Assign: lambda m, state, node: assign(m, state, node)[0],
    Unary: _unary,
    Cast: lambda m, state, node: cast(m, state, node, evaluate(m, state, node.operand)),
    Conditional: conditional,
    Call: _called,
    Construct: _construct,
    OpaqueExpression: _opaque,
}
