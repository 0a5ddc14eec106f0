"""Edits of a text that keep its lines, and the way back to where a place stood before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from msgspec import Struct

from embercoach.simulator.model import SimulatorError


class LineEdit(Struct, frozen=True):
    """Replace ``text[start:end]`` by ``new``, which holds as many line breaks; in characters."""

    start: int
    end: int
    new: str


class EditedText(Struct, frozen=True):
    """A text after edits.

    Attributes:
        original: the text before.
        text: the text after, line for line.
        edits: in order, apart from each other.
    """

    original: str
    text: str
    edits: tuple[LineEdit, ...]

    def original_place(self, line: int, column: int) -> tuple[int, int]:
        """Return the original place of a place of the edited text; inserted text maps to its start.

        Args:
            line: from 1.
            column: in UTF-8 bytes from 1, as compilers count.

        Returns:
            The same line and the column in characters from 1.
        """
        before, after = self._line(self.original, line), self._line(self.text, line)
        start = start_of_line(self.text, line)
        inside = len(after.encode(errors="replace")[: column - 1].decode(errors="ignore"))
        column_before = self._offset(start + inside) - start_of_line(self.original, line)
        return line, min(max(column_before, 0), len(before)) + 1

    def insertions(self) -> Iterator[tuple[int, int, int]]:
        """Places where lines get longer: line and column before, from 1, and characters more."""
        line, done = 1, 0
        for edit in self.edits:
            line += self.original.count("\n", done, edit.start)
            done = edit.start
            more = len(edit.new) - (edit.end - edit.start)
            if more > 0:
                yield line, edit.start - self.original.rfind("\n", 0, edit.start), more

    def _offset(self, offset: int) -> int:
        shifts = accumulate(len(e.new) - (e.end - e.start) for e in self.edits)
        moved = 0
        for edit, shift in zip(self.edits, shifts, strict=True):
            if offset < edit.start + moved:
                break
            if offset < edit.start + moved + len(edit.new):
                # Blanked stretches keep their columns.
                return min(edit.start + (offset - edit.start - moved), max(edit.start, edit.end))
            moved = shift
        return offset - moved

    @staticmethod
    def _line(text: str, line: int) -> str:
        lines = text.split("\n")
        return lines[line - 1] if 0 < line <= len(lines) else ""


def apply(text: str, edits: Iterable[LineEdit]) -> EditedText:
    """Make the edits.

    Raises:
        SimulatorError: two edits overlap, or one would move the lines below it.
    """
    ordered = tuple(sorted(edits, key=lambda e: (e.start, e.end)))
    parts: list[str] = []
    done = 0
    for edit in ordered:
        removed = text[edit.start : edit.end]
        if edit.start < done or removed.count("\n") != edit.new.count("\n"):
            line = text.count("\n", 0, edit.start) + 1
            raise SimulatorError(
                f"line {line} of the generated source can't be rewritten in place: {removed!r}"
            )
        parts += (text[done : edit.start], edit.new)
        done = edit.end
    parts.append(text[done:])
    return EditedText(text, "".join(parts), ordered)


def blanked(text: str, start: int, end: int) -> LineEdit:
    """Return the edit that leaves spaces, and the line breaks, of a stretch."""
    kept = "".join(c if c in "\r\n" else " " for c in text[start:end])
    return LineEdit(start, end, kept)


def start_of_line(text: str, line: int) -> int:
    """Return the first character of a line, which counts from 1."""
    return sum(len(each) + 1 for each in text.split("\n")[: line - 1])


def line_of(text: str, offset: int) -> int:
    """Return the line of a character, from 1."""
    return text.count("\n", 0, offset) + 1
