"""Write files that an option names, in a folder whose content is not trusted.

A checkout may hold a link with the name of a report. It must not lead the report to a file outside.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISREG

from embercoach.safe_read import RefusedError, is_below, is_link

#: Names of this process's own streams, and what discards all text: no files of a folder.
_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTORS = "/dev/fd/"
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
# Without O_NONBLOCK, opening a pipe waits for its reader. Windows has none of these but O_BINARY.
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT"):
    _FLAGS |= getattr(os, _name, 0)


def write_file(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file, a stream of this process such as `/dev/stdout`, or the null device.

    Raises:
        RefusedError: as of `refuse_links`, or it is neither a regular file nor one of these.
        OSError: it cannot be written.
        ValueError: the path is invalid.
    """
    descriptor = _opened(os.fspath(path))
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    finally:
        os.close(descriptor)


def refuse_links(path: str | os.PathLike[str], base: str | None = None) -> None:
    """Refuse a path that is a link, or that passes through a link to a folder outside.

    Folders above the base are trusted, and so are those of absolute paths elsewhere.

    Args:
        path: a file, present or absent.
        base: the folder that links must not leave, absolute; None for the current folder.

    Raises:
        RefusedError: for such a path; ``strerror`` says why.
        ValueError: the path is invalid.
    """
    text = os.fspath(path)
    if is_link(text):
        raise RefusedError(errno.ELOOP, "it is a link", text)
    try:
        base = base or os.getcwd()  # noqa: PTH109
    except FileNotFoundError:  # it was removed: no path passes through it
        return
    if os.path.isabs(text):  # noqa: PTH117
        if not is_below(os.path.normpath(text), base):
            return
        text = os.path.relpath(text, base)
    folder, real = base, os.path.realpath(base)
    for name in Path(text).parent.parts:
        folder = os.path.join(folder, name)  # noqa: PTH118
        if is_link(folder) and not is_below(os.path.realpath(folder), real):
            shown = os.path.relpath(folder, base)
            raise RefusedError(errno.ELOOP, f"{shown} is a link to a folder outside", text)


def _opened(path: str) -> int:
    """A descriptor for writing."""
    number = path.removeprefix(_DESCRIPTORS)
    if path in _STREAMS:
        return os.dup(_STREAMS[path])
    if number != path and number.isascii() and number.isdecimal():
        return os.dup(int(number))
    if os.path.normcase(path) == os.path.normcase(os.devnull):
        return os.open(path, os.O_WRONLY)
    refuse_links(path)
    with suppress(FileNotFoundError):
        _check_type(os.lstat(path), path)  # opening a device may have side effects
    descriptor = os.open(path, _FLAGS, 0o666)
    try:
        _check_type(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_type(status: os.stat_result, path: str) -> None:
    if S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not S_ISREG(status.st_mode):
        raise RefusedError(errno.EINVAL, "not a regular file", path)
