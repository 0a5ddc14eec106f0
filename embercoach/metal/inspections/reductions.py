"""SIMD reductions that are taken for a threadgroup's: most of what was reduced is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.execution.conditions import lanes_where, threads_of
from embercoach.metal.execution.events import Access, SimdOperation
from embercoach.metal.execution.values import LANE, SIMD, SIMD_WIDTH, LaneValue

if TYPE_CHECKING:
    from embercoach.metal.execution.events import Trace
    from embercoach.metal.execution.values import UnknownNumber
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
