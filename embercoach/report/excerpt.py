"""The lines of source that a finding is about, with a mark under the place."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

from embercoach.terminal_text import is_deceptive

if TYPE_CHECKING:
    from embercoach.finding import Finding
    from embercoach.fixes.source_file import LineIndex
    from embercoach.report.styled import Line

TAB = 4
#: A finding over more lines than this is shown by its first and last ones.
MOST_LINES = 5
#: How much of a clipped line stands before the marked place.
LEAD = 20
#: How many characters around the place are looked at, for each column that is available.
FAR = 4


def excerpt(finding: Finding, index: LineIndex, width: int) -> Iterator[Line]:
    """Yield the excerpt's lines; none if the file has no such line any more.

    Args:
        finding: whose place is shown.
        index: the file's text.
        width: columns at most.
    """
    last = min(finding.end_line, index.count)
    if finding.end_column == 1 and last > finding.line:
        last -= 1  # the end is exclusive: nothing of that line belongs to the finding
    if finding.line > index.count:
        return
    gutter = len(str(last))
    yield _row("", gutter, [])
    if last == finding.line:
        yield from _single(finding, index.line(last), gutter, width, last < finding.end_line)
    else:
        yield from _several(finding, index, last, gutter, width)


def _single(finding: Finding, line: str, gutter: int, width: int, to_end: bool) -> Iterator[Line]:
    start = min(finding.column - 1, len(line))
    end = len(line) if to_end else min(finding.end_column - 1, len(line))
    room = max(width - gutter - 3, 2 * LEAD)
    # Of a long line, what is far from the place is not looked at: it may have many findings.
    left, reach = max(start - FAR * room, 0), start + FAR * room
    is_cut = reach < len(line)
    line, start, end = line[left:reach], start - left, min(end, reach) - left
    cells = _cells(line)
    first, stop = _window(cells, start, max(end, start + 1), room)
    shown = "".join(cell for cell, _ in cells[first:stop])
    before, after = "…" if left + first else "", "…" if is_cut or stop < len(cells) else ""
    offset = len(before) + sum(size for _, size in cells[first:start])
    marked = sum(size for _, size in cells[start : min(end, stop)])
    yield _row(str(finding.line), gutter, [(f"{before}{shown}{after}", "")])
    yield _row("", gutter, [(" " * offset, ""), ("^" * max(marked, 1), finding.severity)])


def _several(
    finding: Finding, index: LineIndex, last: int, gutter: int, width: int
) -> Iterator[Line]:
    style = finding.severity
    room = max(width - gutter - 5, 2 * LEAD)
    first = index.line(finding.line)
    # A finding that starts within its line is pointed at; one that starts the line needs no mark.
    inside = bool(first[: finding.column - 1].strip())
    numbers = list(range(finding.line, last + 1))
    for number in [*numbers[:3], 0, last] if len(numbers) > MOST_LINES else numbers:
        if not number:
            yield _row("...", gutter, [("|", style)])
            continue
        mark = "|" if number > finding.line else " " if inside else "/"
        line = index.line(number)
        cells = _cells(line[: FAR * room])
        _, stop = _window(cells, 0, 1, room)
        text = "".join(cell for cell, _ in cells[:stop]) + ("…" if stop < len(line) else "")
        yield _row(str(number), gutter, [(f"{mark} ", style), (text, "")])
        if number == finding.line and inside:
            before = _width(first[: finding.column - 1], room)
            yield _row("", gutter, [(f" {'_' * (min(before, room - 1) + 1)}^", style)])
    end = finding.end_column - 2 if finding.end_line == last else len(index.line(last)) - 1
    below = _width(index.line(last)[: max(end, 0)], room)
    yield _row("", gutter, [(f"|{'_' * (min(below, room - 1) + 1)}^", style)])


def _row(label: str, gutter: int, spans: Line) -> Line:
    mark = " | " if spans else " |"
    return [(f"{label:>{gutter}}{mark}", "gutter"), *spans]


def _width(text: str, room: int) -> int:
    """Return the columns of a text at the start of a line, as far as they fit."""
    return sum(size for _, size in _cells(text[: FAR * room]))


def _cells(line: str) -> list[tuple[str, int]]:
    """Return each character as it is shown, with its columns."""
    cells = []
    column = 0
    for character in line:
        if character == "\t":
            size = TAB - column % TAB
            cells.append((" " * size, size))
        else:
            cells.append(_cell(character))
        column += cells[-1][1]
    return cells


def _cell(character: str) -> tuple[str, int]:
    if " " <= character <= "~":
        return character, 1
    if character < " ":
        return chr(0x2400 + ord(character)), 1  # a picture of the control character
    if is_deceptive(character):
        return "\ufffd", 1
    if unicodedata.category(character) in ("Mn", "Me"):
        return character, 0
    return character, 2 if unicodedata.east_asian_width(character) in "WF" else 1


class _Shown(dict[int, str]):
    """The table of ``str.translate``; each entry is computed at its first use."""

    def __missing__(self, code: int) -> str:
        self[code] = shown = _cell(chr(code))[0]
        return shown


_SHOWN = _Shown({ord("\t"): "\t", ord("\n"): "\n"})


def visible(text: str) -> str:
    """Return a text with what would deceive the eye replaced, character for character.

    Tabs and line feeds stay: what the text is shown in has a form for them.
    """
    if text.isascii() and text.isprintable():  # most lines: several times as fast
        return text
    return text.translate(_SHOWN)


def _window(cells: list[tuple[str, int]], start: int, end: int, room: int) -> tuple[int, int]:
    """Return the first and last columns to show, so that a place is visible and they fit."""
    if sum(size for _, size in cells) <= room:
        return 0, len(cells)
    first = 0
    if sum(size for _, size in cells[:end]) > room - 1:
        first = max(start - LEAD, 0)
    space = room - 2  # for the ellipses
    stop = first
    while stop < len(cells) and cells[stop][1] <= space:
        space -= cells[stop][1]
        stop += 1
    return first, stop
