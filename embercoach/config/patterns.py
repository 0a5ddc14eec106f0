"""Path patterns in gitignore's language, matched in linear time; which of them excludes a path."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

    from embercoach.config.load import Configurations, ConfigurationScope


_SPECIAL = frozenset("*?[]!\\/#")


def relative(path: str, root: str) -> str:
    """A path relative to a folder, with ``/``; paths outside stay whole, less the first ``/``."""
    prefix = root if root.endswith(os.sep) else root + os.sep
    inside = path[len(prefix) :] if path.startswith(prefix) else path.lstrip(os.sep)
    return inside.replace(os.sep, "/")


class PathPatterns:
    """Matches paths with patterns.

    Plain names (``build``) are looked up; pathspec is only loaded for real patterns.
    """

    def __init__(self, patterns: Iterable[str], root: Path) -> None:
        patterns = list(patterns)
        self._root = str(root)
        self._names = {p for p in patterns if p and not _SPECIAL & set(p)}
        rest = [p for p in patterns if p and p not in self._names]
        self._spec = _compile(tuple(rest)) if rest else None

    def match(self, path: str, *, folder: bool = False) -> bool:
        """Return whether an absolute path itself matches, whatever its parents are."""
        return self.naming(path, folder=folder) is not None

    def match_below(self, path: str) -> bool:
        """Return whether a file, or a folder of the project around it, matches."""
        name = relative(path, self._root)
        if self._names.intersection(name.split("/")):
            return True
        return self._spec is not None and bool(self._spec.check_file(name).include)

    def naming(self, path: str, *, folder: bool = False) -> str | None:
        """Return the pattern that `match` goes by; None where it does not match."""
        base = os.path.basename(path)  # noqa: PTH119  (as above)
        if base in self._names:
            return base
        if self._spec is None:
            return None
        pattern = deciding(self._spec, relative(path, self._root), folder=folder)
        return None if pattern is None or pattern.startswith("!") else pattern


@lru_cache(maxsize=8192)
def _compile(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    import warnings

    from embercoach.config.globs import spec_of

    with warnings.catch_warnings():
        # Python warns of brackets in brackets while it compiles a pattern: not for the user.
        warnings.simplefilter("ignore", FutureWarning)
        return spec_of(patterns)


def deciding(spec: GitIgnoreSpec, name: str, *, folder: bool) -> str | None:
    """Return the last pattern that matches a relative path, perhaps a negated one (``!``)."""
    index = spec.check_file(f"{name}/" if folder else name).index
    return None if index is None else str(spec.patterns[index].pattern)


def check_pattern(pattern: str) -> str | None:
    """Return the error in a pattern, if any."""
    if pattern and not _SPECIAL & set(pattern):
        return None if pattern.strip() else "an empty pattern matches nothing"
    import re

    try:
        compiled = _compile((pattern,)).patterns
    except (ValueError, re.error) as error:
        return f"invalid pattern '{pattern}': {error}"
    if not any(one.include is not None for one in compiled):
        return f"'{pattern}' matches nothing"
    return None


@lru_cache(maxsize=64)
def patterns_of(exclude: tuple[str, ...], root: Path) -> PathPatterns:
    """Patterns of files and folders that are left out, compiled once."""
    return PathPatterns(exclude, root)


def start_of_walk(path: str, configurations: Configurations, base: Path) -> str:
    """Return the folder where a walk over the project that an absolute path is in begins.

    That is the outermost of the base and the folders of the path's configurations, as far as it
    lies in them.
    """
    folder = os.path.dirname(path)  # noqa: PTH120  (hot)
    roots = [*configurations.roots(folder), str(base)]
    inside = [root for root in roots if f"{path}{os.sep}".startswith(root.rstrip(os.sep) + os.sep)]
    return min(inside, key=len, default=folder)


def steps(
    path: str, configurations: Configurations, base: Path
) -> Iterator[tuple[ConfigurationScope, str]]:
    """The folders on the way down to an absolute path, and the path, each with who decides on it.

    As in a walk, the configuration that holds in a folder decides on what lies in it; one with a
    mistake leaves out nothing.
    """
    current = start_of_walk(path, configurations, base)
    if current == path:
        return
    for name in relative(path, current).split("/"):
        current = os.path.join(current, name)  # noqa: PTH118  (hot)
        scope = configurations.holding(current)
        if scope is not None:
            yield scope, current


def excluding(path: str, configurations: Configurations, base: Path) -> str | None:
    """Return the pattern that excludes a path, or a folder that it lies in; see `steps`."""
    for scope, current in steps(path, configurations, base):
        folder = current != path or os.path.isdir(path)  # noqa: PTH112
        settings = scope.settings
        pattern = patterns_of(settings.exclude, settings.root).naming(current, folder=folder)
        if pattern is not None:
            return pattern
    return None
