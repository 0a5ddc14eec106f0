"""Races: threads of different simdgroups touch the same memory with nothing between to order it.

Within a simdgroup an exchange without a barrier is common and works: not a finding here.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.execution.events import Access, Synchronization
from embercoach.metal.execution.values import SIMD_WIDTH
from embercoach.metal.inspections.footprints import (
    comparable,
    differ,
    exclusive,
    meetings,
    same_members,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import Memory, Trace
    from embercoach.metal.program.nodes import Spot, Variable

#: Pairs of accesses that are compared in one trace.
_MAX_PAIRS = 60_000
#: Steps that a pair takes.
_PAIR = 60


@dataclass(frozen=True, slots=True)
class Race:
    """Two accesses that nothing orders, at least one of them a write.

    Attributes:
        variable: whose memory it is.
        first, second: in the order of the trace; both are the same for a write that
            several threads do at once.
        threads: one that does the first and one that does the second, of different simdgroups.
        element: the index of what both touch, where it is known.
        barriers: those between that order other memory only; with these flags it is not a race.
        in_later_iteration: whether the second is in a later iteration of a loop than the first.
    """

    variable: Variable
    first: Access
    second: Access
    threads: tuple[int, int]
    element: int | None
    barriers: tuple[Synchronization, ...]
    in_later_iteration: bool

    @property
    def words(self) -> str:
        """The two accesses, for a message: ``a write and a read``."""
        if self.first is self.second:
            return "several writes"
        return f"{_word(self.first)} and {_word(self.second)}"


def _word(access: Access) -> str:
    return {"read": "a read", "write": "a write", "atomic": "an atomic update"}[access.kind]


def races(trace: Trace, memory: Memory = "threadgroup") -> tuple[Race, ...]:
    """The races in memory of a kind, one for each pair of places in the text."""
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
    """Accesses of one variable that no barrier orders, each kind of them once."""
    groups: dict[tuple[Variable, int], dict[object, Access]] = defaultdict(dict)
    for event in trace.events:
        if isinstance(event, Access) and event.memory == memory and comparable(event.index):
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
    for element, one, other in meetings(first, second, apart="simdgroups"):
        if writes and not differ(first, second, one, other):
            continue
        between = tuple(b for b in barriers if first.phase <= b.phase < second.phase)
        return Race(
            first.variable,
            first,
            second,
            (one, other),
            element if first.index.exact else None,
            _each_once(between),
            _is_in_later_iteration(first, second),
        )
    return None


def _each_once(barriers: tuple[Synchronization, ...]) -> tuple[Synchronization, ...]:
    return tuple({barrier.spot: barrier for barrier in barriers}.values())


def _is_in_later_iteration(first: Access, second: Access) -> bool:
    if first is second or first.spot.text != second.spot.text:
        return False
    return second.spot.place.start <= first.spot.place.start
