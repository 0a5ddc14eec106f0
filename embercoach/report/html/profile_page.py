"""The page of ``embercoach simulate --profile``: a roofline, and sources with their costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach import __version__
from embercoach.report.html.profile_facts import place_of, profile_facts
from embercoach.report.html.rendering import asset, content_hash, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Shades of a line's background, from little to all of the time.
SHADES = 8
#: The plot, in pixels: its size, and its margins at the left, top, right and bottom.
WIDTH, HEIGHT = 720, 360
_LEFT, _TOP, _RIGHT, _BOTTOM = 70, 16, 16, 48


@dataclass(frozen=True, slots=True)
class Point:
    """A kernel in the plot: its number, name and place, and the roof above it."""

    number: int
    name: str
    x: float
    y: float
    intensity: float
    speed: float


@dataclass(frozen=True, slots=True)
class Tick:
    """A power of ten at an axis."""

    at: float
    label: str


@dataclass(frozen=True, slots=True)
class Roofline:
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
    *,
    program: str,
    resources: Mapping[Any, str],
    shown: Callable[[str], str],
) -> str:
    """The page of some profiles, whose form is that of ``simulation.schema.json``.

    Args:
        profiles: of one GPU.
        program: how the program is named.
        resources: names of what bounds a launch.
        shown: from a path to the text that a page may show.
    """
    made = environment()
    made.filters["shown"] = shown
    made.filters["source_name"] = _source_name
    style = asset(made, "report.css") + asset(made, "profile.css")
    return made.get_template("profile.html").render(
        version=__version__,
        program=program,
        profiles=profiles,
        rows=[source_rows(profile) for profile in profiles],
        columns=[shown_columns(profile) for profile in profiles],
        facts=[list(profile_facts(profile)) for profile in profiles],
        places=[place_of(profile) for profile in profiles],
        plot=roofline(profiles),
        resources=resources,
        width=WIDTH,
        height=HEIGHT,
        style=style,
        style_hash=content_hash(style),
    )


def roofline(profiles: Sequence[Mapping[str, Any]]) -> Roofline | None:
    """The plot of kernels, None where none has both operations and bytes."""
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
    """Each line of the header and the body with its costs, None where it has none."""
    costs = {(line["part"], line["line"]): line for line in profile["lines"]}
    return [
        {
            "part": part,
            "line": number,
            "text": text,
            "cost": cost,
            "cells": _cells(cost) if cost else {},
            "shade": _shade(cost["share"]) if cost else 0,
        }
        for part, lines in profile["source"].items()
        for number, text in enumerate(lines, start=1)
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
    """The columns that have a number in some line."""
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


def _shade(share: float) -> int:
    """From 0, for less than a hundredth, to SHADES; square roots distinguish small shares."""
    return 0 if share < 0.01 else max(1, min(SHADES, round(SHADES * math.sqrt(share))))
