"""Profiles of ``embercoach simulate --profile``: in words, and as a page with a roofline."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import dedent
from typing import Any

from msgspec import Struct

from embercoach.fixes.source_file import LineIndex
from embercoach.report.html.rendering import render_page, shade
from embercoach.report.html.sources import colored, tokens
from embercoach.report.text import percent, size_of

#: Kinds of operations on floats, as texts name them.
_FLOPS = {
    "float32": "float32",
    "float16": "half and bfloat",
    "division": "of divisions",
    "special": "of special functions",
    "matrix": "of matrices",
}


def profile_facts(profile: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield names and values of a launch's counts; those of what it does not use are left out."""
    if profile["device_bytes_requested"]:
        yield "device memory", _device(profile)
    if profile["threadgroup_bytes"]:
        yield "threadgroup memory", _threadgroup(profile)
    if operations := _operations(profile):
        yield "operations", operations
    if profile["active_lanes"] is not None:
        yield "active lanes", f"{profile['active_lanes']:.3g} of 32, on average"
    if waits := _waits(profile):
        yield "synchronization", waits
    yield "occupancy", _occupancy(profile)
    if profile["flops"] and profile["device_bytes"]:
        yield "roofline", _roofline(profile)


def _device(profile: Mapping[str, Any]) -> str:
    moved = [profile[f"device_bytes_moved{by}"] for by in ("", "_by_64", "_by_128")]
    by_32, by_64, by_128 = map(size_of, moved)
    return (
        f"{size_of(profile['device_bytes'])} in use, {size_of(profile['device_bytes_requested'])} "
        f"requested, {by_32} moved by stretches of 32 bytes, {by_64} by 64, {by_128} by 128"
    )


def _threadgroup(profile: Mapping[str, Any]) -> str:
    requested = size_of(profile["threadgroup_bytes_requested"])
    cycles, conflicts = profile["threadgroup_cycles"], profile["bank_conflict_cycles"]
    return (
        f"{size_of(profile['threadgroup_bytes'])} a threadgroup, {requested} requested in "
        f"{cycles:,} cycles, {conflicts:,} of them by bank conflicts"
    )


def _operations(profile: Mapping[str, Any]) -> str:
    kinds, issued = profile["flops_by_kind"], profile["instructions"]
    found = [f"{kinds[kind]:,} {name}" for kind, name in _FLOPS.items() if kinds.get(kind)]
    facts = [f"{profile['flops']:,} on floats ({', '.join(found)})"] if found else []
    instructions = [
        f"{issued[kind]:,} {name}"
        for kind, name in (("matrix", "matrix"), ("special", "special"))
        if issued.get(kind)
    ]
    return ", ".join([*facts, *(f"{one} instructions" for one in instructions)])


def _waits(profile: Mapping[str, Any]) -> str:
    facts = []
    if profile["barriers"]:
        facts.append(f"{profile['barriers']:,} barriers of simdgroups")
    if profile["atomics"]:
        facts.append(f"{profile['atomics']:,} atomics, {profile['atomics_in_turn']:,} in turn")
    return ", ".join(facts)


def _occupancy(profile: Mapping[str, Any]) -> str:
    occupancy, registers = profile["occupancy"], profile["registers"]
    held = f"{occupancy['simdgroups']} of {occupancy['most']} simdgroups a core"
    estimate = f", about {registers} registers by clang's estimate" if registers else ""
    return f"{held}, limited by {occupancy['limit']}{estimate}"


def _roofline(profile: Mapping[str, Any]) -> str:
    intensity = profile["flops"] / profile["device_bytes"]
    roof = min(intensity * profile["gpu_bandwidth"], profile["gpu_flops"] or math.inf)
    speed = profile["flops"] / profile["predicted_seconds"]
    return (
        f"{intensity:.3g} operations for each byte, {speed / 1e9:,.1f} GFLOP/s of the "
        f"{roof / 1e9:,.1f} that the GPU can reach there"
    )


def gpu_facts(profile: Mapping[str, Any]) -> str:
    """Return the figures of the GPU that predictions use, and their sources."""
    figures = [f"{profile['gpu_bandwidth'] / 1e9:,.0f} GB/s"]
    if profile["gpu_flops"]:
        figures.append(f"{profile['gpu_flops'] / 1e12:,.1f} TFLOP/s")
    return f"{profile['gpu']}: {', '.join(figures)}; from {', '.join(profile['gpu_sources'])}"


def place_of(profile: Mapping[str, Any]) -> str:
    """Return the line that sets the bound, empty where none does."""
    place = profile["bound_at"]
    if place is None:
        return ""
    if not place["line"]:
        return "generated code"
    own, number = f"{place['part']} line {place['line']}", file_line(profile, place)
    if number is None:
        return own
    return f"{profile['source_at'][place['part']]['path']}:{number} ({own})"


def file_line(profile: Mapping[str, Any], line: Mapping[str, Any]) -> int | None:
    """Return the line of the file that holds a line of the source, None if it is not known."""
    first = profile["source_at"].get(line["part"])
    number: int | None = first and first["line"] + line["line"] - 1
    return number


def line_cell(profile: Mapping[str, Any], line: Mapping[str, Any]) -> str:
    """Return a line's number in the file, if it is known, and in its part of the source."""
    own = f"{line['part']} {line['line'] or ''}".rstrip()
    number = file_line(profile, line)
    return own if number is None else f"{number} ({own})"


#: The plot, in pixels: its size, and its margins at the left, top, right and bottom.
WIDTH, HEIGHT = 720, 360
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 16, 16, 48


class Point(Struct, frozen=True):
    """A kernel in the plot: its number, name and place, and the roof above it."""

    number: int
    name: str
    x: float
    y: float
    intensity: float
    speed: float


class Tick(Struct, frozen=True):
    """A power of ten at an axis."""

    at: float
    label: str


class Roofline(Struct, frozen=True):
    """The plot: operations a second over operations for each byte, both logarithmic.

    Attributes:
        points: kernels with operations on floats and bytes of device memory.
        roof: of the GPU, as points of a polyline.
        x_ticks, y_ticks: of the axes.
    """

    points: tuple[Point, ...]
    roof: str
    x_ticks: tuple[Tick, ...]
    y_ticks: tuple[Tick, ...]


def render_profiles(
    profiles: Sequence[Mapping[str, Any]],
    findings: Sequence[Mapping[str, Any]],
    *,
    program: str,
    resources: Mapping[Any, str],
    shown: Callable[[str], str],
) -> str:
    """Return the page of some profiles, whose form is that of ``simulation.schema.json``.

    Args:
        profiles: of one GPU.
        findings: of the simulator, notes among them, each shown with its kernel.
        program: how the program is named.
        resources: names of what bounds a launch.
        shown: from a path to the text that a page may show.
    """
    return render_page(
        "profile.html",
        styles=("report", "profile"),
        filters={
            "shown": shown,
            "source_name": _source_name,
            "percent": percent,
            "size": size_of,
        },
        program=program,
        profiles=profiles,
        findings=findings,
        rows=[source_rows(profile) for profile in profiles],
        columns=[shown_columns(profile) for profile in profiles],
        facts=[list(profile_facts(profile)) for profile in profiles],
        places=[place_of(profile) for profile in profiles],
        plot=roofline(profiles),
        resources=resources,
        width=WIDTH,
        height=HEIGHT,
    )


def roofline(profiles: Sequence[Mapping[str, Any]]) -> Roofline | None:
    """Return the plot of kernels, None where none has both operations and bytes."""
    drawn = [
        (number, profile)
        for number, profile in enumerate(profiles, start=1)
        if profile["flops"] and profile["device_bytes"]
    ]
    if not drawn:
        return None
    bandwidth, peak = drawn[0][1]["gpu_bandwidth"], drawn[0][1]["gpu_flops"]
    intensities = [profile["flops"] / profile["device_bytes"] for _, profile in drawn]
    speeds = [profile["flops"] / profile["predicted_seconds"] for _, profile in drawn]
    corners = [peak / bandwidth] if peak else []
    left, right = _decades([*intensities, *corners])
    top_speed = min(peak or math.inf, bandwidth * 10**right)
    bottom, top = _decades([*speeds, top_speed])

    def x(value: float) -> float:
        part = (math.log10(value) - left) / (right - left)
        return round(_LEFT + part * (WIDTH - _LEFT - _RIGHT), 1)

    def y(value: float) -> float:
        part = (math.log10(value) - bottom) / (top - bottom)
        return round(HEIGHT - _BOTTOM - part * (HEIGHT - _TOP - _BOTTOM), 1)

    begin = max(10**left, 10**bottom / bandwidth)
    roof = [begin, *(c for c in corners if c > begin), 10**right]
    return Roofline(
        points=tuple(
            Point(number, profile["kernel"], x(one), y(max(speed, 10**bottom)), one, speed)
            for (number, profile), one, speed in zip(drawn, intensities, speeds, strict=True)
        ),
        roof=" ".join(f"{x(v)},{y(min(v * bandwidth, peak or math.inf))}" for v in roof),
        x_ticks=tuple(Tick(x(10.0**n), _power(n)) for n in range(left, right + 1)),
        y_ticks=tuple(Tick(y(10.0**n), _power(n)) for n in range(bottom, top + 1)),
    )


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low = math.floor(math.log10(min(values)))
    return low, max(low + 1, math.ceil(math.log10(max(values))))


def _power(exponent: int) -> str:
    names = {12: "1 T", 9: "1 G", 6: "1 M", 3: "1 k"}
    for power, name in names.items():
        if exponent >= power:
            return name.replace("1", str(10 ** (exponent - power)))
    return f"{10.0**exponent:g}"


def source_rows(profile: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return each line of the header and the body with its costs, None where it has none."""
    costs = {(line["part"], line["line"]): line for line in profile["lines"]}
    return [
        {
            "part": part,
            "line": number,
            "place": line_cell(profile, {"part": part, "line": number}),
            "parts": tuple(colored(text, colors.get(number, ()))),
            "cost": cost,
            "cells": _cells(cost) if cost else {},
            "shade": shade(cost["share"]) if cost else 0,
        }
        for part, lines in profile["source"].items()
        for index in [LineIndex(dedent("\n".join(lines)))]
        for colors in [tokens("source.metal", index).lines]
        for number in range(1, len(lines) + 1)
        for text in [index.line(number)]
        for cost in [costs.get((part, number))]
        if cost or part == "body"
    ]


#: Columns of a source, and the counts that they show; kinds of instruction are those of `issued`.
_COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "Instructions": lambda cost: f"{sum(cost['instructions'].values()):,}",
    "Lanes": lambda cost: "" if cost["active_lanes"] is None else f"{cost['active_lanes']:.3g}",
    "Flops": lambda cost: _number(cost["flops"]),
    "Matrices": lambda cost: _number(cost["instructions"].get("matrix", 0)),
    "Special": lambda cost: _number(cost["instructions"].get("special", 0)),
    "Bytes requested": lambda cost: _number(cost["device_bytes_requested"]),
    "Moved by 32": lambda cost: _number(cost["device_bytes_moved"]),
    "By 64": lambda cost: _number(cost["device_bytes_moved_by_64"]),
    "By 128": lambda cost: _number(cost["device_bytes_moved_by_128"]),
    "Used": lambda cost: _part(cost["device_bytes_requested"], cost["device_bytes_moved"]),
    "Threadgroup bytes": lambda cost: _number(cost["threadgroup_bytes_requested"]),
    "Cycles": lambda cost: _number(cost["threadgroup_cycles"]),
    "By conflicts": lambda cost: _number(cost["bank_conflict_cycles"]),
    "Barriers": lambda cost: _number(cost["barriers"]),
    "Atomics": lambda cost: _number(cost["atomics"]),
    "In turn": lambda cost: _number(cost["atomics_in_turn"]),
}


def shown_columns(profile: Mapping[str, Any]) -> list[str]:
    """Return the columns that have a number in some line."""
    cells = [_cells(line) for line in profile["lines"]]
    return [name for name in _COLUMNS if any(one[name] for one in cells)]


def _cells(cost: Mapping[str, Any]) -> dict[str, str]:
    return {name: column(cost) for name, column in _COLUMNS.items()}


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def _part(some: int, whole: int) -> str:
    return f"{min(1.0, some / whole):.0%}" if whole else ""


def _source_name(address: str) -> str:
    return address.partition("://")[2].partition("/")[0].removeprefix("www.")
