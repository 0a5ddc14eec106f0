"""Changes that would make a kernel faster, each with its predicted gain."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from embercoach.simulator.profile.accesses import least_bank_cycles
from embercoach.simulator.profile.kernel_changes import (
    LEAST_GAIN,
    LEAST_PART,
    LINE,
    SECTOR,
    WIDEST,
    Advice,
    advice_at,
    ceil_division,
    filled,
    gain_of,
    mean,
)
from embercoach.simulator.profile.narrow import narrow_accesses
from embercoach.simulator.profile.prediction import occupancy_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.simulator.profile.counts import LaunchProfile, LineCounts, MemoryCounts
    from embercoach.simulator.profile.gpus import Gpu
    from embercoach.simulator.profile.prediction import Occupancy

_PARTS = ("header", "body", "generated")
#: Barriers of a simdgroup, and instructions between two, that make them frequent.
_MANY_BARRIERS, _FEW_INSTRUCTIONS = 16, 32
#: Part of a core's simdgroups below which too few are left to hide latency.
_LOW_OCCUPANCY = 0.25


def advise(profile: LaunchProfile, gpu: Gpu) -> tuple[Advice, ...]:
    """The changes that are worth it, in the order of the lines."""
    full = filled(profile, gpu)
    found = [
        advice
        for line in full.lines
        if line.part != "generated"
        for advice in _uncoalesced(full, line, gpu)
    ]
    found += [*narrow_accesses(full, gpu), *_bank_conflicts(full, gpu)]
    found.sort(key=lambda advice: (_PARTS.index(advice.part), advice.line or 0))
    return (*found, *_barriers(profile), *_occupancy(profile, gpu))


def _uncoalesced(profile: LaunchProfile, line: LineCounts, gpu: Gpu) -> Iterator[Advice]:
    for access in line.memory:
        if access.space != "device" or access.access == "atomic" or not access.issued:
            continue
        needed = ceil_division(access.lanes * access.width, SECTOR)
        needed = max(needed, access.issued)
        if access.sectors < 2 * needed or access.components > 1 or _is_half_of_a_run(access):
            continue
        kept = needed / access.sectors
        better = replace(
            access,
            sectors=needed,
            lines64=max(access.issued, round(access.lines64 * kept)),
            lines128=max(access.issued, round(access.lines128 * kept)),
        )
        moved = _moved(profile, access)
        asked = access.lanes * access.width
        gain = gain_of(
            profile, gpu, [(access, better)], of_buffer=min(1.0, asked / moved) if moved else 1
        )
        if gain >= LEAST_GAIN:
            now, then = mean(access.sectors, access.issued), mean(needed, access.issued)
            yield advice_at(
                "uncoalesced-access",
                line,
                f"uncoalesced {access.access} of `{access.buffer}`: a simdgroup touches {now} "
                f"stretches of 32 bytes, where {then} would do",
                gain,
            )


def _is_half_of_a_run(access: MemoryCounts) -> bool:
    """True where each lane accesses 32 neighbouring bytes, by two of the widest accesses."""
    asked = access.lanes * access.width
    return access.width >= WIDEST and access.lines128 * LINE <= 2 * asked


def _moved(profile: LaunchProfile, access: MemoryCounts) -> int:
    for buffer in profile.buffers:
        if buffer.name == access.buffer:
            return buffer.written if access.access == "write" else buffer.read
    return 0


def _bank_conflicts(profile: LaunchProfile, gpu: Gpu) -> Iterator[Advice]:
    """The lines that conflict most; padding an array helps all of its reads and writes."""
    found = [
        (line, one, replace(one, bank_cycles=least_bank_cycles(one)))
        for line in profile.lines
        if line.part != "generated"
        for one in line.memory
        if one.space == "threadgroup" and one.access != "atomic" and one.issued
        if one.bank_cycles >= 2 * least_bank_cycles(one)
    ]
    for name in dict.fromkeys(old.buffer for _, old, _ in found):
        of_array = [each for each in found if each[1].buffer == name]
        gain = gain_of(profile, gpu, [(old, new) for _, old, new in of_array])
        if gain < LEAST_GAIN:
            continue
        excess = sum(old.bank_cycles - new.bank_cycles for _, old, new in of_array)
        lines = {(line.part, line.line): line for line, _, _ in of_array}
        for line in lines.values():
            pairs = [(old, new) for at, old, new in of_array if at is line]
            own = sum(old.bank_cycles - new.bank_cycles for old, new in pairs)
            if own < LEAST_PART * excess:
                continue
            access, better = max(pairs, key=lambda pair: pair[0].bank_cycles)
            now = mean(access.bank_cycles, access.issued)
            then = mean(better.bank_cycles, access.issued)
            yield advice_at(
                "bank-conflict",
                line,
                f"bank conflicts: a simdgroup's {access.access} of `{access.buffer}` takes {now} "
                f"cycles, where {then} would do",
                gain,
            )


def _barriers(profile: LaunchProfile) -> Iterator[Advice]:
    total = sum(line.barriers for line in profile.lines)
    if not profile.simdgroups or profile.threadgroups == profile.simdgroups:
        return
    each = total / profile.simdgroups
    instructions = sum(sum(line.issued.values()) for line in profile.lines)
    between = instructions / total if total else 0
    if each < _MANY_BARRIERS or between >= _FEW_INSTRUCTIONS:
        return
    line = max(profile.lines, key=lambda one: one.barriers)
    yield advice_at(
        "frequent-barriers",
        line,
        f"{each:,.0f} barriers for each simdgroup, {between:.0f} instructions apart",
        None,
    )


def _occupancy(profile: LaunchProfile, gpu: Gpu) -> Iterator[Advice]:
    occupancy: Occupancy = occupancy_of(profile, gpu)
    if occupancy.limit != "threadgroup memory":
        return
    if occupancy.simdgroups >= _LOW_OCCUPANCY * occupancy.most:
        return
    yield Advice(
        "low-occupancy",
        "body",
        None,
        f"{profile.threadgroup_bytes:,} bytes of threadgroup memory leave {occupancy.simdgroups} "
        f"of {occupancy.most} simdgroups on a core",
        None,
    )
