"""The profiles of a program as plain data: the form that reports print."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from embercoach.simulator.profile.accesses import least_bank_cycles, merged_vectors
from embercoach.simulator.profile.prediction import RESOURCES, predict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from embercoach.simulator.profile.counts import Kind, LaunchProfile, LineCounts
    from embercoach.simulator.profile.gpus import Gpu
    from embercoach.simulator.profile.prediction import LinePrediction


def documents(profiles: Iterable[LaunchProfile], gpu: Gpu) -> tuple[dict[str, Any], ...]:
    """One for each kernel, call and geometry: the first launch's counts, and their number."""
    first: dict[tuple[object, ...], LaunchProfile] = {}
    launches: dict[tuple[object, ...], int] = {}
    for profile in profiles:
        key = (
            *(profile.kernel, profile.launched_at, profile.grid, profile.threadgroup),
            tuple(profile.source.items()),
        )
        first.setdefault(key, profile)
        launches[key] = launches.get(key, 0) + 1
    return tuple(_document(profile, launches[key], gpu) for key, profile in first.items())


def predictions(profiles: Iterable[LaunchProfile], gpu: Gpu) -> Iterator[str]:
    """A line for each kernel, call and geometry."""
    for one in documents(profiles, gpu):
        place = one["launched_at"]
        called = f" at {place['path']}:{place['line']}" if place else ""
        yield (
            f"kernel {one['kernel']!r}{called}: {one['predicted_seconds'] * 1e6:.1f} us predicted, "
            f"bound by {RESOURCES[one['bound']]}"
        )


def _document(profile: LaunchProfile, launches: int, gpu: Gpu) -> dict[str, Any]:
    predicted = predict(profile, gpu)
    place, occupancy = profile.launched_at, predicted.occupancy
    device = [buffer for buffer in profile.buffers if buffer.space == "device"]
    first = next((one for one in predicted.lines if one.share), None)
    return {
        "kernel": profile.kernel,
        "launched_at": place and {"path": place[0], "line": place[1]},
        "launches": launches,
        "grid": list(profile.grid),
        "threadgroup": list(profile.threadgroup),
        "threadgroups": profile.threadgroups,
        "simdgroups": profile.simdgroups,
        "threadgroup_bytes": profile.threadgroup_bytes,
        "registers": profile.registers,
        "device_bytes": sum(buffer.read + buffer.written for buffer in device),
        "gpu": gpu.name,
        "gpu_bandwidth": gpu.bandwidth,
        "gpu_flops": gpu.flops,
        "gpu_sources": list(dict.fromkeys((gpu.source, gpu.family.source))),
        "predicted_seconds": predicted.seconds,
        "bound": predicted.bound,
        "bound_at": first and {"part": first.counts.part, "line": first.counts.line},
        "busy_seconds": dict(predicted.busy),
        "occupancy": {
            "simdgroups": occupancy.simdgroups,
            "most": occupancy.most,
            "limit": occupancy.limit,
        },
        **_work(profile.lines),
        "source": {part: list(lines) for part, lines in profile.source.items()},
        "lines": [_line(line, profile) for line in predicted.lines],
    }


def _line(line: LinePrediction, profile: LaunchProfile) -> dict[str, Any]:
    counts = line.counts
    return {
        "part": counts.part,
        "line": counts.line,
        "text": _text(counts, profile),
        "share": round(line.share, 4),
        **_work([counts]),
    }


def _work(lines: Sequence[LineCounts]) -> dict[str, Any]:
    """The counts of a line, or of all lines of a launch."""
    memory = [one for line in lines for one in merged_vectors(line.memory)]
    device = [one for one in memory if one.space == "device"]
    shared = [one for one in memory if one.space == "threadgroup"]
    atomics = [one for one in memory if one.access == "atomic"]
    cycles = sum(one.bank_cycles for one in shared)
    return {
        "instructions": _summed(line.issued for line in lines),
        "active_lanes": _active(lines),
        "flops": sum(line.flops for line in lines),
        "flops_by_kind": _summed(line.flops_of for line in lines),
        "barriers": sum(line.barriers for line in lines),
        "device_bytes_requested": sum(one.lanes * one.width for one in device),
        "device_bytes_moved": sum(one.sectors for one in device) * 32,
        "device_bytes_moved_by_64": sum(one.lines64 for one in device) * 64,
        "device_bytes_moved_by_128": sum(one.lines128 for one in device) * 128,
        "threadgroup_bytes_requested": sum(one.lanes * one.width for one in shared),
        "threadgroup_cycles": cycles,
        "bank_conflict_cycles": cycles
        - sum(min(one.bank_cycles, least_bank_cycles(one)) for one in shared),
        "atomics": sum(one.lanes for one in atomics),
        "atomics_in_turn": sum(one.contention for one in atomics),
    }


def _summed(counts: Iterable[Mapping[Kind, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)


def _active(lines: Sequence[LineCounts]) -> float | None:
    issued = sum(sum(line.issued.values()) for line in lines)
    return round(sum(sum(line.lanes.values()) for line in lines) / issued, 2) if issued else None


def _text(counts: LineCounts, profile: LaunchProfile) -> str:
    lines = profile.source.get(counts.part, ())
    return lines[counts.line - 1].strip() if 0 < counts.line <= len(lines) else ""
