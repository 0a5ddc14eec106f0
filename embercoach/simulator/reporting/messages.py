"""Findings of a launch in the terms of the kernel's author, with their places in Python code."""

from __future__ import annotations

import ast
import os
import re
import sys
import textwrap
import tokenize
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from embercoach.files import shown_path
from embercoach.metal import hazards
from embercoach.simulator.model import (
    Buffer,
    BuiltKernel,
    KernelFinding,
    MemoryAccess,
    Part,
    RawFinding,
)
from embercoach.terminal_text import escaped, log_line

#: What a module that builds kernels holds.
MARK = b"metal_kernel"


#: Ends the name of a file that holds a kernel's source.
METAL_FILE = re.compile(r"\.(metal|msl|h|hpp)\Z")
#: Folders below that of a Python file that are searched, and how many files there count.
_DEPTHS = ("", "*/", "*/*/")
_MOST_FILES = 256


class LineSpan(NamedTuple):
    """A part of a line of a file; columns from 1, the end exclusive."""

    path: str
    line: int
    column: int
    end_column: int


class _Text(NamedTuple):
    """A string literal's first and last line, and the kernels that are built with it by name."""

    first: int
    last: int
    kernel: str | None


class KernelLine(NamedTuple):
    """A line of a kernel's source.

    Attributes:
        kernel: the name that the kernel was built with.
        part: the text that ``line`` counts in.
        line: from 1.
        excerpt: the line, stripped.
        launched_at: file and line of a launch, None if unknown.
    """

    kernel: str
    part: Part
    line: int
    excerpt: str
    launched_at: tuple[str, int] | None

    @property
    def place(self) -> LineSpan | None:
        """The line of the file that holds the source.

        It is known where one string literal, or one file that a literal names, alone has that text
        on that line: sources that are put together from pieces are not found. A first line alone
        proves little: of another module than the launch's it counts only if the literal is given
        with the name.
        """
        if not self.excerpt or self.part == "generated":
            return None
        found = [pair for path in _candidates(self) for pair in _in_file(path, self)]
        near = self.launched_at[0] if self.launched_at is not None else None
        named = [place for place, own in found if own]
        places = named or [place for place, _ in found if self.line > 1 or place.path == near]
        return places[0] if len(set(places)) == 1 else None

    def shown(self, path: Callable[[str], str] = os.path.basename) -> str:
        """Return the line of the file with that of the source, or that of the source alone.

        Args:
            path: from the file to its text.
        """
        own, place = f"{self.part} line {self.line}", self.place
        if place is None:
            return own
        shown = f"{path(place.path)}:{place.line}"
        return shown if METAL_FILE.search(place.path) else f"{shown} ({own})"


def line_of(finding: KernelFinding) -> KernelLine | None:
    """Return the line of a finding, None if it has none."""
    if finding.line is None:
        return None
    found = finding
    return KernelLine(found.kernel, found.part, finding.line, found.excerpt, found.launched_at)


def place_of(finding: KernelFinding) -> LineSpan | None:
    """Return the line of a finding in the file that holds it, None if it is not known."""
    line = line_of(finding)
    return line and line.place


def call_at(path: str, line: int) -> LineSpan:
    """Return the part of a line that names what is called there: the kernel, if it is a launch."""
    lines, tree = _parsed(path)
    text = lines[line - 1] if line <= len(lines) else ""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.lineno == line]
    launches = [call for call in calls if any(word.arg == "grid" for word in call.keywords)]
    for call in launches or calls:
        end = call.func.end_col_offset if call.func.end_lineno == line else None
        before, called = text.encode()[: call.col_offset], text.encode()[:end]
        return LineSpan(path, line, len(before.decode()) + 1, len(called.decode()) + 1)
    return LineSpan(path, line, len(text) - len(text.lstrip()) + 1, len(text) + 1)


def _candidates(line: KernelLine) -> Iterator[str]:
    """Yield the launch's file, those of modules that build kernels, and the files they name."""
    seen = set()
    if line.launched_at is not None:
        seen.add(line.launched_at[0])
        yield line.launched_at[0]
        yield from _named_files(line.launched_at[0])
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py") and path not in seen:
            seen.add(path)
            if _builds_kernels(path):
                yield path
                yield from _named_files(path)


@lru_cache(maxsize=512)
def _named_files(path: str) -> tuple[str, ...]:
    """Return the Metal files in and below the folder of a Python file, if it names such files.

    And those that it names in the current folder.
    """
    nodes = ast.walk(_parsed(path)[1])
    values = [node.value for node in nodes if isinstance(node, ast.Constant)]
    names = [name for name in values if isinstance(name, str) and METAL_FILE.search(name)]
    suffixes = {METAL_FILE.search(name)[0] for name in names}  # type: ignore[index]
    folder = Path(path).parent
    below = (file for deep in _DEPTHS for end in suffixes for file in folder.glob(f"{deep}*{end}"))
    named = (Path.cwd() / name for name in names)
    found = dict.fromkeys(str(file) for file in (*islice(below, _MOST_FILES), *named))
    return tuple(filter(os.path.isfile, found))


def _in_file(path: str, line: KernelLine) -> Iterator[tuple[LineSpan, bool]]:
    lines, texts = _read(path)
    for text in texts:
        number = text.first + line.line - 1
        if number > text.last or text.kernel not in (None, line.kernel):
            continue
        column = lines[number - 1].find(line.excerpt) + 1
        if column:
            end = column + len(line.excerpt)
            yield LineSpan(path, number, column, end), text.kernel is not None


# Each finding asks for every module: a smaller cache would keep none.
@lru_cache(maxsize=1 << 16)
def _builds_kernels(path: str) -> bool:
    try:
        return MARK in Path(path).read_bytes()
    except OSError:
        return False


@lru_cache(maxsize=512)
def _read(path: str) -> tuple[list[str], list[_Text]]:
    """Return a file's lines and its string literals; the whole is one in a Metal file."""
    if METAL_FILE.search(path):
        lines = Path(path).read_text(encoding="utf-8", errors="replace").split("\n")
        return lines, [_Text(1, len(lines), None)]
    lines, tree = _parsed(path)
    return lines, list(_texts(tree, None))


@lru_cache(maxsize=8)
def _parsed(path: str) -> tuple[list[str], ast.Module]:
    """Return the lines and the tree of a Python file; nothing of one that can't be parsed."""
    try:
        with tokenize.open(path) as file:
            source = file.read()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user has seen those of the file's own compilation
            return source.split("\n"), ast.parse(source)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return [], ast.Module([], [])


def _texts(node: ast.AST, kernel: str | None) -> Iterator[_Text]:
    if isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    ):
        yield _Text(node.lineno, node.end_lineno or node.lineno, kernel)
        return
    if isinstance(node, ast.Call):
        kernel = _name_given(node) or kernel
    for child in ast.iter_child_nodes(node):
        yield from _texts(child, kernel)


def _name_given(call: ast.Call) -> str | None:
    """Return the name that a call of ``metal_kernel`` gives its kernel, if it is written out."""
    function = call.func
    called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if called != "metal_kernel":
        return None
    for name in [word.value for word in call.keywords if word.arg == "name"] or call.args[:1]:
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return name.value
    return None


class _Context(Struct, frozen=True):
    """A finding, the kernel and the buffers of its launch, and its number of threads."""

    raw: RawFinding
    kernel: BuiltKernel
    buffers: Sequence[Buffer]
    launched_at: tuple[str, int] | None
    threads: int = 0

    @property
    def spot(self) -> str:
        """The element, or the array where the element is unknown; "memory" where neither is."""
        raw = self.raw
        return raw.buffer if raw.element is None else f"{raw.buffer or 'memory'}[{raw.element}]"

    @property
    def buffer(self) -> Buffer | None:
        """The buffer; None for a threadgroup array."""
        return next((b for b in self.buffers if b.name == self.raw.buffer), None)

    def line(self, number: int) -> KernelLine:
        """Return the line of the user's texts that a line of the generated source comes from."""
        lines = self.kernel.source.split("\n")
        excerpt = lines[number - 1].strip() if number <= len(lines) else ""
        place = self.kernel.lines.place(number)
        return KernelLine(self.kernel.name, *place, excerpt, self.launched_at)


class _Kind(Struct, frozen=True):
    """The texts for a kind of finding.

    Attributes:
        message: the problem, at most 80 characters but for long names.
        help: the remedy, or what gives it.
        uses_detail: whether the message holds the finding's detail.
    """

    message: Callable[[_Context], str]
    help: str | Callable[[_Context], str]
    uses_detail: bool = False


_DIVERGENT = frozenset({"divergent-barrier", "divergent-simd", "split-reduction"})
#: Kinds whose count is one of elements, which the message states.
_COUNTED = frozenset({"unwritten-output", "order-dependent", "float-sum-order"})
_WIDTH = 100
#: Positions and code are not broken into lines.
_WHOLE = re.compile(r"\(\d+, \d+, \d+\)|`[^`]*`")


def _race(found: _Context) -> str:
    raw, where = found.raw, ""
    here = there = raw.at.kind or "access"
    scope: hazards.Scope = ""
    if raw.other is not None:
        there = raw.other.kind or "access"
        if raw.other.line is not None and raw.other.line != raw.at.line:
            where = found.line(raw.other.line).shown()
        groups = {raw.at.threadgroup, raw.other.threadgroup}
        if len(groups) == 2 and None not in groups:
            scope = " between threadgroups"
    return hazards.data_race(found.spot, here, there, where, scope)


def _out_of_bounds(found: _Context) -> str:
    raw, access = found.raw, found.raw.at.kind or "access"
    if raw.buffer:
        return hazards.out_of_bounds(access, found.spot, raw.detail or _extent(found))
    return f"out-of-bounds {access}: {raw.detail or 'the address is in no buffer'}"


def _extent(found: _Context) -> str:
    buffer = found.buffer
    if buffer is None:
        return ""
    count = buffer.data.size // buffer.itemsize
    if not count:
        return "no elements"
    first = -(buffer.offset // buffer.itemsize)
    reach = f", {first} to {first + count - 1}" if first else ""
    return f"{count} element{'s' * (count > 1)}{reach}"


def _uninitialized(found: _Context) -> str:
    if found.raw.at.thread is None and found.raw.detail:
        return f"uninitialized read: `{found.spot}` differs from run to run"
    return hazards.uninitialized_read(found.spot)


def _uninitialized_help(found: _Context) -> str:
    if found.raw.at.thread is None:
        return "Give the variable a value where it is declared"
    return hazards.UNINITIALIZED_HELP if found.buffer else hazards.UNINITIALIZED_SHARED_HELP


def _unwritten(found: _Context) -> str:
    text, count, buffer = hazards.unwritten_output(found.spot), found.raw.count, found.buffer
    if count == 1 or buffer is None:
        return text
    text, elements = f"{text} and {count - 1} more", buffer.data.size // buffer.itemsize
    if _has_few_threads(found):
        return f"{found.threads} thread{'s' * (found.threads > 1)} for {elements} elements: {text}"
    return f"{text} of {elements} elements"


def _has_few_threads(found: _Context) -> bool:
    """Return whether threads are missing, though each may have written an element."""
    buffer = found.buffer
    if buffer is None or not found.threads:
        return False
    written = buffer.data.size // buffer.itemsize - found.raw.count
    return written <= found.threads < written + found.raw.count


def _unwritten_help(found: _Context) -> str:
    return hazards.FEW_THREADS_HELP if _has_few_threads(found) else hazards.UNWRITTEN_HELP


#: The words in the names of atomic functions.
_OPERATIONS = {"+": "add", "-": "sub", "&": "and", "|": "or", "^": "xor"}
#: An element, its index, and how its statement changes it: `++`, `+= v`, `= max(`, `= a[i] +`.
_ELEMENT = re.compile(
    r"(?:(\+|-)\1)?\b(\w+)\[((?:[^][]|\[[^][]*\])*)\]\s*"
    r"(?=(?:([-+&|^])=|(\+|-)\5|=\s*(?:metal::)?(max|min)\b|=\s*\w+\[[^=]*\]\s*([-+&|^]))?)"
)


def _race_help(found: _Context) -> str:
    """Return the remedy of a race, which differs if both accesses are one statement."""
    raw, in_device = found.raw, found.raw.kind == "device-race"
    usual = hazards.DEVICE_RACE_HELP if in_device else hazards.RACE_HELP
    if raw.at.line is None or raw.other is None or raw.other.line != raw.at.line:
        return usual
    if raw.at.kind == raw.other.kind == "write":
        return hazards.DEVICE_RACE_HELP
    operation = _updated(found.line(raw.at.line).excerpt, raw.buffer)
    if operation is None:
        return usual
    kind = re.search(rf"\bthreadgroup\s+(\w+)\s+{raw.buffer}\b", found.kernel.source)
    return hazards.atomic_update(
        operation, "" if in_device else raw.buffer, kind[1] if kind else ""
    )


def _updated(text: str, array: str) -> str | None:
    """Return how a line updates one element of an array, None if it does not or uses another."""
    groups = [found.groups() for found in _ELEMENT.finditer(text) if found[2] == array]
    updates = [one for before, _, _, *after in groups for one in (before, *after) if one]
    if not updates or len({index for _, _, index, *_ in groups}) > 1:
        return None
    return _OPERATIONS.get(updates[0], updates[0])


def _detailed(text: str, separator: str) -> Callable[[_Context], str]:
    """Return a message that ends with the detail, if there is one."""
    return lambda found: f"{text}{found.raw.detail and separator}{found.raw.detail}"


_KINDS = {
    "out-of-bounds": _Kind(_out_of_bounds, hazards.BOUNDS_HELP, uses_detail=True),
    "write-to-input": _Kind(
        lambda found: hazards.input_write(found.spot), hazards.INPUT_WRITE_HELP
    ),
    "threadgroup-race": _Kind(_race, _race_help),
    "device-race": _Kind(_race, _race_help),
    "uninitialized-read": _Kind(_uninitialized, _uninitialized_help),
    "unwritten-output": _Kind(_unwritten, _unwritten_help),
    "divergent-barrier": _Kind(
        lambda _: hazards.barrier_divergence("some threads"), hazards.DIVERGENCE_HELP
    ),
    "divergent-simd": _Kind(
        _detailed("simdgroup divergence", ": "),
        "Let all lanes reach it and select values by a condition: `simd_sum(in ? x : 0)`",
        uses_detail=True,
    ),
    "wrong-mem-flags": _Kind(
        lambda found: hazards.missing_flag(found.raw.detail, found.spot),
        hazards.FLAG_HELP,
        uses_detail=True,
    ),
    "order-dependent": _Kind(
        lambda found: f"`{found.spot}` depends on the order of the threads",
        "Look for elements that several threads write or read",
    ),
    "timeout": _Kind(
        _detailed("kernel timed out", " "),
        "Bound the loops; if it is only slow, use smaller arrays or `activate(timeout=...)`",
        uses_detail=True,
    ),
    "crash": _Kind(
        _detailed("kernel crashed", ": "),
        "Look for invalid pointers, recursion, and private arrays that are too large",
        uses_detail=True,
    ),
    "undefined-arithmetic": _Kind(
        _detailed("undefined result", ": "),
        "Check the divisor, mask the shift count, or clamp the float before converting it",
        uses_detail=True,
    ),
    "misaligned-access": _Kind(
        _detailed("misaligned access", ": "),
        "Use a packed type such as `packed_float4`, or scalars, where rows may begin anywhere",
        uses_detail=True,
    ),
    "simdgroup-deadlock": _Kind(
        lambda _: "waits for a lane of the same simdgroup, which may never run",
        "Release the lock inside of the loop, or let one lane of each simdgroup wait",
    ),
    "float-sum-order": _Kind(
        lambda found: f"last bits of `{found.spot}` depend on the order of atomic additions",
        "Sum in a fixed order, or as integers, if the last bits must be reproducible",
    ),
    "same-value-write": _Kind(
        lambda found: f"benign race on `{found.spot}`: two threads write the same value",
        "Let one thread write it",
    ),
    "split-reduction": _Kind(
        _detailed("reduction in both branches", ": "),
        "Reduce in front of the branch if the result is that of all lanes",
        uses_detail=True,
    ),
    "lane-synchronous": _Kind(
        lambda found: f"lanes exchange `{found.spot}` without a simdgroup barrier",
        "Put `simdgroup_barrier(mem_flags::mem_threadgroup)` between the two accesses",
    ),
}


#: The kinds that a run can find.
DESCRIBED_KINDS = frozenset(_KINDS)


def described_launch(
    found: Sequence[RawFinding],
    kernel: BuiltKernel,
    buffers: Sequence[Buffer],
    launched_at: tuple[str, int] | None,
    threads: int,
) -> list[KernelFinding]:
    """Convert the findings of a launch; what one line accesses out of bounds is one of them.

    That is its write, if there is one, and its details name the other buffers.
    """
    statements: dict[object, list[RawFinding]] = {}
    for raw in found:
        merges = raw.kind == "out-of-bounds" and raw.at.line is not None
        statements.setdefault(raw.at.line if merges else raw, []).append(raw)
    made = []
    for raws in statements.values():
        raws.sort(key=lambda raw: raw.at.kind == "read")
        first, *others = (described(raw, kernel, buffers, launched_at, threads) for raw in raws)
        also = [f"also {other.message}" for other in others]
        made.append(replace(first, details=(*first.details, *also)))
    return made


def described(
    raw: RawFinding,
    kernel: BuiltKernel,
    buffers: Sequence[Buffer],
    launched_at: tuple[str, int] | None,
    threads: int = 0,
) -> KernelFinding:
    """Convert a finding of the runtime, in a launch of so many threads, to the user's terms."""
    kind, context = _KINDS[raw.kind], _Context(raw, kernel, buffers, launched_at, threads)
    line = context.line(raw.at.line) if raw.at.line else None
    return KernelFinding(
        kind=raw.kind,
        kernel=kernel.name,
        part=line.part if line else "generated",
        line=line and line.line,
        thread=raw.at.thread,
        message=kind.message(context),
        excerpt=line.excerpt if line else "",
        launched_at=launched_at,
        count=raw.count,
        details=tuple(_details(context, kind)),
        help=kind.help if isinstance(kind.help, str) else kind.help(context),
    )


def report(finding: KernelFinding) -> str:
    """Format a finding on a few lines, for terminals and exceptions."""
    line = line_of(finding)
    where = line.shown(shown_path) if line else "the launch as a whole"
    lines = [f"{finding.kind} ({finding.code}) in kernel {finding.kernel!r}, {where}:"]
    if finding.excerpt:
        lines.append(f"    {finding.excerpt.expandtabs(4)}")
    for text in (finding.message, *finding.details):
        lines += _filled(escaped(text)).split("\n")
    facts = []
    if finding.thread is not None:
        facts.append(f"thread {finding.thread}")
    if finding.count > 1 and finding.kind not in _COUNTED:
        facts.append(f"{finding.count} times")
    if finding.launched_at:
        facts.append("launched at {}:{}".format(*finding.launched_at))
    if facts:
        lines.append(f"  ({', '.join(facts)})")
    if finding.help:
        lines += _filled(f"help: {finding.help}").split("\n")
    return "\n".join(map(log_line, lines))


def _filled(text: str) -> str:
    held = _WHOLE.sub(lambda found: found[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(held, _WIDTH - 2, break_long_words=False, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), "  ").replace("\0", " ")


def _details(found: _Context, kind: _Kind) -> Iterator[str]:
    """Yield the detail that the message leaves out, then who did it, and what it conflicts with."""
    raw = found.raw
    if raw.detail and not kind.uses_detail:
        yield raw.detail
    if raw.other is None:
        return
    other = raw.other
    at = ""
    if other.line is not None:
        line = found.line(other.line)
        at = f"{line.shown()}: `{line.excerpt}`"
    if raw.kind in _DIVERGENT:
        yield f"{_who(other)} is at {at}" if at else f"{_who(other)} never reaches it"
        return
    if raw.at.thread is not None:
        yield f"access: {_access(raw.at)}"
    yield f"other access: {_access(other)}{at and ', '}{at}"


def _access(access: MemoryAccess) -> str:
    value = f" of {access.value}" if access.value else ""
    return f"{access.kind}{value} by {_who(access)}" if access.kind else _who(access)


def _who(access: MemoryAccess) -> str:
    if access.thread is None:
        return "another thread"
    group = "" if access.threadgroup is None else f" of threadgroup {access.threadgroup}"
    return f"thread {access.thread}{group}"
