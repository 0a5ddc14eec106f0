"""The profiles of ``embercoach simulate --profile`` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from embercoach.cli.tables import duration, new_table, print_table, shortened, size_of
from embercoach.report.styled import print_lines
from embercoach.terminal_text import log_line

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
        print_table(_table(profile), stream)


def _head(profile: Mapping[str, Any], bound: str) -> Iterator[Line]:
    launches, place = profile["launches"], profile["launched_at"]
    called = f" at {place['path']}:{place['line']}" if place else ""
    count = f"{launches} launch{'' if launches == 1 else 'es'}{called}"
    geometry = f"grid {tuple(profile['grid'])}, threadgroup {tuple(profile['threadgroup'])}"
    yield [(f"kernel `{log_line(profile['kernel'])}`", "head"), (f": {count}, {geometry}", "")]
    seconds = duration(profile["predicted_seconds"])
    yield [
        ("  predicted for the ", ""),
        (profile["gpu"], "head"),
        (f": {seconds} a launch, bound by {bound}", ""),
    ]
    occupancy = profile["occupancy"]
    registers = profile["registers"]
    estimate = f", about {registers} registers" if registers else ""
    held = f"{occupancy['simdgroups']} of {occupancy['most']} simdgroups a core"
    moved, flops = size_of(profile["device_bytes"]), f"{profile['flops']:,}"
    work = f"  {moved} of device memory, {flops} operations on floats, {held}"
    yield [(f"{work} (limited by {occupancy['limit']}){estimate}", "")]


def _table(profile: Mapping[str, Any]) -> Table:
    from rich.text import Text

    table = new_table()
    for name in ("line", "share", "instructions", "lanes", "moved"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    shown = [line for line in profile["lines"] if line["share"] >= _LEAST_SHARE]
    for line in shown[:_MOST_LINES]:
        lanes = line["active_lanes"]
        table.add_row(
            f"{'' if line['part'] == 'body' else line['part'] + ' '}{line['line'] or ''}",
            f"{line['share']:.0%}",
            f"{sum(line['instructions'].values()):,}",
            "" if lanes is None else f"{lanes:.3g}",
            size_of(line["device_bytes_moved"]) if line["device_bytes_moved"] else "",
            Text(shortened(log_line(line["text"]))),
        )
    return table
