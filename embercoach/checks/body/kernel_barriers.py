"""KERNEL-BARRIER-001: barriers that some threads of a threadgroup never reach."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.metal import hazards

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embercoach.metal.execution.events import Trace
    from embercoach.metal.inspections.barriers import Divergence


def unreached(trace: Trace, whole: bool) -> Iterator[MetalReport]:
    """Barriers that not all threads reach: the first after each divergence."""
    from embercoach.metal.inspections.barriers import divergences

    causes: set[object] = set()
    for divergence in divergences(trace):
        condition = divergence.condition
        cause = divergence.missing if condition is None else condition
        if cause not in causes and (not divergence.guard or bites(divergence, trace, whole=whole)):
            causes.add(cause)
            yield _report(divergence)


def bites(divergence: Divergence, trace: Trace, *, whole: bool) -> bool:
    """Return whether a guard like `i < n` diverges within some threadgroup.

    A grid in Python has as many threads as it says, so that `n` of them may pass all; one that is
    rounded up to whole threadgroups has some too many. In a file, whose grid is unknown, a guard of
    the position in the grid may fail. One of the position in the threadgroup holds for all threads
    where the host launches as many as the kernel needs.
    """
    parted = _parted(divergence, trace)
    if parted is not None:
        return parted
    rounded = any(divergence.axes >> axis & 1 for axis in trace.configuration.rounded)
    return (whole and divergence.axes != 0) or rounded


def _parted(divergence: Divergence, trace: Trace) -> bool | None:
    """Return whether a guard diverges whose only unknown is the threadgroup's position.

    Only threads that are certainly there are asked; None where there is more unknown.
    """
    condition = divergence.condition
    sides = None if condition is None else condition.sides
    if condition is None or sides is None:
        return None
    left, right = sides
    terms = [*left.terms, *((symbol, -factor) for symbol, factor in right.terms)]
    if not all(symbol.operation in _GROUPS for symbol, _ in terms):
        return None
    from embercoach.metal.inspections.bounds import threads_in_grid

    fits = _COMPARED[condition.operator]
    gaps = [left.offset(thread) - right.offset(thread) for thread in range(trace.threads)]
    for position in product(*(_positions(trace, axis) for axis in range(3))):
        moved = sum(factor * position[_GROUPS.index(s.operation)] for s, factor in terms)
        there = [*threads_in_grid(position, trace.configuration, trace.everyone)]
        if len({fits(gaps[thread] + moved) for thread in there}) == 2:
            return True
    return False


def _positions(trace: Trace, axis: int) -> list[int]:
    """Threadgroups along an axis that are certainly there: the first ones, and the last."""
    count = trace.configuration.groups[axis]
    last = trace.configuration.grid[axis]
    if count is None or count == 1:
        return [0]
    known = range(min(count if last is not None else count - 1, _TRIED))
    return [*known, count - 1] if last is not None and count > _TRIED else [*known]


_GROUPS = ("group.x", "group.y", "group.z")
#: Threadgroups along an axis that are tried for a guard.
_TRIED = 16
_COMPARED: dict[str, Callable[[int], bool]] = {
    "<": lambda gap: gap < 0,
    ">=": lambda gap: gap >= 0,
    "==": lambda gap: gap == 0,
    "!=": lambda gap: gap != 0,
}


def _report(divergence: Divergence) -> MetalReport:
    barrier = divergence.barrier
    what = hazards.barrier_divergence(divergence.words)
    help_text = hazards.DIVERGENCE_HELP
    return MetalReport("KERNEL-BARRIER-001", barrier.spot.place, what, help_text, barrier.spot.text)
