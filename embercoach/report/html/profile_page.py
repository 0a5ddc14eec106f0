"""The page of ``embercoach simulate --profile``: a roofline, and sources with their costs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from embercoach import __version__
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
    style = asset(made, "report.css") + asset(made, "profile.css")
    return made.get_template("profile.html").render(
        version=__version__,
        program=program,
        profiles=profiles,
        rows=[source_rows(profile) for profile in profiles],
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
            "shade": _shade(cost["share"]) if cost else 0,
        }
        for part, lines in profile["source"].items()
        for number, text in enumerate(lines, start=1)
        for cost in [costs.get((part, number))]
        if cost or part == "body"
    ]


def _shade(share: float) -> int:
    """From 0, for less than a hundredth, to SHADES; square roots distinguish small shares."""
    return 0 if share < 0.01 else max(1, min(SHADES, round(SHADES * math.sqrt(share))))
