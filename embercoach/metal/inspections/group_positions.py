"""Dependence of accesses to device memory on their threadgroup's position."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from embercoach.metal.inspections.footprints import footprint, footprint_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embercoach.metal.execution.events import Access
    from embercoach.metal.execution.values import LaneValue, UnknownNumber

#: The threadgroup's position with its factor, and the other unknowns.
_Split: TypeAlias = "tuple[UnknownNumber | None, int, dict[UnknownNumber, int]]"
#: The axis along which accesses race, and the distance of the threadgroups.
Meeting: TypeAlias = "tuple[int, int]"
_GROUPS = ("group.x", "group.y", "group.z")


@dataclass(frozen=True, slots=True)
class Side:
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
        """The dependence of an access on its threadgroup."""
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
        compared: the axis and the distance at which accesses race, None if they do not, by
            their classes and ``_agreements``.
    """

    def __init__(self) -> None:
        self.compared: dict[object, Meeting | None] = {}
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
        """A number that accesses share which differ in their places and values alone."""
        key = (access.index, access.mask, access.width)
        return self._classes.setdefault(key, len(self._classes))


def _split(value: LaneValue, axis: int) -> _Split | None:
    """The threadgroup's position along an axis with its factor, and the other unknowns."""
    rest: dict[UnknownNumber, int] = {}
    position, factor = None, 0
    for symbol, times in value.terms:
        if symbol.operation == _GROUPS[axis]:
            position, factor = symbol, times
        elif symbol.origin.axes >> axis & 1:
            return None
        else:
            rest[symbol] = times
    return position, factor, rest


def _is_alike(access: Access) -> bool:
    """Return whether the conditions of an access are equal for all of its threads."""
    return not any(
        condition.varies or not all(isinstance(s.offsets, int) for s in condition.sides or ())
        for condition in access.mask.conditions
    )


def _depends(access: Access, axis: int) -> bool:
    """Return whether a condition on the threadgroup's position selects the threads."""
    return any(c.symbol.origin.axes >> axis & 1 for c in access.mask.conditions)


def _position(access: Access, axis: int) -> UnknownNumber | None:
    """The threadgroup's position along an axis, as a condition of an access has it."""
    for condition in access.mask.conditions:
        for side in condition.sides or ():
            for symbol, _ in side.terms:
                if symbol.operation == _GROUPS[axis]:
                    return symbol
    return None


def _is_settled(access: Access, axis: int) -> bool:
    """Return whether conditions on the threadgroup's position are exact, or there are none."""
    for condition in access.mask.conditions:
        if condition.symbol.origin.axes >> axis & 1:
            sides = condition.sides or ()
            terms = [symbol for side in sides for symbol, _ in side.terms]
            if not terms or any(symbol.operation != _GROUPS[axis] for symbol in terms):
                return False
    return True


def _guarded(access: Access, axis: int) -> bool:
    """Return whether an unknown that depends on the threadgroup selects the threads."""
    for condition in access.mask.conditions:
        sides = condition.sides
        if not condition.symbol.origin.axes >> axis & 1:
            continue
        if sides is None or any(_split(side, axis) is None for side in sides):
            return True
    return False
