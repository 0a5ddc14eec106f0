"""Results cached between runs, in ``.embercoach_cache``: JSON, keyed by file and program."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from string import hexdigits
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from embercoach.engine.inspection import Inspection, Kind, digest_of
from embercoach.engine.suppressions import Directive  # noqa: TC001  (decoding evaluates it)
from embercoach.files import MOST_NAMED_BYTES, TooLargeError, is_own, read_bytes
from embercoach.finding import Finding, Offset, Problem, ReadPlace, Said, Severity, Step
from embercoach.notebooks.cell_module import CellTable  # noqa: TC001  (decoding evaluates it)
from embercoach.rulebook import pages_directory
from embercoach.terminal_text import escaped

if TYPE_CHECKING:
    from embercoach.kernel_builder import KernelBuilder


class CheckedFile(Struct, array_like=True, forbid_unknown_fields=True):
    """The content of a payload of a file that was checked."""

    findings: tuple[Finding, ...]
    directives: tuple[Directive, ...]
    cells: CellTable | None
    problem: Said | None


def stored(inspection: Inspection) -> bytes:
    """Return the payload of an inspection."""
    content: Any = []
    if inspection.kind == "checked":
        problem = None if inspection.problem is None else inspection.problem.message
        content = CheckedFile(inspection.findings, inspection.directives, inspection.cells, problem)
    elif inspection.problem is not None:
        content = inspection.problem
    # By `json`, which writes halves of surrogate pairs, too.
    return json.dumps(msgspec.to_builtins(content), separators=(",", ":")).encode()


def restored(kind: Kind, digest: str, payload: bytes) -> Inspection | None:
    """Return the inspection of a payload, None unless one of that kind may have written it."""
    try:
        if kind == "skipped" and payload == b"[]":
            return Inspection(kind, digest)
        if kind == "broken":
            broken = msgspec.json.decode(payload, type=Problem)
            return Inspection(kind, digest, problem=broken) if _are_said(broken.message) else None
        file = msgspec.json.decode(payload, type=CheckedFile) if kind == "checked" else None
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    if file is None or not _is_sound(file):
        return None
    problem = None if file.problem is None else Problem("", 1, 1, file.problem)
    return Inspection(
        kind,
        digest,
        findings=file.findings,
        directives=file.directives,
        cells=file.cells,
        problem=problem,
    )


def _is_sound(file: CheckedFile) -> bool:
    """Return whether places end after they start, and texts are as messages are."""
    fixes = [finding.fix for finding in file.findings if finding.fix]
    steps = [step for finding in file.findings for step in (*finding.flow, *finding.related)]
    within = [finding.within for finding in file.findings if finding.within]
    steps += [step for one in within for step in one.related]
    worded: list[Finding | Step] = [*file.findings, *steps]
    placed: list[Finding | Step | ReadPlace] = [*worded, *within]
    said = [one.message for one in worded]
    said += [finding.help for finding in file.findings] + [fix.title for fix in fixes]
    spans = [(edit.start, edit.end) for fix in fixes for edit in fix.edits]
    for directive in file.directives:
        spans += [(directive.removal, directive.removal_end), *directive.spans]
        spans += [(item.start, item.end) for item in directive.items]
    return (
        all((one.line, one.column) <= (one.end_line, one.end_column) for one in placed)
        and all(start <= end for start, end in spans)
        and _are_said(*said, file.problem or "")
        and (file.cells is None or _are_in_order(file.cells))
    )


def _are_said(*texts: str) -> bool:
    return all(text == escaped(text) for text in texts)


def _are_in_order(cells: CellTable) -> bool:
    return (
        len(cells.numbers) == len(cells.first_lines) > 0
        and all(one < other for one, other in pairwise(cells.numbers))
        and all(one <= other for one, other in pairwise(cells.first_lines))
    )


#: Raised when what the cache stores changes its meaning.
FORMAT = 4
#: Packages and modules that decide on findings.
DECISIVE = (
    *("analysis", "checks", "metal", "plugins", "api.py", "finding.py", "kernel_builder.py"),
    *("files.py", "terminal_text.py", "fixes/source_file.py", "engine", "notebooks"),
)
PARSERS = ("libcst", "tree_sitter", "tree_sitter_cpp")


@cache
def program() -> str:
    """A digest of the deciding modules' and the rule pages' contents: the same on every machine.

    Contents and not times: installers and archives set times to what they like.
    """
    digest = blake2b(digest_size=12)
    package = Path(__file__).resolve().parent.parent
    for name in DECISIVE:
        place = package / name
        for file in _files(str(place)) if place.is_dir() else [str(place)]:
            digest.update(file[len(str(package)) :].encode())
            digest.update(Path(file).read_bytes())
    for file in _files(str(pages_directory())):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()


@cache
def fingerprint(
    builders: tuple[KernelBuilder, ...] = (), plugin_digests: tuple[str, ...] = ()
) -> str:
    """Return a digest of the program, of the plugins, of the parsers and of this Python.

    Also of the setting that decides on findings and not only on their selection: ``builders``.
    """
    digest = blake2b(digest_size=12)
    digest.update(f"{FORMAT} {sys.version_info[:3]} {sys.implementation.name}".encode())
    digest.update(program().encode())
    if builders:
        digest.update(repr(builders).encode())
    if plugin_digests:
        digest.update(repr(plugin_digests).encode())
    for name in PARSERS:
        spec = find_spec(name)
        if spec is not None and spec.origin:
            stat = Path(spec.origin).stat()
            digest.update(f"{spec.origin} {stat.st_mtime_ns} {stat.st_size}".encode())
    return digest.hexdigest()


def _files(folder: str) -> list[str]:
    found = []
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_dir():
            if entry.name != "__pycache__":
                found += _files(entry.path)
        elif not entry.name.endswith(".pyc"):
            found.append(entry.path)
    return found


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


_DAMAGED = (ValueError, LookupError, msgspec.ValidationError, RecursionError)
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
        """Return a file's state."""
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


class CacheEntry(Struct):
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
        """Return the result for a file's content, if its dependencies have not changed."""
        entry = self.entries.get(self._shorten(path))
        if entry is None or entry.digest != digest:
            return None
        if not all(map(self._holds, entry.needs)):
            return None
        found = restored(entry.kind, digest, entry.payload)
        needed = tuple([self._lengthen(name) for name, _ in entry.needs])
        return None if found is None else replace(found, dependencies=needed)

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


class _Header(Struct):
    """The tables of a results file: what its payloads belong to.

    Many files depend on the same others: each state is written once and named by number. An entry
    has its digest, kind, numbers of states, and the start and end of its payload.
    """

    states: list[tuple[str, str]]
    entries: dict[str, tuple[str, Kind, list[Offset], Offset, Offset]]
    severities: list[tuple[str, str, str, Severity]]


def _packed(entries: dict[str, CacheEntry], severities: _Severities) -> list[bytes]:
    numbers: dict[tuple[str, str], int] = {}
    header = _Header([], {}, [(*key, severity) for key, severity in severities.items()])
    start = 0
    for name, entry in entries.items():
        needs = [numbers.setdefault(need, len(numbers)) for need in entry.needs]
        end = start + len(entry.payload)
        header.entries[name] = (entry.digest, entry.kind, needs, start, end)
        start = end
    header.states += numbers
    # By `json`: names of files may hold bytes that are not text.
    line = json.dumps(msgspec.to_builtins(header), separators=(",", ":")).encode()
    parts = [line, b"\n", *(entry.payload for entry in entries.values())]
    return [_digest(parts), b"\n", *parts]


def _unpacked(data: bytes) -> tuple[dict[str, CacheEntry], _Severities]:
    """Return the entries and severities of a file; raise one of `_DAMAGED` for any other file."""
    digest, _, rest = data.partition(b"\n")
    if digest != _digest([rest]):
        raise ValueError("damaged")
    line, _, body = rest.partition(b"\n")
    header = msgspec.convert(json.loads(line), _Header)
    entries: dict[str, CacheEntry] = {}
    for name, (digest_, kind, needs, start, end) in header.entries.items():
        if not start <= end <= len(body):
            raise ValueError("damaged")
        needed = tuple([header.states[number] for number in needs])
        entries[name] = CacheEntry(digest_, kind, needed, body[start:end])
    return entries, {
        (code, profile, context): severity for code, profile, context, severity in header.severities
    }


def _digest(parts: Iterable[bytes]) -> bytes:
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest().encode()
