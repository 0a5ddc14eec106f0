"""Find the files of a run: folders are walked, excluded files skipped for a reason, shards cut."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from embercoach.config.configuration_files import SHARED_FILE, home_folder
from embercoach.config.errors import ConfigError
from embercoach.config.patterns import (
    PathPatterns,
    check_pattern,
    deciding,
    excluding,
    patterns_of,
    relative,
    start_of_walk,
    steps,
)
from embercoach.engine.languages import (
    METAL,
    NOTEBOOK,
    PYTHON,
    SUFFIXES,
    is_known,
    language_of,
    may_hold_directives,
    relevant,
)
from embercoach.files import OWN_FILE, boundary, is_inside, read_bytes, read_text, relative_path
from embercoach.finding import PlacedError, Problem

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from embercoach.config import Configurations, Settings
    from embercoach.config.load import ConfigurationScope

#: Bytes; a larger file counts as absent, and so does a link, as git has it.
LARGEST = 1 << 20


class Ignored(Struct, frozen=True):
    """A chain of ignore files; each matches paths below its folder."""

    folder: str = ""
    spec: GitIgnoreSpec | None = None
    parent: Ignored | None = None
    file: str = ""

    def with_file(self, folder: str, name: str = ".gitignore") -> Ignored:
        """This chain and one more ignore file of a folder, if it is there and can be read."""
        file = os.path.join(folder, name)  # noqa: PTH118
        spec = _read(file)
        return self if spec is None else Ignored(folder, spec, self, file)

    def match(self, path: str, *, folder: bool) -> bool:
        """Return whether git ignores an absolute path, whose parents it does not ignore."""
        return self.naming(path, folder=folder) is not None

    def naming(self, path: str, *, folder: bool) -> tuple[str, str] | None:
        """Get the file and the pattern in it that `match` goes by; None where it does not match."""
        link: Ignored | None = self
        while link is not None and link.spec is not None:
            pattern = deciding(link.spec, relative(path, link.folder), folder=folder)
            if pattern is not None:
                return None if pattern.startswith("!") else (link.file, pattern)
            link = link.parent
        return None


def ignored_in(folder: str) -> Ignored | None:
    """Return the ignore files that apply to a folder; None outside of a git repository.

    A folder that git itself ignores was named on purpose: then nothing above it counts.
    """
    top = _repository(folder)
    if top is None:
        return None
    chain = Ignored().with_file(top, os.path.join(".git", "info", "exclude"))  # noqa: PTH118
    current = top
    for name in relative(folder, top).split("/") if folder != top else ():
        chain = chain.with_file(current)
        current = os.path.join(current, name)  # noqa: PTH118
        if chain.match(current, folder=True):
            return Ignored()
    return chain


def _repository(folder: str) -> str | None:
    for candidate in (Path(folder), *Path(folder).parents):
        if (candidate / ".git").exists():
            return str(candidate)
    return None


def _read(file: str) -> GitIgnoreSpec | None:
    try:
        text = read_text(file, limit=LARGEST, errors="replace", follow=False)
    except OSError:
        return None
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        return None
    from embercoach.config.globs import spec_of

    try:
        return spec_of(lines)
    except (ValueError, re.error):
        # git ignores an invalid line and uses the others.
        return spec_of([line for line in lines if check_pattern(line) is None])


#: Names in a folder that may end the search for a configuration.
_DECIDING = (OWN_FILE, SHARED_FILE, ".git")


class SourceFile(Struct, frozen=True):
    """A file to check.

    Attributes:
        path: where it is, absolute.
        shown: as the user named it.
        bodies: the named Metal files for which it is checked, as it may read them: findings
            elsewhere don't count.
    """

    path: Path
    shown: str
    bodies: tuple[SourceFile, ...] = ()


class Discovery:
    """The files found, sorted by shown path, and the problems.

    Attributes:
        files: each with the configuration that holds for it.
        bodies: the Metal files that were named themselves, or that lie in a part of a project.
        problems: paths that could not be examined, and named files of an unknown kind.
        dangling: links found in folders that lead nowhere, as they are shown.
        mistakes: in configuration files, each once; nothing below their folders is among the files.
        folders: that were walked, absolute.
        scopes: configurations of the walked folders and of the files.
    """

    def __init__(self) -> None:
        self.files: list[tuple[SourceFile, ConfigurationScope]] = []
        self.bodies: list[SourceFile] = []
        self.problems: list[Problem] = []
        self.dangling: list[str] = []
        self.mistakes: dict[str, ConfigError] = {}
        self.folders: list[str] = []
        self.scopes: dict[ConfigurationScope, None] = {}


def discover(
    paths: Iterable[str], configurations: Configurations, *, force_exclude: bool = False
) -> Discovery:
    """Find the files to check.

    Folders are searched for the suffixes of Python, notebooks, Metal and Objective-C; links to
    folders, and to files outside the project, are not followed. A file that is named itself is
    taken even if its suffix is another one of Python's or none, unless ``force_exclude`` and it is
    excluded or leads outside the project.
    """
    found = Discovery()
    for given in paths:
        absolute = os.path.abspath(given)  # noqa: PTH100  (Path.absolute keeps "..")
        try:
            if force_exclude and (
                _leads_outside(absolute) or is_excluded(absolute, configurations)
            ):
                continue
            mode = Path(absolute).stat().st_mode
        except (OSError, ValueError) as error:
            found.problems.append(_unreadable(given, absolute, error))
            continue
        if S_ISDIR(mode):
            _Walk(configurations, found).folder(absolute, os.path.normpath(given))
        elif S_ISREG(mode):
            _take_named(given, absolute, configurations, found)
        else:
            message = "not a regular file; `embercoach check -` reads standard input"
            found.problems.append(Problem(given, 1, 1, message, is_unchecked=True))
    readers = _readers(found.bodies, configurations) if found.bodies else ()
    unique = {str(file.path): (file, scope) for file, scope in (*readers, *reversed(found.files))}
    found.files = sorted(unique.values(), key=lambda pair: pair[0].shown)
    return found


def _readers(
    bodies: Iterable[SourceFile], configurations: Configurations
) -> Iterator[tuple[SourceFile, ConfigurationScope]]:
    """Yield the Python files of the project that may read Metal files: those that name the suffix.

    Outside of projects they are those of the same folder and the one above.
    """
    groups: dict[tuple[str, ...], list[SourceFile]] = {}
    for body in bodies:
        folder = body.path.parent
        top = boundary(str(folder))
        beside = (*folder.glob("*.py"), *folder.parent.glob("*.py"))
        paths = (top,) if top else tuple(map(str, beside))
        groups.setdefault(paths, []).append(body)
    for paths, read in groups.items():
        for file, scope in discover(map(relative_path, paths), configurations).files:
            if language_of(file.shown) in (PYTHON, NOTEBOOK) and _names_metal(file.path):
                yield SourceFile(file.path, file.shown, tuple(read)), scope


def _names_metal(path: Path) -> bool:
    try:
        data = read_bytes(path)
    except OSError:
        return False
    return b'.metal"' in data or b".metal'" in data


def is_excluded(path: str, configurations: Configurations) -> bool:
    """Return whether a pattern excludes an absolute path."""
    return excluding(path, configurations, Path.cwd()) is not None


def _take_named(
    given: str, absolute: str, configurations: Configurations, found: Discovery
) -> None:
    try:
        scope = configurations.nearest(os.path.dirname(absolute))  # noqa: PTH120  (hot)
    except ConfigError as error:
        found.mistakes[str(error)] = error
        return
    if is_known(absolute):
        file = SourceFile(Path(absolute), os.path.normpath(given))
        found.files.append((file, scope))
        if language_of(absolute) == METAL:
            found.bodies.append(file)
        return
    suffix = os.path.splitext(absolute)[1]  # noqa: PTH122  (hot)
    message = f"suffix must be one of {', '.join(SUFFIXES)}, got '{suffix}'"
    found.problems.append(Problem(given, 1, 1, message, is_unchecked=True))


def _leads_outside(path: str) -> bool:
    folder = os.path.dirname(path)  # noqa: PTH120  (hot)
    return not is_inside(path, boundary(folder) or folder)


def _unreadable(shown: str, absolute: str, error: OSError | ValueError) -> Problem:
    if os.path.islink(absolute):  # noqa: PTH114  (also for a path with a null byte)
        return Problem(shown, 1, 1, "dangling symbolic link", is_unchecked=True)
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return Problem(shown, 1, 1, f"cannot be read: {reason}", is_unchecked=True)


class _Walk:
    """Walks folders; hot, so paths are plain texts here."""

    def __init__(self, configurations: Configurations, found: Discovery) -> None:
        self._configurations = configurations
        self._found = found
        self._excluded: dict[ConfigurationScope, PathPatterns] = {}
        self._home = home_folder()
        self._project = ""
        #: The folder is not the whole project: files elsewhere may read the Metal files in it.
        self._is_part = False

    def folder(self, absolute: str, shown: str) -> None:
        """Collect the files of a folder that the user named."""
        start = self._scope(absolute)
        if start is None:
            return
        self._found.folders.append(absolute)
        root = str(start.settings.root)
        self._project = boundary(absolute) or (root if is_inside(absolute, root) else absolute)
        self._is_part = absolute != self._project
        name = "" if shown == os.curdir else shown
        pending = [(absolute, name, start, _ignored(start, absolute))]
        while pending:
            path, name, scope, ignored = pending.pop()
            try:
                entries = sorted(os.scandir(path), key=lambda entry: entry.name)
            except OSError as error:
                message = f"cannot be listed: {error.strerror or error}"
                self._found.problems.append(Problem(name or path, 1, 1, message))
                continue
            names = {entry.name for entry in entries}
            # One look for each folder: most have nothing that ends or starts a configuration.
            if path in self._home or not names.isdisjoint(_DECIDING):
                own = self._scope(path)
                if own is None:
                    continue
                if own.settings.respect_gitignore != scope.settings.respect_gitignore:
                    ignored = _ignored(own, path)
                scope = own
            if ignored is not None and ".gitignore" in names:
                ignored = ignored.with_file(path)
            for entry in entries:
                self._entry(entry, os.path.join(name, entry.name), scope, ignored, pending)  # noqa: PTH118

    def _scope(self, folder: str) -> ConfigurationScope | None:
        try:
            scope = self._configurations.nearest(folder)
        except ConfigError as error:
            self._found.mistakes[str(error)] = error
            return None
        self._found.scopes[scope] = None
        self._excluded[scope] = patterns_of(scope.settings.exclude, scope.settings.root)
        return scope

    def _entry(
        self,
        entry: os.DirEntry[str],
        shown: str,
        scope: ConfigurationScope,
        ignored: Ignored | None,
        pending: list[tuple[str, str, ConfigurationScope, Ignored | None]],
    ) -> None:
        is_folder = entry.is_dir(follow_symlinks=False)
        if not is_folder and not entry.name.endswith(SUFFIXES):
            return
        if self._excluded[scope].match(entry.path, folder=is_folder):
            return
        if ignored is not None and ignored.match(entry.path, folder=is_folder):
            return
        if is_folder:
            pending.append((entry.path, shown, scope, ignored))
        elif os.path.isfile(entry.path):  # noqa: PTH113
            if not self._leads_outside(entry):
                file = SourceFile(Path(entry.path), shown)
                self._found.files.append((file, scope))
                if self._is_part and entry.name.endswith(".metal"):
                    self._found.bodies.append(file)
        elif _dangling(entry):
            self._found.dangling.append(shown)

    def _leads_outside(self, entry: os.DirEntry[str]) -> bool:
        """Return whether an entry is a link to a file outside the project."""
        return entry.is_symlink() and not is_inside(entry.path, self._project)


def _ignored(scope: ConfigurationScope, folder: str) -> Ignored | None:
    return ignored_in(folder) if scope.settings.respect_gitignore else None


def _dangling(entry: os.DirEntry[str]) -> bool:
    # Emacs locks files with dangling links whose names start with ".#".
    hidden = entry.name.startswith(".#")
    return entry.is_symlink() and not hidden and not os.path.exists(entry.path)  # noqa: PTH110


class Shard(Struct, frozen=True):
    """One of ``count`` parts; ``number`` counts from 1.

    A part depends on names alone: a file stays in its part when others come and go, so that a
    shard's cache stays valid, and deleted files have a part too.
    """

    number: int
    count: int

    def most(self, files: int) -> float:
        """The files that a folder may have, of so many in all, for its going to one part whole."""
        return files / self.count / 2

    def holds(self, name: str) -> bool:
        """Return whether a name, the same on every machine, is in this part."""
        digest = blake2b(name.encode(errors="surrogateescape"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self.count == self.number - 1


Why = Literal[
    "missing",
    "excluded",
    "ignored",
    "link",
    "suffix",
    "unreadable",
    "irrelevant",
    "no-python",
    "skip-file",
]


class Reason(Struct, frozen=True):
    """Why something is not checked.

    Attributes:
        why: in a word.
        pattern: what names it, of `excluded` and `ignored`.
        file: the absolute path of git's file with the pattern, of `ignored`.
        place: the absolute path that is named: the file's own, or that of a folder it lies in.
        scope: the configuration that decides, of `excluded`.
    """

    why: Why
    pattern: str = ""
    file: str = ""
    place: str = ""
    scope: ConfigurationScope | None = None


def skip_reason(path: str, configurations: Configurations) -> Reason | None:
    """Return the reason why a run over the project skips an absolute path; None if it does not.

    Raises:
        ConfigError: a mistake in its configuration.
    """
    if not os.path.lexists(path):
        return Reason("missing")
    reason = _undiscovered(path, configurations)
    if reason is not None or Path(path).is_dir():
        return reason
    return _unread(path, configurations.of(path).settings)


def _undiscovered(path: str, configurations: Configurations) -> Reason | None:
    here = Path.cwd()
    start = start_of_walk(path, configurations, here)
    top = boundary(start) or start
    ignored = ignored_in(start)
    for scope, current in steps(path, configurations, here):
        inner = None if ignored is None else ignored.with_file(os.path.dirname(current))  # noqa: PTH120
        reason = _at(current, scope, inner if scope.settings.respect_gitignore else None, top)
        if reason is not None:
            return reason
        ignored = inner
    return None


def _at(path: str, scope: ConfigurationScope, ignored: Ignored | None, top: str) -> Reason | None:
    place = Path(path)
    folder = place.is_dir() and not place.is_symlink()
    if place.is_dir() and place.is_symlink():
        return Reason("link", place=path)
    if not folder and not path.endswith(SUFFIXES):
        return Reason("suffix", place=path)
    settings = scope.settings
    excluded = patterns_of(settings.exclude, settings.root)
    pattern = excluded.naming(path, folder=folder)
    if pattern is not None:
        return Reason("excluded", pattern, place=path, scope=scope)
    named = ignored.naming(path, folder=folder) if ignored is not None else None
    if named is not None:
        file, pattern = named
        return Reason("ignored", pattern, file, path)
    if not folder and not place.is_file():
        return Reason("unreadable", place=path)
    return Reason("link", place=path) if place.is_symlink() and not is_inside(path, top) else None


def _unread(path: str, settings: Settings) -> Reason | None:
    """Return the reason why a run skips a file for its content; see `Inspector`."""
    from embercoach.engine.suppressions import read_directives
    from embercoach.fixes.source_file import decode

    try:
        data = read_bytes(path)
    except OSError:
        return Reason("unreadable", place=path)
    language = language_of(path)
    if not relevant(data, language, settings.kernel_builders):
        return Reason("irrelevant", place=path)
    try:
        text = decode(data).text
        if language == NOTEBOOK:
            from embercoach.notebooks.cell_module import parse

            notebook = parse(text)
            if notebook is None:
                return Reason("no-python", place=path)
            text = notebook.source
    except PlacedError:
        return None  # which a run reports
    directives = read_directives(text, language) if may_hold_directives(data) else ()
    skips = any(directive.kind == "skip-file" for directive in directives)
    return Reason("skip-file", place=path) if skips else None
