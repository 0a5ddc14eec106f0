"""The lines of source that go into a report: every file once, long ones in parts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embercoach.finding import PlacedError
from embercoach.notebooks import is_notebook
from embercoach.report.excerpt import visible
from embercoach.safe_read import is_inside, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from embercoach.fixes.source_file import LineIndex
    from embercoach.notebooks.cell_lines import CellTable

#: Characters of all sources that a report holds; above it every file is shown in parts.
MOST_CHARACTERS = 3_000_000
#: Lines before and after a finding that a part holds: the first with which the sources fit, or the
#: last. Parts that are fewer lines apart than these are one.
AROUND = (200, 100, 50, 25, 15)
APART = 5
#: Characters of a line that are shown in any case; and where a finding stands further on.
LINE_LENGTH = 500
LONGEST_LINE = 5_000
#: Characters shown after a finding in a line that is cut.
BEHIND = 80


@dataclass(frozen=True, slots=True)
class Source:
    """The shown part of a file.

    Attributes:
        count: lines of the file.
        parts: the first line's number of each part, and its lines.
        changed: whether the file is newer than the findings.
        cells: of a notebook, whose cells of code stand one below the other: the number of each,
            and its first line.
    """

    count: int
    parts: tuple[tuple[int, tuple[str, ...]], ...]
    changed: bool
    cells: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Text:
    """The text of a file, or of the code cells of a notebook."""

    index: LineIndex
    cells: CellTable | None = None

    def placed(self, findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """Findings at the lines of this text; None where it can't be the text that was checked."""
        placed = []
        for finding in findings:
            cell = finding.get("cell")
            if (cell is None) != (self.cells is None):
                return None
            if cell is not None and self.cells is not None:
                if cell not in self.cells.numbers:
                    return None
                lines = {name: self.cells.line_of(cell, finding[name]) for name in _LINES}
                if self.cells.place(lines["line"])[0] != cell:
                    return None
                finding = finding | lines  # noqa: PLW2901
            placed.append(finding)
        return placed if matches(self.index, placed) else None


_LINES = ("line", "end_line")


def read(path: str, root: str | None = None) -> Text | None:
    """A file's text; None where there is no such file any more, or no text in it.

    Args:
        path: the file.
        root: the folder that it must lie in, links resolved; None for anywhere.
    """
    from embercoach.fixes.source_file import LineIndex, decode

    try:
        text = decode(read_bytes(path, root=root)).text
        if not is_notebook(path):
            return Text(LineIndex(text))
        from embercoach.notebooks.cell_module import parse

        notebook = parse(text)
        return None if notebook is None else Text(*notebook.written())
    except (OSError, ValueError, PlacedError):
        return None


def is_there(path: str) -> bool:
    """Return whether there is a file that could be read."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def is_outside(path: str, root: str) -> bool:
    """Return whether a path, links resolved, leads out of a folder."""
    try:
        return not is_inside(path, root)
    except (OSError, ValueError):
        return True


def newer(path: str, saved_at: float | None) -> bool:
    """Return whether a file was written after the findings (seconds since the epoch)."""
    try:
        return saved_at is not None and Path(path).stat().st_mtime > saved_at
    except (OSError, ValueError):
        return False


def matches(index: LineIndex, findings: Iterable[dict[str, Any]]) -> bool:
    """Return whether all places of a file's findings are in its text."""
    return all(
        _holds(index, finding["line"], finding["column"])
        and _holds(index, finding["end_line"], finding["end_column"])
        and (finding["line"], finding["column"]) <= (finding["end_line"], finding["end_column"])
        for finding in findings
    )


def _holds(index: LineIndex, line: int, column: int) -> bool:
    # An end may be the start of a missing line, directly after the last line end.
    return line <= len(index.starts) and column <= len(index.line(line)) + 1


def sources(
    found: dict[str, Sequence[dict[str, Any]]], texts: dict[str, Text], changed: set[str]
) -> dict[str, Source]:
    """The shown part of each file that could be read.

    Args:
        found: the findings of each file, at the lines of its text.
        texts: what is to be shown of the files.
        changed: the files that are newer than the findings.
    """
    indexes = {path: text.index for path, text in texts.items()}
    lines = {path: sorted({f["line"] for f in found[path]}) for path in indexes}
    spans = _fitting(lines, indexes)
    return {
        path: Source(
            text.index.count,
            _parts(text.index, found[path], spans[path]),
            path in changed,
            ()
            if text.cells is None
            else tuple(zip(text.cells.numbers, text.cells.first_lines, strict=True)),
        )
        for path, text in texts.items()
    }


def _fitting(
    lines: dict[str, list[int]], indexes: dict[str, LineIndex]
) -> dict[str, list[tuple[int, int]]]:
    """First and last lines of every file's parts, as many as fit into the report."""
    if sum(len(index.text) for index in indexes.values()) <= MOST_CHARACTERS:
        return {path: [(1, index.count)] for path, index in indexes.items()}
    spans = {}
    for around in AROUND:
        spans = {path: _spans(lines[path], index.count, around) for path, index in indexes.items()}
        if sum(_size(indexes[path], spans[path]) for path in indexes) <= MOST_CHARACTERS:
            break
    return spans


def _spans(lines: Sequence[int], count: int, around: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for line in lines:
        first, last = max(line - around, 1), min(line + around, count)
        if spans and first <= spans[-1][1] + APART:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return spans


def _size(index: LineIndex, spans: Sequence[tuple[int, int]]) -> int:
    return sum(index.offset(last + 1, 1) - index.offset(first, 1) for first, last in spans)


def _parts(
    index: LineIndex, findings: Sequence[dict[str, Any]], spans: Sequence[tuple[int, int]]
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    ends: dict[int, int] = {}
    for finding in findings:
        line, end = finding["line"], finding["end_column"]
        if finding["end_line"] != line:
            end = finding["column"]
        ends[line] = max(ends.get(line, 0), end)
    return tuple(
        (first, tuple(_line(index.line(n), ends.get(n, 0)) for n in range(first, last + 1)))
        for first, last in spans
    )


def _line(text: str, end: int) -> str:
    most = min(max(LINE_LENGTH, end + BEHIND), LONGEST_LINE)
    return visible(text if len(text) <= most else f"{text[:most]}…")
