"""Changes that would make a kernel faster, each with its predicted gain.

A simulated launch is small, and a small one waits for the GPU whatever its lines do. So the gain is
that of a launch that fills the GPU, with the same work for each threadgroup.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from embercoach.simulator.profile.accesses import SUMS, combined
from embercoach.simulator.profile.prediction import occupancy_of, predict

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
_FULL = 64  # threadgroups for each core
_SIMD_WIDTH = 32
_SECTOR, _LINE = 32, 128
_WIDEST = 16  # bytes that a thread's access can move
_WORD = 4  # bytes of a register, and of a bank of threadgroup memory
#: Barriers of a simdgroup, and instructions between two, that make them frequent.
_MANY_BARRIERS, _FEW_INSTRUCTIONS = 16, 32
#: Part of a core's simdgroups below which too few are left to hide latency.
_LOW_OCCUPANCY = 0.25


@dataclass(frozen=True, slots=True)
class Advice:
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


def advise(profile: LaunchProfile, gpu: Gpu) -> tuple[Advice, ...]:
    """The changes that are worth it, in the order of the lines."""
    full = filled(profile, gpu)
    found = [
        advice
        for line in full.lines
        if line.part != "generated"
        for rule in (_uncoalesced, _narrow, _bank_conflicts)
        for advice in rule(full, line, gpu)
    ]
    return (*found, *_barriers(profile), *_occupancy(profile, gpu))


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


def _gain(
    profile: LaunchProfile,
    gpu: Gpu,
    changes: Sequence[tuple[MemoryCounts, MemoryCounts]],
    *,
    of_buffer: float = 1.0,
) -> float:
    """The part of the time that changed accesses save, and with them the buffers' traffic."""
    names = {old.buffer for old, _ in changes}
    news = {id(old): new for old, new in changes}
    changed = replace(
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
    return 1 - predict(changed, gpu).seconds / predict(profile, gpu).seconds


def _uncoalesced(profile: LaunchProfile, line: LineCounts, gpu: Gpu) -> Iterator[Advice]:
    for access in line.memory:
        if access.space != "device" or access.access == "atomic" or not access.issued:
            continue
        needed = _ceil(access.lanes * access.width, _SECTOR)
        needed = max(needed, access.issued)
        if access.sectors < 2 * needed or _is_half_of_a_run(access):
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
        gain = _gain(
            profile, gpu, [(access, better)], of_buffer=min(1.0, asked / moved) if moved else 1
        )
        if gain >= LEAST_GAIN:
            now, then = _mean(access.sectors, access.issued), _mean(needed, access.issued)
            yield _advice(
                "uncoalesced-access",
                line,
                f"uncoalesced {access.access} of `{access.buffer}`: a simdgroup touches {now} "
                f"stretches of 32 bytes, where {then} would do",
                gain,
            )


def _is_half_of_a_run(access: MemoryCounts) -> bool:
    """True where each lane accesses 32 neighbouring bytes, by two of the widest accesses."""
    asked = access.lanes * access.width
    return access.width >= _WIDEST and access.lines128 * _LINE <= 2 * asked


def _moved(profile: LaunchProfile, access: MemoryCounts) -> int:
    for buffer in profile.buffers:
        if buffer.name == access.buffer:
            return buffer.written if access.access == "write" else buffer.read
    return 0


def _narrow(profile: LaunchProfile, line: LineCounts, gpu: Gpu) -> Iterator[Advice]:
    """The narrowest access of a line; the gain is that of widening all of the line's."""
    before = predict(profile, gpu)
    changes = [(one, _widened(one)) for one in line.memory if _is_narrow(one)]
    if before.bound not in ("load-store", "issue") or not changes:
        return
    fewer = _with_fewer_instructions(profile, line, changes)
    gain = 1 - (1 - _gain(fewer, gpu, changes)) * predict(fewer, gpu).seconds / before.seconds
    if gain >= LEAST_GAIN:
        access = min((old for old, _ in changes), key=lambda one: (one.width, -one.issued))
        yield _advice(
            "narrow-access",
            line,
            f"narrow {access.access} of `{access.buffer}`: {access.width} bytes a thread, of "
            f"the {_WIDEST} that one access can move",
            gain,
        )


def _is_narrow(access: MemoryCounts) -> bool:
    """True where whole simdgroups access neighbouring elements.

    A simdgroup's elements of less than a word may begin anywhere, as those of a blur do. Then they
    touch one stretch more, and a thread that computes several results can use all of a word.
    """
    if access.space != "device" or access.access == "atomic" or access.width >= _WIDEST:
        return False
    stretches = access.lanes * access.width * 1.1 / _SECTOR
    if access.width < _WORD:
        stretches = max(stretches, access.issued * (access.width + 1))
    is_dense = access.sectors <= stretches
    return is_dense and access.lanes >= access.issued * _SIMD_WIDTH * 0.9


def _widened(access: MemoryCounts) -> MemoryCounts:
    wider = _WIDEST // access.width
    return replace(
        access,
        issued=_ceil(access.issued, wider),
        lanes=_ceil(access.lanes, wider),
        width=_WIDEST,
        lines128=_ceil(access.lanes * access.width, _LINE),
    )


def _with_fewer_instructions(
    profile: LaunchProfile, line: LineCounts, changes: Sequence[tuple[MemoryCounts, MemoryCounts]]
) -> LaunchProfile:
    saved = sum(old.issued - new.issued for old, new in changes)
    issued = dict(line.issued)
    issued["memory"] = max(0, issued.get("memory", 0) - saved)
    changed = replace(line, issued=issued)
    return replace(profile, lines=tuple(changed if one is line else one for one in profile.lines))


def _bank_conflicts(profile: LaunchProfile, line: LineCounts, gpu: Gpu) -> Iterator[Advice]:
    """The accesses of a line that conflict; padding an array helps its reads and its writes."""
    found = [one for one in line.memory if one.space == "threadgroup" and one.access != "atomic"]
    changes = [
        (one, replace(one, bank_cycles=_least_cycles(one)))
        for one in found
        if one.issued and one.bank_cycles >= 2 * _least_cycles(one)
    ]
    for name in dict.fromkeys(old.buffer for old, _ in changes):
        of_array = [(old, new) for old, new in changes if old.buffer == name]
        gain = _gain(profile, gpu, of_array)
        if gain >= LEAST_GAIN:
            access, better = max(of_array, key=lambda pair: pair[0].bank_cycles)
            now = _mean(access.bank_cycles, access.issued)
            then = _mean(better.bank_cycles, access.issued)
            yield _advice(
                "bank-conflict",
                line,
                f"bank conflicts: a simdgroup's {access.access} of `{access.buffer}` takes {now} "
                f"cycles, where {then} would do",
                gain,
            )


def _least_cycles(access: MemoryCounts) -> int:
    return max(access.issued, _ceil(access.lanes * access.width, _SIMD_WIDTH * _WORD))


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
    yield _advice(
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


def _advice(kind: str, line: LineCounts, message: str, gain: float | None) -> Advice:
    return Advice(kind, line.part, line.line, message, gain)


def _ceil(count: int, size: int) -> int:
    return -(-count // size)


def _mean(count: int, issued: int) -> str:
    return f"{count / issued:.3g}"
