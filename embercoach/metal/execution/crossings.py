"""Device memory through which threadgroups meet: nothing orders them within one launch."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.execution.conditions import Elsewhere, possible
from embercoach.metal.execution.events import Access, Synchronization
from embercoach.metal.execution.footprints import comparable, exclusive, footprint, same_members
from embercoach.metal.execution.values import LANE, SIMD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import Trace
    from embercoach.metal.execution.values import Symbol, Value
    from embercoach.metal.program.nodes import Spot, Variable

_GROUPS = ("group.x", "group.y", "group.z")
_VARYING = LANE | SIMD
_MAX_PAIRS = 2_000
_TRIES = 4_096


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two accesses by different threadgroups to the same element, at least one of them a write.

    Attributes:
        first, second: in the order of the text's run.
        axis: along which the threadgroups are apart.
        apart: how far, first minus second; 0 where any two of them meet.
        certain: it is known that there are enough threadgroups.
        barriers: those between the two that order device memory, within a threadgroup only.
    """

    variable: Variable
    first: Access
    second: Access
    axis: int
    apart: int
    certain: bool
    barriers: tuple[Synchronization, ...]


def crossings(trace: Trace) -> tuple[Crossing, ...]:
    """Where threadgroups meet in device memory, one for each pair of places in the text."""
    found: dict[tuple[Spot, Spot], Crossing] = {}
    pairs = 0
    for accesses in _shared(trace):
        for number, first in enumerate(accesses):
            for second in accesses[number:]:
                kinds = {first.kind, second.kind}
                key = (first.spot, second.spot)
                if kinds in ({"read"}, {"atomic"}) or key in found:
                    continue
                pairs += 1
                if pairs > _MAX_PAIRS:
                    return tuple(found.values())
                crossing = _crossing(first, second, trace)
                if crossing is not None:
                    found[key] = crossing
    return tuple(found.values())


def _shared(trace: Trace) -> Iterator[list[Access]]:
    """Accesses of each variable in device memory, each kind of them once.

    Where atomics of another variable, or fences, may hand elements over, nothing is told.
    """
    groups: dict[Variable, dict[object, Access]] = defaultdict(dict)
    updated: set[Variable] = set()
    for event in trace.events:
        if isinstance(event, Synchronization) and event.name == "atomic_thread_fence":
            return
        if not isinstance(event, Access) or event.memory != "device":
            continue
        if event.kind == "atomic":
            updated.add(event.variable)
        if comparable(event.index) and not exclusive(event.mask.conditions):
            key = (event.kind, event.spot, event.index, event.value, event.mask)
            groups[event.variable].setdefault(key, event)
    for variable, accesses in groups.items():
        if not updated - {variable} and any(a.kind != "read" for a in accesses.values()):
            yield list(accesses.values())


def _crossing(first: Access, second: Access, trace: Trace) -> Crossing | None:
    if not same_members(first, second):
        return None
    for axis, count in enumerate(trace.configuration.groups):
        if count == 1:
            continue
        apart = _apart(first, second, axis, count)
        if apart is None:
            continue
        barriers = tuple(
            {
                event.spot: event
                for event in trace.events
                if isinstance(event, Synchronization)
                and event.name == "threadgroup_barrier"
                and first.phase <= event.phase < second.phase
                and (event.flags is None or "mem_device" in event.flags)
            }.values()
        )
        certain = count is not None
        return Crossing(first.variable, first, second, axis, apart, certain, barriers)
    return None


def _split(value: Value, axis: int) -> tuple[Symbol | None, int, dict[Symbol, int]] | None:
    """The threadgroup's position along an axis with its factor, and the other unknowns."""
    rest: dict[Symbol, int] = {}
    position, factor = None, 0
    for symbol, times in value.terms:
        if symbol.operation == _GROUPS[axis]:
            position, factor = symbol, times
        elif symbol.origin.axes >> axis & 1:
            return None
        else:
            rest[symbol] = times
    return position, factor, rest


def _apart(first: Access, second: Access, axis: int, count: int | None) -> int | None:
    """How far threadgroups are apart that touch the same element; None where none do."""
    one, other = _split(first.index, axis), _split(second.index, axis)
    if one is None or other is None or one[2] != other[2]:
        return None
    if _guarded(first, axis) or _guarded(second, axis):
        return None
    writes = first.kind == second.kind == "write"
    left, right = one[1], other[1]
    symbol = one[0] or other[0]
    free = [not _depends(access, axis) for access in (first, second)]
    most = 2 if count is None else count
    factor = abs(left or right)
    for element, against in _candidates(first, second, factor):
        found = _distance(element, against, left, right, most)
        if found is None or (found == 0 and not _apart_for(free, left, right)):
            continue
        threads = footprint(first)[element][0], footprint(second)[against][0]
        if writes and _agree(first, second, axis, threads):
            continue
        if _feasible(first, second, threads, found, symbol, count):
            return found
    return None


def _candidates(first: Access, second: Access, factor: int) -> Iterator[tuple[int, int]]:
    """Elements of both that whole threadgroups may lie between."""
    residues: dict[int, list[int]] = defaultdict(list)
    for against in footprint(second):
        residues[against % factor if factor else against].append(against)
    tries = 0
    for element in footprint(first):
        for against in residues.get(element % factor if factor else element, ()):
            tries += 1
            if tries > _TRIES:
                return
            yield element, against


def _depends(access: Access, axis: int) -> bool:
    """Whether a condition on the threadgroup's position decides who is there."""
    return any(c.symbol.origin.axes >> axis & 1 for c in access.mask.conditions)


def _apart_for(free: list[bool], left: int, right: int) -> bool:
    """Whether one of two threadgroups that meet can certainly be another than the other."""
    if left == right:
        return any(free)
    return free[1] if left else free[0]


def _distance(element: int, against: int, left: int, right: int, most: int) -> int | None:
    """Solve ``left * g + element == right * h + against`` for two positions g and h."""
    gap = against - element
    if left == right == 0:
        return 0 if gap == 0 else None
    if left == right:
        return gap // left if gap % left == 0 and 0 < abs(gap // left) < most else None
    if left and right:
        return None
    factor, way = (left, gap) if left else (right, -gap)
    return 0 if way % factor == 0 and 0 <= way // factor < most else None


def _guarded(access: Access, axis: int) -> bool:
    """Whether some unknown that depends on the threadgroup decides who is there."""
    for condition in access.mask.conditions:
        sides = condition.sides
        if not condition.symbol.origin.axes >> axis & 1:
            continue
        if sides is None or any(_split(side, axis) is None for side in sides):
            return True
    return False


def _agree(first: Access, second: Access, axis: int, threads: tuple[int, int]) -> bool:
    """Whether two threads of different groups store the same, or such as nothing is known of."""
    left, right = first.value, second.value
    if left is None or right is None or left.origin.blurred or right.origin.blurred:
        return True
    if left.terms != right.terms or left.origin.axes >> axis & 1:
        return False
    one, other = threads
    same = one == other or not any(symbol.bits & _VARYING for symbol, _ in left.terms)
    return same and left.offset(one) == right.offset(other)


def _feasible(
    first: Access,
    second: Access,
    threads: tuple[int, int],
    apart: int,
    symbol: Symbol | None,
    count: int | None,
) -> bool:
    """Whether the conditions of both can hold, the threadgroups being so far apart."""
    told = [(condition, threads[0]) for condition in first.mask.conditions]
    away = [(condition, threads[1]) for condition in second.mask.conditions]
    return possible(told, Elsewhere(tuple(away), symbol, -apart, count))
