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
#: Bytes of the narrowest accesses that are merged.
_NARROWEST: Mapping[Access, int] = {"read": 8, "write": 1}


def merged_vectors(accesses: Iterable[MemoryCounts]) -> Iterator[MemoryCounts]:
    """Merge the accesses of one line that are the components of vectors or structures.

    The simulator's compiler writes a structure by components, and reads it 8 bytes at a time, with
    gaps between the lanes. So equal accesses of one line with gaps are taken for one of up to 16
    bytes. Narrow reads are not: a loop over elements that was unrolled has such reads too.
    """
    alike: dict[tuple[object, ...], list[MemoryCounts]] = {}
    for one in accesses:
        key = (one.space, one.access, one.buffer, one.width, one.issued, one.lanes, one.sectors)
        alike.setdefault(key, []).append(one)
    for found in alike.values():
        first = found[0]
        together = _WIDEST // first.width
        narrowest = _NARROWEST.get(first.access)
        if narrowest is None or together < 2 or first.width < narrowest or not _has_gaps(first):
            yield from found
            continue
        for begin in range(0, len(found), together):
            yield _merged(found[begin : begin + together])


def _has_gaps(one: MemoryCounts) -> bool:
    return one.lanes * one.width < one.sectors * _SECTOR


def _merged(found: Sequence[MemoryCounts]) -> MemoryCounts:
    return replace(
        found[0],
        width=sum(one.width for one in found),
        lines64=max(one.lines64 for one in found),
        lines128=max(one.lines128 for one in found),
    )


def combined(accesses: Iterable[MemoryCounts]) -> tuple[MemoryCounts, ...]:
    """One for all instructions of a line that do the same: an unrolled loop has many."""
    sums: dict[tuple[object, ...], MemoryCounts] = {}
    for one in merged_vectors(accesses):
        key = (one.space, one.access, one.buffer, one.width)
        known = sums.get(key)
        total = {name: getattr(one, name) + getattr(known, name, 0) for name in SUMS}
        sums[key] = replace(one, **total)
    return tuple(sums.values())
