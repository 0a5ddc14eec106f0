"""Threadgroup and private arrays that are certainly indexed outside of their size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.execution.conditions import threads_of
from embercoach.metal.execution.events import Access
from embercoach.metal.execution.memory import elements_of

if TYPE_CHECKING:
    from embercoach.metal.execution.events import Trace
    from embercoach.metal.program.nodes import Spot, Variable


@dataclass(frozen=True, slots=True)
class Outside:
    """An access that goes out of its array.

    Attributes:
        index: the first element that is touched, of thread ``thread``.
        count: how many elements the array has.
    """

    variable: Variable
    access: Access
    thread: int
    index: int
    count: int


def outside(trace: Trace) -> tuple[Outside, ...]:
    """Accesses outside of local arrays, whatever the data; one for each place in the text."""
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
                found[event.spot] = Outside(event.variable, event, thread, index, count)
                break
    return tuple(found.values())
