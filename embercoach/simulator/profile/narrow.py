"""Narrow accesses of device memory, and the time that wider ones save.

A thread that takes several elements at once does so in all lines of the launch, so the gain is that
of widening all narrow accesses together.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING

from embercoach.simulator.profile.kernel_changes import (
    LEAST_GAIN,
    LEAST_PART,
    LINE,
    SECTOR,
    SIMD_WIDTH,
    WIDEST,
    WORD,
    Advice,
    advice_at,
    ceil_division,
    changed_accesses,
)
from embercoach.simulator.profile.prediction import launch_seconds, predict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.simulator.profile.counts import LaunchProfile, LineCounts, MemoryCounts
    from embercoach.simulator.profile.gpus import Gpu

    #: A line with its narrow accesses, each with the wider one that replaces it.
    _Change = tuple[LineCounts, list[tuple[MemoryCounts, MemoryCounts]]]


def narrow_accesses(profile: LaunchProfile, gpu: Gpu) -> Iterator[Advice]:
    """The lines with most of the gain, each with its narrowest access."""
    most = _most_elements(profile)
    changes = [
        (line, [(one, _widened(one, most)) for one in line.memory if _is_narrow(one)])
        for line in profile.lines
        if line.part != "generated"
    ]
    changes = [change for change in changes if change[1]]
    gain = _gain(profile, gpu, changes)
    if gain < LEAST_GAIN:
        return
    for line, pairs in changes:
        if _gain(profile, gpu, [(line, pairs)]) < LEAST_PART * gain:
            continue
        access = min((old for old, _ in pairs), key=lambda one: (one.width, -one.issued))
        yield advice_at(
            "narrow-access",
            line,
            f"narrow {access.access} of `{access.buffer}`: {access.width} "
            f"byte{'' if access.width == 1 else 's'} a thread, of the {WIDEST} that one access can "
            "move",
            gain,
        )


def _gain(profile: LaunchProfile, gpu: Gpu, changes: Sequence[_Change]) -> float:
    if not changes:
        return 0.0
    before = predict(profile, gpu)
    fewer = _with_fewer_instructions(profile, changes)
    pairs = [pair for _, of_line in changes for pair in of_line]
    busy = predict(changed_accesses(fewer, pairs), gpu).busy
    if not _has_rows(profile):
        # A thread that does more leaves fewer threads to hide latency.
        busy = {**busy, "latency": before.busy["latency"]}
    return 1 - launch_seconds(busy, gpu) / before.seconds


def _has_rows(profile: LaunchProfile) -> bool:
    """True where each simdgroup has a row, and runs a loop along it."""
    return profile.grid[0] == SIMD_WIDTH


def _most_elements(profile: LaunchProfile) -> int:
    """Elements that a thread can take at once while whole simdgroups stay busy."""
    simdgroups = prod(profile.threadgroup) // SIMD_WIDTH
    # A loop along a row then has fewer rounds.
    return WIDEST if _has_rows(profile) or simdgroups <= 1 else simdgroups


def _is_narrow(access: MemoryCounts) -> bool:
    """True where whole simdgroups access neighbouring elements.

    A simdgroup's elements of less than a word may begin anywhere, as those of a blur do. Then they
    touch one stretch more, and a thread that computes several results can use all of a word.
    """
    if access.space != "device" or access.access == "atomic" or access.width >= WIDEST:
        return False
    stretches = access.lanes * access.width * access.components * 1.1 / SECTOR
    if access.width < WORD:
        stretches = max(stretches, access.issued * (access.width + 1))
    is_dense = access.sectors <= stretches and _is_one_run(access)
    return is_dense and access.lanes >= access.issued * SIMD_WIDTH * 0.9


def _is_one_run(access: MemoryCounts) -> bool:
    """False for the tiles of `simdgroup_load`, whose rows are far apart."""
    asked = access.lanes * access.width * access.components
    return access.lines128 <= asked / LINE + access.issued


def _widened(access: MemoryCounts, most: int) -> MemoryCounts:
    together = access.components
    wider = together * min(WIDEST // (access.width * together), most)
    return replace(
        access,
        components=1,
        sectors=access.sectors // together,
        issued=ceil_division(access.issued, wider),
        lanes=ceil_division(access.lanes, wider),
        width=access.width * wider,
        lines128=ceil_division(access.lanes * access.width, LINE),
    )


def _with_fewer_instructions(profile: LaunchProfile, changes: Sequence[_Change]) -> LaunchProfile:
    """Without the accesses that wider ones save, and the computation of an address for each."""
    news = {id(line): _shorter(line, pairs) for line, pairs in changes}
    return replace(profile, lines=tuple(news.get(id(line), line) for line in profile.lines))


def _shorter(line: LineCounts, pairs: Sequence[tuple[MemoryCounts, MemoryCounts]]) -> LineCounts:
    saved = sum(old.issued - new.issued for old, new in pairs)
    issued = dict(line.issued)
    for kind in ("memory", "integer"):
        issued[kind] = max(0, issued.get(kind, 0) - saved)
    return replace(line, issued=issued)
