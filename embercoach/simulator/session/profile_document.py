"""The profiles of a program as plain data: the form that reports print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from embercoach.simulator.profile.prediction import RESOURCES, predict

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.simulator.profile.counts import LaunchProfile, LineCounts
    from embercoach.simulator.profile.gpus import Gpu
    from embercoach.simulator.profile.prediction import LinePrediction

_SECTOR = 32
_SIMD_WIDTH = 32


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
    return {
        "kernel": profile.kernel,
        "launched_at": place and {"path": place[0], "line": place[1]},
        "launches": launches,
        "grid": list(profile.grid),
        "threadgroup": list(profile.threadgroup),
        "simdgroups": profile.simdgroups,
        "threadgroup_bytes": profile.threadgroup_bytes,
        "registers": profile.registers,
        "device_bytes": sum(buffer.read + buffer.written for buffer in device),
        "flops": sum(line.flops for line in profile.lines),
        "gpu": gpu.name,
        "gpu_bandwidth": gpu.bandwidth,
        "gpu_flops": gpu.flops,
        "predicted_seconds": predicted.seconds,
        "bound": predicted.bound,
        "busy_seconds": dict(predicted.busy),
        "occupancy": {
            "simdgroups": occupancy.simdgroups,
            "most": occupancy.most,
            "limit": occupancy.limit,
        },
        "source": {part: list(lines) for part, lines in profile.source.items()},
        "lines": [_line(line, profile) for line in predicted.lines],
    }


def _line(line: LinePrediction, profile: LaunchProfile) -> dict[str, Any]:
    counts = line.counts
    device = [memory for memory in counts.memory if memory.space == "device"]
    shared = [memory for memory in counts.memory if memory.space == "threadgroup"]
    return {
        "part": counts.part,
        "line": counts.line,
        "text": _text(counts, profile),
        "share": round(line.share, 4),
        "instructions": dict(counts.issued),
        "active_lanes": _active(counts),
        "flops": counts.flops,
        "barriers": counts.barriers,
        "device_bytes_requested": sum(memory.lanes * memory.width for memory in device),
        "device_bytes_moved": sum(memory.sectors * _SECTOR for memory in device),
        "threadgroup_bytes_requested": sum(memory.lanes * memory.width for memory in shared),
        "threadgroup_cycles": sum(memory.bank_cycles for memory in shared),
        "atomics": sum(memory.lanes for memory in counts.memory if memory.access == "atomic"),
        "atomics_in_turn": sum(memory.contention for memory in counts.memory),
    }


def _active(counts: LineCounts) -> float | None:
    issued = sum(counts.issued.values())
    return round(sum(counts.lanes.values()) / issued, 2) if issued else None


def _text(counts: LineCounts, profile: LaunchProfile) -> str:
    lines = profile.source.get(counts.part, ())
    return lines[counts.line - 1].strip() if 0 < counts.line <= len(lines) else ""
