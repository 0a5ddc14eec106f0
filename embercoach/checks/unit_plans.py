"""The entry points of a Metal file as programs that can be followed, with assumed launches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.checks.metal_checks import MetalKernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import Configuration
    from embercoach.metal.program.nodes import Function, Program

#: Threadgroups that an entry point is tried with: what is found must hold in all of them.
LINES = ((64, 1, 1), (256, 1, 1))
#: Besides, where a position in the threadgroup has two components or more.
PLANES = ((8, 8, 1), (16, 16, 1))
_ALL_AXES = frozenset({0, 1, 2})
#: Attributes that tell the threads of a group apart.
_WITHIN = frozenset(
    {
        "thread_position_in_grid",
        "thread_position_in_threadgroup",
    }
)


def kernels_of_unit(text: str) -> tuple[MetalKernel, ...]:
    """The kernels of a file: entry points that were understood whole."""
    from embercoach.metal.program.lowering import lower_unit

    program = lower_unit(text)
    return tuple(
        MetalKernel(entry.name, _launched(program, entry), tuple(_configurations(entry)))
        for overloads in program.functions.values()
        for entry in overloads
        if entry.entry and entry.bodies and not _is_doubtful(program, entry)
    )


def _launched(program: Program, entry: Function) -> Program:
    """The program of one entry point: its arguments are what the body finds in scope."""
    variables = {variable.name: variable for variable in entry.parameters}
    return replace(program, body=entry.bodies[0], variables=variables)


def _is_doubtful(program: Program, entry: Function) -> bool:
    """Whether something inside the entry point was not understood."""
    extent = entry.spot.place
    return any(extent.start <= p.spot.place.start < extent.end for p in program.problems)


def _configurations(entry: Function) -> Iterator[Configuration]:
    from embercoach.metal.execution.events import Configuration

    planar = any(v.attribute in _WITHIN and v.type.width > 1 for v in entry.parameters)
    for threadgroup in LINES + PLANES if planar else LINES:
        yield Configuration(threadgroup, _ALL_AXES, (None, None, None), {})
