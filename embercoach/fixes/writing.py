"""Writing fixed files: nothing but their content changes, and no failure loses it.

A new file takes the old one's place in one step where that keeps all that the old one is. It does
not for a file with several links, of another owner, or with attributes such as access lists: that
is overwritten in place. What needs more space is written first, and a failure is undone.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import tempfile
from pathlib import Path
from stat import S_IMODE, S_ISREG
from typing import TYPE_CHECKING

from embercoach.fixes import drafts

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Attributes that a new file in the same folder has by itself.
_INHERITED = frozenset(("security.selinux",))
_FLAGS = os.O_RDWR
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"):
    _FLAGS |= getattr(os, _name, 0)


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content; what a symlink points to is changed, not the link.

    Raises:
        OSError: the file cannot be written. Its content is the old one.
    """
    target = Path(os.path.realpath(path))
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "is not writable", str(path))
    if not _is_plain(target) or not _exchange(target, data):
        _overwrite(target, data)


def distinct(paths: Iterable[str]) -> list[str]:
    """Paths of different files, sorted: of links, symbolic and hard ones, one stays.

    It is the first of the file's paths, or the first that is not a symbolic link.
    """
    kept: dict[object, str] = {}
    for path in sorted(paths, key=lambda path: (os.path.islink(path), path)):  # noqa: PTH114
        kept.setdefault(_identity(path), path)
    return sorted(kept.values())


def _identity(path: str) -> object:
    real = os.path.realpath(path)
    try:
        status = os.lstat(real)
    except OSError:
        return real
    return (status.st_dev, status.st_ino) if status.st_nlink > 1 and status.st_ino else real


def create_file(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, at no place that a link points to.

    Raises:
        OSError: the file cannot be written, or something of its name is there.
    """
    with path.open("xb") as file:
        file.write(data)


def _is_plain(target: Path) -> bool:
    """Return whether a file has one link, and no attributes that a new file would lack."""
    status = target.lstat()
    if not S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(target))
    if status.st_nlink > 1:
        return False
    if not hasattr(os, "listxattr"):
        return True
    try:
        return set(os.listxattr(target)) <= _INHERITED
    except OSError:  # a file system without attributes
        return True


def _exchange(target: Path, data: bytes) -> bool:
    """Put a new file in a file's place; whether that was possible.

    Raises:
        OSError: there is no space for it.
    """
    try:
        descriptor, draft = drafts.create(target.parent)
    except PermissionError:
        # The folder takes no new file, yet the file itself is writable.
        return False
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        kept = _keep_status(draft, target.lstat()) and _take_place(draft, target)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
    if not kept:
        draft.unlink()
    return kept


def _keep_status(new: Path, status: os.stat_result) -> bool:
    """Give a file the owner, group and mode of another; whether that was possible."""
    own = new.lstat()
    is_same = (own.st_uid, own.st_gid) == (status.st_uid, status.st_gid)
    if sys.platform != "win32" and not is_same:  # Windows gives all files the numbers 0
        try:
            os.chown(new, status.st_uid, status.st_gid)
        except OSError:
            return False
    new.chmod(S_IMODE(status.st_mode))
    return True


def _take_place(new: Path, target: Path) -> bool:
    """Rename a file to another's name; whether that was possible."""
    try:
        new.replace(target)
    except PermissionError:  # on Windows: another program has the file open
        return False
    return True


def _overwrite(target: Path, data: bytes) -> None:
    descriptor = os.open(target, _FLAGS)
    try:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(target))
        old = _read(descriptor)
        try:
            # The end first: only it needs more space than the file has.
            _write(descriptor, len(old), data[len(old) :])
            _write(descriptor, 0, data[: len(old)])
            os.ftruncate(descriptor, len(data))
        except BaseException:
            _restore(descriptor, old)
            raise
    finally:
        os.close(descriptor)


def _restore(descriptor: int, old: bytes) -> None:
    """Put the old content back, or elsewhere where that fails.

    Raises:
        OSError: it is elsewhere; the message says where.
    """
    try:
        _write(descriptor, 0, old)
        os.ftruncate(descriptor, len(old))
    except OSError as error:
        with tempfile.NamedTemporaryFile(prefix="embercoach-", delete=False) as file:
            file.write(old)
        message = f"{error.strerror}; its old content is now in {file.name}"
        raise OSError(error.errno, message) from error


def _read(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def _write(descriptor: int, offset: int, data: bytes) -> None:
    os.lseek(descriptor, offset, os.SEEK_SET)
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
