"""Where a TOML document says what: readers of TOML keep no lines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from embercoach.toml import TOMLDecodeError, loads

if TYPE_CHECKING:
    from collections.abc import Iterator

Place = tuple[str, ...]
#: The last line of a value over several lines contains one of these.
_CLOSING = ("]", "}", '"""', "'''")
#: Names by which statements are looked up: no longer place is asked for.
_LOOKED_UP = 6
#: Characters that finding the ends of values may read, and those for each of the document: a line
#: is not worth more.
_READ = 100_000
_READ_A_CHARACTER = 20


@dataclass(frozen=True, slots=True)
class Statement:
    """A header or a pair: what it names, all within what it names first, and its lines from 1."""

    places: tuple[Place, ...]
    first: int
    last: int


class TomlLines:
    """The statements of a valid document."""

    def __init__(self, text: str) -> None:
        # A line ends with "\n" in TOML, and with nothing else.
        self._lines = text.replace("\r\n", "\n").split("\n")
        self._statements: dict[Place, list[Statement]] = {}
        for statement in _statements(self._lines, _READ + _READ_A_CHARACTER * len(text)):
            prefixes = {p[:n] for p in statement.places for n in range(_LOOKED_UP + 1)}
            for prefix in prefixes:
                self._statements.setdefault(prefix, []).append(statement)

    def find(self, place: Place, words: tuple[str, ...] = ()) -> int | None:
        """The line of what is at a place, or of the first word in it; None if it is not known."""
        own = self._statements.get(place, [])
        for word in words:
            for statement in own:
                for number in range(statement.first, statement.last + 1):
                    said = self._lines[number - 1].partition("#")[0]
                    if word.casefold() in said.casefold():
                        return number
        return own[0].first if own else None


@lru_cache(maxsize=8)
def lines_of(text: str) -> TomlLines:
    """The lines of a valid document."""
    return TomlLines(text)


def _statements(lines: list[str], budget: int) -> Iterator[Statement]:
    """Cut a document into its statements, each of which is a document.

    Those are missing that so many characters don't suffice for.
    """
    within: Place = ()
    first = 0
    while first < len(lines):
        found = _statement(lines, first, budget)
        if found is None:
            return
        last, said, budget = found
        if said:
            header = lines[first].lstrip().startswith("[")
            places = tuple(_places(said))
            if header:
                (within,) = places
            else:
                places = tuple((*within, *place) for place in places)
            yield Statement(places, first + 1, last + 1)
        first = last + 1


def _statement(lines: list[str], first: int, budget: int) -> tuple[int, dict[str, Any], int] | None:
    """The last line of the statement that starts at a line, what it says, and what is left."""
    for last in range(first, len(lines)):
        if last > first and not any(mark in lines[last] for mark in _CLOSING):
            continue
        text = "\n".join(lines[first : last + 1])
        budget -= len(text)
        if budget < 0:
            return None
        try:
            return last, loads(text), budget
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
