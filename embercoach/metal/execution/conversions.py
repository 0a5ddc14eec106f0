"""Conversions: of results to numbers, to components, and to other types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from embercoach.metal.execution import accessing
from embercoach.metal.execution.arithmetic import wrap
from embercoach.metal.execution.memory import Bundle, Cells, Pointer, Result
from embercoach.metal.execution.values import LaneValue
from embercoach.metal.program.types import FLOATS, INTEGERS

if TYPE_CHECKING:
    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.execution.path_state import State
    from embercoach.metal.program.nodes import Cast, Expression, Index, Member
    from embercoach.metal.program.types import Type

#: The components of a vector by their letters.
COMPONENTS = {letter: k for text in ("xyzw", "rgba") for k, letter in enumerate(text)}


def number(m: Machine, state: State, result: Result, node: Expression) -> LaneValue:
    """A result as one number."""
    if isinstance(result, LaneValue):
        return result
    if isinstance(result, Pointer):
        passed = result.root is not None and result.root.kind in ("input", "metadata")
        if passed and result.offset.constant == 0:
            # A 0-d input is a reference: its name represents its value.
            loaded = accessing.load(m, state, result._replace(type=_plain(result.type)), node.spot)
            return loaded if isinstance(loaded, LaneValue) else m.pool.unknown()
        return m.pool.symbol("address", (result.root, result.member, result.offset))
    if isinstance(result, Bundle):
        return m.pool.symbol("vector", result.parts)
    return m.pool.unknown()


def _plain(kind: Type) -> Type:
    return replace(kind, width=1, dimensions=(), pointer=False, reference=False)


def converted(m: Machine, value: LaneValue, origin: Type, kind: Type) -> LaneValue:
    """A number in another type."""
    integer = value.terms and kind.scalar in INTEGERS and kind.scalar != "bool"
    if integer and m.scalar(origin) in FLOATS:
        return m.pool.symbol("integer", (value, kind.scalar))
    return wrap(m.pool, value, kind.scalar)


def fitted(m: Machine, state: State, value: Result, kind: Type, node: Expression) -> Result:
    """The value that a variable of a type takes."""
    if kind.pointer or isinstance(value, Cells):
        return value
    if isinstance(value, Pointer):
        if kind.scalar is None:
            return value
        value = number(m, state, value, node)
    if kind.width > 1:
        parts = value.parts if isinstance(value, Bundle) else (value,) * kind.width
        return Bundle(tuple([wrap(m.pool, part, kind.scalar) for part in parts]))
    if isinstance(value, Bundle):
        return value if kind.scalar is None else number(m, state, value, node)
    return converted(m, value, node.type, kind)


def component(m: Machine, state: State, vector: Result, index: LaneValue, node: Index) -> LaneValue:
    """A component of a vector by its number."""
    if not isinstance(vector, Bundle):
        return m.pool.symbol("component", (number(m, state, vector, node.base), index))
    at = index.constant
    if at is not None and 0 <= at < len(vector.parts):
        return vector.parts[at]
    return m.pool.symbol("component", (*vector.parts, index))


def swizzled(m: Machine, vector: Result, node: Member) -> Result:
    """Components of a vector by their letters."""
    at = [COMPONENTS.get(letter, 0) for letter in node.field]
    if not at:
        return m.pool.unknown("part")
    if isinstance(vector, Bundle) and max(at) < len(vector.parts):
        parts = tuple([vector.parts[k] for k in at])
    else:
        whole_one = vector if isinstance(vector, LaneValue) else m.pool.unknown("part")
        parts = tuple([m.pool.symbol("component", (whole_one, k)) for k in at])
    return parts[0] if len(parts) == 1 else Bundle(parts)


def cast(m: Machine, state: State, node: Cast, operand: Result) -> Result:
    """An operand's value in another type."""
    kind = m.resolved(node.type)
    if isinstance(operand, Pointer):
        if not kind.pointer:
            return converted(m, number(m, state, operand, node), node.operand.type, kind)
        return operand._replace(type=replace(kind, pointer=False))
    if node.bits:
        return m.pool.symbol("bits", (number(m, state, operand, node), kind))
    if isinstance(operand, Bundle):
        return Bundle(tuple(converted(m, p, node.operand.type, kind) for p in operand.parts))
    if isinstance(operand, LaneValue):
        made = converted(m, operand, node.operand.type, kind)
        return Bundle((made,) * kind.width) if kind.width > 1 else made
    return operand
