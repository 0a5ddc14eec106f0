"""Finding and reading configuration files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

from embercoach import safe_read
from embercoach.config.errors import ConfigError, ConfigWarning, nearest
from embercoach.project_files import OWN_FILE, boundary

if TYPE_CHECKING:
    from collections.abc import Iterator

SHARED_FILE = "pyproject.toml"
SECTION = "tool.embercoach"
#: Bytes; nobody writes as many settings.
LARGEST = 1 << 20
#: What a misspelt name of ours looks like: only files with such a word are parsed to find one.
_WORD = re.compile(rb"[A-Za-z_-]{7,13}")
_LETTERS = frozenset(b"embercoach")


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
            words: texts that identify the value in a line of it.
        """
        return _line(self.text, (*self.prefix, *place), words)


def home_folder() -> tuple[str, str]:
    """The home directory, as the environment names it and without links."""
    home = os.path.expanduser("~")  # noqa: PTH111  (Path.home raises where there is none)
    return home, os.path.realpath(home)


def searched(folder: str) -> Iterator[str]:
    """The folders whose configuration may count for files in a folder, nearest first.

    The top of the checkout is the last, else the home directory, else the file system's root: a
    file above them was written by others, or for other work.
    """
    home = home_folder()
    while True:
        yield folder
        above = os.path.dirname(folder)  # noqa: PTH120  (hot)
        if folder in (*home, above) or os.path.lexists(os.path.join(folder, ".git")):  # noqa: PTH118
            return
        folder = above


def own(folder: str) -> tuple[ConfigFile | None, ConfigWarning | None]:
    """The configuration in a folder, and a table that was probably meant to be one.

    ``embercoach.toml`` goes before ``pyproject.toml``; a ``pyproject.toml`` without a
    ``[tool.embercoach]`` table does not count. Neither may be a link out of the project.

    Raises:
        ConfigError: a mistake in it.
    """
    path = Path(folder)
    if is_there(path / OWN_FILE):
        return read(path / OWN_FILE, root=boundary(folder) or folder), None
    shared = path / SHARED_FILE
    if not is_there(shared):
        return None, None
    root = boundary(folder) or folder
    data = read_bytes(shared, root)
    # Most files do not mention EmberCoach and need no parsing.
    if b"embercoach" in data:
        return read(shared, required=False, root=root), _misspelt(data, shared)
    return None, _misspelt(data, shared)


def is_there(path: Path) -> bool:
    """Return whether a configuration file exists; a folder does not count."""
    try:
        return not S_ISDIR(path.stat().st_mode)
    except OSError:
        return False


def _misspelt(data: bytes, path: Path) -> ConfigWarning | None:
    """A table of ``tool`` whose name is nearly ours."""
    words = set(_WORD.findall(data)) - {b"embercoach"}
    if not any(len(_LETTERS.intersection(word.lower())) >= len(_LETTERS) - 2 for word in words):
        return None
    try:
        tool = parsed(data, path).get("tool")
    except ConfigError:
        return None  # another program's file, if anybody's
    for name in tool if isinstance(tool, dict) else ():
        if name != "embercoach" and nearest(name, ("embercoach",), cutoff=0.8):
            text = f"unknown table [tool.{name}]; did you mean [{SECTION}]?"
            line = _line(decoded(data, path), ("tool", name))
            return ConfigWarning(text, path, line)
    return None


def read(path: Path, *, required: bool = True, root: str | None = None) -> ConfigFile | None:
    """Read a configuration file.

    Args:
        path: ``pyproject.toml`` by name, else a file whose top level is ours.
        required: whether a ``pyproject.toml`` without our table is an error, else None.
        root: the folder that the file must lie in after all links; None for anywhere.

    Raises:
        ConfigError: unreadable, not UTF-8, not TOML, or no table where one should be.
    """
    data = read_bytes(path, root)
    table: Any = parsed(data, path)
    if path.name == SHARED_FILE:
        tool = table.get("tool")
        table = tool.get("embercoach") if isinstance(tool, dict) else None
        if table is None and not required:
            return None
        if table is None:
            raise ConfigError(f"configuration has no [{SECTION}] table", path)
        if not isinstance(table, dict):
            raise ConfigError(f"{SECTION} must be a table", path)
    return ConfigFile(path, table, decoded(data, path))


def read_bytes(path: Path, root: str | None = None) -> bytes:
    """The bytes of a configuration file, which anybody may have written.

    Raises:
        ConfigError: it cannot be read, is not a regular file, lies outside the root, or is too
            large.
    """
    try:
        return safe_read.read_bytes(path, limit=LARGEST, root=root)
    except safe_read.TooLargeError as error:
        raise ConfigError(f"configuration must be at most {LARGEST >> 20} MB", path) from error
    except safe_read.RefusedError as error:
        where = " inside the project" if path.is_symlink() else ""
        raise ConfigError(f"configuration must be a regular file{where}", path) from error
    except OSError as error:
        raise ConfigError(
            f"configuration cannot be read: {error.strerror or error}", path
        ) from error


def decoded(data: bytes, path: Path) -> str:
    """A configuration file's text.

    Raises:
        ConfigError: it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not valid UTF-8: {error}", path) from error


def parsed(data: bytes, path: Path) -> dict[str, Any]:
    """A configuration file's tables.

    Raises:
        ConfigError: it is not UTF-8, or not TOML.
    """
    text = decoded(data, path)
    # Not at the top: most folders have no configuration.
    from embercoach.toml import TOMLDecodeError, loads

    try:
        tables: dict[str, Any] = loads(text)
    except TOMLDecodeError as error:
        raise ConfigError(f"not valid TOML: {error}", path) from error
    except RecursionError as error:
        raise ConfigError("not valid TOML: nested too deeply", path) from error
    except ValueError as error:
        # Dates that no calendar has, numbers that are too long to read.
        raise ConfigError(f"not valid TOML: {error}", path) from error
    return tables


def _line(text: str, place: tuple[str, ...], words: tuple[str, ...] = ()) -> int | None:
    from embercoach.config.toml_lines import lines_of

    return lines_of(text).find(place, words)


def folder_of(path: str) -> Path:
    """The folder where the search for a path's configuration starts."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100  (Path.absolute keeps "..")
    return absolute if absolute.is_dir() else absolute.parent
