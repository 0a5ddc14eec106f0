"""The elements that threads access, and conflicts between two threads."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from embercoach.metal.execution.conditions import possible, threads_of
from embercoach.metal.execution.values import LANE, SIMD, SIMD_WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from embercoach.metal.execution.conditions import Condition
    from embercoach.metal.execution.events import Access
    from embercoach.metal.execution.values import LaneValue

#: Which pairs of threads count.
Apart = Literal["simdgroups", "any"]
#: What of an index is known for each thread, the threads, and the elements from there on.
_Touched: TypeAlias = "tuple[int | tuple[int, ...], int, int]"
_VARYING = LANE | SIMD
#: Pairs of threads that are tried for one pair of accesses before it counts as impossible.
_TRIES = 256


def comparable(index: LaneValue) -> bool:
    """Return whether indices of threads are comparable: unknowns are equal for all."""
    return not any(symbol.bits & _VARYING for symbol, _ in index.terms)


def footprint(access: Access) -> Mapping[int, tuple[int, ...]]:
    """The threads that touch each element, relative to what of the index is unknown."""
    return footprint_of(access.index.offsets, access.mask.lanes, access.width)


@lru_cache(maxsize=512)
def footprint_of(
    offsets: int | tuple[int, ...], lanes: int, width: int
) -> Mapping[int, tuple[int, ...]]:
    """The threads that touch each element, of an access with such an index."""
    threads = threads_of(lanes)
    if isinstance(offsets, int):
        return dict.fromkeys(range(offsets, offsets + width), threads)
    found: dict[int, list[int]] = {}
    for thread in threads:
        first = offsets[thread]
        for element in range(first, first + width):
            found.setdefault(element, []).append(thread)
    return {element: tuple(touching) for element, touching in found.items()}


def exclusive(conditions: tuple[Condition, ...]) -> bool:
    """Return whether the conditions may hold for one thread only.

    That is so for what an atomic returned, and where something unknown of each thread must be equal
    to something.
    """
    for condition in conditions:
        if condition.symbol.origin.single:
            return True
        sides = condition.sides
        if condition.operator == "==" and condition.varies and sides is not None:
            if any(_is_truth(side) for side in sides):
                continue
            unknown = any(symbol.bits & _VARYING for side in sides for symbol, _ in side.terms)
            if unknown:
                return True
    return False


def _is_truth(value: LaneValue) -> bool:
    symbol = value.symbol
    return symbol is not None and symbol.operation in ("<", "==", "!", "&&", "||")


def meetings(first: Access, second: Access, *, apart: Apart) -> Iterator[tuple[int, int, int]]:
    """Pairs of different threads that may touch the same element: element and both threads.

    Args:
        first: an access.
        second: another, or the same one.
        apart: only threads of different simdgroups, or any.
    """
    tried = _tried(
        (first.index.offsets, first.mask.lanes, first.width),
        (second.index.offsets, second.mask.lanes, second.width),
        apart,
    )
    if not (first.mask.conditions or second.mask.conditions):
        yield from tried
    elif tried and not _varies(first, second):
        # One answer for all threads.
        if _can_meet(first, second, *tried[0][1:]):
            yield from tried
    else:
        yield from (found for found in tried if _can_meet(first, second, *found[1:]))


def _varies(first: Access, second: Access) -> bool:
    """Return whether it may depend on the threads that both conditions hold."""
    conditions = (*first.mask.conditions, *second.mask.conditions)
    return any(
        condition.varies or any(not isinstance(side.offsets, int) for side in condition.sides or ())
        for condition in conditions
    )


@lru_cache(maxsize=2048)
def _tried(left: _Touched, right: _Touched, apart: Apart) -> tuple[tuple[int, int, int], ...]:
    """Pairs of threads that touch the same element, as ``meetings`` gives them."""
    # Many accesses are to an element of each thread.
    if left == right and not isinstance(left[0], int) and left[2] == 1:
        threads = threads_of(left[1])
        if len({left[0][thread] for thread in threads}) == len(threads):
            return ()
    ours, theirs = footprint_of(*left), footprint_of(*right)
    smaller, swapped = (ours, False) if len(ours) <= len(theirs) else (theirs, True)
    larger = theirs if not swapped else ours
    found: list[tuple[int, int, int]] = []
    for element, these in smaller.items():
        those = larger.get(element)
        if those is None:
            continue
        one, other = (those, these) if swapped else (these, those)
        for pair in _pairs(one, other, apart=apart):
            if len(found) == _TRIES:
                return tuple(found)
            found.append((element, *pair))
    return tuple(found)


def _pairs(
    left: tuple[int, ...], right: tuple[int, ...], *, apart: Apart
) -> Iterator[tuple[int, int]]:
    """Some pairs of different threads: each thread once on either side is enough."""
    for one in left:
        for other in right:
            together = one // SIMD_WIDTH == other // SIMD_WIDTH
            if one != other and (apart == "any" or not together):
                yield one, other
                break


def _can_meet(first: Access, second: Access, one: int, other: int) -> bool:
    known = [(condition, one) for condition in first.mask.conditions]
    known += [(condition, other) for condition in second.mask.conditions]
    return possible(known)


def same_members(first: Access, second: Access) -> bool:
    """Return whether two accesses may touch the same member of a structure."""
    return first.member.startswith(second.member) or second.member.startswith(first.member)


def differ(first: Access, second: Access, one: int, other: int) -> bool:
    """Return whether two threads certainly, or in general, write different values."""
    left, right = first.value, second.value
    if left is None or right is None:
        return True
    if left.origin.blurred or right.origin.blurred:
        return False
    if left.terms != right.terms:
        return True
    if left.offset(one) != right.offset(other):
        return True
    distinguishing = SIMD if one // SIMD_WIDTH != other // SIMD_WIDTH else 0
    if one % SIMD_WIDTH != other % SIMD_WIDTH:
        # Equal lanes of two simdgroups have equal values that depend on the lane.
        distinguishing |= LANE
    return any(symbol.bits & distinguishing for symbol, _ in left.terms)
