"""Where settings come from: the default, a line of the configuration file, the command line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

from embercoach.config.extension import ADDING
from embercoach.config.schema import KEYS, SIMULATOR, SIMULATOR_KEYS, Key, Layer

if TYPE_CHECKING:
    from embercoach.config.configuration_files import ConfigFile
    from embercoach.config.load import ConfigurationScope


class SettingOrigin(Struct, frozen=True):
    """Who says something."""

    kind: Literal["default", "file", "command-line"]
    path: Path | None = None
    line: int | None = None


class SettingInForce(Struct, frozen=True):
    """A setting in force.

    Attributes:
        place: the names that lead to it; an entry of a table has its own name last.
        value: as TOML holds it; None for nothing.
        origins: who says so, the file first.
    """

    place: tuple[str, ...]
    value: Any
    origins: tuple[SettingOrigin, ...]


def origin(scope: ConfigurationScope, place: tuple[str, ...], *words: str) -> SettingOrigin:
    """Who says what is at a place of the configuration's table: of several files, the last one."""
    if place[0] == "per-file-ignores" and scope.top.per_file_ignores:
        return SettingOrigin("command-line")
    return origin_in(scope.chain.saying(place)[-1], place, *words)


def origin_in(file: ConfigFile, place: tuple[str, ...], *words: str) -> SettingOrigin:
    """Return the place of a configuration file with a value, and with texts in it."""
    quoted = [f"{quote}{word}{quote}" for word in words for quote in "\"'"]
    return SettingOrigin("file", file.path, file.line_of(place, *quoted))


def facts(scope: ConfigurationScope) -> Iterator[SettingInForce]:
    """Yield the settings in force, in the order of the keys; each entry of a table is a fact."""
    table = scope.chain.table
    options = _said(scope.top)
    for key in KEYS:
        if scope.top.selection.select is not None and key.name in ("extend-select", "ignore"):
            # `select` starts anew: what the file selects and ignores counts no longer.
            yield _fact(scope, key, (key.name,), {}, options)
        elif key.name == "per-file-profiles" and scope.top.profile and key.name in table:
            # A profile on the command line is for every file.
            yield SettingInForce((key.name,), {}, (SettingOrigin("command-line"),))
        else:
            yield from _entries(_fact(scope, key, (key.name,), table, options), scope, key)
    for key in SIMULATOR_KEYS:
        yield _fact(scope, key, (SIMULATOR, key.name), table.get(SIMULATOR, {}), {})


def _said(top: Layer) -> dict[str, Any]:
    """Return the command line's settings by key, as TOML holds them."""
    named = asdict(top.selection) | asdict(top)
    said = {key.name: named.get(key.name.replace("-", "_")) for key in KEYS}
    said["per-file-ignores"] = {name: [*codes] for name, codes in top.per_file_ignores}
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in said.items()
        if value is not None and value not in ((), {})
    }


def _fact(
    scope: ConfigurationScope,
    key: Key,
    place: tuple[str, ...],
    table: dict[str, Any],
    options: dict[str, Any],
) -> SettingInForce:
    name = key.name
    filed, typed = name in table, name in options
    here = SettingOrigin("command-line")
    there: tuple[SettingOrigin, ...] = (SettingOrigin("default"),)
    if filed:
        there = tuple(origin_in(file, place) for file in scope.chain.saying(place))
    if typed and filed and name in ADDING:
        return SettingInForce(place, [*table[name], *options[name]], (*there, here))
    if typed:
        # The empty baseline is none.
        return SettingInForce(place, options[name] if options[name] != "" else None, (here,))
    return SettingInForce(place, table[name] if filed else key.default, there)


def _entries(fact: SettingInForce, scope: ConfigurationScope, key: Key) -> Iterator[SettingInForce]:
    if not isinstance(fact.value, dict) or not fact.value or key.default != {}:
        yield fact
        return
    for name, value in fact.value.items():
        place = (*fact.place, name)
        yield SettingInForce(place, value, (origin(scope, place, name),))


def excluding(scope: ConfigurationScope, pattern: str) -> tuple[str, SettingOrigin]:
    """Return the key that excludes by a pattern, and who says so."""
    table = scope.chain.table
    if scope.top.exclude is not None:
        if pattern in scope.top.exclude:
            return "exclude", SettingOrigin("command-line")
    elif "exclude" in table:
        if pattern in table["exclude"]:
            return "exclude", origin(scope, ("exclude",), pattern)
    elif pattern not in (*scope.base.extend_exclude, *scope.top.extend_exclude):
        return "exclude", SettingOrigin("default")
    if pattern in scope.base.extend_exclude:
        place = ("extend-exclude",)
        said = [file for file in scope.chain.saying(place) if pattern in file.table[place[0]]]
        return "extend-exclude", origin_in(said[-1], place, pattern)
    return "extend-exclude", SettingOrigin("command-line")
