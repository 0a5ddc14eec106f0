"""Errors and warnings about configurations and options."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec import Struct

from embercoach.files import shown_path
from embercoach.terminal_text import bounded

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
    """Return the known word nearest to another, in any case; of equally near ones, the first."""
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(b=word.casefold())

    def ratio(name: str) -> float:
        matcher.set_seq1(name.casefold())
        is_near = matcher.real_quick_ratio() >= cutoff and matcher.quick_ratio() >= cutoff
        return matcher.ratio() if is_near else 0.0

    near = max(sorted(known), key=ratio, default=None)
    return near if near is not None and ratio(near) >= cutoff else None


def type_name(value: Any) -> str:
    """Return the name of the type of a TOML value, for messages."""
    names = {dict: "table", bool: "boolean", float: "number", int: "number", str: "string"}
    return names.get(type(value), type(value).__name__)
