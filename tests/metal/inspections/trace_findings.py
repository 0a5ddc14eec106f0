"""Findings of the analyses in a trace, named as in the simulator's suite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.kernels.kernel_arrays import dropped_results
from embercoach.checks.kernels.kernel_flow import divergences
from embercoach.checks.kernels.kernel_outputs import crossings, overlaps
from embercoach.checks.kernels.kernel_races import races
from embercoach.metal.execution.footprints import outside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import Memory, Trace
    from embercoach.metal.program.nodes import Spot

Reported = tuple[str, str, int]


def reported(trace: Trace) -> set[Reported]:
    """Kind, text and line of each finding; of two sides both."""
    return set(_told(trace))


def _told(trace: Trace) -> Iterator[Reported]:
    yield from _races(trace, "threadgroup")
    yield from _races(trace, "device")
    for divergence in divergences(trace):
        yield _at("divergent-barrier", divergence.barrier.spot)
    for overlap in overlaps(trace):
        yield _at("device-race", overlap.access.spot)
    for crossing in crossings(trace):
        yield _at("device-race", crossing.first.spot)
        yield _at("device-race", crossing.second.spot)
    for access in outside(trace):
        yield _at("out-of-bounds", access.access.spot)
    for partial in dropped_results(trace):
        yield _at("partial-reduction", partial.spot)


def _races(trace: Trace, memory: Memory) -> Iterator[Reported]:
    for race in races(trace, memory):
        for barrier in race.barriers:
            yield _at("wrong-mem-flags", barrier.spot)
        if not race.barriers:
            yield _at(f"{memory}-race", race.first.spot)
            yield _at(f"{memory}-race", race.second.spot)


def _at(kind: str, spot: Spot) -> Reported:
    return kind, spot.text, spot.place.line
