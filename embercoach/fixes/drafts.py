"""Drafts: new files that take an old one's place. By their names, abandoned ones are removed."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import time
from functools import lru_cache
from hashlib import blake2b
from stat import S_ISREG
from typing import TYPE_CHECKING

from embercoach.safe_read import is_own

if TYPE_CHECKING:
    from pathlib import Path

#: The digest of the host's name, the number of the process, and random digits.
_NAME = re.compile(r"\.embercoach-(?P<host>[0-9a-f]{8})-(?P<process>[0-9]{1,10})-[0-9a-f]{16}\.tmp")
#: Seconds after which a draft of another host is abandoned: writing one takes less than one.
_OLD = 24 * 60 * 60
_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL
for _name in ("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY", "O_NOINHERIT"):
    _FLAGS |= getattr(os, _name, 0)


def create(folder: Path) -> tuple[int, Path]:
    """Create a draft that only this user can read; return its descriptor and path.

    Raises:
        OSError: the folder takes no new file.
    """
    _remove_abandoned(folder)
    path = folder / f".embercoach-{_host()}-{os.getpid()}-{secrets.token_hex(8)}.tmp"
    return os.open(path, _FLAGS, 0o600), path


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
