"""Where a TOML document says what: readers of TOML keep no lines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from embercoach.toml import TOMLDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Iterator

Place = tuple[str, ...]
#: One of these stands in the last line of every value of several lines.
_CLOSING = ("]", "}", '"""', "'''")


@dataclass(frozen=True, slots=True)
class Statement:
    """A header or a pair: what it names, all within what it names first, and its lines from 1."""

    places: tuple[Place, ...]
    first: int
    last: int


class Lines:
    """The statements of a valid document."""

    def __init__(self, text: str) -> None:
        # A line ends with "\n" in TOML, and with nothing else.
        self._lines = text.replace("\r\n", "\n").split("\n")
        self._statements = tuple(_statements(self._lines))

    def find(self, place: Place, words: tuple[str, ...] = ()) -> int | None:
        """The line of what is at a place, or of the first word in it; None if there is none."""
        own = [s for s in self._statements if any(p[: len(place)] == place for p in s.places)]
        for word in words:
            for statement in own:
                for number in range(statement.first, statement.last + 1):
                    said = self._lines[number - 1].partition("#")[0]
                    if word.casefold() in said.casefold():
                        return number
        return own[0].first if own else None


@lru_cache(maxsize=8)
def lines_of(text: str) -> Lines:
    """The lines of a valid document."""
    return Lines(text)


def _statements(lines: list[str]) -> Iterator[Statement]:
    """Cut a document: each statement of it is a document of its own."""
    within: Place = ()
    first = 0
    while first < len(lines):
        last, said = _statement(lines, first)
        if said:
            header = lines[first].lstrip().startswith("[")
            places = tuple(_places(said))
            if header:
                (within,) = places
            else:
                places = tuple((*within, *place) for place in places)
            yield Statement(places, first + 1, last + 1)
        first = last + 1


def _statement(lines: list[str], first: int) -> tuple[int, dict[str, Any]]:
    """The last line of the statement that starts at a line, and what it says alone."""
    for last in range(first, len(lines)):
        if last > first and not any(mark in lines[last] for mark in _CLOSING):
            continue
        try:
            return last, loads("\n".join(lines[first : last + 1]))
        except TOMLDecodeError:
            continue
    raise ValueError("no valid TOML")


def _places(said: dict[str, Any]) -> Iterator[Place]:
    """The places of leaves; those of an array of tables are all the array's own."""
    pending: list[tuple[Place, Any]] = [((), said)]
    while pending:  # dotted names may be nested deeper than calls
        place, value = pending.pop()
        if isinstance(value, dict) and value:
            pending += [((*place, name), inner) for name, inner in reversed(value.items())]
        else:
            yield place
