"""A folder of compiled objects that processes share: checked on the way out, bounded in size."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING, Any

from embercoach.safe_read import is_own, read_bytes
from embercoach.simulator.model import SimulatorError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Bytes that the entries of a cache may take together.
MOST_BYTES = 256 << 20
#: Seconds for which an entry that was used is never dropped: somebody may be about to load it.
GRACE = 3600.0
#: Seconds between two sweeps, by whatever process: each reads the state of every entry.
SWEEP_INTERVAL = 600.0

_FACTS = "entry.json"
_UNFINISHED = ".new-"
_SWEPT = "swept"
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class CachedObject:
    """An entry of the cache.

    Attributes:
        folder: of its files, which must not be changed.
        facts: what was stored with them.
    """

    folder: Path
    facts: Mapping[str, Any]


class ObjectCache:
    """Entries are folders that appear and vanish whole, so no reader sees half of one."""

    def __init__(self, root: Path, most_bytes: int = MOST_BYTES) -> None:
        self.root = root
        self._most_bytes = most_bytes

    def get(self, key: str) -> CachedObject | None:
        """The entry of a key, None if there is none or its files are not what was stored."""
        folder = self.root / key
        try:
            # Objects run as this user: nobody else may have put them there.
            if not (is_own(self.root.resolve(), S_ISDIR) and is_own(folder, S_ISDIR)):
                return None
            status = (folder / _FACTS).lstat()
            stored = json.loads(read_bytes(folder / _FACTS, follow=False))
            digests: dict[str, str] = stored["files"]
            if any(_digest(folder / name) != digest for name, digest in digests.items()):
                return None
            facts: dict[str, Any] = stored["facts"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None
        if time.time() - status.st_mtime > GRACE / 2:
            with contextlib.suppress(OSError):
                os.utime(folder / _FACTS)
        return CachedObject(folder, facts)

    @contextlib.contextmanager
    def making(self) -> Iterator[Path]:
        """A folder to make an entry's files in, for ``put``; what is left of it is removed.

        Raises:
            SimulatorError: the cache can't be written.
        """
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            if not is_own(self.root.resolve(), S_ISDIR):
                raise PermissionError(errno.EPERM, "it belongs to another user")
            folder = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.root))
        except OSError as error:
            raise SimulatorError(
                f"cannot cache compiled kernels in {self.root}: {error}. Make it writable, or set "
                "XDG_CACHE_HOME to a folder that is"
            ) from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def put(self, key: str, made: Path, facts: Mapping[str, Any]) -> CachedObject:
        """Keep the files of a folder that ``making`` gave.

        Another process may have kept the same meanwhile: the entry that is there counts, unless its
        files are damaged.
        """
        names = sorted(path.name for path in made.iterdir())
        content = {"files": {name: _digest(made / name) for name in names}, "facts": facts}
        (made / _FACTS).write_text(json.dumps(content), encoding="utf-8")
        for _ in range(_ATTEMPTS):
            with contextlib.suppress(OSError):  # somebody was faster
                made.rename(self.root / key)
            entry = self.get(key)
            if entry is not None:
                self._sweep_now_and_then()
                return entry
            self._drop(self.root / key)
        raise SimulatorError(f"entry {key} of {self.root} keeps changing")

    def _sweep_now_and_then(self) -> None:
        stamp = self.root / _SWEPT
        with contextlib.suppress(OSError):
            if abs(time.time() - stamp.lstat().st_mtime) < SWEEP_INTERVAL:
                return
        self.sweep()
        with contextlib.suppress(OSError):
            stamp.unlink(missing_ok=True)
            stamp.touch(exist_ok=False)  # a link is not followed

    def sweep(self) -> None:
        """Drop what was not used for longest until the rest fits, and what crashes left over."""
        used: list[tuple[float, int, Path]] = []
        now = time.time()
        with os.scandir(self.root) as found:
            folders = [Path(entry.path) for entry in found]
        for folder in folders:
            with contextlib.suppress(OSError):
                last = folder.stat().st_mtime
                if folder.is_symlink():
                    continue
                if not folder.name.startswith(_UNFINISHED):
                    last = (folder / _FACTS).stat().st_mtime
                    used.append((last, sum(p.stat().st_size for p in folder.iterdir()), folder))
                elif now - last > GRACE:
                    shutil.rmtree(folder, ignore_errors=True)
        total = sum(size for _, size, _ in used)
        for last, size, folder in sorted(used):
            if total <= self._most_bytes or now - last <= GRACE:
                break
            self._drop(folder)
            total -= size

    def _drop(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            aside = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=self.root))
            with contextlib.suppress(OSError):
                folder.rename(aside / "dropped")
            shutil.rmtree(aside, ignore_errors=True)


def _digest(path: Path) -> str:
    data = read_bytes(path, limit=MOST_BYTES, follow=False)
    return hashlib.sha256(data).hexdigest()
