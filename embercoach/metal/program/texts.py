"""A parsed text whose parts know where they stand in what was written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.metal.program.nodes import Opaque, Spot
from embercoach.metal.program.tree import plain_tree
from embercoach.metal.syntax import parse_body, parse_unit

if TYPE_CHECKING:
    from embercoach.metal.program.nodes import Text
    from embercoach.metal.program.tree import Part


class Parsed:
    """The tree of a text, and its way back to the text."""

    def __init__(self, text: str, kind: Text) -> None:
        self.kind = kind
        self._syntax = (parse_body if kind == "body" else parse_unit)(text)
        self._data = self._syntax.data
        self.qualifiers = self._syntax.qualifiers
        self.tree: Part = plain_tree(self._syntax.root)

    @property
    def problems(self) -> list[Opaque]:
        """Where the grammar had to guess."""
        return [
            Opaque("the parser does not understand this", Spot(self.kind, place))
            for place in self._syntax.faults
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
        return Spot(self.kind, self._syntax.stretch(start, end))


def _continues(byte: int) -> bool:
    return byte == ord("_") or chr(byte).isalnum()
