"""KERNEL-RACE-001 and KERNEL-BARRIER-002: threads that exchange data with nothing in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import ELSEWHERE, MetalReport
from embercoach.metal import hazards

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.metal.execution.events import Memory, Synchronization, Trace
    from embercoach.metal.inspections.races import Race
    from embercoach.metal.program.nodes import Spot, Variable

FLAGS: dict[Memory, str] = {"threadgroup": "mem_threadgroup", "device": "mem_device"}
ACCESS = {"read": "read", "write": "write", "atomic": "atomic update"}


def shared_memory(trace: Trace, _whole: bool) -> Iterator[MetalReport]:
    """Races in threadgroup memory, one for each barrier that is missing or orders nothing."""
    from embercoach.metal.inspections.races import races

    found = races(trace, "threadgroup")
    yield from wrong_flags(found, "threadgroup")
    for race in causes(race for race in found if not race.barriers and is_sure(race, trace)):
        yield missing_barrier(race)


def is_sure(race: Race, trace: Trace) -> bool:
    """Return whether both threads certainly make their accesses.

    Where the threadgroup's size is assumed, a guard like `lane < n` may well let few threads in.
    """
    conditions = (*race.first.mask.conditions, *race.second.mask.conditions)
    return not trace.configuration.assumed or not any(c.varies for c in conditions)


NO_FLAG = "mem_flags::mem_none"


def wrong_flags(found: Iterable[Race], memory: Memory) -> Iterator[MetalReport]:
    """Barriers that stand between the accesses of a race, each once."""
    reported: set[Spot] = set()
    # Of several barriers between two accesses one is enough, and the last is as good as any.
    for race in sorted(found, key=_directness):
        spots = {barrier.spot for barrier in race.barriers}
        if spots and not reported & spots and not _may_be_rare(race):
            reported.add(race.barriers[-1].spot)
            yield _wrong_flag(race, race.barriers[-1], memory)


def _may_be_rare(race: Race) -> bool:
    """Return whether both only write, under conditions on data, such as an error code."""
    conditions = (*race.first.mask.conditions, *race.second.mask.conditions)
    return race.first.kind == race.second.kind == "write" and bool(conditions)


def _directness(race: Race) -> tuple[int, bool, bool]:
    """Those first that one barrier decides, and those where a value is handed on."""
    return len(race.barriers), race.first.kind == "read", race.in_later_iteration


def _wrong_flag(race: Race, barrier: Synchronization, memory: Memory) -> MetalReport:
    flags = " | ".join(f"mem_flags::{flag}" for flag in sorted(barrier.flags or ()))
    missing = hazards.missing_flag(FLAGS[memory], race.variable.name)
    what = f"{missing} ({ACCESS[race.second.kind]} at {ELSEWHERE})"
    needed = f"mem_flags::{FLAGS[memory]}"
    others = (
        "" if barrier.flags in (None, frozenset({"mem_none"})) else f", or `{needed} | {flags}`"
    )
    return MetalReport(
        "KERNEL-BARRIER-002",
        barrier.spot.place,
        what,
        f"Pass `{needed}`{others}",
        barrier.spot.text,
        race.second.spot,
        (flags, f"{needed}{'' if flags == NO_FLAG else f' | {flags}'}") if flags else None,
    )


def missing_barrier(race: Race) -> MetalReport:
    """The report of two accesses with no barrier between them."""
    name, place = race.variable.name, race.second.spot
    first, second = ACCESS[race.first.kind], ACCESS[race.second.kind]
    if at_once(race):
        what = hazards.data_race(name, second, first)
        help_text = "Give each thread its own element, or separate reads from writes by a barrier"
        return MetalReport("KERNEL-RACE-001", place.place, what, help_text, place.text)
    if race.in_later_iteration:
        what = hazards.data_race(name, second, first, ELSEWHERE, " across iterations")
        help_text = "End the loop with `threadgroup_barrier(mem_flags::mem_threadgroup);`"
    else:
        what = hazards.data_race(name, second, first, ELSEWHERE)
        help_text = hazards.RACE_HELP
    return MetalReport("KERNEL-RACE-001", place.place, what, help_text, place.text, race.first.spot)


def at_once(race: Race) -> bool:
    """Return whether both accesses are on one line, where no barrier can separate them."""
    first, second = race.first.spot, race.second.spot
    return first.text == second.text and first.place.line == second.place.line


def causes(found: Iterable[Race]) -> Iterator[Race]:
    """One race for each barrier that is missing.

    Of races forward in the text, a barrier before the second access of one mends all that reach
    over it. Races into the next turn of a loop are mended together by one at the loop's end.
    """
    by_variable: dict[Variable, list[Race]] = {}
    for race in found:
        by_variable.setdefault(race.variable, []).append(race)
    for races in by_variable.values():
        lines = {(r.second.spot.text, r.second.spot.place.line): r for r in races if at_once(r)}
        yield from lines.values()
        apart = [r for r in races if not at_once(r)]
        chosen = tuple(_forward([r for r in apart if not r.in_later_iteration]))
        yield from chosen
        places = {race.second.spot for race in chosen}
        later = [r for r in apart if r.in_later_iteration]
        yield from (race for race in _across_iterations(later) if race.second.spot not in places)


def _forward(races: list[Race]) -> Iterator[Race]:
    barriers: dict[str, int] = {}
    for race in sorted(races, key=lambda r: r.second.spot.place.start):
        first, second = race.first.spot, race.second.spot
        if first.text != second.text:
            yield race
        elif barriers.get(second.text, -1) <= first.place.start:
            barriers[second.text] = second.place.start
            yield race


def _across_iterations(races: list[Race]) -> Iterator[Race]:
    ends: dict[str, int] = {}
    for race in sorted(races, key=lambda r: r.second.spot.place.start):
        text, start = race.second.spot.text, race.second.spot.place.start
        if start > ends.get(text, -1):
            yield race
        ends[text] = max(ends.get(text, -1), race.first.spot.place.start)
