"""Finding and reading configuration files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embercoach.config.errors import ConfigError
from embercoach.project_files import OWN_FILE
from embercoach.safe_read import read_bytes

SHARED_FILE = "pyproject.toml"
SECTION = "tool.embercoach"


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A configuration file's table, with the text to find lines in."""

    path: Path
    table: dict[str, Any]
    text: str

    @property
    def section(self) -> str:
        """How messages name the table."""
        return f"[{SECTION}]" if self.path.name == SHARED_FILE else self.path.name

    @property
    def prefix(self) -> tuple[str, ...]:
        """The names that lead to the table."""
        return tuple(SECTION.split(".")) if self.path.name == SHARED_FILE else ()

    def line_of(self, place: tuple[str, ...], *words: str) -> int | None:
        """The line where the table says something.

        Args:
            place: the names that lead to it from the table.
            words: texts, one of which is meant if it stands in a line of it.
        """
        from embercoach.config.places import lines_of

        return lines_of(self.text).find((*self.prefix, *place), words)


def find(folder: Path) -> ConfigFile | None:
    """The nearest configuration at or above a folder.

    In one folder ``embercoach.toml`` goes before ``pyproject.toml``; a ``pyproject.toml`` without
    a ``[tool.embercoach]`` table does not count.
    """
    for candidate in (folder, *folder.parents):
        own = candidate / OWN_FILE
        if own.is_file():
            return read(own)
        shared = candidate / SHARED_FILE
        # The word must be in the text: most files are passed over without parsing them.
        if shared.is_file() and b"embercoach" in _bytes(shared):
            found = read(shared, required=False)
            if found is not None:
                return found
    return None


def read(path: Path, *, required: bool = True) -> ConfigFile | None:
    """Read a configuration file.

    Args:
        path: ``pyproject.toml`` by name, else a file whose top level is ours.
        required: whether a ``pyproject.toml`` without our table is an error, else None.

    Raises:
        ConfigError: unreadable, not UTF-8, not TOML, or no table where one should be.
    """
    try:
        text = _bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not valid UTF-8: {error}", path) from error
    table = _parse(text, path)
    if path.name == SHARED_FILE:
        tool = table.get("tool")
        table = tool.get("embercoach") if isinstance(tool, dict) else None
        if table is None and not required:
            return None
        if table is None:
            raise ConfigError(f"has no [{SECTION}] table", path)
        if not isinstance(table, dict):
            raise ConfigError(f"{SECTION} must be a table", path)
    return ConfigFile(path, table, text)


def _bytes(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", path) from error


def _parse(text: str, path: Path) -> Any:
    # Not at the top: most folders have no configuration.
    from embercoach.toml import TOMLDecodeError, loads

    try:
        return loads(text)
    except TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", path) from error
    except RecursionError as error:
        raise ConfigError("not valid TOML: nested too deeply", path) from error
    except ValueError as error:
        # Dates that no calendar has, numbers that are too long to read.
        raise ConfigError(f"not valid TOML: {error}", path) from error


def folder_of(path: str) -> Path:
    """The folder where the search for a path's configuration starts."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100  (Path.absolute keeps "..")
    return absolute if absolute.is_dir() else absolute.parent
