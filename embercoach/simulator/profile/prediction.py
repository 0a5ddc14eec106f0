"""The time that a launch takes on a GPU, from its counts and the GPU's published figures.

A roofline with more than one roof: each resource of the GPU is busy for a time, and the launch
takes as long as the busiest, or as its longest chain of dependent instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from embercoach.simulator.profile.counts import LaunchProfile, LineCounts, MemoryCounts
    from embercoach.simulator.profile.gpus import Gpu

Resource = Literal["memory", "cache", "load-store", "issue", "latency", "atomics"]
#: Names in messages.
RESOURCES: Mapping[Resource, str] = {
    "memory": "memory bandwidth",
    "cache": "cache bandwidth",
    "load-store": "loads and stores",
    "issue": "instructions",
    "latency": "latency",
    "atomics": "atomics",
}
_SIMD_WIDTH = 32
_SECTOR = 32
#: Of the clock where none is published: that of M2, the newest that was measured.
_CLOCK = 1.398e9
#: How sharply the busiest resource hides the others: at most 1.2 times the busiest of two.
_SHARPNESS = 4.0


@dataclass(frozen=True, slots=True)
class Occupancy:
    """How many threadgroups a core holds at once.

    Attributes:
        groups: of threadgroups.
        simdgroups: in all of them.
        most: simdgroups that a core can hold.
        limit: what keeps it from more: `threads`, `groups`, `registers` or `threadgroup memory`.
        waves: how often the GPU is filled for the whole launch.
    """

    groups: int
    simdgroups: int
    most: int
    limit: str
    waves: int


@dataclass(frozen=True, slots=True)
class LinePrediction:
    """A line's part of the time.

    Attributes:
        counts: of the line.
        busy: seconds of each resource.
        share: of the resource that bounds the launch, from 0 to 1.
    """

    counts: LineCounts
    busy: Mapping[Resource, float]
    share: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted time of a launch.

    Attributes:
        gpu: on which it would run.
        seconds: of the launch, with the GPU's own part.
        busy: seconds that each resource alone would take.
        bound: the resource that takes longest.
        lines: parts of it, the largest first.
        occupancy: of a core.
        is_clock_known: whether the GPU's clock is published.
    """

    gpu: Gpu
    seconds: float
    busy: Mapping[Resource, float]
    bound: Resource
    lines: tuple[LinePrediction, ...]
    occupancy: Occupancy
    is_clock_known: bool


def predict(profile: LaunchProfile, gpu: Gpu) -> Prediction:
    """The time of a launch on a GPU whose caches hold none of its buffers."""
    occupancy = occupancy_of(profile, gpu)
    lines = [_line_busy(line, profile, gpu, occupancy) for line in profile.lines]
    busy = {name: sum(line[name] for line in lines) for name in RESOURCES}
    busy["memory"] = _device_bytes(profile) / (gpu.bandwidth * gpu.family.reached)
    bound = max(busy, key=lambda name: busy[name])
    total = sum(seconds**_SHARPNESS for seconds in busy.values()) ** (1 / _SHARPNESS)
    weight = "cache" if bound == "memory" else bound
    whole = sum(line[weight] for line in lines) or 1.0
    parts = [
        LinePrediction(counts, line, line[weight] / whole)
        for counts, line in zip(profile.lines, lines, strict=True)
    ]
    parts.sort(key=lambda part: -part.share)
    return Prediction(
        gpu=gpu,
        seconds=gpu.family.launch_seconds + total,
        busy=busy,
        bound=bound,
        lines=tuple(parts),
        occupancy=occupancy,
        is_clock_known=gpu.clock is not None,
    )


def occupancy_of(profile: LaunchProfile, gpu: Gpu) -> Occupancy:
    """How many threadgroups of a launch a core of a GPU holds."""
    family = gpu.family
    threads = 1
    for extent in profile.threadgroup:
        threads *= extent
    simdgroups = -(-threads // _SIMD_WIDTH)
    limits = {
        "threads": family.threads // (simdgroups * _SIMD_WIDTH),
        "groups": family.groups,
    }
    if profile.threadgroup_bytes:
        limits["threadgroup memory"] = family.threadgroup_bytes // profile.threadgroup_bytes
    if profile.registers:
        taken = profile.registers * simdgroups * _SIMD_WIDTH
        limits["registers"] = family.registers // taken
    limit = min(limits, key=lambda name: limits[name])
    groups = max(1, limits[limit])
    return Occupancy(
        groups=groups,
        simdgroups=groups * simdgroups,
        most=family.threads // _SIMD_WIDTH,
        limit=limit,
        waves=-(-profile.threadgroups // (groups * gpu.cores)),
    )


def _device_bytes(profile: LaunchProfile) -> int:
    return sum(b.read + b.written for b in profile.buffers if b.space == "device")


def _line_busy(
    line: LineCounts, profile: LaunchProfile, gpu: Gpu, occupancy: Occupancy
) -> dict[Resource, float]:
    family, clock = gpu.family, gpu.clock or _CLOCK
    cores = min(gpu.cores, max(1, profile.threadgroups))
    device = [one for one in line.memory if one.space == "device"]
    moved = sum(one.sectors for one in device) * _SECTOR
    issue = sum(family.cycles[kind] * count for kind, count in line.issued.items())
    requests = sum(one.lines128 * family.line_cycles for one in device)
    requests += sum(one.bank_cycles for one in line.memory)
    # The chain of one simdgroup, as often as the GPU is filled.
    rounds = occupancy.waves / max(1, profile.simdgroups)
    chain = sum(family.latency[kind] * count for kind, count in line.issued.items()) / clock
    chain += line.barriers * family.latency["memory"] / clock
    reads = sum(one.issued for one in device if one.access != "write")
    chain += reads * family.device_latency / family.requests
    return {
        "memory": 0.0,
        "cache": _reuse(profile) * moved / (gpu.cache_bandwidth or 2 * gpu.bandwidth),
        "load-store": requests / (cores * clock),
        "issue": issue / (cores * clock),
        "latency": chain * rounds,
        "atomics": sum(_contention(one) for one in device) * family.atomic_seconds,
    }


def _contention(counts: MemoryCounts) -> int:
    return counts.contention if counts.access == "atomic" else 0


def _reuse(profile: LaunchProfile) -> float:
    """The part of what simdgroups ask for that a core's own cache does not have already."""
    asked = sum(
        one.sectors * _SECTOR
        for line in profile.lines
        for one in line.memory
        if one.space == "device"
    )
    first = sum(
        b.read_by_groups + b.written_by_groups for b in profile.buffers if b.space == "device"
    )
    return min(1.0, first / asked) if asked else 0.0


def gain(profile: LaunchProfile, gpu: Gpu, change: Callable[[LineCounts], LineCounts]) -> float:
    """The part of the predicted time that a change of the lines would save, from 0 to 1."""
    before = predict(profile, gpu).seconds
    changed = replace(profile, lines=tuple(map(change, profile.lines)))
    return max(0.0, 1 - predict(changed, gpu).seconds / before)
