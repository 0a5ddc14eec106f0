"""KERNEL-CONST-001: threadgroup arrays filled for one number of threads and read for another."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def mismatches(trace: Trace) -> Iterator[MetalReport]:
    """Arrays whose reads fit another size of the threadgroup than it has, whatever the data.

    All accesses of the array must be known, and no unknown condition may decide about any.
    """
    if trace.lost or trace.cut_short:
        return
    arrays: dict[Variable, list[Access]] = {}
    for event in trace.events:
        if isinstance(event, Access) and event.memory == "threadgroup":
            arrays.setdefault(event.variable, []).append(event)
    for variable, accesses in arrays.items():
        yield from _mismatch(variable, accesses, trace)


def _mismatch(variable: Variable, accesses: list[Access], trace: Trace) -> Iterator[MetalReport]:
    """An array that is read up to another element than the threads or simdgroups have written."""
    if any(a.mask.conditions or not a.index.exact or a.member or a.width != 1 for a in accesses):
        return
    if any(a.kind == "atomic" for a in accesses):
        return
    writes = set().union(*(_elements(a) for a in accesses if a.kind == "write"))
    reads = set().union(*(_elements(a) for a in accesses if a.kind == "read"))
    if not reads or not _is_filled(variable, writes, trace):
        return
    span = max(reads) + 1
    size = elements_of(variable.type)
    if min(reads) < 0 or (size is not None and span > size):
        return  # KERNEL-BOUNDS-001 reports accesses outside of the array
    if len(writes) == trace.threads and span % SIMD_WIDTH:
        return  # a tile with a border, which has nothing to do with the number of threads
    # An array of which one element is read may be a broadcast.
    dropped = 1 < len(reads) == span and 2 * span <= len(writes)
    if not dropped and not reads - writes:
        return
    last = [a for a in accesses if a.kind == "read" and (dropped or _elements(a) - writes)]
    if span > len(writes):
        what = hazards.uninitialized_read(f"{variable.name}[{span - 1}]")
    else:
        what = f"`{variable.name}` is read only up to `{variable.name}[{span - 1}]`"
    each = 1 if len(writes) == trace.threads else SIMD_WIDTH
    threads = span * each
    yield MetalReport(
        "KERNEL-CONST-001",
        last[0].spot,
        f"{what}: body assumes {threads} threads, launch has {len(writes) * each}",
        f"Launch {threads} threads, or pass the size to both `threadgroup` and the body",
    )


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
                yield from mismatches(kernel.trace(number))
