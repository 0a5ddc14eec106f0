"""Write fixed files: nothing but their content changes, and no failure loses it."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import socket
import sys
import tempfile
import time
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from stat import S_IMODE, S_ISREG

from embercoach.files import is_own

#: The digest of the host's name, the number of the process, and random digits.
_NAME = re.compile(r"\.embercoach-(?P<host>[0-9a-f]{8})-(?P<process>[0-9]{1,10})-[0-9a-f]{16}\.tmp")
#: Seconds after which a draft of another host is abandoned: writing one takes less than one.
_OLD = 24 * 60 * 60
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
for _name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"):
    _NEW_FILE |= getattr(os, _name, 0)


def create(folder: Path) -> tuple[int, Path]:
    """Create a draft that only this user can read; return its descriptor and path.

    Raises:
        OSError: the folder takes no new file.
    """
    _remove_abandoned(folder)
    path = folder / f".embercoach-{_host()}-{os.getpid()}-{secrets.token_hex(8)}.tmp"
    return os.open(path, _NEW_FILE, 0o600), path


@lru_cache(maxsize=256)  # once a run, not for each file of a large folder
def _remove_abandoned(folder: Path) -> None:
    """Remove drafts whose process was killed."""
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208  (names alone)
            match = _NAME.fullmatch(name)
            if (
                match is not None
                and is_own(folder / name, S_ISREG)
                and _is_abandoned(folder / name, match["host"], int(match["process"]))
            ):
                (folder / name).unlink()


def _is_abandoned(path: Path, host: str, process: int) -> bool:
    if path.lstat().st_mtime < time.time() - _OLD:
        return True
    if host != _host() or os.name == "nt":  # where asking for a process would end it
        return False
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # another user's
        pass
    return False


def _host() -> str:
    return blake2b(socket.gethostname().encode(), digest_size=4).hexdigest()


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
        descriptor, draft = create(target.parent)
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
