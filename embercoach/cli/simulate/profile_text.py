"""The profiles of ``embercoach simulate --profile`` as text."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING, Any, TextIO

from embercoach.report.styled import STYLES, print_lines, wants_color, width_of
from embercoach.terminal_text import log_line, without_commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.table import Table

    from embercoach.report.styled import Line

#: Lines of a kernel that text shows, and the least part of the bound of one.
_MOST_LINES, _LEAST_SHARE = 8, 0.02


def print_profiles(
    profiles: Sequence[Mapping[str, Any]], resources: Mapping[Any, str], stream: TextIO
) -> None:
    """Write each kernel's prediction and its lines, the most expensive first.

    Args:
        profiles: as the JSON report has them.
        resources: names of what bounds a launch.
        stream: to write to.
    """
    for profile in profiles:
        print_lines(_head(profile, resources[profile["bound"]]), stream)
        _print_table(profile, stream)


def _head(profile: Mapping[str, Any], bound: str) -> Iterator[Line]:
    launches, place = profile["launches"], profile["launched_at"]
    called = f" at {place['path']}:{place['line']}" if place else ""
    count = f"{launches} launch{'' if launches == 1 else 'es'}{called}"
    geometry = f"grid {tuple(profile['grid'])}, threadgroup {tuple(profile['threadgroup'])}"
    yield [(f"kernel `{log_line(profile['kernel'])}`", "head"), (f": {count}, {geometry}", "")]
    seconds = _time(profile["predicted_seconds"])
    yield [
        ("  predicted for the ", ""),
        (profile["gpu"], "head"),
        (f": {seconds} a launch, bound by {bound}", ""),
    ]
    occupancy = profile["occupancy"]
    registers = profile["registers"]
    estimate = f", about {registers} registers" if registers else ""
    held = f"{occupancy['simdgroups']} of {occupancy['most']} simdgroups a core"
    moved, flops = _bytes(profile["device_bytes"]), f"{profile['flops']:,}"
    work = f"  {moved} of device memory, {flops} operations on floats, {held}"
    yield [(f"{work} (limited by {occupancy['limit']}){estimate}", "")]


def _print_table(profile: Mapping[str, Any], stream: TextIO) -> None:
    from rich.console import Console

    color = wants_color(stream)
    drawn = StringIO()
    console = Console(
        file=drawn, width=width_of(stream), force_terminal=color, no_color=not color, markup=False
    )
    console.print(_table(profile))
    lines = (line.rstrip() for line in drawn.getvalue().splitlines())
    stream.writelines(f"{without_commands(line)}\n" for line in lines if line)
    stream.write("\n")


def _table(profile: Mapping[str, Any]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style=STYLES["head"])
    for name in ("line", "share", "instructions", "lanes", "moved"):
        table.add_column(name, justify="right")
    table.add_column("", overflow="ellipsis", no_wrap=True)
    shown = [line for line in profile["lines"] if line["share"] >= _LEAST_SHARE]
    for line in shown[:_MOST_LINES]:
        lanes = line["active_lanes"]
        table.add_row(
            f"{'' if line['part'] == 'body' else line['part'] + ' '}{line['line'] or ''}",
            f"{line['share']:.0%}",
            f"{sum(line['instructions'].values()):,}",
            "" if lanes is None else f"{lanes:.3g}",
            _bytes(line["device_bytes_moved"]) if line["device_bytes_moved"] else "",
            Text(log_line(line["text"])),
        )
    return table


def _time(seconds: float) -> str:
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


def _bytes(count: int) -> str:
    for size, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"
