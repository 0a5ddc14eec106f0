"""Races between threadgroups in device memory: nothing orders them within one launch."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from embercoach.metal.execution.conditions import Elsewhere, possible
from embercoach.metal.execution.events import Access, Synchronization
from embercoach.metal.execution.values import LANE, SIMD
from embercoach.metal.inspections.footprints import comparable, exclusive, same_members
from embercoach.metal.inspections.group_positions import Meeting, Side, Sides

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import StepCount, Trace
    from embercoach.metal.execution.values import LaneValue
    from embercoach.metal.program.nodes import Spot, Variable

_NEVER, _ALWAYS = (False,) * 3, (True,) * 3
_VARYING = LANE | SIMD
_MAX_PAIRS = 2_000
_TRIES = 4_096
#: Steps after which no more pairs are compared.
_MAX_STEPS = 8_000_000
#: Steps that a pair of elements takes, for each condition that it is asked under.
_CANDIDATE = 30
#: Steps that comparing two accesses takes besides.
_PAIR = 60
#: Threadgroups to try if a later one may access the elements of an earlier one.
_POSITIONS = 4


@dataclass(frozen=True, slots=True)
class Crossing:
    """Two accesses by different threadgroups to the same element, at least one of them a write.

    Attributes:
        first, second: in the order of the text's run.
        axis: along which the threadgroups are apart.
        apart: their distance, first minus second; 0 where any two of them race.
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
    """The races between threadgroups, one for each pair of places in the text."""
    found: dict[tuple[int, int], Crossing] = {}
    # Numbers compare in less time than spots.
    spots: dict[Spot, int] = {}
    sides = Sides()
    pairs = 0
    most = trace.inspected.steps + _MAX_STEPS
    barriers = [
        event
        for event in trace.events
        if isinstance(event, Synchronization)
        and event.name == "threadgroup_barrier"
        and (event.flags is None or "mem_device" in event.flags)
    ]
    for accesses in _shared(trace):
        placed = [
            (spots.setdefault(access.spot, len(spots)), sides.class_of(access), access)
            for access in accesses
        ]
        for number, (here, one, first) in enumerate(placed):
            for there, other, second in placed[number:]:
                if first.kind == second.kind != "write" or (here, there) in found:
                    continue
                pairs += 1
                if pairs > _MAX_PAIRS or trace.inspected.steps > most:
                    return tuple(found.values())
                if not same_members(first, second):
                    continue
                meeting = _meeting((one, other), first, second, trace, sides)
                crossing = _crossing(first, second, meeting, trace, barriers)
                if crossing is not None:
                    found[here, there] = crossing
    return tuple(found.values())


def _shared(trace: Trace) -> Iterator[list[Access]]:
    """Accesses of each variable in device memory, each kind of them once.

    Atomics of another variable and fences may synchronize: then nothing is reported.
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


def _crossing(
    first: Access,
    second: Access,
    meeting: Meeting | None,
    trace: Trace,
    barriers: list[Synchronization],
) -> Crossing | None:
    if meeting is None:
        return None
    axis, apart = meeting
    between = {b.spot: b for b in barriers if first.phase <= b.phase < second.phase}
    certain = trace.configuration.groups[axis] is not None
    return Crossing(first.variable, first, second, axis, apart, certain, tuple(between.values()))


def _meeting(
    classes: tuple[int, int], first: Access, second: Access, trace: Trace, sides: Sides
) -> Meeting | None:
    """The races of two accesses, computed once for all equal ones."""
    trace.inspected.spend(_PAIR)
    agreements = _agreements(first, second)
    key = (classes, agreements, (first.value, second.value) if None in agreements else None)
    if key not in sides.compared:
        sides.compared[key] = _nearest(first, second, agreements, trace, sides)
    return sides.compared[key]


def _nearest(
    first: Access,
    second: Access,
    agreements: tuple[bool | None, ...],
    trace: Trace,
    sides: Sides,
) -> Meeting | None:
    """The first axis along which two accesses race, and the distance of the threadgroups."""
    alike: set[object] = set()
    for axis, count in enumerate(trace.configuration.groups):
        if count == 1 or agreements[axis]:
            continue
        ours, theirs = sides(first, axis), sides(second, axis)
        key = (ours.of_axis, theirs.of_axis, agreements[axis], count)
        if key in alike:
            continue
        alike.add(key)
        apart = _apart(ours, theirs, agreements[axis], count, trace.inspected)
        if apart is not None:
            return axis, apart
    return None


def _apart(
    ours: Side, theirs: Side, agree: bool | None, count: int | None, inspected: StepCount
) -> int | None:
    """Return the distance of threadgroups that access the same element; None if none do.

    Args:
        ours: one access along an axis.
        theirs: the other.
        agree: see ``_agreements``.
        count: of threadgroups along the axis, None where unknown.
        inspected: counts the steps.
    """
    one, other = ours.split, theirs.split
    if one is None or other is None or one[2] != other[2]:
        return None
    if ours.guarded or theirs.guarded:
        return None
    first, second = ours.access, theirs.access
    factors = one[1], other[1]
    symbol = one[0] or other[0] or ours.position or theirs.position
    # If an index does not depend on the threadgroup, conditions must, or leave it open.
    settled = (ours.settled, theirs.settled)
    free = not ours.depends or not theirs.depends
    conditions = len(first.mask.conditions) + len(second.mask.conditions)
    feasible: dict[tuple[int, int, int | None, int], bool] = {}
    for element, against in _candidates(ours, theirs, gcd(*factors)):
        inspected.spend(_CANDIDATE * (1 + conditions))
        threads = ours.elements[element][0], theirs.elements[against][0]
        if agree is None and _agree(first, second, threads):
            continue
        here_alike, there_alike = (
            0 if side.alike else thread
            for side, thread in zip((ours, theirs), threads, strict=True)
        )
        for here, apart in _positions(against - element, factors, settled, count, free=free):
            key = (here_alike, there_alike, here, apart)
            if key not in feasible:
                elsewhere = Elsewhere((), symbol, -apart, count, here)
                feasible[key] = _feasible(first, second, threads, elsewhere)
            if feasible[key]:
                return 0 if free and 0 in factors else apart
    return None


def _candidates(ours: Side, theirs: Side, factor: int) -> Iterator[tuple[int, int]]:
    """Elements of both that whole threadgroups may lie between."""
    residues = theirs.by_residue(factor)
    if residues.keys().isdisjoint(ours.by_residue(factor)):
        return
    tries = 0
    for element in ours.elements:
        for against in residues.get(element % factor if factor else element, ()):
            tries += 1
            if tries > _TRIES:
                return
            yield element, against


def _positions(
    gap: int, factors: tuple[int, int], settled: tuple[bool, bool], count: int | None, *, free: bool
) -> Iterator[tuple[int | None, int]]:
    """Different g and h with ``left * g == right * h + gap``: g, and what it is more than h.

    Where nothing but the distance counts, g is None. A position that the equation leaves open is
    tried at both ends only, and only where it is known what conditions say of it.
    """
    left, right = factors
    most = 2 if count is None else count
    if left == right != 0:
        if gap % left == 0 and 0 < abs(gap // left) < most:
            yield None, gap // left
        return
    ends = sorted({0, 1, most - 1})
    if left == right:
        pairs = [(g, h) for g in ends for h in ends] if gap == 0 and (free or all(settled)) else []
    elif right == 0:
        pairs = [(gap // left, h) for h in ends] if gap % left == 0 and settled[1] else []
    elif left == 0:
        pairs = [(g, -gap // right) for g in ends] if gap % right == 0 and settled[0] else []
    else:
        tried = range(min(most, _POSITIONS))
        pairs = [(g, (left * g - gap) // right) for g in tried if (left * g - gap) % right == 0]
    yield from ((g, g - h) for g, h in pairs if g != h and 0 <= g < most and 0 <= h < most)


def _agreements(first: Access, second: Access) -> tuple[bool | None, ...]:
    """Return, for each axis, whether two accesses store equal or unknown values.

    None where the threads decide; False where one of the two stores nothing.
    """
    if not first.kind == second.kind == "write":
        return _NEVER
    left, right = first.value, second.value
    if left is None or right is None or left.origin.blurred or right.origin.blurred:
        return _ALWAYS
    if left.terms != right.terms:
        return _NEVER
    same: bool | None = None
    if isinstance(left.offsets, int) and isinstance(right.offsets, int):
        if left.offsets != right.offsets:
            return _NEVER
        same = None if _differs_between_threads(left) else True
    axes = left.origin.axes
    return tuple([False if axes >> axis & 1 else same for axis in range(3)])


def _differs_between_threads(value: LaneValue) -> bool:
    return any(symbol.bits & _VARYING for symbol, _ in value.terms)


def _agree(first: Access, second: Access, threads: tuple[int, int]) -> bool:
    """Return whether two threads of different groups store equal values."""
    left, right = first.value, second.value
    if left is None or right is None:
        return True
    one, other = threads
    same = one == other or not _differs_between_threads(left)
    return same and left.offset(one) == right.offset(other)


def _feasible(
    first: Access, second: Access, threads: tuple[int, int], elsewhere: Elsewhere
) -> bool:
    """Return whether the conditions of both can hold at this distance of the threadgroups."""
    known = [(condition, threads[0]) for condition in first.mask.conditions]
    away = tuple((condition, threads[1]) for condition in second.mask.conditions)
    return possible(known, replace(elsewhere, required=away))
