"""The reason why a run skips a file or a folder: ``files`` for a single path."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from embercoach.config.patterns import patterns_of, start_of_walk, steps
from embercoach.engine.file_discovery import Ignored, ignored_in
from embercoach.engine.languages import (
    NOTEBOOK,
    SUFFIXES,
    language_of,
    may_hold_directives,
    relevant,
)
from embercoach.files import boundary, is_inside, read_bytes
from embercoach.finding import PlacedError

if TYPE_CHECKING:
    from embercoach.config import Configurations, Settings
    from embercoach.config.load import ConfigurationScope

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
    """The reason why a run over the project skips an absolute path; None if it does not.

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
    """The reason why a run skips a file for its content; see `Inspector`."""
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
