"""How a forge names the files that users name on the command line."""

from __future__ import annotations

import os
from urllib.parse import quote


def in_repository(path: str, root: str | None) -> str:
    """A path from the repository's root, with slashes; as it is where it lies elsewhere.

    Args:
        path: as it is shown.
        root: the repository's folder; the current one by default.
    """
    relative = os.path.relpath(path or os.curdir, root or os.curdir)
    outside = relative == os.pardir or relative.startswith(f"{os.pardir}{os.sep}")
    return (os.path.normpath(path) if outside else relative).replace(os.sep, "/")


def quoted(path: str) -> str:
    """A path as a part of a URL; bytes that are no text keep their values."""
    return quote(path.replace(os.sep, "/"), errors="surrogateescape")
