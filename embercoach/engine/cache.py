"""Results cached between runs, in ``.embercoach_cache``: JSON, keyed by file and program."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from string import hexdigits
from typing import TYPE_CHECKING, Any, TypeAlias, cast, get_args

from msgspec import Struct

from embercoach.engine.inspection import Inspection, Kind, digest_of
from embercoach.engine.suppressions import Directive, Item
from embercoach.engine.suppressions import Kind as DirectiveKind
from embercoach.files import MOST_NAMED_BYTES, TooLargeError, is_own, read_bytes
from embercoach.finding import SEVERITIES, Edit, Finding, Fix, Problem, Severity, Step
from embercoach.notebooks.cell_module import CellTable
from embercoach.rulebook import pages_directory
from embercoach.terminal_text import MOST_SAID, escaped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from embercoach.kernel_builder import KernelBuilder

#: Lines, columns and offsets are at most this; `suppressions.LAST_LINE` is the largest.
MOST = 1 << 31
_DIRECTIVES = frozenset(get_args(DirectiveKind))
#: Fields of findings and of problems that are stored: those that the engine sets are not.
_OF_FINDING = slice(0, 11)
_STORED: dict[type, Callable[[Any], Any]] = {
    Finding: attrgetter(*Finding.__struct_fields__[_OF_FINDING]),
    Problem: attrgetter("line", "column", "message", "cell"),
    CellTable: attrgetter("numbers", "first_lines"),
    **{one: attrgetter(*one.__struct_fields__) for one in (Edit, Fix, Directive, Item)},
    Step: attrgetter("line", "column", "end_line", "end_column", "message"),
}


def stored(inspection: Inspection) -> bytes:
    """The payload of an inspection."""
    content: Any = []
    if inspection.kind == "checked":
        problem = inspection.problem and inspection.problem.message
        content = [inspection.findings, inspection.directives, inspection.cells, problem]
    elif inspection.problem is not None:
        content = inspection.problem
    return json.dumps(content, separators=(",", ":"), default=_fields).encode()


def _fields(one: object) -> Any:
    return _STORED[type(one)](one)


def restored(kind: Kind, digest: str, payload: bytes) -> Inspection | None:
    """The inspection of a payload, None unless an inspection of that kind may have written it."""
    try:
        content = json.loads(payload.decode())
    except (ValueError, RecursionError):
        return None
    if kind == "skipped" and content == []:
        return Inspection(kind, digest)
    if kind == "broken" and _is_problem(content):
        return Inspection(kind, digest, problem=Problem("", *content))
    if kind == "checked" and _is_list(content, 4) and _is_report(*content):
        findings, directives, cells, message = content
        return Inspection(
            kind,
            digest,
            findings=tuple(map(_finding, findings)),
            directives=tuple(map(_directive, directives)),
            cells=cells and CellTable(*map(tuple, cells)),
            problem=None if message is None else Problem("", 1, 1, message),
        )
    return None


def _finding(value: list[Any]) -> Finding:
    *fields, fix, flow, related = value
    if fix is not None:
        title, safe, edits = fix
        fix = Fix(title, safe, tuple([Edit(*edit) for edit in edits]))
    arguments: list[Any] = [*fields, fix, _steps(flow), _steps(related)]
    return Finding(*arguments)


def _steps(values: list[Any]) -> tuple[Step, ...]:
    return tuple([Step(*value) for value in values])


def _directive(value: list[Any]) -> Directive:
    *fields, items, blanket, spans = value
    listed = tuple([Item(*item) for item in items])
    arguments: list[Any] = [*fields, listed, blanket, tuple(map(tuple, spans))]
    return Directive(*arguments)


def _is_problem(value: Any) -> bool:
    if not _is_list(value, 4):
        return False
    line, column, message, cell = value
    return _are_counts(line, column) and _is_said(message) and (cell is None or _are_counts(cell))


def _is_report(findings: Any, directives: Any, cells: Any, problem: Any) -> bool:
    return (
        _are(findings, _is_finding)
        and _are(directives, _is_directive)
        and (cells is None or (_is_list(cells, 2) and _are_cells(*cells)))
        and (problem is None or _is_said(problem))
    )


def _is_finding(value: Any) -> bool:
    if not _is_list(value, 11):
        return False
    code, *place, message, advice, context, fix, flow, related = value
    return (
        isinstance(code, str)
        and _is_place(place)
        and _is_said(message)
        and _is_said(advice)
        and isinstance(context, str)
        and (fix is None or _is_fix(fix))
        and _are(flow, _is_step)
        and _are(related, _is_step)
    )


def _is_step(value: Any) -> bool:
    return _is_list(value, 5) and _is_place(value[:4]) and _is_said(value[4])


def _is_place(value: list[Any]) -> bool:
    return _are_counts(*value) and value[:2] <= value[2:]


def _is_fix(value: Any) -> bool:
    if not _is_list(value, 3):
        return False
    title, safe, edits = value
    return _is_said(title) and isinstance(safe, bool) and _are(edits, _is_edit)


def _is_edit(value: Any) -> bool:
    return _is_list(value, 3) and _is_span(value[:2], 0) and isinstance(value[2], str)


def _is_directive(value: Any) -> bool:
    if not _is_list(value, 10):
        return False
    kind, line, column, end, removal, removal_end, remains, items, blanket, spans = value
    return (
        isinstance(kind, str)
        and kind in _DIRECTIVES
        and _are_counts(line, column, end)
        and _is_span([removal, removal_end], 0)
        and isinstance(remains, str)
        and _are(items, _is_item)
        and isinstance(blanket, bool)
        and _are(spans, lambda span: _is_list(span, 2) and _is_span(span, 1))
    )


def _is_item(value: Any) -> bool:
    return _is_list(value, 3) and isinstance(value[0], str) and _is_span(value[1:], 0)


def _are_cells(numbers: Any, first_lines: Any) -> bool:
    return (
        isinstance(numbers, list)
        and isinstance(first_lines, list)
        and len(numbers) == len(first_lines) > 0
        and _are_counts(*numbers, *first_lines)
        and all(one < other for one, other in pairwise(numbers))
        and all(one <= other for one, other in pairwise(first_lines))
    )


def _is_span(value: list[Any], least: int) -> bool:
    return _are_counts(*value, least=least) and value[0] <= value[1]


def _are_counts(*values: Any, least: int = 1) -> bool:
    # No ``isinstance``: a bool is an int.
    return all(type(value) is int and least <= value <= MOST for value in values)


def _is_said(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MOST_SAID and value == escaped(value)


def _is_list(value: Any, length: int) -> bool:
    return isinstance(value, list) and len(value) == length


def _are(values: Any, sound: Callable[[Any], bool]) -> bool:
    return isinstance(values, list) and all(map(sound, values))


#: Raised when what the cache stores changes its meaning.
FORMAT = 3
#: Packages and modules that decide on findings.
DECISIVE = (
    "analysis",
    "checks",
    "metal",
    "plugins",
    "api.py",
    "finding.py",
    "kernel_builder.py",
    "files.py",
    "terminal_text.py",
    "fixes/source_file.py",
    "engine",
    "notebooks",
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
    """A digest of the program, of the plugins, of the parsers and of this Python.

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
