"""KERNEL-RACE-002 and KERNEL-BARRIER-003: data races on outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.body.kernel_races import ACCESS, at_once, causes, is_sure, wrong_flags
from embercoach.checks.programs.metal_checks import ELSEWHERE, MetalReport
from embercoach.metal import hazards

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import Trace
    from embercoach.metal.inspections.crossings import Crossing
    from embercoach.metal.inspections.races import Race
    from embercoach.metal.inspections.stores import Overlap
    from embercoach.metal.program.nodes import Spot

_AXES = "xyz"
_OWN = "Let one thread own each element"
_REDUCE = "Reduce in the threadgroup first, or use `atomic_outputs=True` and atomic functions"


def outputs(trace: Trace, _whole: bool) -> Iterator[MetalReport]:
    """Races on outputs, each place once."""
    from embercoach.metal.inspections.bounds import past_buffers
    from embercoach.metal.inspections.crossings import crossings
    from embercoach.metal.inspections.races import races
    from embercoach.metal.inspections.stores import overlaps

    # KERNEL-BOUNDS-001 reports what is past the end: such an index races with its neighbours', too.
    reported: set[Spot] = {found.access.spot for found in past_buffers(trace)}
    used = _used(trace)
    for overlap in overlaps(trace):
        if overlap.access.spot in reported:
            continue
        if overlap.certain or _AXES[overlap.axis or 0] in used:
            reported.add(overlap.access.spot)
            yield _overlap(overlap)
    found = races(trace, "device")
    yield from wrong_flags(found, "device")
    for race in causes(race for race in found if not race.barriers and is_sure(race, trace)):
        if not reported & {race.first.spot, race.second.spot}:
            reported |= {race.first.spot, race.second.spot}
            yield _race(race)
    yield from _crossed(used, crossings(trace), reported)


def _used(trace: Trace) -> frozenset[str]:
    """The axes along which the kernel counts on several threadgroups: it asks which one it is."""
    from embercoach.metal.execution.events import Access

    operations = {
        symbol.operation
        for event in trace.events
        if isinstance(event, Access)
        for symbol, _ in event.index.terms
    }
    return frozenset(axis for axis in _AXES if f"group.{axis}" in operations)


def _overlap(overlap: Overlap) -> MetalReport:
    name, spot = overlap.access.variable.name, overlap.access.spot
    what = hazards.same_element(name, overlap.words, update=overlap.update)
    help_text = _REDUCE if overlap.update else f"{_OWN}, or guard the write, as in `if (i == 0)`"
    return MetalReport("KERNEL-RACE-002", spot.place, what, help_text, spot.text)


def _race(race: Race) -> MetalReport:
    name, place = race.variable.name, race.second.spot
    first, second = ACCESS[race.first.kind], ACCESS[race.second.kind]
    what = hazards.data_race(name, second, first, "" if at_once(race) else ELSEWHERE)
    help_text = f"{_OWN}, or separate the accesses by a `mem_flags::mem_device` barrier"
    other = None if at_once(race) else race.first.spot
    return MetalReport("KERNEL-RACE-002", place.place, what, help_text, place.text, other)


def _crossed(
    used: frozenset[str], found: tuple[Crossing, ...], reported: set[Spot]
) -> Iterator[MetalReport]:
    for crossing in found:
        first, second = crossing.first.spot, crossing.second.spot
        if reported & {first, second} or not (crossing.certain or _AXES[crossing.axis] in used):
            continue
        if crossing.barriers:
            barrier = crossing.barriers[-1].spot
            if barrier not in reported:
                reported.add(barrier)
                yield _grid_wide(crossing, barrier)
        else:
            reported |= {first, second}
            yield _apart(crossing)


def _grid_wide(crossing: Crossing, barrier: Spot) -> MetalReport:
    name = crossing.variable.name
    second = ACCESS[crossing.second.kind]
    what = f"barrier does not order `{name}` between threadgroups: {second} at {ELSEWHERE}"
    help_text = "End the kernel here, and do the rest in a second kernel"
    return MetalReport(
        "KERNEL-BARRIER-003", barrier.place, what, help_text, barrier.text, crossing.second.spot
    )


def _apart(crossing: Crossing) -> MetalReport:
    name, place = crossing.variable.name, crossing.second.spot
    first, second = ACCESS[crossing.first.kind], ACCESS[crossing.second.kind]
    same = crossing.first.spot == place
    where = "" if same else ELSEWHERE
    what = hazards.data_race(name, second, first, where, " between threadgroups")
    help_text = hazards.DEVICE_RACE_HELP
    other = None if same else crossing.first.spot
    return MetalReport("KERNEL-RACE-002", place.place, what, help_text, place.text, other)
