"""Read files whose names are not trusted: regular files, of bounded size, inside a folder.

Linted code, linted folders and configurations name files. A pipe or a device would block the run,
a link may lead to a secret, and a large file exhausts memory. Every part of the program that reads
such a file reads it here.
"""

from __future__ import annotations

import errno
import os
from stat import S_ISDIR, S_ISLNK, S_ISREG
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

#: Bytes of a file that are read at most, where the caller sets no other limit.
MOST_BYTES = 100_000_000
#: Bytes of a file that linted code names: whatever is larger is not read, like an absent file.
MOST_NAMED_BYTES = 2_000_000
#: Entries of these are not files of a project, whatever their type is.
PSEUDO_FOLDERS = ("/proc", "/sys", "/dev")
#: Repositories' own folders hold credentials, and no sources. Where names of files ignore case,
#: ``.GIT`` is the same folder.
PRIVATE_FOLDERS = frozenset((".git", ".hg"))

# Without O_NONBLOCK, opening a pipe waits for its writer. Windows has none of these but O_BINARY.
_FLAGS = os.O_RDONLY
for _name in ("O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT"):
    _FLAGS |= getattr(os, _name, 0)
_NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
#: Windows' links to folders, which are folders to `os.lstat` (``stat.IO_REPARSE_TAG_MOUNT_POINT``).
_JUNCTION = 0xA0000003


class RefusedError(OSError):
    """A file that is there and is not read; ``strerror`` says why."""


class TooLargeError(RefusedError):
    """A file of more bytes than the limit."""


def read_bytes(
    path: str | os.PathLike[str],
    *,
    limit: int = MOST_BYTES,
    root: str | None = None,
    follow: bool = True,
) -> bytes:
    """Read a regular file.

    Args:
        path: the file.
        limit: bytes at most.
        root: the folder that the file's real path must lie in; None for anywhere.
        follow: whether the path may be a symbolic link.

    Raises:
        TooLargeError: the file is larger than the limit.
        RefusedError: it is not a regular file, or lies outside the root.
        OSError: it cannot be opened or read.
        ValueError: the path is invalid.
    """
    # Opening a device may have side effects: the type is checked before and after.
    _check_type(os.stat(path, follow_symlinks=follow), path)  # noqa: PTH116  (hot)
    descriptor = os.open(path, _FLAGS if follow else _FLAGS | _NOFOLLOW)
    try:
        status = os.fstat(descriptor)
        _check_type(status, path)
        if root is not None:
            _check_place(path, root, status)
        if status.st_size > limit:
            raise TooLargeError(errno.EFBIG, f"larger than {limit:,} bytes", path)
        return _read(descriptor, status.st_size)
    finally:
        os.close(descriptor)


def read_text(
    path: str | os.PathLike[str],
    *,
    limit: int = MOST_BYTES,
    root: str | None = None,
    errors: str = "strict",
    follow: bool = True,
) -> str:
    """Read a regular file of UTF-8 text, with line feeds as line ends; see `read_bytes`.

    Raises:
        OSError: as of `read_bytes`.
        ValueError: the path is invalid or the file is not UTF-8.
    """
    text = read_bytes(path, limit=limit, root=root, follow=follow).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text


def is_inside(path: str | os.PathLike[str], root: str) -> bool:
    """Return whether the real path of a file is in a folder, outside of private ones."""
    return _inside(os.path.realpath(path), os.path.realpath(root))


def is_own(path: str | os.PathLike[str], is_type: Callable[[int], bool]) -> bool:
    """Return whether a path has a type (`stat.S_ISDIR`) and this user as owner; links do not.

    Raises:
        OSError: there is no such path.
    """
    status = os.lstat(path)
    if _is_junction(status):
        return False
    own = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return own and is_type(status.st_mode)


def is_link(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a symbolic link, or a junction of Windows."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return S_ISLNK(status.st_mode) or _is_junction(status)


def _is_junction(status: os.stat_result) -> bool:
    return getattr(status, "st_reparse_tag", 0) == _JUNCTION


def _check_type(status: os.stat_result, path: str | os.PathLike[str]) -> None:
    if S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not S_ISREG(status.st_mode):
        raise RefusedError(errno.EINVAL, "not a regular file", path)


def _check_place(path: str | os.PathLike[str], root: str, status: os.stat_result) -> None:
    real = os.path.realpath(path)
    # The file that was opened must be the one that stands at the path that is checked.
    if not os.path.samestat(os.lstat(real), status) or not _inside(real, os.path.realpath(root)):
        raise RefusedError(errno.EACCES, "outside the project", path)


def _inside(real: str, root: str) -> bool:
    if not is_below(real, root):
        return False
    if not PRIVATE_FOLDERS.isdisjoint(real[len(root) :].casefold().split(os.sep)):  # noqa: PTH206
        return False
    return not any(is_below(real, one) and not is_below(root, one) for one in PSEUDO_FOLDERS)


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder or lies in it, by its text alone."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _read(descriptor: int, size: int) -> bytes:
    # No more than the size: files of procfs have none, and reading them may wait.
    parts = []
    while size > 0:
        part = os.read(descriptor, size)
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)
