"""What is told when a configuration or an option is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable


class ConfigError(Exception):
    """One clear line: where the mistake is, what it is, and what was probably meant."""

    def __init__(self, message: str, path: Path | None = None, line: int | None = None) -> None:
        super().__init__(f"{_place(path, line)}{message}")
        self.message = message
        self.path = path
        self.line = line


def _place(path: Path | None, line: int | None) -> str:
    if path is None:
        return ""
    shown = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    return f"{shown}:{line}: " if line else f"{shown}: "


def suggestion(word: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` for the nearest known word, or nothing if none is near."""
    near = nearest(word, known)
    return f"; did you mean '{near}'?" if near else ""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word nearest to another, by letters and without regard to case."""
    from difflib import get_close_matches

    by_folded = {name.casefold(): name for name in sorted(known)}
    found = get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def type_name(value: Any) -> str:
    """What messages call the type of a value that TOML can hold."""
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text"}
    names |= {list: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")
