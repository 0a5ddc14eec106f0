"""The least threadgroup memory that a program takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.program.nodes import Declare
from embercoach.metal.program.types import size_of
from embercoach.metal.program.walk import below, children, mentioned

if TYPE_CHECKING:
    from embercoach.metal.program.nodes import Program, Variable
    from embercoach.metal.program.walk import Node


@dataclass(frozen=True, slots=True)
class ThreadgroupArray:
    """A variable in threadgroup memory and its bytes."""

    variable: Variable
    bytes: int


def threadgroup_arrays(program: Program) -> tuple[ThreadgroupArray, ...]:
    """The threadgroup variables that occupy memory together, as far as sizes are known.

    Unused ones take none. Of alternative scopes only the largest counts:
    a compiler may give them the same memory.
    """
    if program.body is None:
        return ()
    return _taken(program.body, mentioned(program.body))


def _taken(node: Node, used: frozenset[Variable]) -> tuple[ThreadgroupArray, ...]:
    own: list[ThreadgroupArray] = []
    most: tuple[ThreadgroupArray, ...] = ()
    for child in children(node):
        if isinstance(child, Declare):
            kind = child.variable.type
            size = size_of(kind)
            shared = kind.space == "threadgroup" and not kind.pointer and not kind.reference
            if shared and size is not None and child.variable in used:
                own.append(ThreadgroupArray(child.variable, size))
        elif any(isinstance(inner, Declare) for inner in below(child)):
            inside = _taken(child, used)
            most = max(most, inside, key=total)
    return (*own, *most)


def total(arrays: tuple[ThreadgroupArray, ...]) -> int:
    """Bytes of several variables."""
    return sum(array.bytes for array in arrays)
