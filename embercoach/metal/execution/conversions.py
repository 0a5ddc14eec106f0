"""Conversions: of results to numbers, and to the types that they are put into."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.metal.execution import accessing
from embercoach.metal.execution.arithmetic import wrap
from embercoach.metal.execution.memory import Bundle, Cells, Pointer, Result
from embercoach.metal.execution.values import Value
from embercoach.metal.program.types import FLOATS, INTEGERS

if TYPE_CHECKING:
    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.execution.state import State
    from embercoach.metal.program.nodes import Expression
    from embercoach.metal.program.types import Type


def number(m: Machine, state: State, result: Result, node: Expression) -> Value:
    """A result as one number."""
    if isinstance(result, Value):
        return result
    if isinstance(result, Pointer):
        if result.root is not None and result.root.kind in ("input", "metadata"):
            # A 0-d input is a reference: its name stands for its value.
            loaded = accessing.load(m, state, result._replace(type=_plain(result.type)), node.spot)
            return loaded if isinstance(loaded, Value) else m.pool.unknown()
        return m.pool.symbol("address", (result.root, result.member, result.offset))
    if isinstance(result, Bundle):
        return m.pool.symbol("vector", result.parts)
    return m.pool.unknown()


def _plain(kind: Type) -> Type:
    return replace(kind, width=1, dimensions=(), pointer=False, reference=False)


def converted(m: Machine, value: Value, origin: Type, kind: Type) -> Value:
    """A number in another type."""
    integer = value.terms and kind.scalar in INTEGERS and kind.scalar != "bool"
    if integer and m.scalar(origin) in FLOATS:
        return m.pool.symbol("integer", (value, kind.scalar))
    return wrap(m.pool, value, kind.scalar)


def fitted(m: Machine, state: State, value: Result, kind: Type, node: Expression) -> Result:
    """What is put into a variable of a type."""
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
