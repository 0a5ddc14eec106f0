"""SIMD reductions that are taken for a threadgroup's: most of what was reduced is lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.execution.conditions import threads_of
from embercoach.metal.execution.events import Access, SimdOperation
from embercoach.metal.execution.values import LANE, SIMD, SIMD_WIDTH

if TYPE_CHECKING:
    from embercoach.metal.execution.events import Trace
    from embercoach.metal.program.nodes import Call, Spot


@dataclass(frozen=True, slots=True)
class Partial:
    """A store of what one SIMD group got from a reduction; what the others got goes nowhere.

    Attributes:
        store: of the result.
        call: the reduction.
        kept: SIMD groups whose result is stored.
        groups: SIMD groups that did the reduction.
    """

    store: Access
    call: Call
    kept: int
    groups: int


def partial_reductions(trace: Trace) -> tuple[Partial, ...]:
    """SIMD reductions whose results are kept for some SIMD groups only.

    Of a kernel that was not followed to its end nothing is told: results may be used behind.
    """
    if trace.lost:
        return ()
    used: dict[Call, set[int]] = {}
    done: dict[Call, set[int]] = {}
    stores: list[Access] = []
    for event in trace.events:
        if isinstance(event, SimdOperation):
            done.setdefault(event.call, set()).update(_groups(event.mask.lanes))
            # A result that goes through a SIMD group once more is in use by the group as a whole.
            continue
        if not isinstance(event, Access) or event.value is None:
            continue
        for call in event.value.origin.reduced:
            used.setdefault(call, set()).update(_groups(event.mask.lanes))
        if event.memory == "device" and event.value.origin.reduced:
            stores.append(event)
    found: dict[Spot, Partial] = {}
    for store in stores:
        for call in _deciding(store):
            kept, groups = used.get(call, set()), done.get(call, set())
            if len(groups) > 1 and len(kept) == 1 and kept < groups and store.spot not in found:
                found[store.spot] = Partial(store, call, len(kept), len(groups))
    return tuple(found.values())


def _groups(lanes: int) -> set[int]:
    return {thread // SIMD_WIDTH for thread in threads_of(lanes)}


def _deciding(store: Access) -> list[Call]:
    """The reductions whose results make the stored value differ between SIMD groups."""
    value = store.value
    if value is None or value.origin.blurred or (store.mask.conditions and _by_data(store)):
        return []
    calls: set[Call] = set()
    for symbol, _ in value.terms:
        if symbol.bits & SIMD and not symbol.bits & LANE:
            calls |= symbol.origin.reduced
    return sorted(calls, key=lambda call: call.spot.place.start)


def _by_data(store: Access) -> bool:
    return any(condition.varies for condition in store.mask.conditions)
