"""KERNEL-RACE-001 and KERNEL-BARRIER-002: threads that exchange data with nothing in between."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import prod

from msgspec import Struct

from embercoach.checks.programs.metal_checks import ELSEWHERE, MetalFix, MetalReport
from embercoach.metal import hazards
from embercoach.metal.execution.events import Access, Memory, Synchronization, Trace
from embercoach.metal.execution.footprints import differ, exclusive, meetings, same_members
from embercoach.metal.execution.values import SIMD_WIDTH
from embercoach.metal.program.nodes import Spot, Variable

#: Pairs of accesses that are compared in one trace.
_MAX_PAIRS = 60_000
OWN_HELP = "Give each thread its own element, or separate reads from writes by a barrier"
#: Steps that a pair takes.
_PAIR = 60


class Race(Struct, frozen=True):
    """Two accesses that nothing orders, at least one of them a write.

    Attributes:
        first, second: in the order of the trace; both are the same for a write that
            several threads do at once.
        barriers: those between that order other memory only, each place once.
    """

    first: Access
    second: Access
    barriers: tuple[Synchronization, ...]

    @classmethod
    def of(cls, first: Access, second: Access, barriers: Iterable[Synchronization]) -> Race:
        """The race of two accesses in the order of the trace, with the barriers between them."""
        between = {b.spot: b for b in barriers if first.phase <= b.phase < second.phase}
        return cls(first, second, tuple(between.values()))

    @property
    def variable(self) -> Variable:
        """The variable whose memory it is."""
        return self.first.variable

    @property
    def in_later_iteration(self) -> bool:
        """Return whether the second is in a later iteration of a loop than the first."""
        first, second = self.first.spot, self.second.spot
        is_before = first.text == second.text and second.place.start <= first.place.start
        return self.first is not self.second and is_before

    @property
    def is_at_once(self) -> bool:
        """Return whether both accesses are on one line, where no barrier can separate them."""
        first, second = self.first.spot, self.second.spot
        return first.text == second.text and first.place.line == second.place.line

    def report(self, code: str, scope: hazards.Scope, advice: str, *, at_once: bool) -> MetalReport:
        """Report the second access, and the first one unless both are at once."""
        what = hazards.data_race(
            self.variable.name,
            ACCESS[self.second.kind],
            ACCESS[self.first.kind],
            "" if at_once else ELSEWHERE,
            scope,
        )
        other = None if at_once else self.first.spot
        return MetalReport(code, self.second.spot, what, advice, other)


def races(trace: Trace, memory: Memory = "threadgroup") -> tuple[Race, ...]:
    """Return the races in memory of a kind, one for each pair of places in the text."""
    if trace.threads <= SIMD_WIDTH:
        return ()
    barriers = [
        event
        for event in trace.events
        if isinstance(event, Synchronization) and event.name == "threadgroup_barrier"
    ]
    found: dict[tuple[Variable, Spot, Spot, bool], Race] = {}
    pairs = 0
    for accesses in _together(trace, memory):
        for first, second in _candidates(accesses):
            key = (first.variable, first.spot, second.spot, first.phase != second.phase)
            pairs += 1
            trace.inspected.spend(_PAIR)
            if pairs > _MAX_PAIRS:
                return tuple(found.values())
            if key in found:
                continue
            race = _race(first, second, barriers)
            if race is not None:
                found[key] = race
    return tuple(found.values())


def _together(trace: Trace, memory: Memory) -> Iterator[list[Access]]:
    """Yield accesses of one variable that no barrier orders, each kind of them once."""
    groups: dict[tuple[Variable, int], dict[object, Access]] = defaultdict(dict)
    for event in trace.events:
        if isinstance(event, Access) and event.memory == memory and event.index.comparable:
            key = (event.kind, event.spot, event.index, event.value, event.mask, event.phase)
            groups[event.variable, event.interval].setdefault(key, event)
    for accesses in groups.values():
        if any(access.kind != "read" for access in accesses.values()):
            yield list(accesses.values())


def _candidates(accesses: list[Access]) -> Iterator[tuple[Access, Access]]:
    for number, first in enumerate(accesses):
        if exclusive(first.mask.conditions):
            continue
        for second in accesses[number:]:
            if _conflict(first, second) and not exclusive(second.mask.conditions):
                yield first, second


def _conflict(first: Access, second: Access) -> bool:
    """Return whether two accesses may conflict: not both reads, not both atomic."""
    if {first.kind, second.kind} in ({"read"}, {"atomic"}):
        return False
    return first.index.terms == second.index.terms and same_members(first, second)


def _race(first: Access, second: Access, barriers: list[Synchronization]) -> Race | None:
    writes = first.kind == second.kind == "write"
    if _is_update(first, second):
        # Lanes of one simdgroup read the old element together: only one of their updates stays.
        for _, one, other in meetings(second, second, apart="any"):
            if differ(second, second, one, other):
                return Race.of(first, second, barriers)
    for _, one, other in meetings(first, second, apart="simdgroups"):
        if writes and not differ(first, second, one, other):
            continue
        return Race.of(first, second, barriers)
    return None


def _is_update(read: Access, write: Access) -> bool:
    """Return whether one statement changes the element that it reads, as ``bits[i] |= x`` does."""
    if (read.kind, write.kind) != ("read", "write") or read.spot.text != write.spot.text:
        return False
    inner, outer = read.spot.place, write.spot.place
    inside = outer.start <= inner.start and inner.end <= outer.end
    return inside and (read.index, read.mask, read.phase) == (write.index, write.mask, write.phase)


FLAGS: dict[Memory, str] = {"threadgroup": "mem_threadgroup", "device": "mem_device"}
ACCESS = {"read": "read", "write": "write", "atomic": "atomic update"}


def shared_memory(trace: Trace) -> Iterator[MetalReport]:
    """Races in threadgroup memory, one for each barrier that is missing or orders nothing."""
    found = races(trace, "threadgroup")
    yield from wrong_flags(found, "threadgroup")
    for race in causes(race for race in found if not race.barriers and is_sure(race, trace)):
        yield missing_barrier(race)
    for update in {event.spot: event for event in crowded_updates(trace)}.values():
        what = hazards.data_race(update.variable.name, "update", "update")
        yield MetalReport("KERNEL-RACE-001", update.spot, what, _update_advice(update))


def crowded_updates(trace: Trace) -> Iterator[Access]:
    """Yield updates of an array by more threads than it has elements: some share one."""
    read: Access | None = None
    for event in trace.events:
        if not isinstance(event, Access) or event.memory != "threadgroup" or event.index.comparable:
            continue
        sizes = event.variable.type.dimensions
        known = [size for size in sizes if size is not None]
        is_certain = not event.mask.conditions and not trace.configuration.assumed
        if event.kind == "read":
            read = event
        elif read is not None and _is_update(read, event) and is_certain and sizes:
            threads = event.mask.lanes.bit_count()
            if len(known) == len(sizes) and threads > prod(known) and _is_plain(event):
                yield event


def _is_plain(event: Access) -> bool:
    """Return whether an access is one number of an array of numbers."""
    return event.width == event.variable.type.width == 1 and not event.member


def _update_advice(update: Access) -> str:
    if update.variable.type.scalar in ("int", "uint"):
        kind = f"threadgroup atomic_{update.variable.type.scalar}"
        return f"Declare it `{kind}`, and update it with `atomic_fetch_add_explicit`"
    return OWN_HELP


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
    """Return those first that one barrier decides, and those where a value is handed on."""
    return len(race.barriers), race.first.kind == "read", race.in_later_iteration


def _wrong_flag(race: Race, barrier: Synchronization, memory: Memory) -> MetalReport:
    flags = " | ".join(f"mem_flags::{flag}" for flag in sorted(barrier.flags or ()))
    missing = hazards.missing_flag(FLAGS[memory], race.variable.name)
    what = f"{missing} ({ACCESS[race.second.kind]} at {ELSEWHERE})"
    needed = f"mem_flags::{FLAGS[memory]}"
    others = (
        "" if barrier.flags in (None, frozenset({"mem_none"})) else f", or `{needed} | {flags}`"
    )
    new = f"{needed}{'' if flags == NO_FLAG else f' | {flags}'}"
    fix = MetalFix(f"Pass `{new}`", ((barrier.spot, flags, new),))
    return MetalReport(
        "KERNEL-BARRIER-002",
        barrier.spot,
        what,
        f"Pass `{needed}`{others}",
        race.second.spot,
        fix if flags else None,
    )


def missing_barrier(race: Race) -> MetalReport:
    """Return the report of two accesses with no barrier between them."""
    if race.is_at_once:
        advice = _update_advice(race.second) if _is_update(race.first, race.second) else OWN_HELP
        return race.report("KERNEL-RACE-001", "", advice, at_once=True)
    if race.in_later_iteration:
        advice = "End the loop with `threadgroup_barrier(mem_flags::mem_threadgroup);`"
        return race.report("KERNEL-RACE-001", " across iterations", advice, at_once=False)
    return race.report("KERNEL-RACE-001", "", hazards.RACE_HELP, at_once=False)


def causes(found: Iterable[Race]) -> Iterator[Race]:
    """Yield one race for each barrier that is missing.

    Of races forward in the text, a barrier before the second access of one mends all that reach
    over it. Races into the next turn of a loop are mended together by one at the loop's end.
    """
    by_variable: dict[Variable, list[Race]] = {}
    for race in found:
        by_variable.setdefault(race.variable, []).append(race)
    for races in by_variable.values():
        lines = {(r.second.spot.text, r.second.spot.place.line): r for r in races if r.is_at_once}
        yield from lines.values()
        apart = [r for r in races if not r.is_at_once]
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
