"""KERNEL-BOUNDS and KERNEL-SIMD: indices past an array, dropped results, missing lanes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.metal import hazards
from embercoach.metal.execution.values import SIMD_WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import Trace
    from embercoach.metal.inspections.bounds import Outside
    from embercoach.metal.inspections.reductions import Partial


def past_arrays(trace: Trace, _whole: bool) -> Iterator[MetalReport]:
    """Accesses outside of threadgroup and private arrays, and of outputs of known size."""
    from embercoach.metal.inspections.bounds import outside, past_buffers

    for found in (*outside(trace), *past_buffers(trace)):
        yield _outside(found)


def _outside(found: Outside) -> MetalReport:
    spot, name = found.access.spot, found.variable.name
    index = found.index if found.index < 0 else max(found.index, found.count)
    what = hazards.out_of_bounds(
        found.access.kind if found.access.kind == "read" else "write",
        f"{name}[{index}]",
        f"{found.count} elements, thread {found.thread}",
    )
    help_text = hazards.BOUNDS_HELP
    return MetalReport("KERNEL-BOUNDS-001", spot.place, what, help_text, spot.text)


def dropped_results(trace: Trace, _whole: bool) -> Iterator[MetalReport]:
    """SIMD reductions of which one simdgroup's result is kept."""
    from embercoach.metal.inspections.reductions import partial_reductions

    for partial in partial_reductions(trace):
        yield _partial(partial)


def _partial(partial: Partial) -> MetalReport:
    spot, name = partial.store.spot, partial.call.name
    what = f"`{name}` reduces one of {partial.groups} simdgroups, the other results are dropped"
    help_text = "Combine all results in a `threadgroup` array, or launch threadgroups of 32 threads"
    return MetalReport("KERNEL-SIMD-001", spot.place, what, help_text, spot.text)


def absent_lanes(trace: Trace, _whole: bool) -> Iterator[MetalReport]:
    """Shuffles from lanes that a threadgroup of no multiple of 32 threads does not have."""
    from embercoach.metal.inspections.reductions import missing_lanes

    for found in missing_lanes(trace):
        name, spot = found.operation.call.name, found.spot
        what = f"`{name}` reads lane {found.source}, the last simdgroup has {found.count} lanes"
        help_text = "Launch whole simdgroups: a multiple of 32 threads, or use `simd_sum`"
        if found.source >= found.count == SIMD_WIDTH:
            what = f"`{name}` reads lane {found.source}, a simdgroup has {SIMD_WIDTH} lanes"
            help_text = "Pass a lane below 32, as `thread_index_in_simdgroup` counts"
        yield MetalReport("KERNEL-SIMD-002", spot.place, what, help_text, spot.text)
