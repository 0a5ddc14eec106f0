"""Checks what the process that runs kernels answers, a kernel may have written it, and counts."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from embercoach.simulator.model import CODE_OF_KIND
from embercoach.simulator.process.profile_records import SITE
from embercoach.simulator.profile.counts import (
    SUMS,
    BufferCounts,
    LaunchProfile,
    LineCounts,
    MemoryCounts,
)
from embercoach.simulator.reporting.runtime_findings import FIRST_ARRAY, REASONS

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


if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    _Check = Callable[[Any], bool]

_MOST_FINDINGS = 1024
_MOST_RUNS = 3
_MOST_TEXT = 96
_MOST_VALUE = 4096
_MOST_SITES = 1 << 14
_MOST_BLOCKS = 1 << 20


class MalformedError(Exception):
    """A message that no unharmed child sends."""


def _number(least: int, most: int) -> _Check:
    return lambda value: type(value) is int and least <= value <= most


def _numbers(count: int, each: _Check) -> _Check:
    return lambda value: type(value) is list and len(value) == count and all(map(each, value))


def _is_hex(value: Any) -> bool:
    digits = isinstance(value, str) and len(value) <= _MOST_VALUE and len(value) % 2 == 0
    return digits and set(value) <= set("0123456789abcdef")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_TEXT


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_duration(value: Any) -> bool:
    return type(value) is float and math.isfinite(value) and value >= 0


_NATURAL = _number(0, 2**64 - 1)
_SIGNED = _number(-(2**63), 2**63 - 1)
_POSITION = _numbers(3, _number(0, 2**32 - 1))
_FINDING: Mapping[str, _Check] = {
    **dict.fromkeys(("pc", "other_pc", "barrier_pc", "address", "size", "count"), _NATURAL),
    **dict.fromkeys(("access", "other_access", "has_thread", "has_other"), _NATURAL),
    **dict.fromkeys(("line", "column", "value_size"), _NATURAL),
    **dict.fromkeys(("thread", "threadgroup", "other_thread", "other_threadgroup"), _POSITION),
    "kind": _number(0, len(CODE_OF_KIND) - 1),
    "reason": _number(0, len(REASONS) - 1),
    "offset": _SIGNED,
    "detail": _numbers(2, _SIGNED),
    "text": _is_text,
    "value": _is_hex,
    "other_value": _is_hex,
}
_DIFFERENCE: Mapping[str, _Check] = {
    **dict.fromkeys(("first_different", "first_unwritten", "rounded", "pc"), _NATURAL),
    "before": _is_hex,
    "now": _is_hex,
}
_RUN: Mapping[str, _Check] = {
    "seconds": _is_duration,
    "accesses": _NATURAL,
    "ended": _is_flag,
    "cut": _NATURAL,
}
_KINDS: Mapping[str, Mapping[str, _Check]] = {
    "running": {},
    "refusal": {"why": lambda value: isinstance(value, str)},
    "line": {"pc": _NATURAL},
    "result": {"lockstep": _is_flag},
}

AnswerKind = Literal["running", "refusal", "line", "result"]


def check(message: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    """Check a message about a request.

    Raises:
        MalformedError: the message lacks a field, or one is not of its type or range.
    """
    kind = message.get("is")
    if not isinstance(kind, str) or kind not in _KINDS:
        raise MalformedError(f"a message of kind {kind!r:.40}")
    _check_fields(message, _KINDS[kind])
    if kind == "result":
        _check_result(message, request)


def _check_result(message: Mapping[str, Any], request: Mapping[str, Any]) -> None:
    count = len(request["buffers"])
    arrays = len(request["arrays"])
    slots = {buffer["slot"] for buffer in request["buffers"] if "result" in buffer}
    traffic = _numbers(count, _numbers(2, _NATURAL))
    place = _number(-1, FIRST_ARRAY + arrays - 1)
    runs = _list(message, "runs", _MOST_RUNS)
    if not runs:
        raise MalformedError("a result without runs")
    if request["profiled"]:
        _check_profile(runs[0].get("profile"), count, place)
    for run in runs:
        _check_fields(run, {**_RUN, "traffic": traffic})
        for finding in _list(run, "findings", _MOST_FINDINGS):
            _check_fields(finding, {**_FINDING, "place": place})
    for difference in _list(message, "differences", count):
        _check_difference(difference, slots)
        if "by_pattern" in difference:
            _check_difference(difference["by_pattern"], slots)


def _check_profile(profile: Any, buffers: int, place: _Check) -> None:
    moved = _numbers(buffers, _numbers(4, _NATURAL))
    _check_fields(profile, {"simdgroups": _NATURAL, "buffers": moved})
    for site in _list(profile, "sites", _MOST_SITES):
        if not (_numbers(len(SITE), _SIGNED)(site) and place(site[1]) and site[1] >= 0):
            raise MalformedError("a malformed site of a profile")
    for block in _list(profile, "blocks", _MOST_BLOCKS):
        if not _numbers(3, _NATURAL)(block):
            raise MalformedError("a malformed block of a profile")


def _check_difference(difference: Any, slots: Collection[int]) -> None:
    common = {"slot": slots.__contains__, "different": _NATURAL, "unwritten": _NATURAL}
    _check_fields(difference, common)
    if difference["different"] or difference["unwritten"]:
        _check_fields(difference, _DIFFERENCE)


def _list(message: Mapping[str, Any], name: str, most: int) -> list[Any]:
    value = message.get(name)
    if not isinstance(value, list) or len(value) > most:
        raise MalformedError(f"{name!r} must be a list of at most {most}")
    return value


def _check_fields(record: Any, fields: Mapping[str, _Check]) -> None:
    if not isinstance(record, dict):
        raise MalformedError("a record that is not an object")
    for name, holds in fields.items():
        if name not in record or not holds(record[name]):
            raise MalformedError(f"{name!r} is missing or malformed")
