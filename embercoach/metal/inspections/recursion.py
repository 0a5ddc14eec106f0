"""Functions that call themselves, directly or through others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.program.nodes import Call
from embercoach.metal.program.walk import below, functions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.program.nodes import MetalFunction, Program


def recursive_functions(program: Program) -> Iterator[MetalFunction]:
    """The first function of each cycle of calls, in the order of the text.

    Only calls that mean one function for sure: of overloads and templates, whose arguments select
    another function, nothing is known.
    """
    callees = {one: _callees(one) for one in functions(program) if not one.template}
    done: set[MetalFunction] = set()
    for function in callees:
        if function in done:
            continue
        reached = _reached(function, callees)
        if function in reached:
            yield function
            done |= reached
        done.add(function)


def _callees(function: MetalFunction) -> tuple[MetalFunction, ...]:
    return tuple(
        node.functions[0]
        for body in function.bodies
        for node in below(body)
        if isinstance(node, Call) and len(node.functions) == 1 and not node.functions[0].template
    )


def _reached(
    start: MetalFunction, callees: dict[MetalFunction, tuple[MetalFunction, ...]]
) -> set[MetalFunction]:
    found: set[MetalFunction] = set()
    pending = list(callees[start])
    while pending:
        current = pending.pop()
        if current not in found:
            found.add(current)
            pending.extend(callees.get(current, ()))
    return found
