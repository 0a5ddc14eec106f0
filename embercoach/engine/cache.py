"""Results cached between runs, in ``.embercoach_cache`` at the root of the project.

One file for each version of the program: a digest of what follows, a header in JSON that says what
each result depends on, and the results' payloads one after another. A run reads it in one go,
parses the header, and of the payloads only those that it needs. If the file or its folder is
damaged, a run continues without a cache.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from string import hexdigits
from typing import TYPE_CHECKING, Any, TypeAlias, cast, get_args

from embercoach.engine.inspection import Inspection, Kind, digest_of
from embercoach.engine.payload import restored, stored
from embercoach.finding import SEVERITIES, Severity
from embercoach.safe_read import MOST_NAMED_BYTES, TooLargeError, is_own, read_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

FOLDER = ".embercoach_cache"
#: Prefix of the names of files with results; a fingerprint follows.
PREFIX = "results-"
LENGTH = 24
TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# This folder is EmberCoach's cache; it can be deleted at any time.\n"
)
#: Versions of the program whose results are kept side by side.
VERSIONS = 3
#: Bytes of a file with results that are read at most.
MOST_KEPT = 500_000_000
#: A dependency written this shortly before the run (ns) may have changed during it.
UNSETTLED = 2_000_000_000


_DAMAGED = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
_KINDS: dict[str, Kind] = {kind: kind for kind in get_args(Kind)}
_SEVERITIES: dict[str, Severity] = {severity: severity for severity in SEVERITIES}
_Severities: TypeAlias = "dict[tuple[str, str, str], Severity]"


class States:
    """The state of files during one run, each looked up once: a digest, or one of the marks."""

    ABSENT = ""
    FOLDER = "/"
    LARGE = "+"

    def __init__(self, started: int) -> None:
        self._known: dict[str, str] = {}
        self._unsettled: set[str] = set()
        self._started = started

    def learn(self, path: str, digest: str) -> None:
        """Note the content of a file that was read anyway."""
        self._known[path] = digest

    def of(self, path: str) -> str:
        """A file's state."""
        state = self._known.get(path)
        if state is None:
            state = self._known[path] = self._look(path)
        return state

    def settled(self, path: str) -> bool:
        """Return whether the state is certainly the one that the checks saw."""
        return path not in self._unsettled

    def _look(self, path: str) -> str:
        try:
            digest = digest_of(read_bytes(path, limit=MOST_NAMED_BYTES))
            if os.stat(path).st_mtime_ns > self._started - UNSETTLED:  # noqa: PTH116  (hot)
                self._unsettled.add(path)
        except IsADirectoryError:
            return self.FOLDER
        except TooLargeError:
            return self.LARGE
        except (OSError, ValueError):
            return self.ABSENT
        return digest


@dataclass(slots=True)
class CacheEntry:
    """A file's result. ``needs`` are the states of other files that it was found under."""

    digest: str
    kind: Kind
    needs: tuple[tuple[str, str], ...]
    payload: bytes


class Cache:
    """The results of a project; paths are texts relative to it where they lie in it.

    ``severities`` (by code, profile and context) spares reading rule pages; who judges adds to it.
    """

    def __init__(self, root: Path, fingerprint: str, states: States) -> None:
        """Read a project's results; none if there are none or the file is damaged."""
        self.root = str(root)
        self.fingerprint = fingerprint
        self._states = states
        self.entries: dict[str, CacheEntry] = {}
        self.severities: _Severities = {}
        self._severities_known = 0
        self._changed: dict[str, CacheEntry] = {}
        self._held: dict[tuple[str, str], bool] = {}
        self._stamp: tuple[int, int] | None = None
        self._load()

    @property
    def _folder(self) -> Path:
        return Path(self.root) / FOLDER

    @property
    def _file(self) -> Path:
        return self._folder / f"{PREFIX}{self.fingerprint}"

    def learn(self, path: str, digest: str) -> None:
        """Note the content of a file that is about to be asked for."""
        self._states.learn(path, digest)

    def get(self, path: str, digest: str) -> Inspection | None:
        """The result for a file's content, if its dependencies have not changed."""
        entry = self.entries.get(self._shorten(path))
        if entry is None or entry.digest != digest:
            return None
        if not all(map(self._holds, entry.needs)):
            return None
        return restored(entry.kind, digest, entry.payload)

    def _holds(self, need: tuple[str, str]) -> bool:
        held = self._held.get(need)
        if held is None:
            held = self._held[need] = self._states.of(self._lengthen(need[0])) == need[1]
        return held

    def put(self, path: str, inspection: Inspection) -> None:
        """Cache a result, unless a dependency may have changed meanwhile."""
        needs = []
        for other in inspection.dependencies:
            state = self._states.of(other)
            if not self._states.settled(other):
                return
            needs.append((self._shorten(other), state))
        entry = CacheEntry(inspection.digest, inspection.kind, tuple(needs), stored(inspection))
        self._changed[self._shorten(path)] = entry

    def save(self) -> None:
        """Write new results, merged with those of other processes."""
        if not self._changed and len(self.severities) == self._severities_known:
            return
        with contextlib.suppress(OSError):
            self._prepare_folder()
            if self._stamp != _stamp(self._file):
                self._load()
            self.entries.update(self._changed)
            self.entries = {
                name: entry for name, entry in self.entries.items() if self._is_there(name)
            }
            _replace(self._file, _packed(self.entries, self.severities))
            self._prune()
        self._changed = {}

    def _load(self) -> None:
        try:
            self._stamp = _stamp(self._file)
            if not (is_own(self._folder, S_ISDIR) and is_own(self._file, S_ISREG)):
                raise ValueError("not ours")
            self.entries, severities = _unpacked(
                read_bytes(self._file, limit=MOST_KEPT, follow=False)
            )
        except (OSError, *_DAMAGED):
            self.entries = {}
        else:
            self.severities.update(severities)
            self._severities_known = len(severities)

    def _is_there(self, name: str) -> bool:
        return name in self._changed or os.path.exists(self._lengthen(name))  # noqa: PTH110

    def _shorten(self, path: str) -> str:
        prefix = self.root + os.sep
        return path.removeprefix(prefix)

    def _lengthen(self, name: str) -> str:
        return os.path.join(self.root, name)  # noqa: PTH118  (hot; keeps an absolute name)

    def _prepare_folder(self) -> None:
        if os.path.lexists(self._folder):
            if not is_own(self._folder, S_ISDIR):
                raise PermissionError(errno.EPERM, "not a folder of this user", str(self._folder))
            return
        self._folder.mkdir()
        (self._folder / "CACHEDIR.TAG").write_text(TAG, encoding="utf-8")
        (self._folder / ".gitignore").write_text("*\n", encoding="utf-8")

    def _prune(self) -> None:
        kept = [
            entry
            for entry in os.scandir(self._folder)
            if _is_our_name(entry.name) and entry.is_file(follow_symlinks=False)
        ]
        kept.sort(key=lambda entry: entry.stat(follow_symlinks=False).st_mtime)
        for entry in kept[:-VERSIONS]:
            os.unlink(entry.path)  # noqa: PTH108  (it has no Path)


def _is_our_name(name: str) -> bool:
    """Return whether a file of the folder has the name of a results file."""
    digits = name.removeprefix(PREFIX)
    return digits != name and len(digits) == LENGTH and not set(digits) - set(hexdigits.lower())


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        status = file.lstat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino


def _replace(file: Path, parts: Iterable[bytes]) -> None:
    import tempfile

    handle, name = tempfile.mkstemp(prefix=".writing-", dir=file.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.writelines(parts)
        Path(name).replace(file)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _packed(entries: dict[str, CacheEntry], severities: _Severities) -> list[bytes]:
    # Many files depend on the same others: each state is written once and named by number.
    numbers: dict[tuple[str, str], int] = {}
    table = {}
    start = 0
    for name, entry in entries.items():
        needs = [numbers.setdefault(need, len(numbers)) for need in entry.needs]
        table[name] = [entry.digest, entry.kind, needs, start, start + len(entry.payload)]
        start += len(entry.payload)
    known = [[*key, severity] for key, severity in severities.items()]
    tables = {"states": list(numbers), "entries": table, "severities": known}
    header = json.dumps(tables, separators=(",", ":"))
    parts = [header.encode(), b"\n", *(entry.payload for entry in entries.values())]
    return [_digest(parts), b"\n", *parts]


def _unpacked(data: bytes) -> tuple[dict[str, CacheEntry], _Severities]:
    """Raises one of `_DAMAGED` for anything but what ``_packed`` wrote."""
    digest, _, rest = data.partition(b"\n")
    if digest != _digest([rest]):
        raise ValueError("damaged")
    line, _, body = rest.partition(b"\n")
    header = cast("dict[str, Any]", json.loads(line))
    states = [(_text(name), _text(state)) for name, state in header["states"]]
    entries: dict[str, CacheEntry] = {}
    for name, (digest, kind, needs, start, end) in header["entries"].items():
        _number(start, _number(end, len(body)))
        needed = tuple([states[_number(number, len(states) - 1)] for number in needs])
        entries[name] = CacheEntry(_text(digest), _KINDS[kind], needed, body[start:end])
    severities: _Severities = {
        (_text(code), _text(profile), _text(context)): _SEVERITIES[severity]
        for code, profile, context, severity in header["severities"]
    }
    return entries, severities


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("damaged")
    return value


def _number(value: Any, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError("damaged")
    return value


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest().encode()
