"""KERNEL-BARRIER, -RACE, -SIMD and -BOUNDS: what a kernel's threads do to each other.

A kernel is followed once for each way in which it is launched. Where the threadgroup's size is
known, what one run shows is reported. Where it is assumed, every run must show it.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from embercoach.checks.kernels.kernel_arrays import absent_lanes, dropped_results, past_arrays
from embercoach.checks.kernels.kernel_barriers import unreached
from embercoach.checks.kernels.kernel_outputs import outputs
from embercoach.checks.kernels.kernel_races import shared_memory
from embercoach.checks.registry import check
from embercoach.metal.inspections.footprints import outside
from embercoach.metal.work_budget import WorkBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from embercoach.checks.programs.metal_checks import MetalCode, MetalKernel, MetalReport
    from embercoach.metal.execution.events import Trace
    from embercoach.metal.program.nodes import Spot

    Key = tuple[str, Spot]
    Finder = Callable[[Trace], Iterable[MetalReport]]

#: The attributes that differ between the threads of a threadgroup.
THREADS = frozenset(
    (
        *("thread_position_in_grid", "thread_position_in_threadgroup"),
        *("thread_index_in_threadgroup", "thread_index_in_simdgroup"),
    )
)


@check(
    "KERNEL-BARRIER-001",
    "KERNEL-BARRIER-002",
    "KERNEL-BARRIER-003",
    "KERNEL-BOUNDS-001",
    "KERNEL-RACE-001",
    "KERNEL-RACE-002",
    "KERNEL-SIMD-001",
    "KERNEL-SIMD-002",
)
def kernel_flow(code: MetalCode) -> Iterator[MetalReport]:
    """Each kernel that can be followed."""
    for kernel in code.kernels:
        yield from _of_kernel(kernel, whole=code.whole)


def _of_kernel(kernel: MetalKernel, *, whole: bool) -> Iterator[MetalReport]:
    barriers = partial(unreached, whole=whole)
    finders = (barriers, shared_memory, outputs, dropped_results, absent_lanes, past_arrays)
    findings = [_Findings(finder) for finder in finders]
    complete = True
    for number, configuration in enumerate(kernel.configurations):
        # An assumed run reports only what all other runs report too.
        needed = [one for one in findings if not (configuration.assumed and one.is_settled)]
        try:
            likely = needed and _is_likely(trace := kernel.trace(number), kernel)
        except WorkBudgetExceeded:
            complete = False
            break
        if likely:
            before = trace.inspected.steps
            for one in needed:
                one.look(trace)
            kernel.budget.spend(trace.inspected.steps - before)
    for one in findings:
        yield from one.agreed(complete=complete)


class _Findings:
    """Run one finder over the traces of a kernel."""

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._found: list[tuple[Trace, tuple[MetalReport, ...]]] = []
        self._everywhere: set[Key] | None = None

    @property
    def is_settled(self) -> bool:
        """Return whether assumed runs can't agree on any further finding."""
        return self._everywhere is not None and not self._everywhere

    def look(self, trace: Trace) -> None:
        """Look at a run."""
        reports = tuple(self._finder(trace))
        self._found.append((trace, reports))
        keys = set(map(_key, reports))
        self._everywhere = keys if self._everywhere is None else self._everywhere & keys

    def agreed(self, *, complete: bool) -> Iterator[MetalReport]:
        """The reports that hold for a launch as it is known, or for all that may be.

        Args:
            complete: whether all launches were followed.
        """
        everywhere: set[Key] = (self._everywhere or set()) if complete else set()
        for trace, reports in self._found:
            known = not trace.configuration.assumed
            for report in reports:
                if known or _key(report) in everywhere:
                    yield report


def _is_likely(trace: Trace, kernel: MetalKernel) -> bool:
    """Return whether a kernel may be launched as it is assumed to be.

    Not with many threads to a group if it never asks which of them runs, and not with 64 if it has
    an array for 32 threads.
    """
    if not trace.configuration.assumed:
        return True
    attributes = {v.attribute for v in kernel.program.variables.values()}
    return bool(attributes & THREADS) and all(found.thread == 0 for found in outside(trace))


def _key(report: MetalReport) -> Key:
    return report.code, report.spot
