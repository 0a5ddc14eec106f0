"""Errors and warnings about configurations and options."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from embercoach.files import shown_path
from embercoach.terminal_text import bounded

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: Characters of a message at most.
MOST_SAID = 1_000


class ConfigError(Exception):
    """One clear line: what the mistake is, what was probably meant, and where it is."""

    def __init__(
        self,
        message: str,
        path: Path | None = None,
        line: int | None = None,
        within: tuple[str, ...] = (),
        absent: Path | None = None,
    ) -> None:
        # Lists of known names are long; what a file says may be longer.
        message = bounded(message, whole=MOST_SAID)
        super().__init__(f"{message}{_place(path, line)}")
        self.message = message
        self.path = path
        self.line = line
        #: The names that lead to the mistake from the key that is checked.
        self.within = within
        #: The missing file that is the mistake.
        self.absent = absent


class ConfigWarning(Struct, frozen=True):
    """A probable mistake in a configuration that can be used nevertheless."""

    message: str
    path: Path
    line: int | None = None

    def __str__(self) -> str:
        return f"{self.message}{_place(self.path, self.line)}"


def _place(path: Path | None, line: int | None) -> str:
    if path is None:
        return ""
    shown = shown_path(path)
    return f" ({shown}:{line})" if line else f" ({shown})"


def suggestion(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """``; did you mean 'x'?`` for the nearest known word, or nothing if none is near."""
    near = nearest(word, known, cutoff=cutoff)
    return f"; did you mean '{near}'?" if near else ""


def nearest(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known word nearest to another, by letters and without regard to case."""
    return Vocabulary(known).nearest(word, cutoff=cutoff)


class Vocabulary:
    """Known words, to find the nearest ones to many others."""

    def __init__(self, known: Iterable[str]) -> None:
        """Note the letters of each word as bits, one for each time that it has one."""
        self._bits: dict[tuple[str, int], int] = {}
        self._words = {name.casefold(): name for name in sorted(known)}
        self._letters = {word: self._letters_of(word, add=True) for word in self._words}

    def nearest(self, word: str, *, cutoff: float = 0.6) -> str | None:
        """Get the nearest known word, without regard to case; of equally near ones, the first."""
        from difflib import SequenceMatcher, get_close_matches

        folded = word.casefold()
        letters = self._letters_of(folded, add=False)
        # Of difflib's own checks, this one comes first: it rules out most words in no time.
        near = [
            known
            for known, other in self._letters.items()
            if 2 * (letters & other).bit_count() / max(len(known) + len(folded), 1) >= cutoff
        ]
        found = get_close_matches(folded, near, n=len(near) or 1, cutoff=cutoff)
        scored = groupby(found, lambda known: SequenceMatcher(None, known, folded).ratio())
        best = next(scored, None)
        return self._words[min(best[1])] if best else None

    def _letters_of(self, word: str, *, add: bool) -> int:
        found = 0
        for letter, count in Counter(word).items():
            for number in range(count):
                key = (letter, number)
                if add:
                    self._bits.setdefault(key, 1 << len(self._bits))
                found |= self._bits.get(key, 0)
        return found


def type_name(value: Any) -> str:
    """Return the name of the type of a TOML value, for messages."""
    names = {dict: "table", bool: "boolean", float: "number", int: "number", str: "string"}
    return names.get(type(value), type(value).__name__)
