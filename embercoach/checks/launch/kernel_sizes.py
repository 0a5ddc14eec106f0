"""KERNEL-GRID-005 and 006: threadgroups that are too large, or leave lanes of simdgroups idle."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from embercoach.analysis.facts.facts import CallFact
from embercoach.analysis.sizes.ceil_division import grows_with_data
from embercoach.checks.programs.kernels import launched
from embercoach.checks.programs.launch_entries import MAX_THREADS, entries_of
from embercoach.checks.registry import VALUE, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.launch_entries import Entries, Entry

SIMD_WIDTH = 32
"""Threads of a simdgroup, on every GPU that MLX runs on."""
#: A launch of fewer threads is over before idle lanes matter.
MANY_THREADS = 1024


@check("KERNEL-GRID-005", "KERNEL-GRID-006", of=(VALUE,))
def threadgroup_sizes(fact: CallFact, module: Module) -> Iterator[Report]:
    """``threadgroup=(64, 32, 1)``, ``threadgroup=(48, 1, 1)``."""
    argument = fact.keyword("threadgroup")
    if argument is None or not launched(fact):
        return
    group, grid = entries_of(fact, "threadgroup", module), entries_of(fact, "grid", module)
    if group is None:
        return
    threads = _most_threads(group, grid)
    if threads > MAX_THREADS:
        certain = all(entry.known is not None for entry in group if entry.limit is not None)
        yield Report.at(
            fact,
            "KERNEL-GRID-005",
            node=argument.node,
            message=(
                f"threadgroup {'has' if certain else 'can have'} {threads} threads, "
                f"the limit is {MAX_THREADS}"
            ),
            help=f"Keep the product of the three entries at {MAX_THREADS} or less",
        )
        return
    threads = _threads_of_partial_groups(group, grid)
    if threads:
        yield Report.at(
            fact,
            "KERNEL-GRID-006",
            node=argument.node,
            message=(
                f"threadgroup of {threads} thread{'s' * (threads > 1)} leaves "
                f"{-threads % SIMD_WIDTH} of {SIMD_WIDTH} lanes "
                f"{'of its last simdgroup ' * (threads > SIMD_WIDTH)}idle"
            ),
            help=f"Use a multiple of {SIMD_WIDTH} threads, such as 256",
        )


def _most_threads(group: Entries, grid: Entries | None) -> int:
    """The most threads that a group is known to get: MLX makes no entry larger than the grid's."""
    most = [
        entry.limit if threads is None or entry.limit is None else min(entry.limit, threads)
        for entry, threads in zip(group, _known(grid), strict=True)
    ]
    return prod(n for n in most if n is not None and n > 0)


def _known(grid: Entries | None) -> tuple[int | None, ...]:
    return (None,) * 3 if grid is None else tuple(entry.known for entry in grid)


def _threads_of_partial_groups(group: Entries, grid: Entries | None) -> int:
    """Threads of a group whose last simdgroup is not full, if there are many groups; else 0."""
    sizes = [entry.known for entry in group]
    if grid is None or None in sizes:
        return 0
    threads = prod(n for n in sizes if n is not None)
    return threads if threads > 0 and threads % SIMD_WIDTH and _is_large(grid, group) else 0


def _is_large(grid: Entries, group: Entries) -> bool:
    """Return whether there are many groups: by a known number of threads, or by data."""
    if prod(entry.known for entry in grid if entry.known is not None) >= MANY_THREADS:
        return True
    pairs = zip(grid, group, strict=True)
    return any(_follows_data(entry, size) for entry, size in pairs)


def _follows_data(entry: Entry, group: Entry) -> bool:
    if entry.size is None or entry.known is not None:
        return False
    return grows_with_data(entry.size) and entry.size != group.size
