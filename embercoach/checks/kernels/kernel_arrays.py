"""KERNEL-BOUNDS, KERNEL-SIMD and KERNEL-CONST: indices past an array, missing lanes and threads."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from embercoach.checks.programs.metal_checks import MetalCode, MetalReport
from embercoach.checks.registry import check
from embercoach.metal import hazards
from embercoach.metal.execution.conditions import lanes_where, threads_of
from embercoach.metal.execution.events import Access, SimdOperation, Trace
from embercoach.metal.execution.footprints import outside, past_buffers
from embercoach.metal.execution.path_state import elements_of
from embercoach.metal.execution.values import (
    LANE,
    SIMD,
    SIMD_WIDTH,
    WITHIN,
    LaneValue,
    UnknownNumber,
)
from embercoach.metal.program.nodes import Call, Spot, Variable


def mismatches(trace: Trace) -> Iterator[MetalReport]:
    """Arrays whose reads fit another size of the threadgroup than it has, whatever the data.

    All accesses of the array must be known, and no unknown condition may decide about any.
    """
    if trace.lost or trace.cut_short:
        return
    arrays: dict[Variable, list[Access]] = {}
    for event in trace.events:
        if isinstance(event, Access) and event.memory == "threadgroup":
            arrays.setdefault(event.variable, []).append(event)
    for variable, accesses in arrays.items():
        yield from _mismatch(variable, accesses, trace)


def _mismatch(variable: Variable, accesses: list[Access], trace: Trace) -> Iterator[MetalReport]:
    """An array that is read up to another element than the threads or simdgroups have written."""
    if any(a.mask.conditions or not a.index.exact or a.member or a.width != 1 for a in accesses):
        return
    if any(a.kind == "atomic" for a in accesses):
        return
    writes = set().union(*(_elements(a) for a in accesses if a.kind == "write"))
    reads = set().union(*(_elements(a) for a in accesses if a.kind == "read"))
    if not reads or not _is_filled(variable, writes, trace):
        return
    span = max(reads) + 1
    size = elements_of(variable.type)
    if min(reads) < 0 or (size is not None and span > size):
        return  # KERNEL-BOUNDS-001 reports accesses outside of the array
    if len(writes) == trace.threads and span % SIMD_WIDTH:
        return  # a tile with a border, which has nothing to do with the number of threads
    # An array of which one element is read may be a broadcast.
    dropped = 1 < len(reads) == span and 2 * span <= len(writes)
    if not dropped and not reads - writes:
        return
    last = [a for a in accesses if a.kind == "read" and (dropped or _elements(a) - writes)]
    if span > len(writes):
        what = hazards.uninitialized_read(f"{variable.name}[{span - 1}]")
    else:
        what = f"`{variable.name}` is read only up to `{variable.name}[{span - 1}]`"
    each = 1 if len(writes) == trace.threads else SIMD_WIDTH
    threads = span * each
    yield MetalReport(
        "KERNEL-CONST-001",
        last[0].spot,
        f"{what}: body assumes {threads} threads, launch has {len(writes) * each}",
        f"Launch {threads} threads, or pass the size to both `threadgroup` and the body",
    )


def _is_filled(variable: Variable, writes: set[int], trace: Trace) -> bool:
    """Return whether each thread, or each of several simdgroups, has one element."""
    size = elements_of(variable.type)
    if trace.threads <= SIMD_WIDTH or (size is not None and len(writes) > size):
        return False
    groups = -(-trace.threads // SIMD_WIDTH)
    return writes == set(range(len(writes))) and len(writes) in (trace.threads, groups)


def _elements(access: Access) -> set[int]:
    """Return the elements that an access touches, of all its threads."""
    return {access.index.offset(thread) for thread in threads_of(access.mask.lanes)}


@check("KERNEL-CONST-001")
def written_for_another_size(code: MetalCode) -> Iterator[MetalReport]:
    """``for (uint s = 128; s > 0; s >>= 1)`` in a threadgroup of 512."""
    if not code.text.threadgroup_arrays:
        return

    for kernel in code.kernels:
        for number, configuration in enumerate(kernel.configurations):
            if not configuration.assumed:
                yield from mismatches(kernel.trace(number))


#: Operations on top of each other that are looked through.
_DEPTH = 8


def dropped_results(trace: Trace) -> Iterator[MetalReport]:
    """SIMD reductions of which one simdgroup's result is kept, once for each store.

    Nothing is reported for a kernel that was not followed to its end: it may use results later.
    """
    if trace.lost or trace.threads <= SIMD_WIDTH:
        return
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
    reported: set[Spot] = set()
    for store, calls in stores:
        for call in calls:
            kept = used.get(call, set())
            if len(kept) != 1 or store.spot in reported:
                continue
            groups = {g for done in operations.get(call, ()) for g in _contributing(done)}
            if len(groups) > 1 and kept < groups:
                reported.add(store.spot)
                yield MetalReport(
                    "KERNEL-SIMD-001",
                    store.spot,
                    f"`{call.name}` reduces one of {len(groups)} simdgroups, "
                    "the other results are dropped",
                    "Combine all results in a `threadgroup` array, or launch threadgroups of "
                    "32 threads",
                )


def _reductions_in(access: Access) -> frozenset[Call]:
    """Return the reductions whose results an access uses: stores, goes by, or is under."""
    calls = access.index.origin.reduced
    if access.value is not None:
        calls |= access.value.origin.reduced
    for condition in access.mask.conditions:
        calls |= condition.symbol.origin.reduced
    return calls


def _contributing(operation: SimdOperation) -> set[int]:
    """Return the simdgroups whose lanes pass their own values to a reduction.

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
    if not symbol.bits & WITHIN:
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
    """Return the reductions whose results make the stored value differ between simdgroups."""
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


def absent_lanes(trace: Trace) -> Iterator[MetalReport]:
    """Shuffles of known threadgroups that read a lane without a thread, one for each place."""
    operations = [event for event in trace.events if isinstance(event, SimdOperation)]
    if trace.configuration.assumed or not operations:
        return
    sizes = [size for size in _sizes(trace) if size % SIMD_WIDTH]
    used = _SHUFFLES & _used(trace)
    reported: set[Spot] = set()
    for event in operations:
        name, given = event.call.name, event.lane
        if event.spot in reported or name not in used or event.mask.conditions:
            continue
        missing = None if given is None else next(_missing(event, given, sizes), None)
        if missing is None:
            continue
        reported.add(event.spot)
        source, count = missing
        what = f"`{name}` reads lane {source}, the last simdgroup has {count} lanes"
        help_text = "Launch whole simdgroups: a multiple of 32 threads, or use `simd_sum`"
        if count == SIMD_WIDTH:
            what = f"`{name}` reads lane {source}, a simdgroup has {SIMD_WIDTH} lanes"
            help_text = "Pass a lane below 32, as `thread_index_in_simdgroup` counts"
        yield MetalReport("KERNEL-SIMD-002", event.spot, what, help_text)


def _missing(event: SimdOperation, given: LaneValue, sizes: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the lanes without a thread that are read, and how many the simdgroup has."""
    name = event.call.name
    if not given.exact:
        return
    sources = [
        (thread, _source(name, thread % SIMD_WIDTH, given.offset(thread)))
        for thread in threads_of(event.mask.lanes)
    ]
    if name != "simd_shuffle_down":
        # As where a position in the threadgroup is taken for a lane.
        yield from ((source, SIMD_WIDTH) for _, source in sources if source >= SIMD_WIDTH)
    for size in sizes:
        count = size % SIMD_WIDTH
        for thread, source in sources:
            # Further lanes of a shift may be ignored; all take part in a butterfly.
            decisive = thread % SIMD_WIDTH == 0 or name == "simd_shuffle_xor"
            if size - count <= thread < size and decisive and count <= source < SIMD_WIDTH:
                yield source, count


def _used(trace: Trace) -> frozenset[str]:
    """Get the operations whose results are stored for sure: not where a condition selects them."""
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
    """Yield the threads of a threadgroup, and of a smaller one at the end of the grid."""
    configuration = trace.configuration
    yield trace.threads
    grid, group = configuration.grid, configuration.threadgroup
    known = [threads for threads in grid if threads is not None]
    if len(known) == 3 and grid[1:] == (1, 1) and known[0] > group[0]:
        last = known[0] % group[0] * prod(group[1:])
        if last:
            yield last


def _source(name: str, lane: int, given: int) -> int:
    if name == "simd_shuffle_xor":
        return lane ^ given
    return lane + given if name == "simd_shuffle_down" else given


def past_arrays(trace: Trace) -> Iterator[MetalReport]:
    """Yield accesses outside of threadgroup and private arrays, and of outputs of known size."""
    for found in (*outside(trace), *past_buffers(trace)):
        access = found.access
        index = found.index if found.index < 0 else max(found.index, found.count)
        what = hazards.out_of_bounds(
            "read" if access.kind == "read" else "write",
            f"{access.variable.name}[{index}]",
            f"{found.count} elements, thread {found.thread}",
        )
        yield MetalReport("KERNEL-BOUNDS-001", access.spot, what, hazards.BOUNDS_HELP)
