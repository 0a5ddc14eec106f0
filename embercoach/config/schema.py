"""The keys of a configuration file: named, typed and described once, and as a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from embercoach.config import setting_types
from embercoach.config.errors import ConfigError, suggestion, type_name
from embercoach.config.required_version import REQUIRED_VERSION
from embercoach.config.selectors import Selection
from embercoach.config.setting_types import DEFINITIONS, SettingType
from embercoach.config.settings import DEFAULT_EXCLUDE, SimulatorSettings
from embercoach.rulebook import RULES_URL

if TYPE_CHECKING:
    from embercoach.config.configuration_files import ConfigFile
    from embercoach.finding import Severity
    from embercoach.kernel_builder import KernelBuilder

GIGABYTE = 1 << 30
EXTEND = "extend"
BASELINE = "baseline"
_SIMULATOR = SimulatorSettings()


class Key(Struct, frozen=True):
    """A setting.

    Attributes:
        name: as configuration files have it.
        type: what it may be.
        about: what it does, in a sentence or two.
        default: what holds where nothing is said, as TOML would say it; None for nothing.
    """

    name: str
    type: SettingType
    about: str
    default: Any = None


_RULES = "codes, prefixes of codes, or ALL"

KEYS = (
    Key("profile", setting_types.PROFILE, "The profile: severities of rules.", "recommended"),
    Key("select", setting_types.SELECTORS, f"Enabled rules: {_RULES}.", ["ALL"]),
    Key(
        "extend-select",
        setting_types.SELECTORS,
        f"Rules enabled in addition to `select`: {_RULES}.",
        [],
    ),
    Key(
        "ignore",
        setting_types.SELECTORS,
        f"Disabled rules: {_RULES}. The longer of two prefixes wins.",
        [],
    ),
    Key(
        "exclude",
        setting_types.PATTERNS,
        "Excluded files and folders, in gitignore's syntax; replaces the default.",
        list(DEFAULT_EXCLUDE),
    ),
    Key(
        "extend-exclude",
        setting_types.PATTERNS,
        "Patterns excluded in addition to `exclude`.",
        [],
    ),
    Key(
        "per-file-ignores",
        setting_types.PATTERN_SELECTORS,
        "Rules to disable by pattern of files; `!pattern` matches all other files.",
        {},
    ),
    Key(
        "per-file-profiles",
        setting_types.PATTERN_PROFILES,
        "Profiles by pattern of files; the last match counts.",
        {},
    ),
    Key(
        "severity",
        setting_types.SELECTOR_SEVERITIES,
        f"Severities by rule instead of the profile's, in every context: {_RULES}. "
        "The longest prefix wins.",
        {},
    ),
    Key("show-notes", setting_types.BOOLEAN, "Whether notes are listed.", False),
    Key(
        "respect-gitignore",
        setting_types.BOOLEAN,
        "Whether files that git ignores are excluded.",
        True,
    ),
    Key(
        "max-file-size",
        setting_types.POSITIVE,
        "Limit of a file in megabytes (default: 4 for Python, 2 for notebooks, 1 for Metal).",
    ),
    Key(
        BASELINE,
        setting_types.PATH,
        "A file of known findings, in this folder or below.",
    ),
    Key(
        "kernel-builders",
        setting_types.KERNEL_BUILDERS,
        "Wrappers of mx.fast.metal_kernel: tables of their parameters by quoted dotted name.",
        {},
    ),
    Key(
        "rules-url",
        setting_types.RULES_URL_TYPE,
        "URL of a rule's page in reports, terminals and editors, with `{code}`; empty: no links.",
        RULES_URL,
    ),
    Key(
        EXTEND,
        setting_types.TOML_FILE,
        "Another configuration file of the project, relative to this one, to build on.",
    ),
    Key(
        REQUIRED_VERSION,
        setting_types.REQUIRED_VERSION_TYPE,
        "Versions of EmberCoach that this file is for, such as `>=0.1`. Others exit with 2.",
    ),
)

SIMULATOR = "simulator"
SIMULATOR_ABOUT = "Settings of `embercoach simulate`."
SIMULATOR_KEYS = (
    Key(
        "compiler",
        setting_types.PATH,
        "A clang instead of that of the package ziglang. Requires --allow-compiler.",
    ),
    Key(
        "timeout",
        setting_types.POSITIVE,
        "Timeout in seconds for compiling and running a launch.",
        _SIMULATOR.timeout,
    ),
    Key(
        "memory",
        setting_types.POSITIVE,
        "Limit of all buffers of a launch in gigabytes.",
        _SIMULATOR.memory / GIGABYTE,
    ),
    Key("checks", setting_types.BOOLEAN, "Whether memory accesses are checked.", _SIMULATOR.checks),
    Key(
        "allow",
        setting_types.KINDS,
        "Kinds of findings, or codes, that this project allows.",
        [],
    ),
)


def json_schema() -> dict[str, Any]:
    """Return the schema of ``embercoach.toml``, and of the table ``tool.embercoach``."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "urn:embercoach:configuration",
        "title": "EmberCoach configuration",
        "description": "embercoach.toml, or the table tool.embercoach of pyproject.toml",
        **_table(KEYS, {SIMULATOR: {"description": SIMULATOR_ABOUT, **_table(SIMULATOR_KEYS)}}),
        "definitions": {name: form() for name, form in DEFINITIONS.items()},
    }


def rendered_json_schema() -> str:
    """Return the schema as text."""
    return json.dumps(json_schema(), indent=2) + "\n"


def _table(keys: Iterable[Key], more: dict[str, Any] | None = None) -> dict[str, Any]:
    properties = {key.name: _property(key) for key in keys} | (more or {})
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _property(key: Key) -> dict[str, Any]:
    about: dict[str, Any] = {"description": key.about}
    if key.default is not None:
        about["default"] = key.default
    return about | key.type.form()


class Layer(Struct, frozen=True):
    """The settings of a configuration file or the command line; None where it has none."""

    selection: Selection = field(default_factory=Selection)
    extend: str | None = None
    profile: str | None = None
    exclude: tuple[str, ...] | None = None
    extend_exclude: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()
    per_file_profiles: tuple[tuple[str, str], ...] = ()
    severity: tuple[tuple[str, Severity], ...] = ()
    show_notes: bool | None = None
    respect_gitignore: bool | None = None
    max_file_size: float | None = None
    simulator: SimulatorSettings = field(default_factory=SimulatorSettings)
    kernel_builders: tuple[KernelBuilder, ...] = ()
    baseline: str | None = None
    rules_url: str | None = None


def layer_of(file: ConfigFile) -> Layer:
    """Check a configuration file's table.

    Raises:
        ConfigError: the first error, with its line if known.
    """
    known = [key.name for key in KEYS] + [SIMULATOR]
    for name in file.table:
        if name not in known:
            hint = suggestion(name, known) or f" (known: {', '.join(known)})"
            message = f"unknown key '{name}' in {file.section}{hint}"
            raise ConfigError(message, file.path, file.line_of((name,)))
    said = _read(file, KEYS)
    said.pop(REQUIRED_VERSION, None)
    return layer_by_key(said, _simulator(file))


def layer_by_key(said: dict[str, Any], simulator: SimulatorSettings | None = None) -> Layer:
    """Return the layer of checked settings, by their keys or the fields of the same names."""
    named = {key.replace("-", "_"): value for key, value in said.items()}
    chosen = {name: named.pop(name) for name in Selection.__struct_fields__ if name in named}
    return Layer(Selection(**chosen), simulator=simulator or SimulatorSettings(), **named)


def _simulator(file: ConfigFile) -> SimulatorSettings:
    table = file.table.get(SIMULATOR, {})
    if not isinstance(table, dict):
        message = f"{SIMULATOR} must be a table, got {type_name(table)}"
        raise ConfigError(message, file.path, file.line_of((SIMULATOR,)))
    known = [key.name for key in SIMULATOR_KEYS]
    for name in table:
        if name not in known:
            hint = suggestion(name, known) or f" (known: {', '.join(known)})"
            message = f"{SIMULATOR}: unknown key '{name}'{hint}"
            raise ConfigError(message, file.path, file.line_of((SIMULATOR, name)))
    said = _read(file, SIMULATOR_KEYS, SIMULATOR)
    if "memory" in said:
        said["memory"] = int(said["memory"] * GIGABYTE)
    return SimulatorSettings(**said)


def _read(file: ConfigFile, keys: Iterable[Key], *within: str) -> dict[str, Any]:
    """Return the checked values of a table by key; ``within`` is the table's place."""
    table = file.table
    for name in within:
        table = table.get(name, {})
    said = {}
    for key in keys:
        if key.name not in table:
            continue
        value = table[key.name]
        place = (*within, key.name)
        try:
            said[key.name] = key.type.check(value)
        except ConfigError as error:
            raise _placed(error, file, place, value) from error
    return said


def _placed(
    error: ConfigError, file: ConfigFile, place: tuple[str, ...], value: Any
) -> ConfigError:
    """Return a mistake in a key's value, with the key's name and its line."""
    words = [f'"{word}"' for word in _words(value) if f"'{word}'" in error.message]
    where = (*place, *error.within)
    name = ".".join([*place, *(f'"{word}"' for word in error.within)])
    joint = "" if error.message.startswith("must ") else ":"
    return ConfigError(f"{name}{joint} {error.message}", file.path, file.line_of(where, *words))


def _words(value: Any) -> list[str]:
    """Return the texts in a value, keys of tables among them."""
    found = []
    pending = [value]
    while pending:  # as dotted names nest deeper than calls
        one = pending.pop()
        if isinstance(one, dict):
            pending += [part for pair in one.items() for part in pair]
        elif isinstance(one, list):
            pending += one
        elif isinstance(one, str):
            found.append(one)
    return found
