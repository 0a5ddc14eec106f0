"""The entry points of Metal files as kernels to follow, with the threadgroups to try."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from embercoach.checks.programs.metal_checks import MetalKernel
from embercoach.metal.execution.events import Configuration
from embercoach.metal.execution.values import SIMD_WIDTH
from embercoach.metal.library import ENTRY_QUALIFIERS
from embercoach.metal.program.lowering import lower_unit
from embercoach.metal.program.nodes import (
    Assign,
    Binary,
    Call,
    Declare,
    Member,
    MetalFunction,
    Name,
    NumberLiteral,
    Program,
    Statement,
    Variable,
)
from embercoach.metal.program.walk import below, known_values
from embercoach.metal.work_budget import WorkBudget, WorkBudgetExceeded

#: Threadgroups that an entry point is tried with: what is found must hold in all of them.
LINES = (64, 256)
#: Besides, where a position in the threadgroup has two components or more.
PLANES = (8, 16)
#: And where it asks for a thread's position along y, with rows of a simdgroup each.
ROWS = (2, 8)
#: Sizes that a kernel writes down, as that of a tile, are those that it is launched with, maybe.
LEAST, LARGEST, MOST = 8, 1024, 4
_ALL_AXES = frozenset({0, 1, 2})
_WITHIN = frozenset({"thread_position_in_grid", "thread_position_in_threadgroup"})
_OF_GRID = frozenset({"thread_position_in_grid", "threads_per_grid", "grid_size"})
#: Who takes one of these expects more than one simdgroup.
_OF_SIMD_GROUPS = frozenset({"simdgroup_index_in_threadgroup", "simdgroups_per_threadgroup"})


def kernels_of_unit(text: str, budget: WorkBudget) -> tuple[MetalKernel, ...]:
    """Return the kernels of a text at file scope: entry points that were understood whole.

    Args:
        text: a file, or a text inside one.
        budget: the steps that the file's kernels may take.

    Raises:
        WorkBudgetExceeded: they took all of them.
    """
    if not any(word in text for word in ENTRY_QUALIFIERS):
        return ()
    if budget.is_spent():
        raise WorkBudgetExceeded
    program = lower_unit(text)
    budget.spend(program.steps)
    budget.note(program.refusal)
    functions = [function for group in program.functions.values() for function in group]
    order = {function: number for number, function in enumerate(functions)}
    doubts = sorted(problem.spot.place.start for problem in program.problems)
    entries = [f for f in functions if f.entry and f.bodies and not _is_doubtful(f, doubts)]
    written = frozenset(chain.from_iterable(map(_numbers, program.constants)))
    return tuple(
        _kernel(program, entry, order if number else None, written, budget)
        for number, entry in enumerate(entries)
    )


def _kernel(
    program: Program,
    entry: MetalFunction,
    order: dict[MetalFunction, int] | None,
    written: frozenset[int],
    budget: WorkBudget,
) -> MetalKernel:
    """Return one entry point: its arguments are what the body finds in scope.

    Args:
        program: the file.
        entry: the entry point.
        order: of the file's functions; None for the first entry point. That one has them all, the
            others have those that they call. So uncalled ones are inspected too, and each once.
        written: the numbers in the file's constants.
        budget: the steps that the file's kernels may take.
    """
    variables = {variable.name: variable for variable in entry.parameters}
    whole = replace(program, body=entry.bodies[0], variables=variables)
    own = whole
    if order is not None:
        own = replace(whole, functions={}, structs={})
        whole = replace(whole, functions=_called(entry, order))
    configurations = tuple(_configurations(entry, written))
    return MetalKernel(entry.name, whole, configurations, budget, own)


def _called(
    entry: MetalFunction, order: dict[MetalFunction, int]
) -> dict[str, tuple[MetalFunction, ...]]:
    """Return the functions of a file that an entry point calls, directly or not, by name."""
    reached = {entry}
    pending = [entry]
    while pending:
        for body in pending.pop().bodies:
            for node in below(body):
                if isinstance(node, Call):
                    new = [one for one in node.functions if one not in reached]
                    reached.update(new)
                    pending += new
    found: dict[str, tuple[MetalFunction, ...]] = {}
    for function in sorted(reached & order.keys(), key=order.__getitem__):
        found[function.name] = (*found.get(function.name, ()), function)
    return found


def _is_doubtful(entry: MetalFunction, doubts: Sequence[int]) -> bool:
    """Return whether something inside the entry point was not parsed."""
    extent = entry.spot.place
    first = bisect_left(doubts, extent.start)
    return first < len(doubts) and doubts[first] < extent.end


def _configurations(entry: MetalFunction, written: frozenset[int]) -> Iterator[Configuration]:
    if _asks_for_the_grid_alone(entry):
        # It has to hold for any: a finding in one of them is not an assumption.
        for count in LINES:
            yield Configuration((count, 1, 1), frozenset(), (None, None, None), {})
        return
    for threadgroup in _threadgroups(entry, written):
        yield Configuration(threadgroup, _ALL_AXES, (None, None, None), {})


def _threadgroups(entry: MetalFunction, constants: frozenset[int]) -> list[tuple[int, int, int]]:
    written = sorted(constants.union(_numbers(entry.bodies[0])))[:MOST]
    lines = {*LINES, *(n for n in written if n > SIMD_WIDTH)}
    may_be_one = SIMD_WIDTH in written or not any(n > SIMD_WIDTH for n in written)
    if (may_be_one or _steps_by_simdgroup(entry)) and not _expects_simdgroups(entry):
        lines.add(SIMD_WIDTH)
    tried = [(n, 1, 1) for n in sorted(lines)]
    if _asks_for_rows(entry):
        # Launched as a line, each thread would find 0.
        tried = [(SIMD_WIDTH, rows, 1) for rows in ROWS]
    if any(v.attribute in _WITHIN and v.type.width > 1 for v in entry.parameters):
        planes = {*PLANES, *(n for n in written if n * n <= LARGEST)}
        tried += [(n, n, 1) for n in sorted(planes)]
    return tried


def _expects_simdgroups(entry: MetalFunction) -> bool:
    """Return whether a kernel takes the number of a simdgroup, not only to ask for the first."""
    taken = {v for v in entry.parameters if v.attribute in _OF_SIMD_GROUPS}
    mentions = comparisons = 0
    for node in below(entry.bodies[0]) if taken else ():
        if isinstance(node, Name):
            mentions += node.variable in taken
        elif isinstance(node, Binary) and node.operator == "==" and isinstance(node.left, Name):
            # ``if (simdgroup == 0)`` holds for all threads of a group of one.
            first = isinstance(node.right, NumberLiteral) and node.right.value == 0
            comparisons += first and node.left.variable in taken
    return bool(taken) and (not comparisons or mentions > comparisons)


def _steps_by_simdgroup(entry: MetalFunction) -> bool:
    """Return whether something counts on by 32, as where 32 threads share the elements."""
    return any(
        isinstance(node, Assign)
        and node.operator == "+="
        and isinstance(node.value, NumberLiteral)
        and node.value.value == SIMD_WIDTH
        for node in below(entry.bodies[0])
    )


def _asks_for_rows(entry: MetalFunction) -> bool:
    """Return whether a kernel distinguishes the threads of a group along y."""
    positions = [v for v in entry.parameters if v.attribute == "thread_position_in_threadgroup"]
    return any(_asks_for(entry, position, "y") for position in positions)


def _asks_for(entry: MetalFunction, position: Variable, axis: str) -> bool:
    """Return whether a kernel takes the component of a position along an axis, or from it on."""
    return any(
        isinstance(node, Member)
        and isinstance(node.base, Name)
        and node.base.variable is position
        and node.field.startswith(axis)
        for node in below(entry.bodies[0])
    )


def _asks_for_the_grid_alone(entry: MetalFunction) -> bool:
    """Return whether a kernel ignores its threadgroup, and distinguishes threads along x."""
    taken = [v for v in entry.parameters if v.attribute]
    positions = [v for v in taken if v.attribute == "thread_position_in_grid"]
    if not positions or any(v.attribute not in _OF_GRID for v in taken):
        return False
    return positions[0].type.width == 1 or _asks_for(entry, positions[0], "x")


def _numbers(statement: Statement) -> Iterator[int]:
    """Yield the numbers in a statement that may be the size of a threadgroup."""
    for node in below(statement):
        written: tuple[object, ...] = ()
        if isinstance(node, NumberLiteral):
            written = (node.value,)
        elif isinstance(node, Declare):
            written = node.variable.type.dimensions
        for number in written:
            if isinstance(number, int) and LEAST <= number <= LARGEST and number % LEAST == 0:
                yield number


def values_of(kernel: MetalKernel) -> Mapping[Variable, int | float]:
    """Return the numbers that template arguments and constants of a kernel hold."""
    template = kernel.configurations[0].template if kernel.configurations else {}
    return known_values(kernel.own, template)
