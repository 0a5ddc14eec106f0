"""A parsed text whose parts know where they stand in what was written."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from embercoach.metal.facts import Place
from embercoach.metal.program.nodes import Opaque, Spot
from embercoach.metal.program.tree import plain_tree
from embercoach.metal.syntax import line_starts, parse_body, parse_unit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from embercoach.metal.program.nodes import Text
    from embercoach.metal.program.preprocessing import Expanded
    from embercoach.metal.program.tree import Part


class Parsed:
    """The tree of a text, and its way back to the text."""

    def __init__(
        self, text: str, kind: Text, expanded: Expanded, misread: Mapping[int, str] | None = None
    ) -> None:
        self.kind = kind
        self.expanded = expanded
        self._misread = misread or {}
        self._rows = line_starts(text)
        self._syntax = (parse_body if kind == "body" else parse_unit)(self._readable())
        self._data = self._syntax.data
        self.qualifiers = self._syntax.qualifiers
        self.is_exceeded = self._syntax.is_exceeded
        self.tree: Part = plain_tree(self._syntax.root)

    def _readable(self) -> str:
        """The text with the characters that the grammar misread exchanged."""
        characters = list(self.expanded.text) if self._misread else [self.expanded.text]
        for offset, character in self._misread.items():
            characters[offset] = character
        return "".join(characters)

    def offset(self, part: Part) -> int:
        """Where a part starts in the text that was parsed, in characters."""
        return self._syntax.offsets(part.start, part.end)[0]

    def symbol(self, part: Part) -> str:
        """The operator that a part is."""
        exchanged = self._misread and part.kind == ">" and self.offset(part) in self._misread
        return "<" if exchanged else part.kind

    @property
    def problems(self) -> list[Opaque]:
        """Where the grammar had to guess."""
        faults = [
            Opaque("the parser does not understand this", self._written(place.start, place.end))
            for place in self._syntax.faults
        ]
        return faults + [
            Opaque(why, self._at(offset, offset)) for offset, why in self.expanded.problems
        ]

    def word(self, part: Part) -> str:
        """The text of a part, which the parser may have seen shortened (``long(x)``)."""
        end = part.end
        if part.kind == "primitive_type":
            while end < len(self._data) and _continues(self._data[end]):
                end += 1
        return self._data[part.start : end].decode()

    def spot(self, start: int, end: int) -> Spot:
        """The place of a stretch of the data."""
        return self._at(*self.expanded.original(*self._syntax.offsets(start, end)))

    def _written(self, start: int, end: int) -> Spot:
        """The place of a stretch of the expanded text in the written one."""
        return self._at(*self.expanded.original(start, end))

    def _at(self, start: int, end: int) -> Spot:
        row = bisect_right(self._rows, start) - 1
        return Spot(self.kind, Place(start, end, row + 1, start - self._rows[row] + 1))


def _continues(byte: int) -> bool:
    character = chr(byte)
    return character == "_" or (character.isascii() and character.isalnum())
