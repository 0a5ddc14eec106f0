"""Fingerprints of findings, and the baseline of known ones (``baseline.schema.json``)."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, convert

from embercoach.files import boundary, read_bytes, refuse_links, relative_path, shown_path, upward
from embercoach.fixes.writing import create_file, replace_file
from embercoach.terminal_text import MOST_SAID, quoted

if TYPE_CHECKING:
    from embercoach.finding import Finding
    from embercoach.report.locations import Placed
    from embercoach.report.outcome import SourceTexts


def fingerprints(
    findings: Sequence[Finding],
    sources: SourceTexts,
    name: Callable[[str], str] = os.path.normpath,
) -> tuple[str, ...]:
    """Return a fingerprint for each finding of a run; take all of a run's, as their order counts.

    Args:
        findings: sorted, as a run gives them.
        sources: the files' texts.
        name: what a shown path stands as in the fingerprint.
    """
    return of_places([(finding.code, finding) for finding in findings], sources, name)


def of_places(
    places: Iterable[tuple[str, Placed]],
    sources: SourceTexts,
    name: Callable[[str], str] = os.path.normpath,
) -> tuple[str, ...]:
    """Digests of code, file, the line's text without its spacing, and the turn among equals.

    The number of a notebook's cell is not part of it, so that cells may come and go.

    Args:
        places: code, and what has a place.
        sources: the files' texts.
        name: what a shown path stands as in the fingerprint.
    """
    seen: Counter[str] = Counter()
    made = []
    for code, one in places:
        line = " ".join(sources.index(one.path, one.cell).line(one.line).split())
        key = f"{code}\0{name(one.path).replace(os.sep, '/')}\0{line}"
        seen[key] += 1
        data = f"{key}\0{seen[key]}".encode(errors="backslashreplace")
        made.append(blake2b(data, digest_size=16).hexdigest())
    return tuple(made)


DEFAULT_FILE = "embercoach-baseline.json"
KIND = "embercoach-baseline"
#: Raised when something in the file is removed or changes its meaning, fingerprints included.
VERSION = 1


class BaselineError(Exception):
    """An error in a baseline file, in one line."""


_Text = Annotated[str, Meta(min_length=1)]


class BaselineEntry(Struct, frozen=True, order=True, forbid_unknown_fields=True):
    """A finding of before. ``path`` starts at the baseline's folder."""

    path: _Text
    code: _Text
    fingerprint: _Text


class _File(Struct, forbid_unknown_fields=True):
    kind: str
    version: float
    findings: list[BaselineEntry]


class Baseline(Struct, frozen=True):
    """A file's entries."""

    file: Path
    entries: frozenset[BaselineEntry] = frozenset()

    def place(self, path: str) -> str:
        """Return the absolute path of an entry's file."""
        return os.path.normpath(self.file.parent / path)


def read(file: Path) -> Baseline:
    """Read a baseline; ``file`` is absolute.

    Raises:
        BaselineError: absent, unreadable, no baseline, or one of a newer version.
    """
    try:
        data = json.loads(read_bytes(file))
    except FileNotFoundError as error:
        update = f"`embercoach baseline update --baseline {shown_path(file)}`"
        raise BaselineError(
            f"{shown_path(file)}: there is no such baseline; {update} writes it"
        ) from error
    except OSError as error:
        raise BaselineError(
            f"{shown_path(file)}: cannot be read: {error.strerror or error}"
        ) from error
    except RecursionError as error:
        raise BaselineError(f"{shown_path(file)}: not valid JSON: nested too deeply") from error
    except ValueError as error:
        raise BaselineError(f"{shown_path(file)}: not valid JSON: {error}") from error
    return Baseline(file, _entries(data, shown_path(file)))


def _entries(data: Any, name: str) -> frozenset[BaselineEntry]:
    if not isinstance(data, dict) or data.get("kind") != KIND:
        message = f"{name}: not a baseline of EmberCoach: its \"kind\" is not '{KIND}'"
        raise BaselineError(message)
    version = data.get("version")
    if isinstance(version, bool) or not isinstance(version, int | float):
        version = None
    if version is not None and version > VERSION:
        said = quoted(str(version)) if version < 1e9 else "very high"
        message = f"{name}: of version {said}, and this EmberCoach knows {VERSION}: update it"
        raise BaselineError(message)
    if version != VERSION:
        raise BaselineError(f'{name}: "version" must be {VERSION}')
    try:
        return frozenset(convert(data, _File).findings)
    except ValueError as error:  # halves of surrogate pairs are in no name, either
        raise BaselineError(f"{name}: {quoted(str(error), MOST_SAID)}") from error


def write(baseline: Baseline) -> None:
    """Write a baseline: sorted, an entry a line, so that changes to it read and merge well.

    Raises:
        BaselineError: it can't be written.
    """
    lines = ",\n    ".join(
        json.dumps({"path": entry.path, "code": entry.code, "fingerprint": entry.fingerprint})
        for entry in sorted(baseline.entries)
    )
    findings = f"[\n    {lines}\n  ]" if lines else "[]"
    text = f'{{\n  "kind": "{KIND}",\n  "version": {VERSION},\n  "findings": {findings}\n}}\n'
    try:
        folder = str(baseline.file.parent)
        refuse_links(baseline.file, boundary(folder) or folder)
        write = replace_file if baseline.file.exists() else create_file
        write(baseline.file, text.encode())
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise BaselineError(f"{shown_path(baseline.file)}: cannot be written: {reason}") from error


def entries_of(
    findings: Sequence[Finding], sources: SourceTexts, file: Path
) -> tuple[BaselineEntry, ...]:
    """Return the entries of all findings of a run, in their order, for a baseline in ``file``."""
    name = partial(_from, file.parent, {})
    marks = fingerprints(findings, sources, name)
    pairs = zip(findings, marks, strict=True)
    return tuple(BaselineEntry(name(finding.path), finding.code, mark) for finding, mark in pairs)


def _from(folder: Path, known: dict[str, str], path: str) -> str:
    if path not in known:
        known[path] = relative_path(path, folder).replace(os.sep, "/")
    return known[path]


def within(place: str, paths: AbstractSet[str]) -> bool:
    """Return whether an absolute path is one of others, or is in one of them."""
    return not paths.isdisjoint(upward(place))
