"""Calls that need not run again: their arguments, and all that they read, are as before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.analysis.shapes.arrays import UNKNOWN
from embercoach.analysis.shapes.path_states import changed_between, next_serials
from embercoach.analysis.shapes.python_values import (
    BoundFunction,
    DictReference,
    Entries,
    FunctionValue,
    Iterator,
    Options,
    PartialCall,
    Reference,
)
from embercoach.analysis.shapes.size_integers import of_atom

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from embercoach.analysis.shapes.arrays import ArrayShape, AxesSymbol
    from embercoach.analysis.shapes.interpreter import Machine
    from embercoach.analysis.shapes.learned_facts import Facts
    from embercoach.analysis.shapes.path_states import Heap
    from embercoach.analysis.shapes.size_integers import Integer, SizeSymbol


class FinishedCall(Struct, frozen=True):
    """The effects of a call that has changed no object that was there before it.

    Attributes:
        result: the value that it returned.
        start: the serial numbers of the first symbol and object that it may have made.
        reads: the objects that it has read, by number.
        assumed: what was known of symbols before it.
        sizes: what it has learned of symbols.
        axes: what it has learned of unknown axes.
        events: what it does for certain.
        failed: whether something in it raises.
    """

    result: Any
    start: tuple[int, int]
    reads: tuple[tuple[int, Any], ...]
    assumed: Facts
    sizes: list[tuple[SizeSymbol, Integer]]
    axes: list[tuple[AxesSymbol, ArrayShape]]
    events: tuple[Any, ...]
    failed: bool


def remembered(
    machine: Machine, function: FunctionValue, names: dict[str, Any], run: Callable[[], Any]
) -> Any:
    """The result of a call, which runs if no call with these arguments can stand for it.

    Args:
        machine: the interpreter.
        function: that is called.
        names: the parameters' values; ``UNKNOWN`` for unknown ones.
        run: runs it.
    """
    heap = machine.heap
    if machine.keeps_records or heap.facts.failed:
        return run()
    key = _key(machine, function, names)
    if key is None:
        return run()
    found = machine.memo.get(key)
    if found is not None and _holds(heap, found):
        return _repeated(heap, found, is_exact=UNKNOWN not in names.values())
    start, before, changes = next_serials(), heap.facts.copy(), heap.changes
    given, outer = dict(names), heap.reads
    reads = heap.reads = set()
    try:
        result = run()
    finally:
        heap.reads = outer
        if outer is not None:
            outer |= reads
    changed = changed_between(heap.changes, changes)
    if _is_plain(result) and not any(
        number < start[1] and not narrows and heap.objects.get(number) != old
        for number, (old, narrows) in changed.items()
    ):
        earlier = {number: old for number, (old, _) in changed.items()}
        held = {number: earlier.get(number, heap.objects.get(number)) for number in reads}
        made = _finished(heap, result, start, held, before)
        machine.memo[key] = made
        if made.sizes or made.axes:
            # With what it has learned of its arguments, it does the same.
            machine.memo[_key(machine, function, given)] = made
    return result


def _key(machine: Machine, function: FunctionValue, names: dict[str, Any]) -> Hashable:
    """The key that calls which do the same have in common; None if that is not known."""
    parts = tuple([_part(machine.heap, value) for value in names.values()])
    key = (function, machine.trials > 0, machine.rounds > 0, parts)
    try:
        hash(key)
    except TypeError:
        return None
    return key


def _part(heap: Heap, value: Any) -> Any:
    value = heap.value(value)
    kind = type(value)
    if kind is tuple:
        return tuple([_part(heap, one) for one in value])
    if kind is DictReference:
        held = heap.objects.get(value.number)
        if type(held) is Entries and not held.known:
            return (Entries, held.is_open)
    return value if kind is not float and kind is not bool else (kind, value)


def _holds(heap: Heap, found: FinishedCall) -> bool:
    """Return whether a call would find what an earlier one has found."""
    objects, assumed, facts = heap.objects, found.assumed, heap.facts
    return (
        all(objects.get(number) is held for number, held in found.reads)
        and _contains(facts.sizes, assumed.sizes)
        and _contains(facts.axes, assumed.axes)
        and _contains(facts.places, assumed.places)
        and _contains(facts.truths, assumed.truths)
    )


def _contains(held: dict[Any, Any], part: dict[Any, Any]) -> bool:
    for key, value in part.items():
        other = held.get(key)
        if other is not value and other != value:
            return False
    return True


def _repeated(heap: Heap, found: FinishedCall, *, is_exact: bool) -> Any:
    """Do what an earlier call has done, and return what it has returned."""
    if heap.reads is not None:
        heap.reads.update([number for number, _ in found.reads])
    heap.facts.events = (*heap.facts.events, *found.events)
    heap.facts.failed = found.failed
    for one, value in found.sizes:
        heap.learn_equal(of_atom(one), value)
    for axes, shape in found.axes:
        heap.bind_axes(axes, shape)
    return found.result if is_exact else heap.generalize(found.result, found.start)


def _finished(
    heap: Heap, result: Any, start: tuple[int, int], reads: dict[int, Any], before: Facts
) -> FinishedCall:
    after = heap.facts
    return FinishedCall(
        result,
        start,
        tuple([(number, held) for number, held in reads.items() if number < start[1]]),
        before,
        [(s, v) for s, v in after.sizes.items() if s not in before.sizes],
        [(a, v) for a, v in after.axes.items() if a not in before.axes],
        tuple(event for event in after.events if event not in before.events),
        after.failed,
    )


def _is_plain(value: Any) -> bool:
    """Return whether a value holds no object, which only one call has made."""
    if type(value) is Options:
        return all(map(_is_plain, value.values))
    if type(value) is tuple:
        return all(map(_is_plain, value))
    return not isinstance(value, (Reference, Iterator, FunctionValue, BoundFunction, PartialCall))
