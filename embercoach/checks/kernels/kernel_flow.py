"""KERNEL-BARRIER, -RACE, -SIMD and -BOUNDS: what a kernel's threads do to each other.

A kernel is followed once for each way in which it is launched. Where the threadgroup's size is
known, what one run shows is reported. Where it is assumed, every run must show it.
"""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from embercoach.checks.kernels.kernel_arrays import absent_lanes, dropped_results, past_arrays
from embercoach.checks.kernels.kernel_outputs import outputs
from embercoach.checks.kernels.kernel_races import shared_memory
from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import check
from embercoach.metal import hazards
from embercoach.metal.execution.conditions import possible, threads_of
from embercoach.metal.execution.events import Mask, Synchronization
from embercoach.metal.execution.footprints import outside, threads_in_grid
from embercoach.metal.execution.values import (
    GROUP,
    GROUP_AXES,
    LANE,
    SIMD_WIDTH,
    WITHIN,
    LaneValue,
)
from embercoach.metal.program.nodes import Variable
from embercoach.metal.work_budget import WorkBudgetExceeded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from embercoach.checks.programs.metal_checks import MetalCode, MetalKernel
    from embercoach.metal.execution.conditions import Condition
    from embercoach.metal.execution.events import Trace
    from embercoach.metal.execution.values import UnknownNumber
    from embercoach.metal.program.nodes import Spot

_LOGICAL = frozenset({"&&", "||", "!"})
_CERTAINTY = {"missing": 0, "condition": 1, "returned": 2}


class Divergence(Struct, frozen=True):
    """A barrier that some threads may pass by.

    Attributes:
        barrier: the event of the trace.
        reason: threads are ``missing`` whatever the data; the barrier stands under a ``condition``
            that differs between threads; or threads have ``returned`` under such a condition.
        condition: that one, as it holds for those at the barrier (or for those that returned).
        missing: the threads that are not there, as bits; 0 where it depends on data.
    """

    barrier: Synchronization
    reason: Literal["missing", "condition", "returned"]
    condition: Condition | None = None
    missing: int = 0

    @property
    def words(self) -> str:
        """The missing threads, for a message."""
        if self.reason == "missing":
            threads = threads_of(self.missing)
            first = f"thread {threads[0]}"
            return first if len(threads) == 1 else f"{first} and {len(threads) - 1} others"
        if self.reason == "returned":
            return "threads that have returned"
        return "threads that fail the condition"


def divergences(trace: Trace) -> tuple[Divergence, ...]:
    """Return the barriers that not all threads reach, one for each place in the text."""
    found: dict[Spot, Divergence] = {}
    for event in trace.events:
        if not isinstance(event, Synchronization) or not event.name.endswith("group_barrier"):
            continue
        divergence = _divergence(event, trace)
        if divergence is None:
            continue
        known = found.get(event.spot)
        if known is None or _CERTAINTY[divergence.reason] < _CERTAINTY[known.reason]:
            found[event.spot] = divergence
    return tuple(found.values())


def _divergence(barrier: Synchronization, trace: Trace) -> Divergence | None:
    whole = barrier.name == "threadgroup_barrier"
    missing = _missing(barrier.mask.lanes, trace, whole=whole)
    if missing:
        return Divergence(barrier, "missing", missing=missing)
    varying = WITHIN if whole else LANE
    condition = _varying(barrier.mask, varying)
    if condition is not None:
        return Divergence(barrier, "condition", condition)
    for gone in barrier.returned:
        condition = _varying(gone, varying)
        if condition is not None and _both_happen(gone, barrier.mask):
            return Divergence(barrier, "returned", condition)
    return None


def _missing(lanes: int, trace: Trace, *, whole: bool) -> int:
    if whole:
        return trace.everyone & ~lanes
    missing = 0
    for first in range(0, trace.threads, SIMD_WIDTH):
        group = ((1 << SIMD_WIDTH) - 1 << first) & trace.everyone
        if lanes & group:
            missing |= group & ~lanes
    return missing


def _varying(mask: Mask, bits: int) -> Condition | None:
    """Return a condition that certainly differs between threads."""
    for condition in mask.conditions:
        symbol = condition.symbol
        if symbol.bits & bits and not symbol.origin.blurred and _differs(symbol, bits):
            return condition
    return None


def _differs(symbol: UnknownNumber, bits: int) -> bool:
    """Return whether some comparison in a condition is certainly not equal for all threads."""
    pending = [symbol]
    seen: set[UnknownNumber] = set()
    while pending:
        current = pending.pop()
        if current in seen or not current.bits & bits:
            continue
        seen.add(current)
        operands = [o for o in current.operands if isinstance(o, LaneValue)]
        if current.operation in _LOGICAL:
            pending += [term for operand in operands for term, _ in operand.terms]
        elif current.operation != "<" or not _compares_tiles(operands):
            return True
    return False


def _compares_tiles(sides: list[LaneValue]) -> bool:
    """Return whether a comparison is one of the threadgroup's tile, of unknown size, with another.

    ``group * ROWS + thread < tile * COLUMNS`` is equal for all threads where ROWS divides COLUMNS.
    """
    symbols = [symbol for side in sides for symbol, _ in side.terms]
    return any(symbol.bits & GROUP for symbol in symbols) and all(map(_is_tile, symbols))


def _is_tile(symbol: UnknownNumber) -> bool:
    if symbol.operation == "*":
        factors = [o.symbol for o in symbol.operands if isinstance(o, LaneValue)]
        return any(f is not None and f.operation == "template" for f in factors)
    return symbol.operation == "template"


def _both_happen(gone: Mask, here: Mask) -> bool:
    """Return whether threads that returned and others at the barrier can be in one threadgroup."""
    known = [c for c in (*gone.conditions, *here.conditions) if not c.varies]
    return possible([(condition, 0) for condition in known])


def unreached(trace: Trace, *, whole: bool) -> Iterator[MetalReport]:
    """Barriers that not all threads reach: the first after each divergence."""
    causes: set[object] = set()
    for divergence in divergences(trace):
        condition = divergence.condition
        cause = divergence.missing if condition is None else condition
        if cause in causes or not (condition is None or _bites(condition, trace, whole=whole)):
            continue
        causes.add(cause)
        what = hazards.barrier_divergence(divergence.words)
        spot = divergence.barrier.spot
        yield MetalReport("KERNEL-BARRIER-001", spot, what, hazards.DIVERGENCE_HELP)


def _bites(condition: Condition, trace: Trace, *, whole: bool) -> bool:
    """Return whether threads of some threadgroup differ in a condition.

    That is open for a guard like `i < n`, which compares a thread's position with something that is
    one for all threads. A grid in Python has as many threads as it says, so that `n` of them may
    pass all; one that is rounded up to whole threadgroups has some too many. In a file, whose grid
    is unknown, a guard of the position in the grid may fail. One of the position in the threadgroup
    holds for all threads where the host launches as many as the kernel needs; not where it always
    launches the same number, and the guard asks for the size of an array.
    """
    sides = condition.sides
    terms = [symbol for side in sides or () for symbol, _ in side.terms]
    if sides is None or any(symbol.bits & WITHIN for symbol in terms):
        return True
    if terms and not trace.configuration.assumed and all(map(_is_size, terms)):
        return True
    parted = _parted(condition, *sides, trace)
    if parted is not None:
        return parted
    axes = 0
    for symbol in terms:
        axes |= symbol.origin.axes
    rounded = any(axes >> axis & 1 for axis in trace.configuration.rounded)
    return (whole and axes != 0) or rounded


def _is_size(symbol: UnknownNumber) -> bool:
    """Return whether a number is read from the shape of an input."""
    root = symbol.operands[0] if symbol.operation == "load" else None
    return isinstance(root, Variable) and root.kind == "metadata"


def _parted(condition: Condition, left: LaneValue, right: LaneValue, trace: Trace) -> bool | None:
    """Return whether a guard diverges whose only unknown is the threadgroup's position.

    Only threads that are certainly there are asked; None where there is more unknown.
    """
    terms = [*left.terms, *((symbol, -factor) for symbol, factor in right.terms)]
    if not all(symbol.operation in GROUP_AXES for symbol, _ in terms):
        return None
    fits = _COMPARED[condition.operator]
    gaps = [left.offset(thread) - right.offset(thread) for thread in range(trace.threads)]
    for position in product(*(_positions(trace, axis) for axis in range(3))):
        moved = sum(factor * position[GROUP_AXES.index(s.operation)] for s, factor in terms)
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


#: Threadgroups along an axis that are tried for a guard.
_TRIED = 16
_COMPARED: dict[str, Callable[[int], bool]] = {
    "<": lambda gap: gap < 0,
    ">=": lambda gap: gap >= 0,
    "==": lambda gap: gap == 0,
    "!=": lambda gap: gap != 0,
}


if TYPE_CHECKING:
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
    """Yield each kernel that can be followed."""
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
        """Yield the reports that hold for a launch as it is known, or for all that may be.

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
