"""The report of ``embercoach trace compare``: text with a table, and JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TextIO

from embercoach.cli.tables import duration, new_table, print_table, shortened
from embercoach.report.styled import print_lines
from embercoach.report.text import size_of
from embercoach.terminal_text import json_text, log_line
from embercoach.trace.trace_record import label_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table

    from embercoach.cli.trace.trace_comparison import ComparedSite, SiteTotals, TraceComparison
    from embercoach.report.styled import Line

#: Of the JSON report; raised when something in it is removed or changes its meaning.
VERSION = 1


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
    """The JSON report as plain data; its form is that of ``trace-comparison.schema.json``."""
    before, after = comparison.before, comparison.after
    return {
        "version": VERSION,
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
                "before": _totals(site.before),
                "after": _totals(site.after),
            }
            for site in comparison.differing
        ],
        "before": asdict(before),
        "after": asdict(after),
        "summary": {
            "worse": comparison.is_worse,
            **_counts(comparison),
            "seconds_ratio": _ratio(before.seconds, after.seconds),
            "waited_ratio": _ratio(before.waited_seconds, after.waited_seconds),
        },
    }


def _totals(totals: SiteTotals) -> dict[str, Any]:
    return {**asdict(totals), "lines": list(totals.lines), "details": list(totals.details)}


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
    table.add_column("event", no_wrap=True)
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
        text = f"{place}: {site.key.operation} was traced again {times}:"
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
