"""The time that a launch takes on a GPU, from its counts, and what would shorten it.

A roofline with more than one roof: each resource of the GPU is busy for a time, and the launch
takes as long as the busiest, or as its longest chain of dependent instructions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from msgspec.structs import replace

from embercoach.metal.execution.values import SIMD_WIDTH
from embercoach.simulator.profile.counts import (
    SECTOR,
    SUMS,
    WIDEST,
    BufferCounts,
    LaunchProfile,
    LineCounts,
    MemoryCounts,
    ceil_division,
    combined,
    least_bank_cycles,
    merged_vectors,
)

if TYPE_CHECKING:
    from embercoach.simulator.model import Part
    from embercoach.simulator.profile.gpus import Family, Gpu

    #: A line with its narrow accesses, each with the wider one that replaces it.
    _Change = tuple[LineCounts, list[tuple[MemoryCounts, MemoryCounts]]]

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
#: Bytes of the longest stretches of memory that are counted.
LINE = 128
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
    """

    groups: int
    simdgroups: int
    most: int
    limit: str


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
    """

    gpu: Gpu
    seconds: float
    busy: Mapping[Resource, float]
    bound: Resource
    lines: tuple[LinePrediction, ...]
    occupancy: Occupancy


def predict(profile: LaunchProfile, gpu: Gpu) -> Prediction:
    """Return the time of a launch on a GPU whose caches hold none of its buffers."""
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
    )


def launch_seconds(busy: Mapping[Resource, float], gpu: Gpu) -> float:
    """Return the time of a launch whose resources are busy for some seconds each."""
    sharpness = gpu.family.sharpness
    total = sum(seconds**sharpness for seconds in busy.values()) ** (1 / sharpness)
    return float(gpu.family.launch_seconds + total)


def occupancy_of(profile: LaunchProfile, gpu: Gpu) -> Occupancy:
    """Return how many threadgroups of a launch a core of a GPU holds."""
    family = gpu.family
    simdgroups = ceil_division(prod(profile.threadgroup), SIMD_WIDTH)
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
    """Return accesses of simdgroups to device memory, and the bytes of the stretches they touch."""
    found = [
        one
        for line in profile.lines
        for one in merged_vectors(line.memory)
        if one.space == "device" and one.access == access
    ]
    return sum(one.issued for one in found), sum(one.sectors for one in found) * SECTOR


def _waits(reads: int, writes: int, profile: LaunchProfile, family: Family) -> float:
    """Return the part of a read's wait that nothing hides, on average.

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
    from_cache = SECTOR * (
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
    return max(one.lines128, one.lanes * one.width / LINE)


def _atomics(one: MemoryCounts) -> float:
    """Atomics of one part of the cache, after those of a simdgroup at one address are one."""
    if one.access != "atomic":
        return 0.0
    return one.lanes * one.issued / max(1, one.contention)


#: A gain below this part of the time is not worth a change.
LEAST_GAIN = 0.1
#: Part of a change that concerns several lines, below which a line is not named.
LEAST_PART = 0.25
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
    """Get the part of the time that changed accesses save, and with them the buffers' traffic."""
    changed = changed_accesses(profile, changes, of_buffer)
    return 1 - predict(changed, gpu).seconds / predict(profile, gpu).seconds


def changed_accesses(
    profile: LaunchProfile,
    changes: Sequence[tuple[MemoryCounts, MemoryCounts]],
    of_buffer: float = 1.0,
) -> LaunchProfile:
    """Return the launch with other accesses, whose buffers move a part of their bytes."""
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
    """Return a change at a line."""
    return Advice(kind, line.part, line.line, message, gain)


def mean(count: int, issued: int) -> str:
    """Return a number for each access as text."""
    return f"{count / issued:.3g}"


def narrow_accesses(profile: LaunchProfile, gpu: Gpu) -> Iterator[Advice]:
    """Yield the lines with most of the gain, each with its narrowest access."""
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
    """Return the changes that are worth it, in the order of the lines."""
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
    """Yield the lines that conflict most; padding an array helps all of its reads and writes."""
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
