"""The elements that threads access: conflicts between two threads, and accesses out of an array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct

from embercoach.metal.execution.conditions import Condition, possible, threads_of
from embercoach.metal.execution.events import Access, Configuration, Trace
from embercoach.metal.execution.path_state import elements_of
from embercoach.metal.execution.values import GROUP_AXES, LANE, SIMD, SIMD_WIDTH, LaneValue

if TYPE_CHECKING:
    from embercoach.metal.program.nodes import Spot

#: Unsigned indices from here on are below 0; KERNEL-INDEX-001 reports those.
_WRAPPED = 1 << 31


class Outside(Struct, frozen=True):
    """An access that goes out of its array.

    Attributes:
        index: the first element that is touched, of thread ``thread``.
        count: how many elements the array has.
    """

    access: Access
    thread: int
    index: int
    count: int


def outside(trace: Trace) -> tuple[Outside, ...]:
    """Get accesses outside of local arrays, whatever the data; one for each place in the text."""
    found: dict[Spot, Outside] = {}
    for event in trace.events:
        if not isinstance(event, Access) or event.memory not in ("threadgroup", "thread"):
            continue
        if event.spot in found or event.mask.conditions or not event.index.exact or event.member:
            continue
        count = elements_of(event.variable.type) if event.variable.kind == "local" else None
        if count is None:
            continue
        offsets = event.index.offsets
        low, high = (offsets,) * 2 if isinstance(offsets, int) else (min(offsets), max(offsets))
        if low >= 0 and high + event.width <= count:
            continue
        for thread in threads_of(event.mask.lanes):
            index = event.index.offset(thread)
            if index < 0 or index + event.width > count:
                found[event.spot] = Outside(event, thread, index, count)
                break
    return tuple(found.values())


def past_buffers(trace: Trace) -> tuple[Outside, ...]:
    """Return accesses past the end of inputs and outputs of known size; one for each place.

    They happen whatever the data. The launch must be known: its threads, and what of the index
    depends on the threadgroup alone.
    """
    found: dict[Spot, Outside] = {}
    if trace.configuration.assumed or None in trace.configuration.groups:
        return ()
    sizes = {one.name: one.size for one in trace.configuration.inputs if one.ndim}
    sizes.update(trace.configuration.output_sizes or {})
    for event in trace.events:
        if not isinstance(event, Access) or event.memory != "device" or event.spot in found:
            continue
        variable = event.variable
        count = sizes.get(variable.name) if variable.kind in ("input", "output") else None
        if count is None or event.mask.conditions or event.member:
            continue
        last = _last_element(event, trace)
        if last is not None and count <= last[0] < _WRAPPED:
            found[event.spot] = Outside(event, last[1], last[0], count)
    return tuple(found.values())


def _last_element(access: Access, trace: Trace) -> tuple[int, int] | None:
    """Return the last element that an access touches, and the thread's index in its threadgroup."""
    factors = [0, 0, 0]
    for symbol, factor in access.index.terms:
        if symbol.operation not in GROUP_AXES or factor < 0:
            return None
        factors[GROUP_AXES.index(symbol.operation)] = factor
    best: tuple[int, int] | None = None
    # The last threadgroup may be cut off by the end of the grid; the one before is whole.
    ends = [{(n or 1) - 1, max((n or 1) - 2, 0)} for n in trace.configuration.groups]
    for position in product(*ends):
        start = sum(factor * at for factor, at in zip(factors, position, strict=True))
        for thread in threads_in_grid(position, trace.configuration, access.mask.lanes):
            touched = start + access.index.offset(thread) + access.width - 1
            if best is None or touched > best[0]:
                best = touched, thread
    return best


def threads_in_grid(
    position: tuple[int, ...], configuration: Configuration, lanes: int
) -> Iterator[int]:
    """Yield those threads of a threadgroup that are inside the grid, as far as that is known."""
    size, grid = configuration.threadgroup, configuration.grid
    within = [size[a] if (n := grid[a]) is None else n - position[a] * size[a] for a in range(3)]
    x, y, _ = size
    for t in threads_of(lanes):
        if t % x < within[0] and t // x % y < within[1] and t // (x * y) < within[2]:
            yield t


#: Which pairs of threads count.
Apart = Literal["simdgroups", "any"]
#: What of an index is known for each thread, the threads, and the elements from there on.
_Touched: TypeAlias = "tuple[int | tuple[int, ...], int, int]"
#: Pairs of threads that are tried for one pair of accesses before it counts as impossible.
_TRIES = 256


def footprint(access: Access) -> Mapping[int, tuple[int, ...]]:
    """Return the threads that touch each element, relative to what of the index is unknown."""
    return footprint_of(access.index.offsets, access.mask.lanes, access.width)


@lru_cache(maxsize=512)
def footprint_of(
    offsets: int | tuple[int, ...], lanes: int, width: int
) -> Mapping[int, tuple[int, ...]]:
    """Return the threads that touch each element, of an access with such an index."""
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
            if not all(side.comparable for side in sides):
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
    elif tried and is_alike(first) and is_alike(second):
        # One answer for all threads.
        if _can_meet(first, second, *tried[0][1:]):
            yield from tried
    else:
        yield from (found for found in tried if _can_meet(first, second, *found[1:]))


def is_alike(access: Access) -> bool:
    """Return whether the conditions of an access are equal for all of its threads."""
    return not any(
        condition.varies or not all(isinstance(s.offsets, int) for s in condition.sides or ())
        for condition in access.mask.conditions
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
    if left.terms != right.terms or left.offset(one) != right.offset(other):
        return True
    distinguishing = SIMD if one // SIMD_WIDTH != other // SIMD_WIDTH else 0
    if one % SIMD_WIDTH != other % SIMD_WIDTH:
        # Equal lanes of two simdgroups have equal values that depend on the lane.
        distinguishing |= LANE
    return any(symbol.bits & distinguishing for symbol, _ in left.terms)
