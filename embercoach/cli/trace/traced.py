"""The report of ``embercoach trace``: text with tables, JSON, a page, a timeline for Perfetto."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TextIO

from msgspec import Struct, to_builtins

from embercoach.cli.tables import (
    add_folding,
    duration,
    fitting,
    folding_width,
    new_table,
    print_table,
    shortened,
    table_width,
)
from embercoach.engine.languages import is_python_source
from embercoach.files import shown_path
from embercoach.report.excerpt import visible
from embercoach.report.json_report import finding_members, problem_members
from embercoach.report.locations import line_of
from embercoach.report.outcome import SourceTexts
from embercoach.report.styled import Line, print_lines
from embercoach.report.text import percent, plural, problem_lines, size_of
from embercoach.terminal_text import json_text, log_line
from embercoach.trace.trace_record import WAITING, Site, TraceRecord, without_locals

if TYPE_CHECKING:
    from rich.table import Table

    from embercoach.cli.trace.static_check import CheckedTrace, JoinedFinding
    from embercoach.fixes.source_file import LineIndex


def print_findings(
    checked: CheckedTrace,
    unfound: Sequence[tuple[str, Site]],
    lines: int,
    stream: TextIO,
    *,
    option: str,
) -> None:
    """Write a table of findings, the files that could not be checked, and a summary.

    Args:
        checked: the trace with its findings.
        unfound: the places and sites that wait and that the check has no finding for.
        lines: of findings and of such sites, each at most.
        stream: where to.
        option: that shows more of them.
    """
    from rich.text import Text

    findings = checked.join.findings
    if findings or unfound:
        rows = [_finding_cells(one) for one in findings[:lines]]
        for place, site in unfound[:lines]:
            rows.append(("", "not found", *_cost(site), log_line(place), log_line(site.label)))
        names = ("finding", "state", "count", "waited", "bytes", "place", "message")
        cells = dict(zip(names, zip(*rows, strict=True), strict=True))
        numbers = {name: cells[name] for name in ("finding", "state", "waited", "count", "bytes")}
        width = table_width(stream) - _MESSAGE - folding_width("place", cells["place"])
        kept = {"place", "message", *fitting(numbers, width)}
        table = new_table()
        for name in filter(kept.__contains__, names):
            if name == "place":
                add_folding(table, name, cells[name])
            elif name == "message":
                table.add_column("")
            else:
                justify: Literal["left", "right"] = "left" if name in names[:2] else "right"
                table.add_column(name, justify=justify, no_wrap=True)
        for row in zip(*(cells[name] for name in names if name in kept), strict=True):
            table.add_row(*map(Text, row))
        stream.write("\n")
        print_table(table, stream)
        hidden = max(len(findings) - lines, 0) + max(len(unfound) - lines, 0)
        if hidden:
            print_lines([[(f"{hidden} more rows ({option}).", "")]], stream)
    print_lines(problem_lines(checked.problems), stream)
    if summary := finding_summary(checked):
        print_lines([[(summary, "")]], stream)


def _finding_cells(one: JoinedFinding) -> tuple[str, ...]:
    place, message = log_line(line_of(one.finding)), log_line(one.finding.message)
    cost = _cost(one) if one.sites else ("", "", "")
    return (one.finding.code, one.state.replace("-", " "), *cost, place, message)


def _cost(events: JoinedFinding | Site) -> tuple[str, str, str]:
    copied = size_of(events.bytes) if events.bytes else ""
    return f"{events.count:,}", duration(events.seconds) if events.seconds else "", copied


def finding_summary(checked: CheckedTrace) -> str:
    """Return one sentence with the counts; empty if there is nothing to count."""
    join = checked.join
    parts = []
    if join.findings:
        total = plural(len(join.findings), "finding")
        counted = [(join.count_of("no-event"), "without an event")]
        counted.append((join.count_of("not-reached"), "not reached"))
        rest = "".join(f", {count} {state}" for count, state in counted if count)
        parts.append(f"{join.count_of('confirmed')} of {total} confirmed{rest}")
    if join.not_found:
        parts.append(f"{plural(join.not_found, 'wait')} not found by check")
    return f"{'; '.join(parts)}." if parts else ""


def finding_counts(checked: CheckedTrace | None) -> dict[str, int]:
    """Return the counts of the JSON report's summary; none if nothing was linted."""
    if checked is None:
        return {}
    join = checked.join
    return {
        "findings": len(join.findings),
        "confirmed": join.count_of("confirmed"),
        "not_reached": join.count_of("not-reached"),
        "not_found": join.not_found,
    }


def trace_members(one: JoinedFinding) -> dict[str, Any]:
    """Return a finding of the JSON report."""
    return {
        **finding_members(one.finding),
        "confirmed": bool(one.sites),
        "state": one.state,
        "count": one.count,
        "seconds": one.seconds,
        "bytes": one.bytes,
    }


_PROCESS = 1


def timeline(record: TraceRecord, program: str, places: list[str]) -> dict[str, Any]:
    """Return the document, as plain data.

    Args:
        record: with single events.
        program: how it is named.
        places: of each of the record's sites, as users read them.
    """
    return {
        "traceEvents": [
            {"name": "process_name", "ph": "M", "pid": _PROCESS, "args": {"name": program}},
            *_events(record, places),
        ],
        "displayTimeUnit": "ms",
        "otherData": {
            "device": record.device,
            "mlx": record.mlx,
            "events_left_out": record.events_left_out,
        },
    }


def _events(record: TraceRecord, places: list[str]) -> Iterator[dict[str, Any]]:
    for event in record.events:
        site = record.sites[event.site]
        begin, taken = event.begin * 1e6, event.seconds * 1e6
        yield {
            "name": f"{site.label} {places[event.site]}",
            "cat": site.kind,
            "ph": "X",
            "ts": begin,
            "dur": taken,
            "pid": _PROCESS,
            "tid": event.thread,
            "args": {"function": site.function},
        }
        yield {
            "name": "MLX memory (bytes)",
            "ph": "C",
            "ts": begin + taken,
            "pid": _PROCESS,
            "args": {"arrays": event.active_bytes, "cache": event.cache_bytes},
        }


#: Of the JSON report; raised when something in it is removed or changes its meaning.
VERSION = 1
#: Bytes of MLX's cache from which text says where it grew.
_CACHE_TO_SHOW = 1 << 20
_MOST_PLACES = 3


class Traced(Struct, frozen=True):
    """A run to report.

    Attributes:
        record: its events.
        program: how it is named.
        lines: how many sites text lists.
        exit_code: of the program.
        checked: the findings of its files; None if they were not linted.
        option: that shows more rows than text lists.
    """

    record: TraceRecord
    program: str
    lines: int
    exit_code: int
    checked: CheckedTrace | None = None
    option: str = "--lines"


def render(traced: Traced, form: str, stream: TextIO) -> None:
    """Write the report in one of the command's formats."""
    if form == "perfetto":
        places = [f"{shown_path(site.path)}:{site.line}" for site in traced.record.sites]
        stream.write(json_text(timeline(traced.record, traced.program, places)) + "\n")
        return
    if form == "json":
        stream.write(json_text(document(traced)) + "\n")
        return
    if form == "html":
        from embercoach.report.html.trace_page import render_trace

        stream.write(render_trace(document(traced), sources=_sources(traced), shown=visible))
        return
    if traced.record.sites:
        print_table(_table(traced, table_width(stream)), stream)
        print_lines(_retraces(traced), stream)
    print_lines(_summary(traced), stream)
    if traced.checked is not None:
        unfound = [
            (f"{shown_path(site.path)}:{site.line}", site)
            for site in traced.record.sites
            if traced.checked.join.states.get(site) == "not-found"
        ]
        print_findings(traced.checked, unfound, traced.lines, stream, option=traced.option)


def document(traced: Traced) -> dict[str, Any]:
    """Return the JSON report as plain data; its form is that of ``trace.schema.json``."""
    record, checked, sources = traced.record, traced.checked, SourceLines()
    return {
        "version": VERSION,
        "sites": [
            {
                **to_builtins(site),
                "path": shown_path(site.path),
                "text": sources.line(site.path, site.line),
                "label": site.label,
                "waits": site.kind in WAITING,
                **_static_members(site, checked),
            }
            for site in record.sites
        ],
        "findings": checked and [trace_members(one) for one in checked.join.findings],
        "problems": [problem_members(one) for one in (checked.problems if checked else ())],
        "summary": {
            "program": traced.program,
            "exit_code": traced.exit_code,
            "seconds": record.seconds,
            "waited_seconds": record.waited,
            "events": sum(site.count for site in record.sites),
            "device": record.device,
            "mlx": record.mlx,
            "peak_bytes": record.peak_bytes,
            "cache_bytes": record.cache_bytes,
            **finding_counts(checked),
        },
    }


def _static_members(site: Site, checked: CheckedTrace | None) -> dict[str, Any]:
    if checked is None:
        return {"codes": [], "check": None}
    return {
        "codes": list(checked.join.codes.get(site, ())),
        "check": checked.join.states.get(site),
    }


def _sources(traced: Traced) -> dict[str, LineIndex]:
    """Return the text of the files that were linted, by their shown paths."""
    if traced.checked is None:
        return {}
    sources = SourceTexts()
    paths = {site.path for site in traced.record.sites}
    return {
        shown_path(path): sources.index(path)
        for path in sorted(paths)
        if real_path(path) in traced.checked.files
    }


#: Columns of a site in a table, and all but the names by use: what does not fit is left out.
_COLUMNS = ("waited", "share", "count", "mean", "bytes", "graph", "event", "place", "source")
_BY_USE = ("waited", "count", "source", "share", "bytes", "mean", "graph")
#: Characters that the message of a finding is left.
_MESSAGE = 24


def _table(traced: Traced, width: int) -> Table:
    """Return the sites that took the most time, in at most `width` characters."""
    from rich.text import Text

    total, sources = traced.record.seconds or 1.0, SourceLines()
    rows = []
    for site in traced.record.sites[: traced.lines]:
        waits = site.kind in WAITING
        row = (
            duration(site.seconds) if waits else "",
            percent(site.seconds / total) if waits else "",
            f"{site.count:,}",
            duration(site.seconds / site.count) if site.seconds else "",
            size_of(site.bytes) if site.bytes else "",
            f"{site.operations:,}" if site.operations else "",
            log_line(site.label),
            log_line(f"{shown_path(site.path)}:{site.line}"),
            shortened(log_line(sources.line(site.path, site.line))),
        )
        rows.append(row)
    cells = dict(zip(_COLUMNS, zip(*rows, strict=True), strict=True))
    width -= sum(folding_width(name, cells[name]) for name in ("event", "place"))
    kept = {"event", "place", *fitting({name: cells[name] for name in _BY_USE}, width)}
    table = new_table()
    for name in filter(kept.__contains__, _COLUMNS):
        if name in _BY_USE:
            justify: Literal["left", "right"] = "left" if name == "source" else "right"
            table.add_column(name, justify=justify, no_wrap=True)
        else:
            add_folding(table, name, cells[name])
    for cell_row in zip(*(cells[name] for name in _COLUMNS if name in kept), strict=True):
        table.add_row(*map(Text, cell_row))
    return table


def _retraces(traced: Traced) -> Iterator[Line]:
    for site in traced.record.sites:
        if site.kind != "retrace":
            continue
        times = f"{site.count} time{'' if site.count == 1 else 's'}"
        place = f"{shown_path(site.path)}:{site.line}"
        yield [
            (
                log_line(f"{place}: {without_locals(site.operation)} was traced again {times}:"),
                "warning",
            )
        ]
        for detail in site.details:
            yield [(log_line(f"  {detail}"), "")]


def _summary(traced: Traced) -> Iterator[Line]:
    record = traced.record
    if not record.sites:
        yield [(f"{traced.program} evaluated no array.", "warning")]
        return
    hidden = len(record.sites) - traced.lines
    if hidden > 0:
        yield [(f"{hidden} more lines ({traced.option}).", "")]
    events = sum(site.count for site in record.sites if site.kind in WAITING)
    share = record.waited / record.seconds if record.seconds else 0.0
    whole = f" of {duration(record.seconds)} ({share:.0%}) in {events:,} events on {record.device}"
    tail = f"{whole}; peak memory {size_of(record.peak_bytes)}."
    yield [(f"Waited {duration(record.waited)}", "head"), (tail, "")]
    yield from _cache_growth(record.sites)


def _cache_growth(sites: Sequence[Site]) -> Iterator[Line]:
    """Yield the places at which MLX's cache of freed memory grew to its largest size."""
    by_place: Counter[str] = Counter()
    for site in sites:
        by_place[f"{shown_path(site.path)}:{site.line}"] += site.cache_bytes
    total = by_place.total()
    if total < _CACHE_TO_SHOW:
        return
    most = by_place.most_common(_MOST_PLACES)
    # A hundredth of it is not worth a place.
    grown = [f"{size_of(count)} at {place}" for place, count in most if count * 100 >= total]
    text = f"MLX's cache of freed memory grew to {size_of(total)}: {', '.join(grown)}."
    yield [(log_line(text), "")]


class SourceLines:
    """Lines of Python files, read when first needed.

    Code names its file itself, as in ``compile(code, "/etc/passwd", "exec")``: other files than
    Python's are not read.
    """

    def __init__(self) -> None:
        self._sources = SourceTexts()
        self._real: dict[str, str | None] = {}

    def line(self, path: str, number: int) -> str:
        """Return a line, stripped; empty if it is unknown."""
        if path not in self._real:
            found = real_path(path)
            self._real[path] = found if found is not None and is_python_source(found) else None
        real = self._real[path]
        return "" if real is None else self._sources.index(real).line(number).strip()


def real_path(path: str) -> str | None:
    """Return the real path of a file that a program names; None if the path is invalid."""
    try:
        return os.path.realpath(path)
    except (OSError, ValueError):  # with a null byte
        return None
