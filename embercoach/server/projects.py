"""The settings of each file, kept until one of its configuration files changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from embercoach.config import ConfigError, Overrides, Settings, load
from embercoach.config.files import SHARED_FILE
from embercoach.config.patterns import PathPatterns
from embercoach.project_files import OWN_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: When and how large a file was; None where it was not there.
Stamp = tuple[int, int] | None


def stamp_of(path: Path) -> Stamp:
    """A file's stamp, which changes with it."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size


@dataclass(frozen=True, slots=True)
class Configured:
    """What the configuration says of a folder's files.

    Attributes:
        settings: in force; those before ``error`` came, None where there were none.
        error: what is wrong with the configuration file.
        stamps: of all files that could be one.
    """

    settings: Settings | None
    error: ConfigError | None
    stamps: tuple[Stamp, ...]


class Projects:
    """Settings by folder."""

    def __init__(self, folders: Iterable[Path]) -> None:
        """Take the editor's folders: each is a project where no file says so."""
        # The innermost first.
        self._folders = sorted(folders, key=lambda folder: -len(folder.parts))
        self._known: dict[Path, Configured] = {}

    def of(self, path: Path) -> Configured:
        """The configuration of a file, by its absolute path."""
        folder = path.parent
        stamps = tuple(
            stamp_of(candidate / name)
            for candidate in (folder, *folder.parents)
            for name in (OWN_FILE, SHARED_FILE)
        )
        known = self._known.get(folder)
        if known is None or known.stamps != stamps:
            known = self._known[folder] = self._read(path, stamps, known)
        return known

    def _read(self, path: Path, stamps: tuple[Stamp, ...], before: Configured | None) -> Configured:
        try:
            (scope,) = load((str(path),), Overrides())
        except ConfigError as error:
            return Configured(before.settings if before else None, error, stamps)
        settings = scope.settings
        if settings.source is None:
            root = next((f for f in self._folders if path.is_relative_to(f)), path.parent)
            settings = replace(settings, root=root)
        return Configured(settings, None, stamps)


def is_excluded(path: Path, settings: Settings) -> bool:
    """Whether a run over the project would pass over a file by the pattern of its name."""
    return PathPatterns(settings.exclude, settings.root).match_below(str(path))
