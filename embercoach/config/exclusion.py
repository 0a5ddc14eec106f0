"""Which pattern excludes a path, by the configurations of all folders that it lies in."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.config.patterns import PathPatterns, relative

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from embercoach.config.load import Configurations, ConfigurationScope


@lru_cache(maxsize=64)
def patterns_of(exclude: tuple[str, ...], root: Path) -> PathPatterns:
    """Patterns of files and folders that are left out, compiled once."""
    return PathPatterns(exclude, root)


def start_of_walk(path: str, configurations: Configurations, base: Path) -> str:
    """The folder where a walk over the project that an absolute path is in begins.

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
    """The pattern that excludes a path, or a folder that it lies in; see `steps`."""
    for scope, current in steps(path, configurations, base):
        folder = current != path or os.path.isdir(path)  # noqa: PTH112
        settings = scope.settings
        pattern = patterns_of(settings.exclude, settings.root).naming(current, folder=folder)
        if pattern is not None:
            return pattern
    return None
