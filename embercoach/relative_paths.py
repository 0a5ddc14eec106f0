"""Relative paths between drives: Windows has none, and `os.path.relpath` raises."""

from __future__ import annotations

import os


def relative_path(path: str | os.PathLike[str], start: str | os.PathLike[str] = os.curdir) -> str:
    """Return a path relative to a folder, or the absolute path if they are on different drives.

    Raises:
        ValueError: the path is empty.
    """
    text = os.fspath(path)
    try:
        return os.path.relpath(text, start)
    except ValueError:
        if not text:
            raise
        return os.path.abspath(text)  # noqa: PTH100  (links stay)
