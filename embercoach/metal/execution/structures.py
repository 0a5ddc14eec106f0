"""Structures that the texts define: made of parts, with the types of their templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.execution.memory import DTYPES, Bundle, Cells, Pointer, Result
from embercoach.metal.execution.values import LaneValue
from embercoach.metal.numerals import whole_number
from embercoach.metal.program.types import NAMED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embercoach.metal.execution.machine import Machine
    from embercoach.metal.execution.path_state import State
    from embercoach.metal.program.nodes import Struct, Variable
    from embercoach.metal.program.types import Type


def structure_of(m: Machine, kind: Type) -> Struct | None:
    """The structure that a type names."""
    if kind.pointer or kind.dimensions or kind.scalar is None:
        return None
    return m.program.structs.get(kind.scalar.partition("<")[0])


def made(struct: Struct, parts: Sequence[Result]) -> Cells:
    """A structure of the values of its fields, in order."""
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
        scalar = m.types.get(text) or DTYPES.get(text.removesuffix("_t")) or text
        kind = NAMED.get(scalar)
        if kind is not None and kind.scalar is not None:
            m.types[parameter.name] = kind.scalar


def bind_structure(m: Machine, state: State, kind: Type) -> None:
    """Give the template parameters of an object's structure what its type names."""
    struct = structure_of(m, kind)
    if struct is not None and kind.scalar is not None and struct.template:
        arguments = kind.scalar.partition("<")[2].removesuffix(">")
        bind_template(m, state, struct.template, [text.strip() for text in arguments.split(",")])


def _number(m: Machine, state: State, text: str) -> LaneValue | None:
    """A template argument that is a number or the name of one."""
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
