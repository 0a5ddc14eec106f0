"""How a forge names the files that users name on the command line."""

from __future__ import annotations

import os
from urllib.parse import quote

from embercoach.relative_paths import relative_path


def in_repository(path: str, root: str | None) -> str:
    """A path from the repository's root, with slashes; as it is where it lies elsewhere.

    Args:
        path: as it is shown.
        root: the repository's folder; the current one by default.
    """
    relative = relative_path(path or os.curdir, root or os.curdir)
    above = relative == os.pardir or relative.startswith(f"{os.pardir}{os.sep}")
    outside = above or os.path.isabs(relative)  # noqa: PTH117  (another drive)
    return (os.path.normpath(path) if outside else relative).replace(os.sep, "/")


def quoted(path: str) -> str:
    """A path as a part of a URL; bytes that are not text keep their values."""
    return quote(_encoded(path.replace(os.sep, "/")))


def file_url(path: str) -> str:
    """The URL of a file by its absolute path; a Windows drive keeps its colon."""
    return f"file:///{quote(_encoded(path), safe='/:').lstrip('/')}"


def _encoded(path: str) -> bytes:
    try:
        return path.encode(errors="surrogateescape")
    except UnicodeEncodeError:  # in a saved report: no file system gives such a name
        return path.encode(errors="surrogatepass")
