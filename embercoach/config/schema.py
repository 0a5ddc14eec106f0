"""The keys of the configuration: their types, their checks, their messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from embercoach.config.errors import ConfigError, suggestion
from embercoach.config.patterns import check_pattern
from embercoach.config.selectors import Selection, check_selector
from embercoach.rulebook import PROFILES

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.config.files import ConfigFile

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Layer:
    """What a configuration file or the command line says; None where it says nothing."""

    selection: Selection = field(default_factory=Selection)
    profile: str | None = None
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    per_file_profiles: tuple[tuple[str, str], ...] = ()
    show_notes: bool | None = None
    respect_gitignore: bool | None = None


KEYS = (
    "profile",
    "select",
    "extend-select",
    "ignore",
    "exclude",
    "extend-exclude",
    "per-file-ignores",
    "per-file-profiles",
    "show-notes",
    "respect-gitignore",
)


def layer_of(file: ConfigFile) -> Layer:
    """Check a configuration file's table.

    Raises:
        ConfigError: the first mistake, with its line where it can be told.
    """
    for key in file.table:
        if key not in KEYS:
            hint = suggestion(key, KEYS) or f" (known: {', '.join(KEYS)})"
            message = f"unknown key '{key}' in {file.section}{hint}"
            raise ConfigError(message, file.path, file.line_of(key))
    reader = _Reader(file)
    return Layer(
        selection=Selection(
            select=reader.get("select", _selectors),
            extend_select=reader.get("extend-select", _selectors) or (),
            ignore=reader.get("ignore", _selectors) or (),
        ),
        profile=reader.get("profile", check_profile),
        exclude=reader.get("exclude", _patterns),
        extend_exclude=reader.get("extend-exclude", _patterns) or (),
        per_file_ignores=reader.get("per-file-ignores", _pattern_selectors) or (),
        per_file_profiles=reader.get("per-file-profiles", _pattern_profiles) or (),
        show_notes=reader.get("show-notes", _boolean),
        respect_gitignore=reader.get("respect-gitignore", _boolean),
    )


class _Reader:
    """Reads keys and says where a mistake is."""

    def __init__(self, file: ConfigFile) -> None:
        self._file = file

    def get(self, key: str, check: Callable[[Any], T]) -> T | None:
        if key not in self._file.table:
            return None
        value = self._file.table[key]
        try:
            return check(value)
        except ConfigError as error:
            words = [f'"{word}"' for word in _words(value) if f"'{word}'" in error.message]
            line = self._file.line_of(*words, key)
            raise ConfigError(f"{key}: {error.message}", self._file.path, line) from error


def _words(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [word for pair in value.items() for part in pair for word in _words(part)]
    if isinstance(value, list):
        return [word for part in value for word in _words(part)]
    return [value] if isinstance(value, str) else []


def check_profile(value: Any) -> str:
    """A profile's name.

    Raises:
        ConfigError: there is no such profile.
    """
    if not isinstance(value, str):
        raise ConfigError(f"must be a text, not {_type(value)}")
    if value not in PROFILES:
        known = " or ".join(f"'{name}'" for name in PROFILES)
        raise ConfigError(f"unknown profile '{value}'{suggestion(value, PROFILES)} ({known})")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"must be true or false, not {_type(value)}")
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"must be a list of texts, not {_type(value)}")
    for item in value:
        if not isinstance(item, str):
            raise ConfigError(f"must be a list of texts, but holds {_type(item)}")
    return tuple(value)


def _selectors(value: Any) -> tuple[str, ...]:
    return tuple(check_selector(item) for item in _texts(value))


def _patterns(value: Any) -> tuple[str, ...]:
    return tuple(_pattern(item) for item in _texts(value))


def _pattern(pattern: str) -> str:
    mistake = check_pattern(pattern)
    if mistake:
        raise ConfigError(mistake)
    return pattern


def _table(value: Any, of: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"must be a table from patterns to {of}, not {_type(value)}")
    for pattern in value:
        _pattern(pattern)
    return value


def _pattern_selectors(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    table = _table(value, "lists of rules")
    return tuple((pattern, _selectors(selectors)) for pattern, selectors in table.items())


def _pattern_profiles(value: Any) -> tuple[tuple[str, str], ...]:
    table = _table(value, "profiles")
    return tuple((pattern, check_profile(profile)) for pattern, profile in table.items())


def _type(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text"}
    names |= {list: "a list", dict: "a table"}
    return names.get(type(value), f"a {type(value).__name__}")
