"""Find and read configuration files, with the line of each value."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR
from typing import Any

from msgspec import Struct

from embercoach import files
from embercoach.config.errors import ConfigError, ConfigWarning, nearest
from embercoach.files import OWN_FILE, boundary
from embercoach.toml import TOMLDecodeError, loads

Place = tuple[str, ...]
#: The last line of a value over several lines contains one of these.
_CLOSING = ("]", "}", '"""', "'''")
#: Names by which statements are looked up: no longer place is asked for.
_LOOKED_UP = 6
#: Characters that finding the ends of values may read, and those for each of the document: a line
#: is not worth more.
_READ = 100_000
_READ_A_CHARACTER = 20


class Statement(Struct, frozen=True):
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
    """Return the lines of a valid document."""
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
    """Get the last line of the statement that starts at a line, what it says, and what is left."""
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
    """Yield the places of leaves; those of an array of tables are all the array's own."""
    pending: list[tuple[Place, Any]] = [((), said)]
    while pending:  # dotted names may be nested deeper than calls
        place, value = pending.pop()
        if isinstance(value, dict) and value:
            pending += [((*place, name), inner) for name, inner in reversed(value.items())]
        else:
            yield place


SHARED_FILE = "pyproject.toml"
SECTION = "tool.embercoach"
#: Bytes; nobody writes as many settings.
LARGEST = 1 << 20
#: What a misspelt name of ours looks like: only files with such a word are parsed to find one.
_WORD = re.compile(rb"[A-Za-z_-]{7,13}")
_LETTERS = frozenset(b"embercoach")


class ConfigFile(Struct, frozen=True):
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
        """Return the line where the table says something.

        Args:
            place: the names that lead to it from the table.
            words: texts that identify the value in a line of it.
        """
        return _line(self.text, (*self.prefix, *place), words)


def home_folder() -> tuple[str, str]:
    """Return the home directory, as the environment names it and without links."""
    home = os.path.expanduser("~")  # noqa: PTH111  (Path.home raises where there is none)
    return home, os.path.realpath(home)


def searched(start: str) -> Iterator[str]:
    """Yield the folders whose configuration may count for files in a folder, nearest first.

    The top of the checkout is the last, else the home directory, else the file system's root: a
    file above them was written by others, or for other work.
    """
    home = home_folder()
    for folder in files.upward(start):
        yield folder
        if folder in home or os.path.lexists(os.path.join(folder, ".git")):  # noqa: PTH118
            return


def own(folder: str) -> tuple[ConfigFile | None, ConfigWarning | None]:
    """Return the configuration in a folder, and a table that was probably meant to be one.

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
    """Return a table of ``tool`` whose name is nearly ours."""
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
    """Return the bytes of a configuration file, which anybody may have written.

    Raises:
        ConfigError: it cannot be read, is not a regular file, lies outside the root, or is too
            large.
    """
    try:
        return files.read_bytes(path, limit=LARGEST, root=root)
    except files.TooLargeError as error:
        raise ConfigError(f"configuration must be at most {LARGEST >> 20} MB", path) from error
    except files.RefusedError as error:
        where = " inside the project" if path.is_symlink() else ""
        raise ConfigError(f"configuration must be a regular file{where}", path) from error
    except OSError as error:
        raise ConfigError(
            f"configuration cannot be read: {error.strerror or error}", path
        ) from error


def decoded(data: bytes, path: Path) -> str:
    """Return a configuration file's text.

    Raises:
        ConfigError: it is not UTF-8.
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"not valid UTF-8: {error}", path) from error


def parsed(data: bytes, path: Path) -> dict[str, Any]:
    """Return a configuration file's tables.

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

    return lines_of(text).find(place, words)


def folder_of(path: str) -> Path:
    """Return the folder where the search for a path's configuration starts."""
    absolute = Path(os.path.abspath(path))  # noqa: PTH100  (Path.absolute keeps "..")
    return absolute if absolute.is_dir() else absolute.parent
