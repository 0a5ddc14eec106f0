"""Shuffles and broadcasts from lanes that the last simdgroup of a threadgroup does not have."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from embercoach.metal.execution.conditions import threads_of
from embercoach.metal.execution.events import Access, SimdOperation
from embercoach.metal.execution.values import SIMD_WIDTH, LaneValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import Trace
    from embercoach.metal.execution.values import UnknownNumber
    from embercoach.metal.program.nodes import Spot

_SHUFFLES = frozenset({"simd_shuffle", "simd_broadcast", "simd_shuffle_xor", "simd_shuffle_down"})


_SELECTING = frozenset({"?:", "path"})


@dataclass(frozen=True, slots=True)
class MissingLane:
    """An operation that reads a lane without a thread.

    Attributes:
        lane: the reading one.
        source: the one that is read.
        count: lanes of the last simdgroup.
        threads: of the threadgroup.
    """

    operation: SimdOperation
    lane: int
    source: int
    count: int
    threads: int

    @property
    def spot(self) -> Spot:
        """The place of the call."""
        return self.operation.spot


def missing_lanes(trace: Trace) -> tuple[MissingLane, ...]:
    """The operations of known threadgroups that read a missing lane, one for each place."""
    found: dict[Spot, MissingLane] = {}
    sizes = [size for size in _sizes(trace) if size % SIMD_WIDTH]
    used = _used(trace) if sizes else frozenset()
    for event in trace.events if sizes else ():
        if not isinstance(event, SimdOperation) or event.spot in found:
            continue
        if event.call.name not in _SHUFFLES & used or event.mask.conditions:
            continue
        for size in sizes:
            missing = _missing(event, size)
            if missing is not None:
                found[event.spot] = missing
                break
    return tuple(found.values())


def _used(trace: Trace) -> frozenset[str]:
    """The operations whose results are stored for sure: not where a condition selects them."""
    found: set[str] = set()
    seen: set[UnknownNumber] = set()
    values = [e.value for e in trace.events if isinstance(e, Access) and e.value is not None]
    pending = [symbol for value in values for symbol, _ in value.terms]
    while pending:
        symbol = pending.pop()
        if symbol in seen or symbol.operation in _SELECTING:
            continue
        seen.add(symbol)
        found.add(symbol.operation)
        operands = (part for part in symbol.operands if isinstance(part, LaneValue))
        pending.extend(inner for part in operands for inner, _ in part.terms)
    return frozenset(found)


def _sizes(trace: Trace) -> Iterator[int]:
    """The threads of a threadgroup, and of a smaller one at the end of the grid."""
    configuration = trace.configuration
    if configuration.assumed:
        return
    yield trace.threads
    grid, group = configuration.grid, configuration.threadgroup
    known = [threads for threads in grid if threads is not None]
    if len(known) == 3 and grid[1:] == (1, 1) and known[0] > group[0]:
        last = known[0] % group[0] * prod(group[1:])
        if last:
            yield last


def _missing(event: SimdOperation, size: int) -> MissingLane | None:
    """The read of a lane that is past the threads of the last simdgroup, if there is one."""
    first, count = size // SIMD_WIDTH * SIMD_WIDTH, size % SIMD_WIDTH
    if event.lane is None or not event.lane.exact:
        return None
    for thread in threads_of(event.mask.lanes):
        if not first <= thread < size:
            continue
        lane, given = thread - first, event.lane.offset(thread)
        source = _source(event.call.name, lane, given)
        # Further lanes of a shift may be ignored; all take part in a butterfly.
        decisive = lane == 0 or event.call.name == "simd_shuffle_xor"
        if decisive and count <= source < SIMD_WIDTH:
            return MissingLane(event, lane, source, count, size)
    return None


def _source(name: str, lane: int, given: int) -> int:
    if name == "simd_shuffle_xor":
        return lane ^ given
    return lane + given if name == "simd_shuffle_down" else given
