"""The key ``extend``: configuration files that build on others, as one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from embercoach.config.configuration_files import ConfigFile, is_there, read
from embercoach.config.errors import ConfigError
from embercoach.config.required_version import REQUIRED_VERSION, require_version
from embercoach.config.schema import BASELINE, EXTEND, SIMULATOR, Layer, layer_of
from embercoach.files import boundary, is_inside

if TYPE_CHECKING:
    from embercoach.config.selectors import Selection

#: Files in a chain at most.
MOST_FILES = 8
#: Keys whose values in all files, and on the command line, are merged.
ADDING = ("extend-select", "ignore", "extend-exclude")
#: Of them, those that a `select` above starts anew.
SELECTING = ("extend-select", "ignore")
#: Keys of a file that those extending it do not inherit.
_OWN = (EXTEND, REQUIRED_VERSION, BASELINE)


class ConfigChain(Struct, frozen=True, eq=False):
    """A configuration file and those that it extends.

    Attributes:
        files: the file itself last, before it what it extends.
        selections: the selectors of each file.
        table: what the files say together.
        layer: the same, checked.
    """

    files: tuple[ConfigFile, ...] = ()
    selections: tuple[Selection, ...] = ()
    table: dict[str, Any] = field(default_factory=dict)
    layer: Layer = field(default_factory=Layer)

    def saying(self, place: tuple[str, ...]) -> list[ConfigFile]:
        """Return the files whose value at a place of the table counts, the file itself last."""
        found: list[ConfigFile] = []
        for file in self.files:
            if place[0] in SELECTING and "select" in file.table:
                found = []
            if _holds(file.table, place):
                found = [*found, file] if place[0] in ADDING else [file]
        return found


def chain_of(file: ConfigFile) -> ConfigChain:
    """Read the files that a configuration file extends, and check all of them.

    Raises:
        ConfigError: a mistake in one of them; `extend` names no file of the project, or the
            files form a cycle or are too many.
    """
    own = _checked(file)
    if own.extend is None:
        return ConfigChain((file,), (own.selection,), file.table, own)
    folder = os.path.dirname(os.path.abspath(file.path))  # noqa: PTH100, PTH120
    root = boundary(folder) or folder
    files, layers = [file], [own]
    while (named := layers[0].extend) is not None:
        files.insert(0, _extended(files, named, root))
        layers.insert(0, _checked(files[0]))
    table = _merged(files)
    layer = layer_of(ConfigFile(file.path, table, file.text))
    return ConfigChain(tuple(files), tuple(layer.selection for layer in layers), table, layer)


def _checked(file: ConfigFile) -> Layer:
    require_version(file)
    return layer_of(file)


def _extended(files: Sequence[ConfigFile], named: str, root: str) -> ConfigFile:
    """Return the file that the first one of a chain extends."""
    file = files[0]
    path = Path(os.path.normpath(os.path.abspath(file.path.parent / named)))  # noqa: PTH100

    def refused(what: str, absent: Path | None = None) -> ConfigError:
        message = f"{EXTEND} must {what}, got '{named}'"
        return ConfigError(message, file.path, file.line_of((EXTEND,)), absent=absent)

    # Whoever sends a change of the file must not have others read, or probed for.
    if not is_inside(path, root):
        raise refused("be a file inside the project")
    if not is_there(path):
        raise refused("be an existing file", absent=path)
    real = os.path.realpath(path)
    if any(os.path.realpath(one.path) == real for one in files):
        raise refused("not form a cycle")
    if len(files) == MOST_FILES:
        raise refused(f"chain at most {MOST_FILES} files")
    found = read(path, root=root)
    assert found is not None  # as a table is required
    return found


def _merged(files: Sequence[ConfigFile]) -> dict[str, Any]:
    """Return the table of several files: a key of a later file replaces that of those before it."""
    table: dict[str, Any] = {}
    for file in files:
        if "select" in file.table:
            table = {name: value for name, value in table.items() if name not in SELECTING}
        for name in _OWN:
            table.pop(name, None)
        for name, value in file.table.items():
            if name in ADDING:
                table[name] = [*table.get(name, ()), *value]
            elif name == SIMULATOR:
                table[name] = {**table.get(name, {}), **value}
            else:
                table[name] = value
    return table


def _holds(table: dict[str, Any], place: tuple[str, ...]) -> bool:
    """Return whether a table has a value at a place."""
    value: Any = table
    for name in place:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True
