"""Files of untrusted projects: bounded reads, safe writes, and the project's boundary."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

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


#: Names of this process's own streams, and what discards all text: no files of a folder.
_STREAMS = {"/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTORS = "/dev/fd/"
_WRITE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
# Without O_NONBLOCK, opening a pipe waits for its reader. Windows has none of these but O_BINARY.
for _name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_NOCTTY", "O_BINARY", "O_NOINHERIT"):
    _WRITE_FLAGS |= getattr(os, _name, 0)


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
        _check_writable(os.lstat(path), path)  # opening a device may have side effects
    descriptor = os.open(path, _WRITE_FLAGS, 0o666)
    try:
        _check_writable(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_writable(status: os.stat_result, path: str) -> None:
    if S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not S_ISREG(status.st_mode):
        raise RefusedError(errno.EINVAL, "not a regular file", path)


CHECKOUT_FOLDERS = (".git", ".hg")
PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", ".git", "PKG-INFO")
OWN_FILE = "embercoach.toml"


def boundary(folder: str) -> str | None:
    """The folder that a file may read other files in, from the file's own folder.

    It is the top of the checkout; outside of checkouts the nearest folder up with a project file,
    or else with our configuration. None where nothing marks it. It depends on the files alone and
    on no argument of a run, so that a cached result holds for all runs.
    """
    tiers = (CHECKOUT_FOLDERS, PROJECT_FILES, (OWN_FILE,))
    return next(filter(None, (_nearest(folder, names) for names in tiers)), None)


def _nearest(start: str, names: tuple[str, ...]) -> str | None:
    for folder in upward(start):
        if any(os.path.lexists(os.path.join(folder, name)) for name in names):  # noqa: PTH118
            return folder
    return None


def upward(path: str) -> Iterator[str]:
    """Yield an absolute path and the folders that it lies in, the nearest first."""
    yield path
    while (above := os.path.dirname(path)) != path:  # noqa: PTH120  (hot)
        yield above
        path = above


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path as users write it: relative where it lies below the current folder."""
    text = os.fspath(path)
    try:
        here = os.getcwd()  # noqa: PTH109
    except FileNotFoundError:  # it was removed
        return text
    if text == here:
        return os.curdir
    return text[len(here.rstrip(os.sep)) + 1 :] if is_below(text, here) else text


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
