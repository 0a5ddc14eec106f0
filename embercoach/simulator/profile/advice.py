"""Changes that would make a kernel faster, each with its predicted gain."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.execution.values import SIMD_WIDTH
from embercoach.simulator.profile.counts import SUMS, combined, least_bank_cycles
from embercoach.simulator.profile.prediction import launch_seconds, occupancy_of, predict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.simulator.model import Part
    from embercoach.simulator.profile.counts import (
        BufferCounts,
        LaunchProfile,
        LineCounts,
        MemoryCounts,
    )
    from embercoach.simulator.profile.gpus import Gpu
    from embercoach.simulator.profile.prediction import Occupancy

#: A gain below this part of the time is not worth a change.
LEAST_GAIN = 0.1
#: Part of a change that concerns several lines, below which a line is not named.
LEAST_PART = 0.25
#: Bytes of the stretches of memory that are counted.
SECTOR, LINE = 32, 128
#: Bytes that a thread's access can move.
WIDEST = 16
#: Bytes of a register, and of a bank of threadgroup memory.
WORD = 4
_FULL = 64  # threadgroups for each core


class Advice(Struct, frozen=True):
    """A change that the counts suggest.

    Attributes:
        kind: a key of ``CODE_OF_COST``.
        part: the text that `line` counts in.
        line: from 1; None for the launch as a whole.
        message: the cost, with its numbers.
        gain: part of the time of a launch that fills the GPU; None where it was not predicted.
    """

    kind: str
    part: Part
    line: int | None
    message: str
    gain: float | None


def filled(profile: LaunchProfile, gpu: Gpu) -> LaunchProfile:
    """The launch with as many equal threadgroups as fill a GPU; accesses of a line are combined."""
    factor = max(1, -(-_FULL * gpu.cores // max(1, profile.threadgroups)))
    return replace(
        profile,
        threadgroups=profile.threadgroups * factor,
        simdgroups=profile.simdgroups * factor,
        lines=tuple(_times(line, factor) for line in profile.lines),
        buffers=tuple(_times_buffer(buffer, factor) for buffer in profile.buffers),
    )


def _times(line: LineCounts, factor: int) -> LineCounts:
    return replace(
        line,
        issued={kind: count * factor for kind, count in line.issued.items()},
        lanes={kind: count * factor for kind, count in line.lanes.items()},
        flops=line.flops * factor,
        barriers=line.barriers * factor,
        memory=tuple(_times_memory(memory, factor) for memory in combined(line.memory)),
    )


def _times_memory(memory: MemoryCounts, factor: float) -> MemoryCounts:
    return replace(memory, **{name: round(getattr(memory, name) * factor) for name in SUMS})


def _times_buffer(buffer: BufferCounts, factor: float) -> BufferCounts:
    names = ("read", "written", "read_by_groups", "written_by_groups")
    return replace(buffer, **{name: round(getattr(buffer, name) * factor) for name in names})


def gain_of(
    profile: LaunchProfile,
    gpu: Gpu,
    changes: Sequence[tuple[MemoryCounts, MemoryCounts]],
    *,
    of_buffer: float = 1.0,
) -> float:
    """The part of the time that changed accesses save, and with them the buffers' traffic."""
    changed = changed_accesses(profile, changes, of_buffer)
    return 1 - predict(changed, gpu).seconds / predict(profile, gpu).seconds


def changed_accesses(
    profile: LaunchProfile,
    changes: Sequence[tuple[MemoryCounts, MemoryCounts]],
    of_buffer: float = 1.0,
) -> LaunchProfile:
    """The launch with other accesses, whose buffers move a part of their bytes."""
    names = {old.buffer for old, _ in changes}
    news = {id(old): new for old, new in changes}
    return replace(
        profile,
        lines=tuple(
            replace(line, memory=tuple(news.get(id(one), one) for one in line.memory))
            for line in profile.lines
        ),
        buffers=tuple(
            _times_buffer(buffer, of_buffer) if buffer.name in names else buffer
            for buffer in profile.buffers
        ),
    )


def advice_at(kind: str, line: LineCounts, message: str, gain: float | None) -> Advice:
    """A change at a line."""
    return Advice(kind, line.part, line.line, message, gain)


def ceil_division(count: int, size: int) -> int:
    """Return the quotient, rounded up."""
    return -(-count // size)


def mean(count: int, issued: int) -> str:
    """Return a number for each access as text."""
    return f"{count / issued:.3g}"


if TYPE_CHECKING:
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
