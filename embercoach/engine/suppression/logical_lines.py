"""Physical and logical lines of a file, on which suppressions depend."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
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
        self._beginning: defaultdict[int, list[int]] = defaultdict(list)
        self._ending: defaultdict[int, list[int]] = defaultdict(list)
        self._strings: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._logical = lines.logical
        for number, (first, last) in enumerate(lines.logical):
            self._beginning[first].append(number)
            self._ending[last].append(number)
        for span in lines.strings:
            self._strings[span[1]].append(span)

    def covered(self, comment: Comment, kind: str) -> tuple[tuple[int, int], ...]:
        """The spans that a suppression of a kind covers in a comment."""
        row = comment.line
        if comment.alone and kind == "ignore":
            at = bisect_right(self._code, row)
            below = self._code[at] if at < len(self._code) else row
            spans = [(below, below)]
            if not self._is_inside(row):
                spans += [self._logical[number] for number in self._beginning[below]]
            return tuple(spans)
        numbers = sorted({*self._beginning[row], *self._ending[row]})
        return ((row, row), *(self._logical[number] for number in numbers), *self._strings[row])

    def _is_inside(self, row: int) -> bool:
        """Return whether a statement that begins above a line continues there."""
        above = bisect_left(self._first, row)
        return above > 0 and self._reach[above - 1] >= row
