"""The settings of each file, kept until one of its configuration files changes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from embercoach.config import ConfigError, Configurations, Settings
from embercoach.config.configuration_files import SHARED_FILE, searched
from embercoach.config.patterns import excluding
from embercoach.files import OWN_FILE

#: When and how large a file was; None where it was not there.
Stamp = tuple[int, int] | None


def stamp_of(path: Path) -> Stamp:
    """Return a file's stamp, which changes with it."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


class Configured(Struct, frozen=True):
    """The configuration of a folder's files.

    Attributes:
        settings: in force; those before ``error`` came, None where there were none.
        error: in the configuration file.
        stamps: of all files that could be one, and of those that it extends.
        configurations: of the folder and those above it; None where that one has a mistake.
        base: the editor's folder that it lies in.
        extended: the files that it extends; for an error those that may correct it.
    """

    settings: Settings | None
    error: ConfigError | None
    stamps: tuple[Stamp, ...]
    configurations: Configurations | None = None
    base: Path = Path()
    extended: tuple[Path, ...] = ()

    def excludes(self, path: Path) -> bool:
        """Return whether a pattern excludes a file from a run over the project."""
        if self.configurations is None:
            return False
        return excluding(str(path), self.configurations, self.base) is not None


class Projects:
    """Settings by folder."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Take the editor's folders: each is a project where no file says so."""
        # The innermost first.
        self._folders = sorted(folders, key=lambda folder: -len(folder.parts))
        self._known: dict[Path, Configured] = {}

    def of(self, path: Path) -> Configured:
        """Return the configuration of a file, by its absolute path."""
        folder = path.parent
        known = self._known.get(folder)
        stamps = _stamps(folder, known)
        # Which files are extended, and stamped before they are read, is known after reading.
        for _ in range(2):
            if known is not None and known.stamps == stamps:
                break
            known = self._known[folder] = self._read(path, stamps, known)
            stamps = _stamps(folder, known)
        assert known is not None
        return known

    def _read(self, path: Path, stamps: tuple[Stamp, ...], before: Configured | None) -> Configured:
        base = next((f for f in self._folders if path.is_relative_to(f)), path.parent)
        try:
            configurations = Configurations()
            scope = configurations.nearest(str(path.parent))
        except ConfigError as error:
            extended = tuple(filter(None, (error.path, error.absent)))
            before = before or Configured(None, error, stamps)
            return replace(before, error=error, stamps=stamps, extended=extended)
        settings = scope.settings
        if settings.source is None:
            settings = replace(settings, root=base)
        extended = tuple(file.path for file in scope.chain.files[:-1])
        return Configured(settings, None, stamps, configurations, base, extended)


def _stamps(folder: Path, known: Configured | None) -> tuple[Stamp, ...]:
    """Return the stamps of files that may decide on a folder's configuration."""
    places = [
        Path(candidate, name)
        for candidate in searched(str(folder))
        for name in (OWN_FILE, SHARED_FILE)
    ]
    return tuple(map(stamp_of, [*places, *(known.extended if known is not None else ())]))
