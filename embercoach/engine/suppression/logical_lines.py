"""Physical and logical lines of a file, on which suppressions depend."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment token."""

    line: int
    column: int
    text: str
    alone: bool


@dataclass(slots=True)
class PhysicalLines:
    """How physical lines belong together.

    ``logical`` and ``strings`` hold first and last lines of statements and of strings over several
    lines, ``code`` the lines with code, ``open_ended`` those that a comment may end.
    """

    comments: list[Comment] = field(default_factory=list)
    logical: list[tuple[int, int]] = field(default_factory=list)
    strings: list[tuple[int, int]] = field(default_factory=list)
    code: list[int] = field(default_factory=list)
    open_ended: set[int] = field(default_factory=set)


class LineSpans:
    """The lines that a suppression covers, by the line that it stands on."""

    def __init__(self, lines: PhysicalLines) -> None:
        """Index the lines: a search through all of them for each comment takes the square."""
        self._code = sorted(lines.code)
        self._first = sorted(span[0] for span in lines.logical)
        # How far the statements reach that begin up to there.
        self._reach = [*accumulate((last for _, last in sorted(lines.logical)), max)]
        # By the line where statements begin, the last that they reach; by the line where they end,
        # and where strings end, the first that these begin at.
        self._last: dict[int, int] = {}
        self._start: dict[int, int] = {}
        self._string: dict[int, int] = {}
        for first, last in lines.logical:
            self._last[first] = max(self._last.get(first, last), last)
            self._start[last] = min(self._start.get(last, first), first)
        for first, last in lines.strings:
            self._string[last] = min(self._string.get(last, first), first)

    def covered(self, comment: Comment, kind: str) -> tuple[int, int]:
        """The first and the last line that a suppression of a kind covers in a comment."""
        row = comment.line
        if comment.alone and kind == "ignore":
            at = bisect_right(self._code, row)
            below = self._code[at] if at < len(self._code) else row
            return below, below if self._is_inside(row) else self._last.get(below, below)
        first = min(self._start.get(row, row), self._string.get(row, row))
        return first, self._last.get(row, row)

    def _is_inside(self, row: int) -> bool:
        """Return whether a statement that begins above a line continues there."""
        above = bisect_left(self._first, row)
        return above > 0 and self._reach[above - 1] >= row
