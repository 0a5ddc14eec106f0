"""Accesses as a GPU's compiler merges them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from embercoach.simulator.profile.counts import Access, MemoryCounts

#: Fields of an access that are sums.
SUMS = ("issued", "lanes", "sectors", "lines64", "lines128", "bank_cycles", "contention")
#: Bytes of a lane's widest access.
_WIDEST = 16
_SECTOR = 32
#: Bytes that 32 banks of threadgroup memory serve in a cycle.
_BANKS_BYTES = 128
#: Stretches of accesses that are not aligned, over those of aligned ones.
_SLACK = 1.1
#: Bytes of the narrowest accesses that are merged.
_NARROWEST: Mapping[Access, int] = {"read": 8, "write": 1}


def least_bank_cycles(one: MemoryCounts) -> int:
    """Cycles of accesses to threadgroup memory without conflicts."""
    return max(one.issued, -(-one.lanes * one.width // _BANKS_BYTES))


def merged_vectors(accesses: Iterable[MemoryCounts]) -> Iterator[MemoryCounts]:
    """Merge the accesses of one line that are the components of vectors or structures.

    The simulator's compiler writes a structure by components, and reads it 8 bytes at a time, with
    gaps between the lanes. So equal accesses of one line with gaps, each at the end of another, are
    taken for one of up to 16 bytes. Of narrow reads, only those of vectors are: a loop over
    elements that was unrolled has such reads too.
    """
    for found in _alike(accesses):
        first = found[0]
        together = _most_together(first)
        if together < 2 or not _has_gaps(first):
            yield from found
            continue
        yield from map(_merged, neighbours(found, together))


def _most_together(one: MemoryCounts) -> int:
    narrowest = _NARROWEST.get(one.access)
    if narrowest is None:
        return 1
    return (_WIDEST if one.width >= narrowest else one.vector) // one.width


def _alike(accesses: Iterable[MemoryCounts]) -> Iterable[list[MemoryCounts]]:
    alike: dict[tuple[object, ...], list[MemoryCounts]] = {}
    for one in accesses:
        key = (one.space, one.access, one.buffer, one.width, one.issued, one.lanes, one.sectors)
        alike.setdefault(key, []).append(one)
    return alike.values()


def neighbours(found: Iterable[MemoryCounts], most: int) -> Iterator[list[MemoryCounts]]:
    """Accesses of one width in runs of at most `most`, each of which begins where one ends."""
    run: list[MemoryCounts] = []
    for one in sorted(found, key=lambda one: one.first):
        if run and (len(run) == most or one.first != run[-1].first + one.width):
            yield run
            run = []
        run.append(one)
    yield run


def _has_gaps(one: MemoryCounts) -> bool:
    return one.lanes * one.width < one.sectors * _SECTOR


def _merged(found: Sequence[MemoryCounts]) -> MemoryCounts:
    return replace(
        found[0],
        width=sum(one.width for one in found),
        lines64=max(one.lines64 for one in found),
        lines128=max(one.lines128 for one in found),
    )


def _with_components(accesses: Iterable[MemoryCounts]) -> Iterator[MemoryCounts]:
    """Mark reads of a thread side by side, such as `x[2 * i]` and `x[2 * i + 1]`.

    Each has gaps between the lanes, which the others fill.
    """
    for found in _alike(accesses):
        first, together = found[0], _WIDEST // found[0].width
        if first.space != "device" or first.access != "read" or not _has_gaps(first):
            yield from found
            continue
        for run in neighbours(found, together):
            asked = len(run) * first.lanes * first.width
            is_dense = first.sectors * _SECTOR <= asked * _SLACK
            components = len(run) if is_dense else 1
            yield from (replace(one, components=components) for one in run)


def combined(accesses: Iterable[MemoryCounts]) -> tuple[MemoryCounts, ...]:
    """One for all instructions of a line that do the same: an unrolled loop has many."""
    sums: dict[tuple[object, ...], MemoryCounts] = {}
    for one in _with_components(merged_vectors(accesses)):
        key = (one.space, one.access, one.buffer, one.width, one.components)
        known = sums.get(key)
        total = {name: getattr(one, name) + getattr(known, name, 0) for name in SUMS}
        sums[key] = replace(one, **total)
    return tuple(sums.values())
