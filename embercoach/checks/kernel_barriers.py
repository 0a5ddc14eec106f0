"""KERNEL-BARRIER-001: barriers that some threads of a threadgroup never reach."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.metal_checks import MetalReport

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.barriers import Divergence
    from embercoach.metal.execution.events import Trace


def unreached(trace: Trace, whole: bool) -> Iterator[MetalReport]:
    """Barriers that not all threads reach: the first behind each parting of ways."""
    from embercoach.metal.execution.barriers import divergences

    causes: set[object] = set()
    for divergence in divergences(trace):
        condition = divergence.condition
        cause = divergence.missing if condition is None else condition
        if cause not in causes and (not divergence.guard or whole):
            causes.add(cause)
            yield _report(divergence)


def _report(divergence: Divergence) -> MetalReport:
    barrier = divergence.barrier
    whose = "SIMD group" if barrier.name == "simdgroup_barrier" else "threadgroup"
    what = (
        f"not all threads of the {whose} reach this barrier: {divergence.words} never come, and "
        "what happens then is undefined"
    )
    help_text = (
        f"let all threads of the {whose} reach the barrier: guard what they read and write "
        "instead of leaving early"
    )
    return MetalReport("KERNEL-BARRIER-001", barrier.spot.place, what, help_text, barrier.spot.text)
