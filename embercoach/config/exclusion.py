"""Which pattern excludes a path, by the configurations of all folders that it lies in."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING

from embercoach.config.patterns import PathPatterns, relative

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from embercoach.config.settings import Settings


@lru_cache(maxsize=64)
def patterns_of(exclude: tuple[str, ...], root: Path) -> PathPatterns:
    """Patterns of files and folders that are left out, compiled once."""
    return PathPatterns(exclude, root)


def steps(path: str, above: Sequence[Settings]) -> Iterator[tuple[Settings, str]]:
    """The folders on the way down to an absolute path, and the path, each with who decides on it.

    As in a walk from the outermost configuration down: each decides on what lies in its folders,
    down to the folder of the next one.

    Args:
        path: a file or a folder.
        above: the settings of the configurations at and above it, nearest first.
    """
    for number in range(len(above) - 1, -1, -1):
        settings = above[number]
        root = str(settings.root)
        end = str(above[number - 1].root) if number else path
        if end == root:
            continue
        current = root if end.startswith(root.rstrip(os.sep) + os.sep) else os.sep
        for name in relative(end, root).split("/"):
            current = os.path.join(current, name)  # noqa: PTH118  (hot)
            yield settings, current


def excluding(path: str, above: Sequence[Settings]) -> tuple[Settings, str] | None:
    """The settings that exclude a path, or a folder that it lies in, and their pattern.

    The arguments are those of `steps`.
    """
    for settings, current in steps(path, above):
        folder = current != path or os.path.isdir(path)  # noqa: PTH112
        pattern = patterns_of(settings.exclude, settings.root).naming(current, folder=folder)
        if pattern is not None:
            return settings, pattern
    return None
