"""``embercoach trace compare``: two saved traces of a program, compared site by site."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TextIO

import click
from msgspec import Meta, Struct, to_builtins

from embercoach.cli import shared_options
from embercoach.cli.entry import CLEAN, FOUND
from embercoach.cli.output import deliver
from embercoach.cli.recovered import read_saved
from embercoach.cli.tables import duration, new_table, print_table, shortened
from embercoach.cli.trace.traced import VERSION
from embercoach.report.html.saved import (
    LARGEST_INTEGER,
    Amount,
    Count,
    Ordinal,
    parse_saved,
)
from embercoach.report.styled import Line, print_lines
from embercoach.report.text import size_of
from embercoach.terminal_text import json_text, log_line
from embercoach.trace.trace_record import label_of, without_locals

if TYPE_CHECKING:
    from rich.table import Table

#: Of the JSON report; raised when something in it is removed or changes its meaning.
COMPARISON_VERSION = 1


def render(comparison: TraceComparison, form: str, most: int, stream: TextIO) -> None:
    """Write the report in one of the command's formats; ``most`` sites are listed in text."""
    if form == "json":
        stream.write(json_text(document(comparison)) + "\n")
        return
    differing = comparison.differing
    if differing:
        print_table(_table(differing[:most]), stream)
    print_lines(_retraces(differing[:most]), stream)
    if len(differing) > most:
        print_lines([[(f"{len(differing) - most} more lines (--lines).", "")]], stream)
    print_lines(_summary(comparison), stream)


def document(comparison: TraceComparison) -> dict[str, Any]:
    """Get the JSON report as plain data; its form is that of ``trace-comparison.schema.json``."""
    before, after = comparison.before, comparison.after
    return {
        "version": COMPARISON_VERSION,
        "sites": [
            {
                "path": site.key.path,
                "function": site.key.function,
                "kind": site.key.kind,
                "operation": site.key.operation,
                "text": site.text,
                "waits": site.waits,
                "state": site.state,
                "worse": site.is_worse,
                "before": to_builtins(site.before),
                "after": to_builtins(site.after),
            }
            for site in comparison.differing
        ],
        "before": to_builtins(before),
        "after": to_builtins(after),
        "summary": {
            "worse": comparison.is_worse,
            **_counts(comparison),
            "seconds_ratio": _ratio(before.seconds, after.seconds),
            "waited_ratio": _ratio(before.waited_seconds, after.waited_seconds),
        },
    }


def _counts(comparison: TraceComparison) -> dict[str, int]:
    counts = dict.fromkeys(("new", "gone", "changed", "unchanged"), 0)
    for site in comparison.sites:
        counts[site.state] += 1
    return counts


def _ratio(before: float, after: float) -> float | None:
    return after / before if before else None


def _table(sites: tuple[ComparedSite, ...]) -> Table:
    from rich.text import Text

    table = new_table()
    for name in ("", ""):
        table.add_column(name, no_wrap=True)
    for name in ("count", "waited", "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("event", overflow="fold")
    table.add_column("place", overflow="fold")
    for site in sites:
        totals = (site.before, site.after)
        place = log_line(f"{site.key.path}:{(site.after.lines or site.before.lines)[0]}")
        table.add_row(
            Text(site.state, "bold red" if site.is_worse else "green"),
            "before\nafter",
            "\n".join(f"{one.count:,}" for one in totals),
            "\n".join(duration(one.seconds) for one in totals) if site.waits else "",
            "\n".join(size_of(one.bytes) for one in totals) if any(t.bytes for t in totals) else "",
            Text(log_line(label_of(site.key.kind, site.key.operation))),
            Text(f"{place}\n{shortened(log_line(site.text))}"),
        )
    return table


def _retraces(sites: tuple[ComparedSite, ...]) -> Iterator[Line]:
    for site in sites:
        if site.key.kind != "retrace":
            continue
        before, after = site.before, site.after
        place = f"{site.key.path}:{(after.lines or before.lines)[0]}"
        times = f"{before.count:,} -> {after.count:,} times"
        text = f"{place}: {without_locals(site.key.operation)} was traced again {times}:"
        yield [(log_line(text), "warning" if site.is_worse else "")]
        # As in a diff: only before, only after, both.
        for detail in dict.fromkeys((*before.details, *after.details)):
            sign = " "
            if detail not in after.details:
                sign = "-"
            elif detail not in before.details:
                sign = "+"
            yield [(log_line(f"  {sign} {detail}"), "")]


def _summary(comparison: TraceComparison) -> Iterator[Line]:
    before, after = comparison.before, comparison.after
    for name, old, new in (
        ("MLX", before.mlx, after.mlx),
        ("device", before.device, after.device),
        ("exit code", str(before.exit_code), str(after.exit_code)),
    ):
        if old != new:
            yield [(f"The {name} differs: {old} before, {new} after.", "warning")]
    counts = _counts(comparison)
    waited = _change(before.waited_seconds, after.waited_seconds)
    events = f"{before.events:,} -> {after.events:,} events"
    yield [
        ("Waited ", "head"),
        (f"{waited} of {_change(before.seconds, after.seconds)}; {events}.", ""),
    ]
    listed = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    worse = sum(site.is_worse for site in comparison.sites)
    style = "error" if comparison.is_worse else "good"
    yield [(f"{worse:,} worse", style), (f" of {len(comparison.sites):,} sites: {listed}.", "")]


def _change(before: float, after: float) -> str:
    ratio = _ratio(before, after)
    tail = "" if ratio is None else f" ({ratio:.2f} times)"
    return f"{duration(before)} -> {duration(after)}{tail}"


#: Bytes of a report. A site takes 500, so that this is far more than any program has lines.
MOST_BYTES = 32_000_000


class SavedSite(Struct, frozen=True):
    """The events of one kind at one line; members as of ``trace.schema.json``."""

    path: str
    line: Count
    function: str
    kind: str
    operation: str
    text: str
    waits: bool
    count: Ordinal
    seconds: Amount
    bytes: Count
    details: tuple[str, ...]


class SavedSummary(Struct, frozen=True):
    """The totals of a run; members as of ``trace.schema.json``. A signal's exit code is below 0."""

    program: str
    exit_code: Annotated[int, Meta(ge=-(2**31), le=LARGEST_INTEGER)]
    seconds: Amount
    waited_seconds: Amount
    events: Count
    device: str
    mlx: str
    peak_bytes: Count


class SavedTrace(Struct, frozen=True):
    """A report of one run."""

    sites: tuple[SavedSite, ...]
    summary: SavedSummary


def saved_trace(data: bytes) -> SavedTrace:
    """Return the report in the bytes of a file.

    Raises:
        SavedReportError: they are not a report of this version.
    """
    return parse_saved(
        data,
        SavedTrace,
        version=VERSION,
        command="trace --output-format json",
        again="trace the program again",
    )


State = Literal["new", "gone", "changed", "unchanged"]
#: Kinds whose operation names a function that is compiled, whatever the line is that calls it.
_COMPILED = ("compile", "retrace")
_PACKAGES = ("/site-packages/", "/dist-packages/")


class SiteKey(NamedTuple):
    """Identifies a site in both traces, although its line has moved.

    Attributes:
        path: from the folder of installed packages on, which differs between machines.
        function: its last name, because Python 3.10 records no other.
        kind: of the events.
        operation: such as `array.item`.
        source: of the line; empty for traces of compiled functions, which the operation names.
    """

    path: str
    function: str
    kind: str
    operation: str
    source: str


class SiteTotals(Struct, frozen=True):
    """The events of all sites of one key in one trace."""

    lines: tuple[int, ...] = ()
    count: int = 0
    seconds: float = 0.0
    bytes: int = 0
    details: tuple[str, ...] = ()


class ComparedSite(Struct, frozen=True):
    """A site before and after."""

    key: SiteKey
    text: str
    waits: bool
    before: SiteTotals
    after: SiteTotals

    @property
    def state(self) -> State:
        """By counts and bytes: seconds vary from run to run."""
        if not self.before.count:
            return "new"
        if not self.after.count:
            return "gone"
        return "changed" if self.count_change or self.bytes_change else "unchanged"

    @property
    def count_change(self) -> int:
        """Events after, less those before."""
        return self.after.count - self.before.count

    @property
    def bytes_change(self) -> int:
        """Bytes after, less those before."""
        return self.after.bytes - self.before.bytes

    @property
    def seconds_change(self) -> float:
        """Seconds after, less those before."""
        return self.after.seconds - self.before.seconds

    @property
    def is_worse(self) -> bool:
        """True if it is new, or has more events or bytes."""
        return self.count_change > 0 or self.bytes_change > 0


class TraceComparison(Struct, frozen=True):
    """Two traces.

    Attributes:
        before: totals of the first.
        after: totals of the second.
        sites: of either; the worse ones first, then by the change of seconds.
    """

    before: SavedSummary
    after: SavedSummary
    sites: tuple[ComparedSite, ...]

    @property
    def differing(self) -> tuple[ComparedSite, ...]:
        """The sites that are not unchanged."""
        return tuple(site for site in self.sites if site.state != "unchanged")

    @property
    def fails(self) -> bool:
        """True if the second program exits with an error, and the first one does not."""
        return self.after.exit_code != 0 and self.before.exit_code == 0

    @property
    def is_worse(self) -> bool:
        """True if a site is worse, or the second program fails."""
        return self.fails or any(site.is_worse for site in self.sites)


def compare(
    before: SavedTrace, after: SavedTrace, renamed: Mapping[str, str] | None = None
) -> TraceComparison:
    """Compare two traces.

    Args:
        before: the first.
        after: the second.
        renamed: paths of the first by which the second names these files.
    """
    old, new = _by_key(before.sites, renamed or {}), _by_key(after.sites, {})
    compared = []
    for key in {**old, **new}:
        before_sites, after_sites = old.get(key, []), new.get(key, [])
        latest = (after_sites or before_sites)[0]
        totals = _totals(before_sites), _totals(after_sites)
        compared.append(ComparedSite(key, latest.text, latest.waits, *totals))
    compared.sort(key=lambda site: (not site.is_worse, -abs(site.seconds_change), site.key))
    return TraceComparison(before.summary, after.summary, tuple(compared))


def _by_key(
    sites: Iterable[SavedSite], renamed: Mapping[str, str]
) -> dict[SiteKey, list[SavedSite]]:
    groups: dict[SiteKey, list[SavedSite]] = {}
    for site in sites:
        path = _portable(renamed.get(site.path, site.path))
        function = site.function.rpartition(".")[2]
        source = "" if site.kind in _COMPILED else site.text
        key = SiteKey(path, function, site.kind, site.operation, source)
        groups.setdefault(key, []).append(site)
    return groups


def _portable(path: str) -> str:
    for folder in _PACKAGES:
        _, found, rest = path.rpartition(folder)
        if found:
            return f"{folder[1:]}{rest}"
    return path


def _totals(sites: list[SavedSite]) -> SiteTotals:
    details = dict.fromkeys(detail for site in sites for detail in site.details)
    return SiteTotals(
        lines=tuple(sorted(site.line for site in sites)),
        count=sum(site.count for site in sites),
        seconds=sum(site.seconds for site in sites),
        bytes=sum(site.bytes for site in sites),
        details=tuple(details),
    )


_REPORT = click.Path(path_type=Path, dir_okay=False)


@click.command(
    "compare",
    epilog="Exit code: 0 if no site is new and none has more events or bytes, else 1; "
    "2 if a report cannot be read.",
)
@click.argument("before", type=_REPORT, metavar="BEFORE.json")
@click.argument("after", type=_REPORT, metavar="AFTER.json")
@click.option(
    "--renamed",
    type=(str, str),
    multiple=True,
    metavar="OLD NEW",
    help="OLD of the first report is the file NEW of the second.",
)
@shared_options.output_format("text", "json", help_text="Output format.")
@shared_options.output_file
@click.option(
    "--lines",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Number of sites that text lists.",
)
@click.pass_context
def command(
    ctx: click.Context,
    /,
    before: Path,
    after: Path,
    renamed: tuple[tuple[str, str], ...],
    output_format: str,
    output_file: Path | None,
    lines: int,
) -> None:
    """Compare two reports of `embercoach trace --output-format json`.

    A site is all events of one kind in one function of a file at lines of the same text, so that
    moved lines are the same site. Traces of a compiled function match by its name.
    """
    names = {os.path.normpath(old): os.path.normpath(new) for old, new in renamed}
    first, second = (read_saved(file, saved_trace, MOST_BYTES) for file in (before, after))
    comparison = compare(first, second, names)
    deliver(lambda stream: render(comparison, output_format, lines, stream), output_file)
    ctx.exit(FOUND if comparison.is_worse else CLEAN)
