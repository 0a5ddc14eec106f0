"""Suppressions as data: read by ``suppressions``, kept by the cache, matched by ``verdict``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from embercoach.finding import Edit

Kind = Literal["noqa", "ignore", "ignore-file", "skip-file"]

CODES = ("NOQA-001", "NOQA-002")


@dataclass(frozen=True, slots=True)
class Item:
    """A word of a suppression's list and its place, as character offsets."""

    word: str
    start: int
    end: int

    def names(self, code: str) -> bool:
        """Whether it names a code, by itself or by its family (``GRAPH-BREAK``)."""
        word = self.word.upper()
        return code == word or code.startswith(f"{word}-")


@dataclass(frozen=True, slots=True)
class Directive:
    """A suppression comment.

    ``[start, end)`` is the directive's text and ``[removal, removal_end)`` what goes when it goes;
    ``spans`` are the first and last lines of what it covers. ``blanket`` names no codes and
    suppresses all.
    """

    kind: Kind
    line: int
    column: int
    end_column: int
    removal: int
    removal_end: int
    remains: str
    items: tuple[Item, ...]
    blanket: bool
    spans: tuple[tuple[int, int], ...]

    def covers(self, line: int, end_line: int) -> bool:
        """Whether a finding that starts and ends on these lines is covered, whatever its code."""
        return any(low <= line <= high or low <= end_line <= high for low, high in self.spans)

    def edit(self, kept: list[str]) -> Edit:
        """The edit that leaves only some of the listed words, or removes the directive."""
        if not kept:
            return Edit(self.removal, self.removal_end, self.remains)
        return Edit(self.items[0].start, self.items[-1].end, ", ".join(kept))

    def to_tuple(self) -> tuple[Any, ...]:
        """Nested plain tuples, to store as JSON."""
        items = tuple((item.word, item.start, item.end) for item in self.items)
        return (
            self.kind,
            self.line,
            self.column,
            self.end_column,
            self.removal,
            self.removal_end,
            self.remains,
            items,
            self.blanket,
            self.spans,
        )

    @classmethod
    def from_tuple(cls, data: list[Any]) -> Directive:
        """The inverse of :meth:`to_tuple`, from lists as JSON yields them."""
        kind, line, column, end_column, removal, removal_end, remains, items, blanket, spans = data
        return cls(
            kind,
            line,
            column,
            end_column,
            removal,
            removal_end,
            remains,
            tuple(Item(*item) for item in items),
            blanket,
            tuple((low, high) for low, high in spans),
        )
