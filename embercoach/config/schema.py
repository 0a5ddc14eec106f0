"""The keys of the configuration: their types, their checks, their messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from embercoach.config.builders import kernel_builders
from embercoach.config.errors import ConfigError, suggestion, type_name
from embercoach.config.patterns import check_pattern
from embercoach.config.selectors import Selection, check_selector
from embercoach.config.settings import SimulatorSettings
from embercoach.rulebook import PROFILES, kinds

if TYPE_CHECKING:
    from collections.abc import Callable

    from embercoach.config.files import ConfigFile
    from embercoach.kernel_builder import KernelBuilder

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
    simulator: SimulatorSettings = field(default_factory=SimulatorSettings)
    kernel_builders: tuple[KernelBuilder, ...] = ()
    baseline: str | None = None


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
    "simulator",
    "kernel-builders",
    "baseline",
)
SIMULATOR_KEYS = ("compiler", "timeout", "memory", "checks", "allow")


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
        simulator=_simulator(reader),
        kernel_builders=reader.get("kernel-builders", kernel_builders) or (),
        baseline=reader.get("baseline", _text),
    )


def _simulator(reader: _Reader) -> SimulatorSettings:
    table = reader.within("simulator", SIMULATOR_KEYS)
    default = SimulatorSettings()
    memory, checks = table.get("memory", _positive), table.get("checks", _boolean)
    return SimulatorSettings(
        compiler=table.get("compiler", _text),
        timeout=table.get("timeout", _positive) or default.timeout,
        memory=default.memory if memory is None else int(memory * (1 << 30)),
        checks=default.checks if checks is None else checks,
        allow=table.get("allow", _kinds) or (),
    )


class _Reader:
    """Reads keys and says where a mistake is."""

    def __init__(
        self, file: ConfigFile, table: dict[str, Any] | None = None, prefix: str = ""
    ) -> None:
        self._file = file
        self._table = file.table if table is None else table
        self._prefix = prefix

    def get(self, key: str, check: Callable[[Any], T]) -> T | None:
        if key not in self._table:
            return None
        value = self._table[key]
        try:
            return check(value)
        except ConfigError as error:
            words = [f'"{word}"' for word in _words(value) if f"'{word}'" in error.message]
            line = self._file.line_of(*words, key)
            shown = f"{self._prefix}{key}: {error.message}"
            raise ConfigError(shown, self._file.path, line) from error

    def within(self, key: str, known: tuple[str, ...]) -> _Reader:
        """The reader of a table inside this one, which may hold the known keys only."""
        table = self._table.get(key, {})
        if not isinstance(table, dict):
            message = f"{key}: must be a table, not {type_name(table)}"
            raise ConfigError(message, self._file.path, self._file.line_of(key))
        for inner in table:
            if inner not in known:
                hint = suggestion(inner, known) or f" (known: {', '.join(known)})"
                message = f"{key}: unknown key '{inner}'{hint}"
                raise ConfigError(message, self._file.path, self._file.line_of(inner, key))
        return _Reader(self._file, table, f"{key}.")


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
        raise ConfigError(f"must be a text, not {type_name(value)}")
    if value not in PROFILES:
        known = " or ".join(f"'{name}'" for name in PROFILES)
        raise ConfigError(f"unknown profile '{value}'{suggestion(value, PROFILES)} ({known})")
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ConfigError(f"must be true or false, not {type_name(value)}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(
            f"must be a text, not {type_name(value) if value != '' else 'an empty one'}"
        )
    return value


def _positive(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigError(f"must be a number, not {type_name(value)}")
    if not 0 < value < float("inf"):
        raise ConfigError(f"must be a number above 0, not {value}")
    return float(value)


def _kinds(value: Any) -> tuple[str, ...]:
    return tuple(map(check_kind, _texts(value)))


def check_kind(value: str) -> str:
    """A kind of the simulator's findings, from the kind itself or its rule's code.

    Raises:
        ConfigError: there is no such kind; says which one is near.
    """
    by_code = {rule.code: kind for kind, rule in kinds().items()}
    kind = by_code.get(value, value)
    if kind not in kinds():
        hint = suggestion(value, {*kinds(), *by_code}) or f" (known: {', '.join(kinds())})"
        raise ConfigError(f"unknown kind of finding '{value}'{hint}")
    return kind


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"must be a list of texts, not {type_name(value)}")
    for item in value:
        if not isinstance(item, str):
            raise ConfigError(f"must be a list of texts, but holds {type_name(item)}")
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
        raise ConfigError(f"must be a table from patterns to {of}, not {type_name(value)}")
    for pattern in value:
        _pattern(pattern)
    return value


def _pattern_selectors(value: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    table = _table(value, "lists of rules")
    return tuple((pattern, _selectors(selectors)) for pattern, selectors in table.items())


def _pattern_profiles(value: Any) -> tuple[tuple[str, str], ...]:
    table = _table(value, "profiles")
    return tuple((pattern, check_profile(profile)) for pattern, profile in table.items())
