"""The ignore files of git, from the repository's root down, deepest first."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from embercoach.config.patterns import check_pattern, deciding, relative
from embercoach.safe_read import read_text

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

#: Bytes; a larger file counts as absent, and so does a link, as git has it.
LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class Ignored:
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
        link: Ignored | None = self
        while link is not None and link.spec is not None:
            name = relative(path, link.folder)
            include = link.spec.check_file(f"{name}/" if folder else name).include
            if include is not None:
                return include
            link = link.parent
        return False

    def naming(self, path: str, *, folder: bool) -> tuple[str, str] | None:
        """The file and the pattern in it that `match` goes by; None where it does not match."""
        link: Ignored | None = self
        while link is not None and link.spec is not None:
            pattern = deciding(link.spec, relative(path, link.folder), folder=folder)
            if pattern is not None:
                return None if pattern.startswith("!") else (link.file, pattern)
            link = link.parent
        return None


def ignored_in(folder: str) -> Ignored | None:
    """The ignore files that apply to a folder; None outside of a git repository.

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
