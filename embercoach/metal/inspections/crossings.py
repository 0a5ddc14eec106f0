"""Device memory through which threadgroups meet: nothing orders them within one launch."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from math import gcd
from typing import TYPE_CHECKING, TypeAlias

from embercoach.metal.execution.conditions import Elsewhere, possible
from embercoach.metal.execution.events import Access, Synchronization
from embercoach.metal.execution.values import LANE, SIMD
from embercoach.metal.inspections.footprints import comparable, exclusive, footprint, same_members

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from embercoach.metal.execution.events import Tally, Trace
    from embercoach.metal.execution.values import Symbol, Value
    from embercoach.metal.program.nodes import Spot, Variable

#: The threadgroup's position with its factor, and the other unknowns.
_Split: TypeAlias = "tuple[Symbol | None, int, dict[Symbol, int]]"
_GROUPS = ("group.x", "group.y", "group.z")
_VARYING = LANE | SIMD
_MAX_PAIRS = 2_000
_TRIES = 4_096
#: Steps after which no more pairs are compared.
_MAX_STEPS = 8_000_000
#: Steps that a pair of elements takes, for each condition that it is asked under.
_CANDIDATE = 30
#: Threadgroups that are tried where one that is further on meets one that is further back.
_POSITIONS = 4


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


@dataclass(frozen=True, slots=True)
class _Side:
    """What an access says of threadgroups along an axis.

    Attributes:
        split: what its index is made of, None where other threadgroups differ in an unknown.
        position: the threadgroup's, as the index has it, or else a condition.
        guarded: some unknown that depends on the threadgroup decides who is there.
        settled: conditions say for certain where the threadgroup is, or nothing.
        depends: a condition on the threadgroup's position decides who is there.
        alike: the conditions say the same for all threads.
        elements: the threads that touch each element.
        residues: the elements by what is left of them when they are divided by a number.
    """

    access: Access
    split: _Split | None
    position: Symbol | None
    guarded: bool
    settled: bool
    depends: bool
    alike: bool
    elements: Mapping[int, tuple[int, ...]]
    residues: dict[int, Mapping[int, list[int]]] = field(default_factory=dict)

    @classmethod
    def of(cls, access: Access, axis: int) -> _Side:
        """What an access says."""
        return cls(
            access,
            _split(access.index, axis),
            _position(access, axis),
            _guarded(access, axis),
            _is_settled(access, axis),
            _depends(access, axis),
            _is_alike(access),
            footprint(access),
        )

    def by_residue(self, factor: int) -> Mapping[int, list[int]]:
        """The elements by what is left of them when they are divided by a factor."""
        found = self.residues.get(factor)
        if found is None:
            residues: dict[int, list[int]] = defaultdict(list)
            for element in self.elements:
                residues[element % factor if factor else element].append(element)
            found = self.residues[factor] = residues
        return found


class _Sides:
    """The sides of accesses, each made once: an access is compared with many."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Side] = {}

    def __call__(self, access: Access, axis: int) -> _Side:
        """What an access of the trace says along an axis."""
        key = (id(access), axis)
        side = self._known.get(key)
        if side is None:
            side = self._known[key] = _Side.of(access, axis)
        return side


def crossings(trace: Trace) -> tuple[Crossing, ...]:
    """Where threadgroups meet in device memory, one for each pair of places in the text."""
    found: dict[tuple[int, int], Crossing] = {}
    # Numbers compare in less time than spots.
    spots: dict[Spot, int] = {}
    sides = _Sides()
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
        placed = [(spots.setdefault(access.spot, len(spots)), access) for access in accesses]
        for number, (here, first) in enumerate(placed):
            for there, second in placed[number:]:
                if first.kind == second.kind != "write" or (here, there) in found:
                    continue
                pairs += 1
                if pairs > _MAX_PAIRS or trace.inspected.steps > most:
                    return tuple(found.values())
                crossing = _crossing(first, second, trace, barriers, sides)
                if crossing is not None:
                    found[here, there] = crossing
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


def _crossing(
    first: Access,
    second: Access,
    trace: Trace,
    barriers: list[Synchronization],
    sides: _Sides,
) -> Crossing | None:
    if not same_members(first, second):
        return None
    for axis, count in enumerate(trace.configuration.groups):
        if count == 1:
            continue
        apart = _apart(sides(first, axis), sides(second, axis), axis, count, trace.inspected)
        if apart is None:
            continue
        between = {b.spot: b for b in barriers if first.phase <= b.phase < second.phase}
        certain = count is not None
        return Crossing(
            first.variable, first, second, axis, apart, certain, tuple(between.values())
        )
    return None


def _split(value: Value, axis: int) -> _Split | None:
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


def _apart(
    ours: _Side, theirs: _Side, axis: int, count: int | None, inspected: Tally
) -> int | None:
    """How far threadgroups are apart that touch the same element; None where none do."""
    one, other = ours.split, theirs.split
    if one is None or other is None or one[2] != other[2]:
        return None
    if ours.guarded or theirs.guarded:
        return None
    first, second = ours.access, theirs.access
    writes = first.kind == second.kind == "write"
    factors = one[1], other[1]
    symbol = one[0] or other[0] or ours.position or theirs.position
    # Where an index does not tell which threadgroup it is, conditions must, or leave it open.
    settled = (ours.settled, theirs.settled)
    free = not ours.depends or not theirs.depends
    conditions = len(first.mask.conditions) + len(second.mask.conditions)
    feasible: dict[tuple[int, int, int | None, int], bool] = {}
    for element, against in _candidates(ours, theirs, gcd(*factors)):
        inspected.spend(_CANDIDATE * (1 + conditions))
        threads = ours.elements[element][0], theirs.elements[against][0]
        if writes and _agree(first, second, axis, threads):
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


def _candidates(ours: _Side, theirs: _Side, factor: int) -> Iterator[tuple[int, int]]:
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


def _is_alike(access: Access) -> bool:
    """Whether the conditions of an access say the same for all of its threads."""
    return not any(
        condition.varies or not all(isinstance(s.offsets, int) for s in condition.sides or ())
        for condition in access.mask.conditions
    )


def _depends(access: Access, axis: int) -> bool:
    """Whether a condition on the threadgroup's position decides who is there."""
    return any(c.symbol.origin.axes >> axis & 1 for c in access.mask.conditions)


def _position(access: Access, axis: int) -> Symbol | None:
    """The threadgroup's position along an axis, as a condition of an access has it."""
    for condition in access.mask.conditions:
        for side in condition.sides or ():
            for symbol, _ in side.terms:
                if symbol.operation == _GROUPS[axis]:
                    return symbol
    return None


def _is_settled(access: Access, axis: int) -> bool:
    """Whether conditions on the threadgroup's position say for certain where it is, or nothing."""
    for condition in access.mask.conditions:
        if condition.symbol.origin.axes >> axis & 1:
            sides = condition.sides or ()
            terms = [symbol for side in sides for symbol, _ in side.terms]
            if not terms or any(symbol.operation != _GROUPS[axis] for symbol in terms):
                return False
    return True


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
    first: Access, second: Access, threads: tuple[int, int], elsewhere: Elsewhere
) -> bool:
    """Whether the conditions of both can hold, the threadgroups being so far apart."""
    told = [(condition, threads[0]) for condition in first.mask.conditions]
    away = tuple((condition, threads[1]) for condition in second.mask.conditions)
    return possible(told, replace(elsewhere, told=away))
