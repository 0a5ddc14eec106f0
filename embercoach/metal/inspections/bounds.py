"""Arrays and outputs that are certainly indexed outside of their size."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

from msgspec import Struct

from embercoach.metal.execution.conditions import threads_of
from embercoach.metal.execution.events import Access
from embercoach.metal.execution.memory import elements_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.metal.execution.events import Configuration, Trace
    from embercoach.metal.program.nodes import Spot


_GROUPS = ("group.x", "group.y", "group.z")
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
                found[event.spot] = Outside(event, thread, index, count)
                break
    return tuple(found.values())


def past_buffers(trace: Trace) -> tuple[Outside, ...]:
    """Accesses past the end of inputs and outputs of known size; one for each place.

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
    """The last element that an access touches, and the thread's index in its threadgroup."""
    factors = [0, 0, 0]
    for symbol, factor in access.index.terms:
        if symbol.operation not in _GROUPS or factor < 0:
            return None
        factors[_GROUPS.index(symbol.operation)] = factor
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
    """Those threads of a threadgroup that are inside the grid, as far as that is known."""
    size, grid = configuration.threadgroup, configuration.grid
    within = [size[a] if (n := grid[a]) is None else n - position[a] * size[a] for a in range(3)]
    x, y, _ = size
    for t in threads_of(lanes):
        if t % x < within[0] and t // x % y < within[1] and t // (x * y) < within[2]:
            yield t
