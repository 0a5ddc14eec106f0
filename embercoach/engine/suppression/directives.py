"""Suppression comments as data: read by ``suppressions``, matched by ``verdict``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from embercoach.finding import Edit

Kind = Literal["noqa", "ignore", "ignore-file", "skip-file"]

CODES = ("NOQA-001", "NOQA-002")


@dataclass(frozen=True, slots=True)
class Item:
    """A word of a suppression's list and its place, as character offsets."""

    word: str
    start: int
    end: int


@lru_cache(maxsize=512)
def words_for(code: str) -> tuple[str, ...]:
    """The words that name a code: itself and its families (``GRAPH-BREAK``)."""
    parts = code.split("-")
    return tuple("-".join(parts[:count]) for count in range(len(parts), 0, -1))


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

    def edit(self, kept: list[str]) -> Edit:
        """The edit that leaves only some of the listed words, or removes the directive."""
        if not kept:
            return Edit(self.removal, self.removal_end, self.remains)
        return Edit(self.items[0].start, self.items[-1].end, ", ".join(kept))
