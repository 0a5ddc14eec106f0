"""The entry points of a Metal file as programs that can be followed, with assumed launches."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING

from embercoach.checks.metal_checks import MetalKernel
from embercoach.metal.execution.values import SIMD_WIDTH
from embercoach.metal.syntax import ENTRY_QUALIFIERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import Configuration
    from embercoach.metal.program.nodes import Function, Program
    from embercoach.metal.work_budget import WorkBudget

#: Threadgroups that an entry point is tried with: what is found must hold in all of them.
LINES = (64, 256)
#: Besides, where a position in the threadgroup has two components or more.
PLANES = (8, 16)
#: And where it asks for a thread's position along y, with rows of a SIMD group each.
ROWS = (2, 8)
#: Sizes that a kernel writes down, as that of a tile, are those that it is launched with, maybe.
LEAST, LARGEST, MOST = 8, 1024, 4
_ALL_AXES = frozenset({0, 1, 2})
_WITHIN = frozenset({"thread_position_in_grid", "thread_position_in_threadgroup"})
_OF_GRID = frozenset({"thread_position_in_grid", "threads_per_grid", "grid_size"})
#: Who takes one of these expects more than one SIMD group.
_OF_SIMD_GROUPS = frozenset({"simdgroup_index_in_threadgroup", "simdgroups_per_threadgroup"})


def kernels_of_unit(text: str, budget: WorkBudget) -> tuple[MetalKernel, ...]:
    """The kernels of a text at file scope: entry points that were understood whole.

    Args:
        text: a file, or a text inside one.
        budget: the steps that the file's kernels may take.
    """
    from embercoach.metal.program.lowering import lower_unit

    if not any(word in text for word in ENTRY_QUALIFIERS):
        return ()
    program = lower_unit(text)
    if program.too_deep:
        budget.refuse_depth()
    entries = [
        entry
        for overloads in program.functions.values()
        for entry in overloads
        if entry.entry and entry.bodies and not _is_doubtful(program, entry)
    ]
    return tuple(
        MetalKernel(
            entry.name,
            _launched(program, entry, alone=number > 0),
            tuple(_configurations(program, entry)),
            budget,
        )
        for number, entry in enumerate(entries)
    )


def _launched(program: Program, entry: Function, *, alone: bool) -> Program:
    """The program of one entry point: its arguments are what the body finds in scope.

    Alone, it has only the functions that it calls: those that nobody calls are another's.
    """
    variables = {variable.name: variable for variable in entry.parameters}
    found = replace(program, body=entry.bodies[0], variables=variables)
    return replace(found, functions=_called(program, entry)) if alone else found


def _called(program: Program, entry: Function) -> dict[str, tuple[Function, ...]]:
    """The functions of a file that an entry point comes to, by name."""
    from embercoach.metal.program.nodes import Call
    from embercoach.metal.program.walk import below

    reached = {entry}
    pending = [entry]
    while pending:
        for body in pending.pop().bodies:
            for node in below(body):
                if isinstance(node, Call):
                    new = [one for one in node.functions if one not in reached]
                    reached.update(new)
                    pending += new
    kept = {
        name: tuple(one for one in overloads if one in reached)
        for name, overloads in program.functions.items()
    }
    return {name: overloads for name, overloads in kept.items() if overloads}


def _is_doubtful(program: Program, entry: Function) -> bool:
    """Whether something inside the entry point was not understood."""
    extent = entry.spot.place
    return any(extent.start <= p.spot.place.start < extent.end for p in program.problems)


def _configurations(program: Program, entry: Function) -> Iterator[Configuration]:
    from embercoach.metal.execution.events import Configuration

    if _asks_for_the_grid_alone(entry):
        # It has to be right for any: what is found in one of them is no assumption.
        for count in LINES:
            yield Configuration((count, 1, 1), frozenset(), (None, None, None), {})
        return
    for threadgroup in _threadgroups(program, entry):
        yield Configuration(threadgroup, _ALL_AXES, (None, None, None), {})


def _threadgroups(program: Program, entry: Function) -> list[tuple[int, int, int]]:
    written = _written_sizes(program, entry)
    several = any(v.attribute in _OF_SIMD_GROUPS for v in entry.parameters)
    lines = {*LINES, *(n for n in written if n > SIMD_WIDTH or (n == SIMD_WIDTH and not several))}
    if not several and not any(n > SIMD_WIDTH for n in written):
        lines.add(SIMD_WIDTH)
    tried = [(n, 1, 1) for n in sorted(lines)]
    if _asks_for_rows(entry):
        # Launched as a line, each thread would find 0.
        tried = [(SIMD_WIDTH, rows, 1) for rows in ROWS]
    if any(v.attribute in _WITHIN and v.type.width > 1 for v in entry.parameters):
        planes = {*PLANES, *(n for n in written if n * n <= LARGEST)}
        tried += [(n, n, 1) for n in sorted(planes)]
    return tried


def _asks_for_rows(entry: Function) -> bool:
    """Whether a kernel tells the threads of a group apart along y."""
    from embercoach.metal.program.nodes import Member, Name
    from embercoach.metal.program.walk import below

    positions = [v for v in entry.parameters if v.attribute == "thread_position_in_threadgroup"]
    return any(
        isinstance(node, Member)
        and isinstance(node.base, Name)
        and node.base.variable in positions
        and node.field.startswith("y")
        for node in below(entry.bodies[0])
    )


def _asks_for_the_grid_alone(entry: Function) -> bool:
    """Whether a kernel knows nothing of its threadgroup, and tells threads apart along x."""
    from embercoach.metal.program.nodes import Member, Name
    from embercoach.metal.program.walk import below

    taken = [v for v in entry.parameters if v.attribute]
    positions = [v for v in taken if v.attribute == "thread_position_in_grid"]
    if not positions or any(v.attribute not in _OF_GRID for v in taken):
        return False
    if positions[0].type.width == 1:
        return True
    return any(
        isinstance(node, Member)
        and isinstance(node.base, Name)
        and node.base.variable is positions[0]
        and node.field.startswith("x")
        for node in below(entry.bodies[0])
    )


def _written_sizes(program: Program, entry: Function) -> list[int]:
    """Numbers in a kernel, and of the file's constants, that may be the size of a threadgroup."""
    from embercoach.metal.program.nodes import Declare, Number
    from embercoach.metal.program.walk import below

    found: set[int] = set()
    for node in chain(below(entry.bodies[0]), *map(below, program.constants)):
        if isinstance(node, Number) and isinstance(node.value, int):
            found.add(node.value)
        elif isinstance(node, Declare):
            found.update(size for size in node.variable.type.dimensions if size is not None)
    return sorted(n for n in found if LEAST <= n <= LARGEST and n % LEAST == 0)[:MOST]
