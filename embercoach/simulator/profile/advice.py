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
    from collections.abc import Iterator

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
_BANK_BYTES = 4
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
    old: MemoryCounts,
    new: MemoryCounts,
    *,
    of_buffer: float = 1.0,
) -> float:
    """The part of the time that a changed access saves, and with it a buffer's traffic."""
    changed = replace(
        profile,
        lines=tuple(
            replace(line, memory=tuple(new if one is old else one for one in line.memory))
            for line in profile.lines
        ),
        buffers=tuple(
            _times_buffer(buffer, of_buffer) if buffer.name == old.buffer else buffer
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
        if access.sectors < 2 * needed:
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
            profile, gpu, access, better, of_buffer=min(1.0, asked / moved) if moved else 1
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


def _moved(profile: LaunchProfile, access: MemoryCounts) -> int:
    for buffer in profile.buffers:
        if buffer.name == access.buffer:
            return buffer.written if access.access == "write" else buffer.read
    return 0


def _narrow(profile: LaunchProfile, line: LineCounts, gpu: Gpu) -> Iterator[Advice]:
    if predict(profile, gpu).bound not in ("load-store", "issue"):
        return
    for access in line.memory:
        if access.space != "device" or access.access == "atomic" or access.width >= _WIDEST:
            continue
        bytes_asked = access.lanes * access.width
        is_dense = _SECTOR * access.sectors <= bytes_asked * 1.1
        if not is_dense or access.lanes < access.issued * _SIMD_WIDTH * 0.9:
            continue
        wider = _WIDEST // access.width
        better = replace(
            access,
            issued=_ceil(access.issued, wider),
            lanes=_ceil(access.lanes, wider),
            width=_WIDEST,
            lines128=_ceil(bytes_asked, _LINE),
        )
        fewer = _with_fewer_instructions(profile, line, access, wider)
        gain = _gain(fewer, gpu, access, better)
        before = predict(profile, gpu).seconds
        gain = 1 - (1 - gain) * predict(fewer, gpu).seconds / before
        if gain >= LEAST_GAIN:
            yield _advice(
                "narrow-access",
                line,
                f"narrow {access.access} of `{access.buffer}`: {access.width} bytes a thread, of "
                f"the {_WIDEST} that one access can move",
                gain,
            )


def _with_fewer_instructions(
    profile: LaunchProfile, line: LineCounts, access: MemoryCounts, wider: int
) -> LaunchProfile:
    saved = access.issued - _ceil(access.issued, wider)
    issued = dict(line.issued)
    issued["memory"] = max(0, issued.get("memory", 0) - saved)
    changed = replace(line, issued=issued)
    return replace(profile, lines=tuple(changed if one is line else one for one in profile.lines))


def _bank_conflicts(profile: LaunchProfile, line: LineCounts, gpu: Gpu) -> Iterator[Advice]:
    for access in line.memory:
        if access.space != "threadgroup" or access.access == "atomic" or not access.issued:
            continue
        least = max(access.issued, _ceil(access.lanes * access.width, _SIMD_WIDTH * _BANK_BYTES))
        if access.bank_cycles < 2 * least:
            continue
        gain = _gain(profile, gpu, access, replace(access, bank_cycles=least))
        if gain >= LEAST_GAIN:
            now, then = _mean(access.bank_cycles, access.issued), _mean(least, access.issued)
            yield _advice(
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
