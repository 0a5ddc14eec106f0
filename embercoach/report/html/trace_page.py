"""The page of ``embercoach trace``: a table of waits, findings, and sources with their waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.report.html.rendering import render_page, shade
from embercoach.report.html.sources import colored, tokens
from embercoach.report.text import percent

if TYPE_CHECKING:
    from embercoach.fixes.source_file import LineIndex

#: Lines before and after one with events that an excerpt holds.
AROUND = 3
#: Characters of a source line, and lines of all excerpts, that are shown at most.
MOST_OF_LINE = 500
MOST_LINES = 20_000
#: The states of a site, as the page names them.
STATES = {"not-found": "not found by check", "suppressed": "suppressed", "explicit": ""}


class SourceRow(Struct, frozen=True):
    """A line of an excerpt, or the gap before one.

    Attributes:
        line: from 1; 0 for a gap.
        parts: its text in parts, each with the kind of its token; empty for none.
        events: its operations with their counts, such as ``array.item (3)``.
        seconds: in events that wait.
        shade: from 0 for little of the program's time, to ``SHADES``.
    """

    line: int
    parts: tuple[tuple[str, str], ...] = ()
    events: str = ""
    seconds: float = 0.0
    shade: int = 0


def render_trace(
    document: Mapping[str, Any], *, sources: Mapping[str, LineIndex], shown: Callable[[str], str]
) -> str:
    """Return the page of a trace.

    Args:
        document: the JSON report, in the form of ``trace.schema.json``.
        sources: the texts of files that the page may show, by path.
        shown: from a path to the text that a page may show.
    """
    return render_page(
        "trace.html",
        styles=("report", "profile", "trace"),
        scripts=("trace",),
        filters={"shown": shown, "duration": duration, "percent": percent},
        trace=document,
        states=STATES,
        excerpts=excerpts(document, sources),
    )


def duration(seconds: float) -> str:
    """Three digits, in milliseconds or microseconds."""
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def excerpts(
    document: Mapping[str, Any], sources: Mapping[str, LineIndex]
) -> dict[str, list[SourceRow]]:
    """Get the lines with events and those around them, by path, up to a number of lines in all."""
    by_file: defaultdict[str, defaultdict[int, list[Mapping[str, Any]]]]
    by_file = defaultdict(lambda: defaultdict(list))
    for site in document["sites"]:
        by_file[site["path"]][site["line"]].append(site)
    total = document["summary"]["seconds"] or 1.0
    found: dict[str, list[SourceRow]] = {}
    left = MOST_LINES
    for path, by_line in by_file.items():
        if path in sources and left > 0:
            found[path] = [*_rows(path, by_line, sources[path], total)][:left]
            left -= len(found[path])
    return found


def _rows(
    path: str,
    by_line: Mapping[int, Sequence[Mapping[str, Any]]],
    index: LineIndex,
    total: float,
) -> Iterator[SourceRow]:
    colors = tokens(path, index).lines
    near = {at for line in by_line for at in range(line - AROUND, line + AROUND + 1)}
    before = 0
    for line in sorted(at for at in near if 1 <= at <= index.count):
        if line != before + 1:
            yield SourceRow(0)
        before = line
        sites = by_line.get(line, ())
        seconds = sum(site["seconds"] for site in sites if site["waits"])
        yield SourceRow(
            line=line,
            parts=tuple(colored(index.line(line)[:MOST_OF_LINE], colors.get(line, ()))),
            events=", ".join(f"{site['label']} ({site['count']:,})" for site in sites),
            seconds=seconds,
            shade=shade(seconds / total),
        )
