"""Counts of a launch's work by line of the kernel, accesses merged as a GPU's compiler does."""

from __future__ import annotations

from collections import Counter
from collections.abc import (
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from math import prod
from typing import TYPE_CHECKING, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from embercoach.simulator.answers import (
    FIRST_ARRAY,
    AskedBuffer,
    ProfileAnswer,
    Request,
    SiteAnswer,
)

if TYPE_CHECKING:
    from embercoach.simulator.model import BuiltKernel, Part
    from embercoach.simulator.reporting.runtime_findings import Scene

#: Fields of an access that are sums.
SUMS = ("issued", "lanes", "sectors", "lines64", "lines128", "bank_cycles", "contention")
#: Bytes of a lane's widest access.
WIDEST = 16
#: Bytes of a stretch of memory that is read or written as a whole.
SECTOR = 32
#: Bytes that 32 banks of threadgroup memory serve in a cycle.
_BANKS_BYTES = 128
#: Stretches of accesses that are not aligned, over those of aligned ones.
_SLACK = 1.1
#: Bytes of the narrowest accesses that are merged.
_NARROWEST: Mapping[Access, int] = {"read": 8, "write": 1}


def ceil_division(count: int, size: int) -> int:
    """Return the quotient, rounded up."""
    return -(-count // size)


def least_bank_cycles(one: MemoryCounts) -> int:
    """Cycles of accesses to threadgroup memory without conflicts."""
    return max(one.issued, ceil_division(one.lanes * one.width, _BANKS_BYTES))


def merged_vectors(accesses: Iterable[MemoryCounts]) -> Iterator[MemoryCounts]:
    """Merge the accesses of one line that are the components of vectors or structures.

    The simulator's compiler writes a structure by components, and reads it 8 bytes at a time, with
    gaps between the lanes. So equal accesses of one line with gaps, each at the end of another, are
    taken for one of up to 16 bytes. Of narrow reads, only those of vectors are: a loop over
    elements that was unrolled has such reads too.
    """
    for found in _alike(accesses):
        first = found[0]
        together = _most_together(first)
        if together < 2 or not _has_gaps(first):
            yield from found
            continue
        yield from map(_merged, neighbours(found, together))


def _most_together(one: MemoryCounts) -> int:
    narrowest = _NARROWEST.get(one.access)
    if narrowest is None:
        return 1
    return (WIDEST if one.width >= narrowest else one.vector) // one.width


def _alike(accesses: Iterable[MemoryCounts]) -> Iterable[list[MemoryCounts]]:
    alike: dict[tuple[object, ...], list[MemoryCounts]] = {}
    for one in accesses:
        key = (one.space, one.access, one.buffer, one.width, one.issued, one.lanes, one.sectors)
        alike.setdefault(key, []).append(one)
    return alike.values()


def neighbours(found: Iterable[MemoryCounts], most: int) -> Iterator[list[MemoryCounts]]:
    """Accesses of one width in runs of at most `most`, each of which begins where one ends."""
    run: list[MemoryCounts] = []
    for one in sorted(found, key=lambda one: one.first):
        if run and (len(run) == most or one.first != run[-1].first + one.width):
            yield run
            run = []
        run.append(one)
    yield run


def _has_gaps(one: MemoryCounts) -> bool:
    return one.lanes * one.width < one.sectors * SECTOR


def _merged(found: Sequence[MemoryCounts]) -> MemoryCounts:
    return replace(
        found[0],
        width=sum(one.width for one in found),
        lines64=max(one.lines64 for one in found),
        lines128=max(one.lines128 for one in found),
    )


def _with_components(accesses: Iterable[MemoryCounts]) -> Iterator[MemoryCounts]:
    """Mark reads of a thread side by side, such as `x[2 * i]` and `x[2 * i + 1]`.

    Each has gaps between the lanes, which the others fill.
    """
    for found in _alike(accesses):
        first, together = found[0], WIDEST // found[0].width
        if first.space != "device" or first.access != "read" or not _has_gaps(first):
            yield from found
            continue
        for run in neighbours(found, together):
            asked = len(run) * first.lanes * first.width
            is_dense = first.sectors * SECTOR <= asked * _SLACK
            components = len(run) if is_dense else 1
            yield from (replace(one, components=components) for one in run)


def combined(accesses: Iterable[MemoryCounts]) -> tuple[MemoryCounts, ...]:
    """Return one for all instructions of a line that do the same: an unrolled loop has many."""
    sums: dict[tuple[object, ...], MemoryCounts] = {}
    for one in _with_components(merged_vectors(accesses)):
        key = (one.space, one.access, one.buffer, one.width, one.components)
        known = sums.get(key)
        total = {name: getattr(one, name) + getattr(known, name, 0) for name in SUMS}
        sums[key] = replace(one, **total)
    return tuple(sums.values())


Space = Literal["device", "constant", "threadgroup"]
Access = Literal["read", "write", "atomic"]

#: Kinds of instruction. `float16` and `float32` count additions, multiplications, comparisons and
#: the like (a fused multiply-add is one), `special` square roots, exponentials and the like,
#: `division` of floats, `convert` between dtypes, `matrix` multiply-accumulates of 8x8 matrices,
#: `shuffle` exchanges between lanes, `integer64` what GPUs do in several steps, `division_integer`
#: integer division and remainder, `control` branches, `memory` loads and stores of any space.
Kind = Literal[
    "float32",
    "float16",
    "special",
    "division",
    "convert",
    "matrix",
    "shuffle",
    "integer",
    "integer64",
    "division_integer",
    "control",
    "memory",
]


class BlockLine(Struct, frozen=True):
    """The instructions of one line in a block that is executed as a whole.

    Attributes:
        line: of the generated source, 0 if unknown.
        instructions: by kind; a vector instruction counts once a component.
        flops: of a thread; of matrix operations, its part.
        barriers: threadgroup barriers.
        flops_of: the same by kind.
    """

    line: int
    instructions: Mapping[Kind, int]
    flops: int = 0
    barriers: int = 0
    flops_of: Mapping[Kind, int] = field(default_factory=dict)


class KernelBlocks(Struct, frozen=True):
    """The instructions of a compiled kernel.

    Attributes:
        blocks: each block's lines, in the order of the runtime's counters.
        registers: estimate of 32-bit registers that a thread needs at once; None if unknown.
        vectors: reads of parts of vectors: line, bytes of a part, and of its vector.
    """

    blocks: tuple[tuple[BlockLine, ...], ...]
    registers: int | None
    vectors: tuple[tuple[int, int, int], ...] = ()


class MemoryCounts(Struct, frozen=True):
    """Accesses of one line to one buffer or threadgroup array, of one kind and width.

    Attributes:
        space: where the memory is.
        access: what was done.
        buffer: the name of the buffer or threadgroup array.
        width: bytes of a lane's access.
        issued: accesses by simdgroups, with at least one active lane.
        lanes: accesses by threads.
        sectors: aligned stretches of 32 bytes that the accesses of simdgroups touched, each counted
            once for each access of a simdgroup; 0 for threadgroup memory.
        lines64: likewise stretches of 64 bytes.
        lines128: likewise stretches of 128 bytes.
        bank_cycles: cycles that threadgroup memory with 32 banks of 4 bytes needs: `issued` without
            conflicts and widths above 4 bytes; 0 for other spaces.
        contention: of atomics, the most lanes of a simdgroup at one address, summed over `issued`.
        first: bytes from the buffer's start to the first access.
        vector: bytes of the vector that the kernel reads, of which clang made this access.
        components: accesses of a thread side by side, which one of a vector would replace.
    """

    space: Space
    access: Access
    buffer: str
    width: int
    issued: int
    lanes: int
    sectors: int = 0
    lines64: int = 0
    lines128: int = 0
    bank_cycles: int = 0
    contention: int = 0
    first: int = 0
    vector: int = 0
    components: int = 1


class LineCounts(Struct, frozen=True):
    """Work of one line.

    Attributes:
        part: the text that `line` counts in.
        line: from 1.
        issued: instructions of simdgroups, by kind. A vector instruction counts once a component.
        lanes: the same instructions, by threads: at most 32 times `issued`.
        flops: operations on floats by threads; a fused multiply-add is two, an 8x8 multiply-
            accumulate 1,024 a simdgroup.
        barriers: arrivals of simdgroups at threadgroup barriers.
        memory: accesses.
        flops_of: operations on floats by kind of instruction.
    """

    part: Part
    line: int
    issued: Mapping[Kind, int]
    lanes: Mapping[Kind, int]
    flops: int = 0
    barriers: int = 0
    memory: tuple[MemoryCounts, ...] = ()
    flops_of: Mapping[Kind, int] = field(default_factory=dict)


class BufferCounts(Struct, frozen=True):
    """The bytes of one buffer that a launch moved.

    Attributes:
        name: of the parameter.
        size: bytes.
        space: where it is.
        read: bytes that were read at least once, in whole stretches of 32.
        written: likewise.
        read_by_groups: the sum over threadgroups of the bytes that each read at least once.
        written_by_groups: likewise.
    """

    name: str
    size: int
    space: Space
    read: int
    written: int
    read_by_groups: int
    written_by_groups: int


class LaunchProfile(Struct, frozen=True):
    """Counts of one launch.

    Attributes:
        kernel: its name.
        launched_at: file and line of the Python call, None if unknown.
        grid: threads.
        threadgroup: threads of one, as given.
        threadgroups: how many ran.
        simdgroups: how many ran, of all threadgroups.
        threadgroup_bytes: threadgroup memory of one threadgroup.
        registers: estimate of 32-bit registers that a thread needs at once; None if unknown.
        lines: in the order of header, body, generated text.
        buffers: device memory.
        source: lines of the header and of the body, by part.
        seconds: of the simulation.
    """

    kernel: str
    launched_at: tuple[str, int] | None
    grid: tuple[int, int, int]
    threadgroup: tuple[int, int, int]
    threadgroups: int
    simdgroups: int
    threadgroup_bytes: int
    registers: int | None
    lines: tuple[LineCounts, ...]
    buffers: tuple[BufferCounts, ...]
    source: Mapping[Part, tuple[str, ...]] = field(default_factory=dict)
    seconds: float = 0.0

    def text(self, part: Part, line: int | None) -> str:
        """Return a line of a part, stripped; "" where there is none."""
        lines = self.source.get(part, ())
        return lines[line - 1].strip() if line and line <= len(lines) else ""


_ACCESS: Mapping[int, Access] = {1: "read", 2: "write", 3: "atomic"}


class _Line(Struct):
    issued: Counter[Kind] = field(default_factory=Counter)
    lanes: Counter[Kind] = field(default_factory=Counter)
    flops: int = 0
    flops_of: Counter[Kind] = field(default_factory=Counter)
    barriers: int = 0
    memory: list[MemoryCounts] = field(default_factory=list)


def profile_of(
    counted: ProfileAnswer, seconds: float, scene: Scene, request: Request
) -> LaunchProfile:
    """Return the profile of a run that took some seconds, without the place of the call."""
    kernel = scene.kernel
    lines: dict[int, _Line] = {}
    _add_blocks(counted.blocks, kernel, lines)
    spaces = {p.index: _space(p.space) for p in kernel.parameters if p.index is not None}
    for number, memory in _memory(counted.sites, scene, spaces):
        lines.setdefault(number, _Line()).memory.append(memory)
    return LaunchProfile(
        kernel=kernel.name,
        launched_at=None,
        grid=request.grid,
        threadgroup=request.threadgroup,
        threadgroups=prod(map(ceil_division, request.grid, request.threadgroup)),
        simdgroups=counted.simdgroups,
        threadgroup_bytes=sum(array.size for array in scene.image.arrays),
        registers=kernel.blocks.registers if kernel.blocks else None,
        lines=tuple(_placed(kernel, lines)),
        buffers=tuple(_buffers(counted.buffers, request.buffers, scene, spaces)),
        source=_source(kernel),
        seconds=seconds,
    )


def _add_blocks(
    counted: Iterable[tuple[int, int, int]], kernel: BuiltKernel, lines: dict[int, _Line]
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
    sites: Iterable[SiteAnswer], scene: Scene, spaces: Mapping[int, Space]
) -> Iterator[tuple[int, MemoryCounts]]:
    blocks = scene.kernel.blocks
    vectors = {(line, part): whole for line, part, whole in (blocks.vectors if blocks else ())}
    for site in sites:
        place, line = site.place, scene.line(site.pc) or 0
        yield (
            line,
            MemoryCounts(
                space="threadgroup" if place >= FIRST_ARRAY else spaces.get(place, "device"),
                access=_ACCESS.get(site.access, "atomic"),
                buffer=scene.place(place),
                width=site.width,
                first=site.first,
                vector=vectors.get((line, site.width), 0),
                **{name: getattr(site, name) for name in SUMS},
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
    moved: Iterable[tuple[int, int, int, int]],
    asked: Iterable[AskedBuffer],
    scene: Scene,
    spaces: Mapping[int, Space],
) -> Iterator[BufferCounts]:
    for buffer, (read, written, by_groups, written_by_groups) in zip(asked, moved, strict=True):
        yield BufferCounts(
            name=scene.place(buffer.slot),
            size=buffer.size,
            space=spaces.get(buffer.slot, "device"),
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


def _space(space: str) -> Space:
    return "constant" if space == "constant" else "device"
