"""KERNEL-BOUNDS and KERNEL-SIMD: indices past an array, dropped results, missing lanes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from embercoach.checks.programs.metal_checks import MetalReport
from embercoach.metal import hazards
from embercoach.metal.execution.conditions import lanes_where, threads_of
from embercoach.metal.execution.events import Access, SimdOperation
from embercoach.metal.execution.values import LANE, SIMD, SIMD_WIDTH, LaneValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import Trace
    from embercoach.metal.execution.values import UnknownNumber
    from embercoach.metal.inspections.bounds import Outside
    from embercoach.metal.program.nodes import Call, Spot

#: Operations on top of each other that are looked through.
_DEPTH = 8


@dataclass(frozen=True, slots=True)
class Partial:
    """A store of what one simdgroup got from a reduction; what the others got goes nowhere.

    Attributes:
        store: of the result.
        call: the reduction.
        kept: simdgroups whose result is stored.
        groups: simdgroups that reduced their own values.
    """

    store: Access
    call: Call
    kept: int
    groups: int


def partial_reductions(trace: Trace) -> tuple[Partial, ...]:
    """SIMD reductions whose results are kept for some simdgroups only.

    Nothing is reported for a kernel that was not followed to its end: it may use results later.
    """
    if trace.lost or trace.threads <= SIMD_WIDTH:
        return ()
    used: dict[Call, set[int]] = {}
    operations: dict[Call, list[SimdOperation]] = {}
    stores: list[tuple[Access, list[Call]]] = []
    for event in trace.events:
        if isinstance(event, SimdOperation):
            operations.setdefault(event.call, []).append(event)
        elif isinstance(event, Access):
            for call in _reductions_in(event):
                used.setdefault(call, set()).update(_groups(event.mask.lanes))
            if event.memory == "device" and event.value is not None:
                stores.append((event, _deciding(event)))
    found: dict[Spot, Partial] = {}
    for store, calls in stores:
        for call in calls:
            kept = used.get(call, set())
            if len(kept) != 1 or store.spot in found:
                continue
            groups = {g for done in operations.get(call, ()) for g in _contributing(done)}
            if len(groups) > 1 and kept < groups:
                found[store.spot] = Partial(store, call, len(kept), len(groups))
    return tuple(found.values())


def _reductions_in(access: Access) -> frozenset[Call]:
    """The reductions whose results an access uses: stores, goes by, or is under."""
    calls = access.index.origin.reduced
    if access.value is not None:
        calls |= access.value.origin.reduced
    for condition in access.mask.conditions:
        calls |= condition.symbol.origin.reduced
    return calls


def _contributing(operation: SimdOperation) -> set[int]:
    """The simdgroups whose lanes pass their own values to a reduction.

    In the second of two stages the other groups pass zeros, or values equal in all groups.
    """
    lanes = operation.mask.lanes
    if operation.operand is None:
        return _groups(lanes)
    first = (1 << SIMD_WIDTH) - 1
    return {
        group
        for group in _groups(lanes)
        if not _is_plain(operation.operand, lanes & first << group * SIMD_WIDTH, _DEPTH)
    }


def _is_plain(value: LaneValue, lanes: int, depth: int) -> bool:
    """Return whether a value is equal in these lanes, and in others that do the same."""
    if not lanes:
        return True
    threads = threads_of(lanes)
    if any(value.offset(thread) != value.offset(threads[0]) for thread in threads):
        return False
    return all(_is_plain_symbol(symbol, lanes, depth) for symbol, _ in value.terms)


def _is_plain_symbol(symbol: UnknownNumber, lanes: int, depth: int) -> bool:
    if not symbol.bits & (LANE | SIMD):
        return True
    parts = [part for part in symbol.operands if isinstance(part, LaneValue)]
    if not depth or not parts or symbol.operation == "load":
        return False
    if symbol.operation == "?:" and parts[0].exact:
        chosen = lanes_where(parts[0], lanes)
        return _is_plain(parts[1], chosen, depth - 1) and _is_plain(
            parts[2], lanes & ~chosen, depth - 1
        )
    return all(_is_plain(part, lanes, depth - 1) for part in parts)


def _groups(lanes: int) -> set[int]:
    return {thread // SIMD_WIDTH for thread in threads_of(lanes)}


def _deciding(store: Access) -> list[Call]:
    """The reductions whose results make the stored value differ between simdgroups."""
    value = store.value
    if value is None or value.origin.blurred or _by_data(store):
        return []
    calls: set[Call] = set()
    for symbol, _ in value.terms:
        if symbol.bits & SIMD and not symbol.bits & LANE:
            calls |= symbol.origin.reduced
    return sorted(calls, key=lambda call: call.spot.place.start)


def _by_data(store: Access) -> bool:
    return any(condition.varies for condition in store.mask.conditions)


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
    operations = [event for event in trace.events if isinstance(event, SimdOperation)]
    if trace.configuration.assumed or not operations:
        return ()
    found: dict[Spot, MissingLane] = {}
    sizes = [size for size in _sizes(trace) if size % SIMD_WIDTH]
    used = _SHUFFLES & _used(trace)
    for event in operations:
        if event.spot in found or event.call.name not in used or event.mask.conditions:
            continue
        missing = _never_there(event)
        for size in sizes:
            missing = missing or _missing(event, size)
        if missing is not None:
            found[event.spot] = missing
    return tuple(found.values())


def _never_there(event: SimdOperation) -> MissingLane | None:
    """The read of a lane from 32 on, as where a position in the threadgroup is taken for a lane."""
    if event.lane is None or not event.lane.exact or event.call.name == "simd_shuffle_down":
        return None
    for thread in threads_of(event.mask.lanes):
        lane = thread % SIMD_WIDTH
        source = _source(event.call.name, lane, event.lane.offset(thread))
        if source >= SIMD_WIDTH:
            return MissingLane(event, lane, source, SIMD_WIDTH, SIMD_WIDTH)
    return None


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


def past_arrays(trace: Trace, _whole: bool) -> Iterator[MetalReport]:
    """Accesses outside of threadgroup and private arrays, and of outputs of known size."""
    from embercoach.metal.inspections.bounds import outside, past_buffers

    for found in (*outside(trace), *past_buffers(trace)):
        yield _outside(found)


def _outside(found: Outside) -> MetalReport:
    spot, name = found.access.spot, found.variable.name
    index = found.index if found.index < 0 else max(found.index, found.count)
    what = hazards.out_of_bounds(
        found.access.kind if found.access.kind == "read" else "write",
        f"{name}[{index}]",
        f"{found.count} elements, thread {found.thread}",
    )
    help_text = hazards.BOUNDS_HELP
    return MetalReport("KERNEL-BOUNDS-001", spot.place, what, help_text, spot.text)


def dropped_results(trace: Trace, _whole: bool) -> Iterator[MetalReport]:
    """SIMD reductions of which one simdgroup's result is kept."""
    for partial in partial_reductions(trace):
        yield _partial(partial)


def _partial(partial: Partial) -> MetalReport:
    spot, name = partial.store.spot, partial.call.name
    what = f"`{name}` reduces one of {partial.groups} simdgroups, the other results are dropped"
    help_text = "Combine all results in a `threadgroup` array, or launch threadgroups of 32 threads"
    return MetalReport("KERNEL-SIMD-001", spot.place, what, help_text, spot.text)


def absent_lanes(trace: Trace, _whole: bool) -> Iterator[MetalReport]:
    """Shuffles from lanes that a threadgroup of no multiple of 32 threads does not have."""
    for found in missing_lanes(trace):
        name, spot = found.operation.call.name, found.spot
        what = f"`{name}` reads lane {found.source}, the last simdgroup has {found.count} lanes"
        help_text = "Launch whole simdgroups: a multiple of 32 threads, or use `simd_sum`"
        if found.source >= found.count == SIMD_WIDTH:
            what = f"`{name}` reads lane {found.source}, a simdgroup has {SIMD_WIDTH} lanes"
            help_text = "Pass a lane below 32, as `thread_index_in_simdgroup` counts"
        yield MetalReport("KERNEL-SIMD-002", spot.place, what, help_text, spot.text)
