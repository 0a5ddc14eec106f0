"""Writing fixed files: whole or not at all, through symlinks, with the file's mode."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file's content in one step; what a symlink points to is replaced, not the link.

    Raises:
        OSError: neither the folder nor the file can be written.
    """
    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode
    if not os.access(target, os.W_OK):
        raise PermissionError(13, "is not writable", str(path))
    try:
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    except OSError:
        # The folder takes no new file, yet the file itself is writable.
        target.write_bytes(data)
        return
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(name).chmod(mode & 0o7777)
        Path(name).replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
