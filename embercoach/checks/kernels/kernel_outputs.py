"""KERNEL-RACE-002 and KERNEL-BARRIER-003: races between threadgroups, which nothing orders."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import gcd
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from embercoach.checks.kernels.kernel_races import (
    ACCESS,
    Race,
    causes,
    is_sure,
    races,
    wrong_flags,
)
from embercoach.checks.programs.metal_checks import ELSEWHERE, MetalReport
from embercoach.metal import hazards
from embercoach.metal.execution.conditions import Condition, Elsewhere, possible
from embercoach.metal.execution.events import Access, StepCount, Synchronization, Trace
from embercoach.metal.execution.footprints import (
    differ,
    exclusive,
    footprint,
    footprint_of,
    is_alike,
    meetings,
    past_buffers,
    same_members,
)
from embercoach.metal.execution.values import GROUP_AXES, LaneValue, UnknownNumber
from embercoach.metal.program.nodes import Spot, Variable

#: The threadgroup's position with its factor, and the other unknowns.
_Split: TypeAlias = "tuple[UnknownNumber | None, int, dict[UnknownNumber, int]]"


class Side(Struct, frozen=True):
    """The dependence of an access on the threadgroup along an axis.

    Attributes:
        split: what its index is made of, None where other threadgroups differ in an unknown.
        position: the threadgroup's, as the index has it, or else a condition.
        guarded: some unknown that depends on the threadgroup decides who is there.
        settled: conditions say for certain where the threadgroup is, or nothing.
        depends: a condition on the threadgroup's position decides who is there.
        alike: the conditions say the same for all threads.
        elements: the threads that touch each element.
    """

    access: Access
    split: _Split | None
    position: UnknownNumber | None
    guarded: bool
    settled: bool
    depends: bool
    alike: bool
    elements: Mapping[int, tuple[int, ...]]

    @classmethod
    def of(cls, access: Access, axis: int) -> Side:
        """Return the dependence of an access on its threadgroup."""
        compared = [(c, _symbols(c)) for c in access.mask.conditions]
        deciding = [(c, found) for c, found in compared if c.symbol.origin.axes >> axis & 1]
        own = GROUP_AXES[axis]
        return cls(
            access,
            split=_split(access.index, axis),
            position=next((s for _, found in compared for s in found if s.operation == own), None),
            guarded=any(
                c.sides is None or any(_split(side, axis) is None for side in c.sides)
                for c, _ in deciding
            ),
            settled=all(found and all(s.operation == own for s in found) for _, found in deciding),
            depends=bool(deciding),
            alike=is_alike(access),
            elements=footprint(access),
        )

    def by_residue(self, factor: int) -> Mapping[int, list[int]]:
        """Return the elements by what is left of them when they are divided by a factor."""
        access = self.access
        return _residues(access.index.offsets, access.mask.lanes, access.width, factor)

    @property
    def of_axis(self) -> tuple[object, ...]:
        """The part of the side that depends on the axis: a key of equal sides of an access."""
        position, factor = (None, 0) if self.split is None else self.split[:2]
        flags = (self.split is None, self.guarded, self.settled, self.depends)
        return position, factor, self.position, flags


@lru_cache(maxsize=512)
def _residues(
    offsets: int | tuple[int, ...], lanes: int, width: int, factor: int
) -> Mapping[int, list[int]]:
    """The elements that an access touches by their remainder, each by itself for a factor of 0."""
    found: dict[int, list[int]] = defaultdict(list)
    for element in footprint_of(offsets, lanes, width):
        found[element % factor if factor else element].append(element)
    return dict(found)


class Sides:
    """The sides of accesses, each made once: an access is compared with many.

    Attributes:
        compared: the axis along which accesses race, None if they do not, by their classes and
            ``_agreements``.
    """

    def __init__(self) -> None:
        self.compared: dict[object, int | None] = {}
        self._known: dict[tuple[int, int], Side] = {}
        self._classes: dict[object, int] = {}

    def __call__(self, access: Access, axis: int) -> Side:
        """Return the dependence of an access of the trace along an axis."""
        key = (id(access), axis)
        side = self._known.get(key)
        if side is None:
            side = self._known[key] = Side.of(access, axis)
        return side

    def class_of(self, access: Access) -> int:
        """Return a number that accesses share which differ in their places and values alone."""
        key = (access.index, access.mask, access.width)
        return self._classes.setdefault(key, len(self._classes))


def _split(value: LaneValue, axis: int) -> _Split | None:
    """Return the threadgroup's position along an axis with its factor, and the other unknowns."""
    rest: dict[UnknownNumber, int] = {}
    position, factor = None, 0
    for symbol, times in value.terms:
        if symbol.operation == GROUP_AXES[axis]:
            position, factor = symbol, times
        elif symbol.origin.axes >> axis & 1:
            return None
        else:
            rest[symbol] = times
    return position, factor, rest


def _symbols(condition: Condition) -> list[UnknownNumber]:
    """Return the unknowns that a condition compares."""
    return [symbol for side in condition.sides or () for symbol, _ in side.terms]


_NEVER, _ALWAYS = (False,) * 3, (True,) * 3
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


class Crossing(Race, frozen=True):
    """Two accesses by different threadgroups to the same element, at least one of them a write.

    Attributes:
        axis: along which the threadgroups are apart.
        barriers: those between the two that order device memory, within a threadgroup only.
    """

    axis: int


def crossings(trace: Trace) -> tuple[Crossing, ...]:
    """Return the races between threadgroups, one for each pair of places in the text."""
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
                axis = _meeting((one, other), first, second, trace, sides)
                if axis is not None:
                    race = Race.of(first, second, barriers)
                    found[here, there] = Crossing(first, second, race.barriers, axis)
    return tuple(found.values())


def _shared(trace: Trace) -> Iterator[list[Access]]:
    """Yield accesses of each variable in device memory, each kind of them once.

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
        if event.index.comparable and not exclusive(event.mask.conditions):
            key = (event.kind, event.spot, event.index, event.value, event.mask)
            groups[event.variable].setdefault(key, event)
    for variable, accesses in groups.items():
        if not updated - {variable} and any(a.kind != "read" for a in accesses.values()):
            yield list(accesses.values())


def _meeting(
    classes: tuple[int, int], first: Access, second: Access, trace: Trace, sides: Sides
) -> int | None:
    """Return the axis along which two accesses race, computed once for all equal ones."""
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
) -> int | None:
    """Return the first axis along which two accesses race."""
    alike: set[object] = set()
    for axis, count in enumerate(trace.configuration.groups):
        if count == 1 or agreements[axis]:
            continue
        ours, theirs = sides(first, axis), sides(second, axis)
        key = (ours.of_axis, theirs.of_axis, agreements[axis], count)
        if key in alike:
            continue
        alike.add(key)
        if _race(ours, theirs, agreements[axis], count, trace.inspected):
            return axis
    return None


def _race(
    ours: Side, theirs: Side, agree: bool | None, count: int | None, inspected: StepCount
) -> bool:
    """Return whether different threadgroups along an axis access the same element.

    Args:
        ours: one access along an axis.
        theirs: the other.
        agree: see ``_agreements``.
        count: of threadgroups along the axis, None where unknown.
        inspected: counts the steps.
    """
    one, other = ours.split, theirs.split
    if one is None or other is None or one[2] != other[2] or ours.guarded or theirs.guarded:
        return False
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
                return True
    return False


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
        same = True if left.comparable else None
    axes = left.origin.axes
    return tuple([False if axes >> axis & 1 else same for axis in range(3)])


def _agree(first: Access, second: Access, threads: tuple[int, int]) -> bool:
    """Return whether two threads of different groups store equal values."""
    left, right = first.value, second.value
    if left is None or right is None:
        return True
    one, other = threads
    same = one == other or left.comparable
    return same and left.offset(one) == right.offset(other)


def _feasible(
    first: Access, second: Access, threads: tuple[int, int], elsewhere: Elsewhere
) -> bool:
    """Return whether the conditions of both can hold at this distance of the threadgroups."""
    known = [(condition, threads[0]) for condition in first.mask.conditions]
    away = tuple((condition, threads[1]) for condition in second.mask.conditions)
    return possible(known, replace(elsewhere, required=away))


_AXES = "xyz"
_OWN = "Let one thread own each element"
_REDUCE = "Reduce in the threadgroup first, or use `atomic_outputs=True` and atomic functions"


class Overlap(Struct, frozen=True):
    """One statement by which several threads store different values in one element.

    Attributes:
        access: the store.
        threads: two of one threadgroup that race; None where whole threadgroups do.
        axis: the axis along which different threadgroups write the same; None within one.
        ignored: the axis, not the first, along which alone the positions of the threads differ.
    """

    access: Access
    threads: tuple[int, int] | None = None
    axis: int | None = None
    ignored: int | None = None

    def report(self) -> MetalReport:
        """Report the store; it may be an update, which gets lost."""
        if self.threads is not None:
            who = f"threads {self.threads[0]} and {self.threads[1]} of a threadgroup"
        else:
            who = f"all threadgroups along {_AXES[self.axis or 0]}"
        update = updates(self.access)
        what = hazards.same_element(self.access.variable.name, who, update=update)
        advice = _REDUCE if update else f"{_OWN}, or guard the write, as in `if (i == 0)`"
        if self.ignored is not None and not update:
            along = _AXES[self.ignored]
            advice = f"Use the position along {along} in the index, or launch one thread along it"
        return MetalReport("KERNEL-RACE-002", self.access.spot, what, advice)


def overlaps(trace: Trace) -> tuple[Overlap, ...]:
    """Get the stores that several threads make to one element, one for each place in the text."""
    found: dict[Spot, Overlap] = {}
    for event in trace.events:
        if not isinstance(event, Access) or (event.kind, event.memory) != ("write", "device"):
            continue
        known = found.get(event.spot)
        if known is not None and known.axis is None:
            continue
        overlap = _within(event, trace) or (None if known else _between(event, trace))
        if overlap is not None:
            found[event.spot] = overlap
    return tuple(found.values())


def updates(access: Access) -> bool:
    """Return whether the stored value depends on the variable's old value."""
    if access.value is None:
        return False
    symbols = [symbol for symbol, _ in access.value.terms]
    return any(s.operation == "load" and s.operands[:1] == (access.variable,) for s in symbols)


def _within(access: Access, trace: Trace) -> Overlap | None:
    if not access.index.comparable or exclusive(access.mask.conditions):
        return None
    update = updates(access)
    for _, one, other in meetings(access, access, apart="any"):
        if update or differ(access, access, one, other):
            return Overlap(access, (one, other), ignored=_only_axis(one, other, trace))
    return None


def _only_axis(one: int, other: int, trace: Trace) -> int | None:
    """Return the axis, y or z, along which alone the positions of two threads of a group differ."""
    x, y, _ = trace.configuration.threadgroup
    if one % x != other % x:
        return None
    along_y, along_z = one // x % y != other // x % y, one // (x * y) != other // (x * y)
    return None if along_y and along_z else 1 + along_z


def _between(access: Access, trace: Trace) -> Overlap | None:
    """Return whether each threadgroup along an axis stores the same element."""
    value = access.value
    if value is None or value.origin.blurred or access.index.origin.blurred:
        return None
    if exclusive(access.mask.conditions) or access.index.origin.single:
        return None
    deciding = access.index.origin.axes
    for condition in access.mask.conditions:
        deciding |= condition.symbol.origin.axes
    update = updates(access)
    for axis, count in enumerate(trace.configuration.groups):
        if count == 1 or deciding >> axis & 1:
            continue
        if update or value.origin.axes >> axis & 1:
            return Overlap(access, axis=axis)
    return None


def outputs(trace: Trace) -> Iterator[MetalReport]:
    """Races on outputs, each place once."""
    # KERNEL-BOUNDS-001 reports what is past the end: such an index races with its neighbours', too.
    reported: set[Spot] = {found.access.spot for found in past_buffers(trace)}
    counted = _counted_on(trace)
    for overlap in overlaps(trace):
        spot, axis = overlap.access.spot, overlap.axis
        if spot not in reported and (axis is None or axis in counted):
            reported.add(spot)
            yield overlap.report()
    found = races(trace, "device")
    yield from wrong_flags(found, "device")
    for race in causes(race for race in found if not race.barriers and is_sure(race, trace)):
        if not reported & {race.first.spot, race.second.spot}:
            reported |= {race.first.spot, race.second.spot}
            advice = f"{_OWN}, or separate the accesses by a `mem_flags::mem_device` barrier"
            yield race.report("KERNEL-RACE-002", "", advice, at_once=race.is_at_once)
    for crossing in crossings(trace):
        first, second = crossing.first.spot, crossing.second.spot
        if reported & {first, second} or crossing.axis not in counted:
            continue
        if not crossing.barriers:
            reported |= {first, second}
            yield crossing.report(
                "KERNEL-RACE-002",
                " between threadgroups",
                hazards.DEVICE_RACE_HELP,
                at_once=first == second,
            )
        elif crossing.barriers[-1].spot not in reported:
            reported.add(crossing.barriers[-1].spot)
            yield _grid_wide(crossing)


def _counted_on(trace: Trace) -> frozenset[int]:
    """Get the axes with several threadgroups for sure, or by which the kernel asks for its own."""
    asked = {
        symbol.operation
        for event in trace.events
        if isinstance(event, Access)
        for symbol, _ in event.index.terms
    }
    counts = trace.configuration.groups
    return frozenset(a for a, n in enumerate(counts) if n is not None or GROUP_AXES[a] in asked)


def _grid_wide(crossing: Crossing) -> MetalReport:
    barrier, second = crossing.barriers[-1].spot, ACCESS[crossing.second.kind]
    name = crossing.variable.name
    what = f"barrier does not order `{name}` between threadgroups: {second} at {ELSEWHERE}"
    help_text = "End the kernel here, and do the rest in a second kernel"
    return MetalReport("KERNEL-BARRIER-003", barrier, what, help_text, crossing.second.spot)
