"""The profiles of ``embercoach simulate --profile`` as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TextIO

from embercoach.cli.tables import duration, new_table, print_table, shortened
from embercoach.report.html.profile_facts import gpu_facts, place_of, profile_facts
from embercoach.report.styled import print_lines, width_of
from embercoach.report.text import size_of
from embercoach.terminal_text import log_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from rich.table import Table

    from embercoach.report.styled import Line

#: Lines of a kernel that text shows, and the least part of the bound of one.
_MOST_LINES, _LEAST_SHARE = 8, 0.02
#: Characters for the source next to the columns, and between two columns.
_LEAST_SOURCE, _PADDING = 16, 3


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
        print_table(table(profile, width_of(stream)), stream)
    for figures in dict.fromkeys(map(gpu_facts, profiles)):
        print_lines([[(figures, "")], []], stream)


def _head(profile: Mapping[str, Any], bound: str) -> Iterator[Line]:
    launches, place = profile["launches"], profile["launched_at"]
    called = f" at {place['path']}:{place['line']}" if place else ""
    count = f"{launches} launch{'' if launches == 1 else 'es'}{called}"
    geometry = f"grid {tuple(profile['grid'])}, threadgroup {tuple(profile['threadgroup'])}"
    yield [(f"kernel `{log_line(profile['kernel'])}`", "head"), (f": {count}, {geometry}", "")]
    seconds = duration(profile["predicted_seconds"])
    at = place_of(profile)
    yield [
        ("  predicted for the ", ""),
        (profile["gpu"], "head"),
        (f": {seconds} a launch, bound by {bound}{at and f', most at {at}'}", ""),
    ]
    for name, value in profile_facts(profile):
        yield [(f"  {name}: {value}", "")]


#: Columns of the table, and the counts of a line that they show. Those that are empty, or do not
#: fit into the terminal, are left out.
_COLUMNS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "line": lambda line: (
        f"{'' if line['part'] == 'body' else line['part'] + ' '}{line['line'] or ''}"
    ),
    "share": lambda line: f"{line['share']:.0%}",
    "issued": lambda line: f"{sum(line['instructions'].values()):,}",
    "lanes": lambda line: "" if line["active_lanes"] is None else f"{line['active_lanes']:.3g}",
    "flops": lambda line: _number(line["flops"]),
    "asked": lambda line: _bytes(line["device_bytes_requested"]),
    "moved": lambda line: _bytes(line["device_bytes_moved"]),
    "conflicts": lambda line: _number(line["bank_conflict_cycles"]),
    "barriers": lambda line: _number(line["barriers"]),
    "atomics": lambda line: _number(line["atomics"]),
}


def _number(count: int) -> str:
    return f"{count:,}" if count else ""


def _bytes(count: int) -> str:
    return size_of(count) if count else ""


def table(profile: Mapping[str, Any], width: int) -> Table:
    """The most expensive lines, in at most `width` characters."""
    from rich.text import Text

    shown = [line for line in profile["lines"] if line["share"] >= _LEAST_SHARE][:_MOST_LINES]
    cells = {name: [column(line) for line in shown] for name, column in _COLUMNS.items()}
    kept: dict[str, list[str]] = {}
    left = width - _LEAST_SOURCE
    for name, texts in cells.items():
        needed = max(map(len, [name, *texts])) + _PADDING
        if any(texts) and needed <= left:
            kept[name] = texts
            left -= needed
    made = new_table()
    for name, texts in kept.items():
        made.add_column(name, justify="right", no_wrap=True, width=max(map(len, [name, *texts])))
    made.add_column("", no_wrap=True)
    for number, line in enumerate(shown):
        text = Text(shortened(log_line(line["text"])))
        text.truncate(left + _LEAST_SOURCE - _PADDING, overflow="ellipsis")
        made.add_row(*(texts[number] for texts in kept.values()), text)
    return made
