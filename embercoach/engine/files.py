"""Which files a run checks: folders walked, ignored and excluded files passed over."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING

from embercoach.config.patterns import PathPatterns
from embercoach.engine.gitignore import Ignored, ignored_in
from embercoach.engine.languages import SUFFIXES
from embercoach.engine.problem import Problem
from embercoach.project_files import boundary
from embercoach.safe_read import is_inside

if TYPE_CHECKING:
    from collections.abc import Iterable

    from embercoach.config import Settings


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to check: where it is, absolute, and how it is shown, as the user named it."""

    path: Path
    shown: str


class Discovery:
    """The files found, in order of how they are shown, and what could not be looked at."""

    def __init__(self) -> None:
        self.files: list[SourceFile] = []
        self.problems: list[Problem] = []


def discover(paths: Iterable[str], settings: Settings, *, force_exclude: bool = False) -> Discovery:
    """Find the files to check.

    Folders are searched for the suffixes of Python, notebooks, Metal and Objective-C; links to
    folders, and to files outside the project, are not followed. A file that is named itself is
    taken whatever its suffix, unless it is excluded and ``force_exclude``.
    """
    found = Discovery()
    walk = _Walk(settings, found)
    for given in paths:
        absolute = os.path.abspath(given)  # noqa: PTH100  (Path.absolute keeps "..")
        if force_exclude and walk.excluded.match_below(absolute):
            continue
        try:
            mode = Path(absolute).stat().st_mode
        except (OSError, ValueError) as error:
            found.problems.append(_unreadable(given, absolute, error))
            continue
        if S_ISDIR(mode):
            walk.folder(absolute, os.path.normpath(given))
        elif S_ISREG(mode):
            found.files.append(SourceFile(Path(absolute), os.path.normpath(given)))
        else:
            message = "not a regular file; `embercoach check -` reads standard input"
            found.problems.append(Problem(given, 1, 1, message))
    unique = {str(file.path): file for file in reversed(found.files)}
    found.files = sorted(unique.values(), key=lambda file: file.shown)
    return found


def _unreadable(shown: str, absolute: str, error: OSError | ValueError) -> Problem:
    if os.path.islink(absolute):  # noqa: PTH114  (a path with a null byte is no link, too)
        return Problem(shown, 1, 1, "a symbolic link to nowhere")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Problem(shown, 1, 1, f"cannot be read: {reason}")


class _Walk:
    """Walks folders; hot, so paths are plain texts here."""

    def __init__(self, settings: Settings, found: Discovery) -> None:
        self.excluded = PathPatterns(settings.exclude, settings.root)
        self._found = found
        self._gitignore = settings.respect_gitignore
        self._root = settings.root
        self._project = ""

    def folder(self, absolute: str, shown: str) -> None:
        """Collect the files of a folder that the user named."""
        root = str(self._root)
        self._project = boundary(absolute) or (root if is_inside(absolute, root) else absolute)
        ignored = ignored_in(absolute) if self._gitignore else None
        pending = [(absolute, "" if shown == os.curdir else shown, ignored)]
        while pending:
            path, name, above = pending.pop()
            try:
                entries = sorted(os.scandir(path), key=lambda entry: entry.name)
            except OSError as error:
                message = f"cannot be listed: {error.strerror or error}"
                self._found.problems.append(Problem(name or path, 1, 1, message))
                continue
            inside = above
            if above is not None and any(entry.name == ".gitignore" for entry in entries):
                inside = above.with_file(path)
            for entry in entries:
                self._entry(entry, os.path.join(name, entry.name), inside, pending)  # noqa: PTH118

    def _entry(
        self,
        entry: os.DirEntry[str],
        shown: str,
        ignored: Ignored | None,
        pending: list[tuple[str, str, Ignored | None]],
    ) -> None:
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder and not entry.name.endswith(SUFFIXES):
            return
        if self.excluded.match(entry.path, folder=is_folder):
            return
        if ignored is not None and ignored.match(entry.path, folder=is_folder):
            return
        if is_folder:
            pending.append((entry.path, shown, ignored))
        elif os.path.isfile(entry.path):  # noqa: PTH113
            if not self._leads_outside(entry):
                self._found.files.append(SourceFile(Path(entry.path), shown))
        elif _dangling(entry):
            self._found.problems.append(Problem(shown, 1, 1, "a symbolic link to nowhere"))

    def _leads_outside(self, entry: os.DirEntry[str]) -> bool:
        """Whether an entry is a link to a file outside the project: a folder's author names it."""
        return entry.is_symlink() and not is_inside(entry.path, self._project)


def _dangling(entry: os.DirEntry[str]) -> bool:
    # Emacs locks files with dangling links whose names start with ".#".
    hidden = entry.name.startswith(".#")
    return entry.is_symlink() and not hidden and not os.path.exists(entry.path)  # noqa: PTH110
