"""The time that a launch takes on a GPU, from its counts and the GPU's published figures.

A roofline with more than one roof: each resource of the GPU is busy for a time, and the launch
takes as long as the busiest, or as its longest chain of dependent instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from embercoach.metal.execution.values import SIMD_WIDTH
from embercoach.simulator.profile.counts import merged_vectors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embercoach.simulator.profile.counts import LaunchProfile, LineCounts, MemoryCounts
    from embercoach.simulator.profile.gpus import Family, Gpu

Resource = Literal[
    "memory", "cache", "load-store", "threadgroup", "issue", "latency", "atomics", "starts"
]
#: Names in messages.
RESOURCES: Mapping[Resource, str] = {
    "memory": "memory bandwidth",
    "cache": "cache bandwidth",
    "load-store": "loads and stores",
    "threadgroup": "threadgroup memory",
    "issue": "instructions",
    "latency": "latency",
    "atomics": "atomics",
    "starts": "starts of threadgroups",
}
_SECTOR = 32
_LINE = 128
#: Of a core, each of which issues one instruction a cycle.
_SCHEDULERS = 4
#: Consecutive bytes in one part of the cache.
_PART_BYTES = 4096
#: Of the clock where none is published: that of M2, the newest that was measured.
_CLOCK = 1.398e9


class Occupancy(Struct, frozen=True):
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


class LinePrediction(Struct, frozen=True):
    """A line's part of the time.

    Attributes:
        counts: of the line.
        busy: seconds of each resource.
        share: of the resource that bounds the launch, from 0 to 1.
    """

    counts: LineCounts
    busy: Mapping[Resource, float]
    share: float


class Prediction(Struct, frozen=True):
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
    share = _Share.of(profile, gpu, occupancy)
    lines = [_line_busy(line, share, gpu) for line in profile.lines]
    busy = {name: sum(line[name] for line in lines) for name in RESOURCES}
    busy["memory"] = _device_bytes(profile) / (gpu.bandwidth * gpu.family.reached)
    busy["starts"] = profile.threadgroups * share.cycle * gpu.family.start_cycles
    bound = max(busy, key=lambda name: busy[name])
    weight = "cache" if bound == "memory" else "issue" if bound == "starts" else bound
    whole = sum(line[weight] for line in lines) or 1.0
    parts = [
        LinePrediction(counts, line, line[weight] / whole)
        for counts, line in zip(profile.lines, lines, strict=True)
    ]
    parts.sort(key=lambda part: -part.share)
    return Prediction(
        gpu=gpu,
        seconds=launch_seconds(busy, gpu),
        busy=busy,
        bound=bound,
        lines=tuple(parts),
        occupancy=occupancy,
        is_clock_known=gpu.clock is not None,
    )


def launch_seconds(busy: Mapping[Resource, float], gpu: Gpu) -> float:
    """The time of a launch whose resources are busy for some seconds each."""
    sharpness = gpu.family.sharpness
    total = sum(seconds**sharpness for seconds in busy.values()) ** (1 / sharpness)
    return float(gpu.family.launch_seconds + total)


def occupancy_of(profile: LaunchProfile, gpu: Gpu) -> Occupancy:
    """How many threadgroups of a launch a core of a GPU holds."""
    family = gpu.family
    threads = 1
    for extent in profile.threadgroup:
        threads *= extent
    simdgroups = -(-threads // SIMD_WIDTH)
    limits = {
        "threads": family.threads // (simdgroups * SIMD_WIDTH),
        "groups": family.groups,
    }
    if profile.threadgroup_bytes:
        limits["threadgroup memory"] = family.threadgroup_bytes // profile.threadgroup_bytes
    if profile.registers:
        taken = profile.registers * simdgroups * SIMD_WIDTH
        limits["registers"] = family.registers // taken
    limit = min(limits, key=lambda name: limits[name])
    groups = max(1, limits[limit])
    return Occupancy(
        groups=groups,
        simdgroups=groups * simdgroups,
        most=family.threads // SIMD_WIDTH,
        limit=limit,
        waves=-(-profile.threadgroups // (groups * gpu.cores)),
    )


def _device_bytes(profile: LaunchProfile) -> int:
    return sum(b.read + b.written for b in profile.buffers if b.space == "device")


class _Share(Struct, frozen=True):
    """Factors that all lines of a launch share.

    Attributes:
        cycle: seconds of the whole GPU for one cycle of a core, as the busiest core has them.
        issue: likewise, where a core has fewer simdgroups than schedulers.
        chain: seconds for one cycle of every simdgroup's chain of instructions.
        reuse: part of the reads that a core's own cache does not serve.
        read_wait: cycles that each read of device memory adds to the chain.
        write: bytes that a write moves, in parts of the stretches of 32 bytes that it touches.
        sizes: of buffers, by name.
    """

    cycle: float
    issue: float
    chain: float
    reuse: float
    read_wait: float
    write: float
    sizes: Mapping[str, int]

    def parts(self, one: MemoryCounts, gpu: Gpu) -> float:
        """Parts of the cache that a buffer is in."""
        parts = -(-self.sizes.get(one.buffer, 0) // _PART_BYTES)
        return max(1.0, min(parts, gpu.family.atomic_parts))

    @classmethod
    def of(cls, profile: LaunchProfile, gpu: Gpu, occupancy: Occupancy) -> _Share:
        family, clock = gpu.family, gpu.clock or _CLOCK
        groups = max(1, profile.threadgroups)
        of_core = -(-groups // gpu.cores)
        cycle = of_core / groups / clock
        in_group = occupancy.simdgroups / occupancy.groups
        at_once = in_group * min(occupancy.groups, of_core)
        rounds = max(1.0, groups / (occupancy.groups * gpu.cores))
        device = [b for b in profile.buffers if b.space == "device"]
        reads = _asked(profile, "read")
        by_groups = sum(b.read_by_groups for b in device)
        reuse = _part(by_groups, reads[1])
        missed = _part(sum(b.read for b in device), by_groups)
        wait = family.core_wait + reuse * (
            family.cache_wait - family.core_wait + missed * (family.device_wait - family.cache_wait)
        )
        writes, written = _asked(profile, "write")
        filled = _part(sum(b.written_by_groups for b in device), written)
        return cls(
            cycle=cycle,
            issue=cycle * max(1.0, _SCHEDULERS / at_once),
            chain=rounds / max(1, profile.simdgroups) / clock,
            reuse=reuse,
            read_wait=wait * _waits(reads[0], writes, profile, family),
            write=filled + (1 - filled) * family.partial_write,
            sizes={buffer.name: buffer.size for buffer in profile.buffers},
        )


def _asked(profile: LaunchProfile, access: str) -> tuple[int, int]:
    """Accesses of simdgroups to device memory, and the bytes of the stretches they touch."""
    found = [
        one
        for line in profile.lines
        for one in merged_vectors(line.memory)
        if one.space == "device" and one.access == access
    ]
    return sum(one.issued for one in found), sum(one.sectors for one in found) * _SECTOR


def _waits(reads: int, writes: int, profile: LaunchProfile, family: Family) -> float:
    """The part of a read's wait that nothing hides, on average.

    Reads are under way together, but those after a write or a barrier wait for it, as both may be
    of the same memory. A simdgroup waits for the first one in any case.
    """
    simdgroups = max(1, profile.simdgroups)
    barriers = sum(line.barriers for line in profile.lines)
    each = reads / simdgroups
    alone = min(each, max(1.0, family.ordered * (writes + barriers) / simdgroups))
    return (alone + (each - alone) / family.requests) / each if each else 0.0


def _part(some: float, whole: float) -> float:
    return min(1.0, some / whole) if whole else 1.0


def _line_busy(line: LineCounts, share: _Share, gpu: Gpu) -> dict[Resource, float]:
    family = gpu.family
    memory = list(merged_vectors(line.memory))
    device = [one for one in memory if one.space == "device"]
    local = [one for one in memory if one.space == "threadgroup"]
    reads = [one for one in device if one.access == "read"]
    writes = [one for one in device if one.access == "write"]
    from_cache = _SECTOR * (
        share.reuse * sum(one.sectors for one in reads)
        + share.write * sum(one.sectors for one in writes)
    )
    requests = share.reuse * family.read_cycles * sum(map(_lines, reads))
    requests += family.write_cycles * sum(map(_lines, writes))
    chain = sum(family.latency[kind] * count for kind, count in line.issued.items())
    chain += line.barriers * family.barrier_wait
    chain += sum(one.issued for one in local) * family.threadgroup_wait
    chain += sum(one.issued for one in reads) * share.read_wait
    return {
        "memory": 0.0,
        "cache": max(
            from_cache / (gpu.cache_bandwidth or 2 * gpu.bandwidth),
            requests * share.cycle,
        ),
        "load-store": sum(map(_lines, device)) * family.line_cycles * share.cycle,
        "threadgroup": sum(one.bank_cycles for one in local) * share.cycle,
        "issue": share.issue * sum(family.cycles[k] * n for k, n in line.issued.items()),
        "latency": chain * share.chain,
        "atomics": family.atomic_seconds
        * sum(_atomics(one) / share.parts(one, gpu) for one in device),
        "starts": 0.0,
    }


def _lines(one: MemoryCounts) -> float:
    """Stretches of 128 bytes that accesses touch, at least those that their bytes fill."""
    return max(one.lines128, one.lanes * one.width / _LINE)


def _atomics(one: MemoryCounts) -> float:
    """Atomics of one part of the cache, after those of a simdgroup at one address are one."""
    if one.access != "atomic":
        return 0.0
    return one.lanes * one.issued / max(1, one.contention)
