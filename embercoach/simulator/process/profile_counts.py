"""The counts of a run, by line and buffer, from the runtime's counters."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from embercoach.simulator.process.profile_records import SITE
from embercoach.simulator.profile.accesses import SUMS
from embercoach.simulator.profile.counts import (
    BufferCounts,
    LaunchProfile,
    LineCounts,
    MemoryCounts,
)
from embercoach.simulator.reporting.runtime_findings import FIRST_ARRAY

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from embercoach.simulator.model import BuiltKernel, Part
    from embercoach.simulator.profile.counts import Access, Kind, Space
    from embercoach.simulator.reporting.runtime_findings import Scene

_ACCESS: dict[int, Access] = {1: "read", 2: "write", 3: "atomic"}


@dataclass(slots=True)
class _Line:
    issued: Counter[Kind] = field(default_factory=Counter)
    lanes: Counter[Kind] = field(default_factory=Counter)
    flops: int = 0
    flops_of: Counter[Kind] = field(default_factory=Counter)
    barriers: int = 0
    memory: list[MemoryCounts] = field(default_factory=list)


def profile_of(run: Mapping[str, Any], scene: Scene, request: Mapping[str, Any]) -> LaunchProfile:
    """The profile of a run, whose answer was checked, without the place of the call."""
    counted, kernel = run["profile"], scene.kernel
    lines: dict[int, _Line] = {}
    _add_blocks(counted["blocks"], kernel, lines)
    spaces = {p.index: _space(p.space) for p in kernel.parameters if p.index is not None}
    for number, memory in _memory(counted["sites"], scene, spaces):
        lines.setdefault(number, _Line()).memory.append(memory)
    grid = tuple(request["grid"])
    threadgroup = tuple(request["threadgroup"])
    return LaunchProfile(
        kernel=kernel.name,
        launched_at=None,
        grid=grid,
        threadgroup=threadgroup,
        threadgroups=_ceil_divided(grid, threadgroup),
        simdgroups=counted["simdgroups"],
        threadgroup_bytes=sum(array.size for array in scene.image.arrays),
        registers=kernel.blocks.registers if kernel.blocks else None,
        lines=tuple(_placed(kernel, lines)),
        buffers=tuple(_buffers(counted["buffers"], request["buffers"], scene, spaces)),
        source=_source(kernel),
        seconds=run["seconds"],
    )


def _add_blocks(
    counted: Sequence[Sequence[int]], kernel: BuiltKernel, lines: dict[int, _Line]
) -> None:
    known = kernel.blocks.blocks if kernel.blocks else ()
    for index, issued, lanes in counted:
        for part in known[index] if index < len(known) else ():
            line = lines.setdefault(part.line, _Line())
            for kind, count in part.instructions.items():
                line.issued[kind] += count * issued
                line.lanes[kind] += count * lanes
            line.flops += part.flops * lanes
            for kind, count in part.flops_of.items():
                line.flops_of[kind] += count * lanes
            line.barriers += part.barriers * issued


def _memory(
    sites: Sequence[Sequence[int]], scene: Scene, spaces: Mapping[int, Space]
) -> Iterator[tuple[int, MemoryCounts]]:
    blocks = scene.kernel.blocks
    vectors = {(line, part): whole for line, part, whole in (blocks.vectors if blocks else ())}
    for numbers in sites:
        site = dict(zip(SITE, numbers, strict=True))
        place = site["place"]
        line = scene.line(site["pc"]) or 0
        yield (
            line,
            MemoryCounts(
                space="threadgroup" if place >= FIRST_ARRAY else spaces.get(place, "device"),
                access=_ACCESS.get(site["access"], "atomic"),
                buffer=scene.place(place),
                width=site["width"],
                first=site["first"],
                vector=vectors.get((line, site["width"]), 0),
                **{name: max(0, site[name]) for name in SUMS},
            ),
        )


def _placed(kernel: BuiltKernel, lines: Mapping[int, _Line]) -> Iterator[LineCounts]:
    for number in sorted(lines):
        part, line = kernel.lines.place(number) if number else ("generated", 0)
        counts = lines[number]
        yield LineCounts(
            part=part,
            line=line,
            issued=dict(counts.issued),
            lanes=dict(counts.lanes),
            flops=counts.flops,
            flops_of=dict(counts.flops_of),
            barriers=counts.barriers,
            memory=tuple(counts.memory),
        )


def _buffers(
    moved: Sequence[Sequence[int]],
    asked: Sequence[Mapping[str, Any]],
    scene: Scene,
    spaces: Mapping[int, Space],
) -> Iterator[BufferCounts]:
    for buffer, (read, written, by_groups, written_by_groups) in zip(asked, moved, strict=True):
        slot = buffer["slot"]
        yield BufferCounts(
            name=scene.place(slot),
            size=buffer["size"],
            space=spaces.get(slot, "device"),
            read=read,
            written=written,
            read_by_groups=by_groups,
            written_by_groups=written_by_groups,
        )


def _source(kernel: BuiltKernel) -> dict[Part, tuple[str, ...]]:
    lines, places = kernel.source.split("\n"), kernel.lines
    begin = places.body_start - 1
    return {
        "header": tuple(lines[: places.header_lines]),
        "body": tuple(lines[begin : begin + places.body_lines]),
    }


def _ceil_divided(grid: tuple[int, ...], threadgroup: tuple[int, ...]) -> int:
    total = 1
    for threads, size in zip(grid, threadgroup, strict=True):
        total *= -(-threads // size)
    return total


def _space(space: str) -> Space:
    return "constant" if space == "constant" else "device"
