"""Changes of a launch's accesses, and the time that they save.

A simulated launch is small, and a small one waits for the GPU whatever its lines do. So the gain is
that of a launch that fills the GPU, with the same work for each threadgroup.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from embercoach.simulator.profile.accesses import SUMS, combined
from embercoach.simulator.profile.prediction import predict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from embercoach.simulator.model import Part
    from embercoach.simulator.profile.counts import (
        BufferCounts,
        LaunchProfile,
        LineCounts,
        MemoryCounts,
    )
    from embercoach.simulator.profile.gpus import Gpu

#: A gain below this part of the time is not worth a change.
LEAST_GAIN = 0.1
#: Part of a change that concerns several lines, below which a line is not named.
LEAST_PART = 0.25
SIMD_WIDTH = 32
#: Bytes of the stretches of memory that are counted.
SECTOR, LINE = 32, 128
#: Bytes that a thread's access can move.
WIDEST = 16
#: Bytes of a register, and of a bank of threadgroup memory.
WORD = 4
_FULL = 64  # threadgroups for each core


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
