"""KERNEL-CONST-001: threadgroup arrays filled for one number of threads and read for another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.checks.registry import check
from embercoach.metal import hazards
from embercoach.metal.execution.conditions import threads_of
from embercoach.metal.execution.events import Access
from embercoach.metal.execution.memory import elements_of
from embercoach.metal.execution.values import SIMD_WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.checks.programs.metal_checks import MetalCode
    from embercoach.metal.execution.events import Trace
    from embercoach.metal.program.nodes import Variable


@dataclass(frozen=True, slots=True)
class CoverageMismatch:
    """An array with an element for each thread, or each simdgroup, of another number of them.

    Attributes:
        access: a read of elements that nothing was written to, or the last read of an array whose
            further elements nothing reads.
        unit: what each element is written by.
        written: how many elements are written: the first ones, one by each thread or simdgroup.
        read: how many elements the reads span, from the first one on.
    """

    variable: Variable
    access: Access
    unit: Literal["thread", "simdgroup"]
    written: int
    read: int

    @property
    def threads(self) -> int:
        """The size of the threadgroup that the reads fit."""
        return self.read if self.unit == "thread" else self.read * SIMD_WIDTH


def mismatches(trace: Trace) -> tuple[CoverageMismatch, ...]:
    """Arrays whose reads fit another size of the threadgroup than it has, whatever the data.

    All accesses of the array must be known, and no unknown condition may decide about any.
    """
    if trace.lost or trace.cut_short:
        return ()
    arrays: dict[Variable, list[Access]] = {}
    for event in trace.events:
        if isinstance(event, Access) and event.memory == "threadgroup":
            arrays.setdefault(event.variable, []).append(event)
    found = (_mismatch(variable, accesses, trace) for variable, accesses in arrays.items())
    return tuple(one for one in found if one is not None)


def _mismatch(variable: Variable, accesses: list[Access], trace: Trace) -> CoverageMismatch | None:
    if any(a.mask.conditions or not a.index.exact or a.member or a.width != 1 for a in accesses):
        return None
    if any(a.kind == "atomic" for a in accesses):
        return None
    writes = set().union(*(_elements(a) for a in accesses if a.kind == "write"))
    reads = set().union(*(_elements(a) for a in accesses if a.kind == "read"))
    if not reads or not _is_filled(variable, writes, trace):
        return None
    span = max(reads) + 1
    size = elements_of(variable.type)
    if min(reads) < 0 or (size is not None and span > size):
        return None  # KERNEL-BOUNDS-001 reports accesses outside of the array
    if len(writes) == trace.threads and span % SIMD_WIDTH:
        return None  # a tile with a border, which has nothing to do with the number of threads
    # An array of which one element is read may be a broadcast.
    dropped = 1 < len(reads) == span and 2 * span <= len(writes)
    if not dropped and not reads - writes:
        return None
    last = [a for a in accesses if a.kind == "read" and (dropped or _elements(a) - writes)]
    unit: Literal["thread", "simdgroup"] = "thread" if len(writes) == trace.threads else "simdgroup"
    return CoverageMismatch(variable, last[0], unit, len(writes), span)


def _is_filled(variable: Variable, writes: set[int], trace: Trace) -> bool:
    """Return whether each thread, or each of several simdgroups, has one element."""
    size = elements_of(variable.type)
    if trace.threads <= SIMD_WIDTH or (size is not None and len(writes) > size):
        return False
    groups = -(-trace.threads // SIMD_WIDTH)
    return writes == set(range(len(writes))) and len(writes) in (trace.threads, groups)


def _elements(access: Access) -> set[int]:
    """The elements that an access touches, of all its threads."""
    return {access.index.offset(thread) for thread in threads_of(access.mask.lanes)}


@check("KERNEL-CONST-001")
def written_for_another_size(code: MetalCode) -> Iterator[MetalReport]:
    """``for (uint s = 128; s > 0; s >>= 1)`` in a threadgroup of 512."""
    if not code.text.threadgroup_arrays:
        return

    for kernel in code.kernels:
        for number, configuration in enumerate(kernel.configurations):
            if not configuration.assumed:
                yield from map(_report, mismatches(kernel.trace(number)))


def _report(found: CoverageMismatch) -> MetalReport:
    name, spot, each = found.variable.name, found.access.spot, found.unit
    launched = found.written if each == "thread" else found.written * 32
    if found.read > found.written:
        what = hazards.uninitialized_read(f"{name}[{found.read - 1}]")
    else:
        what = f"`{name}` is read only up to `{name}[{found.read - 1}]`"
    return MetalReport(
        "KERNEL-CONST-001",
        spot.place,
        f"{what}: body assumes {found.threads} threads, launch has {launched}",
        f"Launch {found.threads} threads, or pass the size to both `threadgroup` and the body",
        spot.text,
    )
