"""Places as editors count them: lines from 0, columns in units of the encoding agreed upon."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from lsprotocol import types

from embercoach.fixes.source import LineIndex

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.finding import Edit

#: What one unit of a column is, by the name of the encoding: a codec, and its bytes.
_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


class Positions:
    """The places of a text, ours (from 1, in characters) as an editor's."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        """Index a text; ``encoding`` is a ``PositionEncodingKind``."""
        self.index = LineIndex(text)
        self._codec, self._size = _UNITS[encoding]

    def at(self, line: int, column: int) -> types.Position:
        """The position of a line and a column; past the end of its line, the line's end."""
        line = min(line, len(self.index.starts))
        before = self.index.line(line)[: column - 1]
        return types.Position(line - 1, self._units(before))

    def at_offset(self, offset: int) -> types.Position:
        """The position of a character's offset."""
        line, column = self.index.place(offset)
        start = self.index.starts[line - 1]
        # Not by `at`: a fix may end between the two characters of a line end.
        return types.Position(line - 1, self._units(self.index.text[start : start + column - 1]))

    def between(self, line: int, column: int, end_line: int, end_column: int) -> types.Range:
        """The range from a place up to, and without, another."""
        return types.Range(self.at(line, column), self.at(end_line, end_column))

    def place(self, position: types.Position) -> tuple[int, int]:
        """Our line and column of an editor's position; the inverse of :meth:`at`."""
        line = self.index.line(position.line + 1)
        if line.isascii():
            return position.line + 1, min(position.character, len(line)) + 1
        units = 0
        for column, character in enumerate(line, 1):
            if units >= position.character:
                return position.line + 1, column
            units += self._units(character)
        return position.line + 1, len(line) + 1

    def edits(self, edits: Iterable[Edit], newline: str) -> list[types.TextEdit]:
        """A fix's edits, with the text's own line ends."""
        return [
            types.TextEdit(
                types.Range(self.at_offset(edit.start), self.at_offset(edit.end)),
                edit.text.replace("\n", newline),
            )
            for edit in edits
        ]

    def edits_to(self, text: str) -> list[types.TextEdit]:
        """The edits that make another text of this one: whole lines, where they differ."""
        old, new = self.index, LineIndex(text)
        matcher = SequenceMatcher(None, _lines(old), _lines(new), autojunk=False)
        starts = [*old.starts, len(old.text)]
        ends = [*new.starts, len(text)]
        return [
            types.TextEdit(
                types.Range(self.at_offset(starts[low]), self.at_offset(starts[high])),
                text[ends[first] : ends[last]],
            )
            for tag, low, high, first, last in matcher.get_opcodes()
            if tag != "equal"
        ]

    def _units(self, text: str) -> int:
        if text.isascii():
            return len(text)
        return len(text.encode(self._codec, "surrogatepass")) // self._size


def _lines(index: LineIndex) -> list[str]:
    ends = [*index.starts[1:], len(index.text)]
    return [index.text[low:high] for low, high in zip(index.starts, ends, strict=True)]
