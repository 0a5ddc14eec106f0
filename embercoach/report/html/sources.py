"""The lines of source that go into a report, and their tokens for colors."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from keyword import kwlist
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from embercoach.files import is_inside, read_bytes
from embercoach.finding import PlacedError
from embercoach.metal.contract import ATTRIBUTES
from embercoach.metal.library import KEYWORDS
from embercoach.metal.program.types import NAMED
from embercoach.metal.source import read_opening
from embercoach.metal.syntax import tree_of
from embercoach.notebooks import is_notebook
from embercoach.report.excerpt import visible
from embercoach.terminal_text import quoted

if TYPE_CHECKING:
    from tree_sitter import Node

    from embercoach.fixes.source_file import LineIndex
    from embercoach.notebooks.cell_module import CellTable

    #: Line from 1, column from 0.
    Place = tuple[int, int]


COMMENT, STRING, NUMBER, KEYWORD, DEFINITION = "csnkd"
#: Characters of a qualified name: the names of nested definitions add up.
MOST_OF_NAME = 200
#: Suffixes of files in Metal and Objective-C++; other files are Python.
C_SUFFIXES = (".metal", ".mm", ".m")
#: A literal of Python with the end of a statement, and with a word of Metal, has colors as Metal.
_STATEMENT = re.compile(r""";[ \t]*(?:\n|\\n|//|["'])""")
_METAL = re.compile(
    r"\b(?:bool|constant|device|kernel|thread|threadgroup|(?:float|half|u?int)[2-4]?)\b"
)
_KINDS = {
    tokenize.COMMENT: COMMENT,
    tokenize.STRING: STRING,
    tokenize.NUMBER: NUMBER,
    # Python 3.12 and newer give the parts of f-strings.
    **{
        getattr(tokenize, name): STRING
        for name in ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")
        if hasattr(tokenize, name)
    },
}
_KEYWORDS = frozenset(kwlist)
_C_KINDS = {
    "char_literal": STRING,
    "comment": COMMENT,
    "number_literal": NUMBER,
    "preproc_directive": KEYWORD,
    "raw_string_literal": STRING,
    "string_literal": STRING,
    "system_lib_string": STRING,
}


class Function(Struct, frozen=True):
    """A function: its qualified name, and its first and last line."""

    name: str
    first: int
    last: int


class Tokens(Struct):
    """The tokens of a text, and the functions that they define.

    Attributes:
        lines: kind, start and end of the tokens in a line; columns count from 0, in characters.
        functions: in the order of their ends.
    """

    lines: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    functions: list[Function] = field(default_factory=list)

    def add(self, kind: str, start: Place, end: Place, index: LineIndex) -> None:
        """Add a token; one over several lines is added to each."""
        if start[0] == end[0]:
            self.lines.setdefault(start[0], []).append((kind, start[1], end[1]))
            return
        for line in range(start[0], end[0] + 1):
            first = start[1] if line == start[0] else 0
            last = end[1] if line == end[0] else len(index.line(line))
            if last > first:
                self.lines.setdefault(line, []).append((kind, first, last))

    def encoded(self, line: int) -> str:
        """Get the tokens of a line as text: gap, kind and length of each, such as ``0k3,1d7``."""
        at, parts = 0, []
        for kind, start, end in self.lines.get(line, ()):
            parts.append(f"{start - at}{kind}{end - start}")
            at = end
        return ",".join(parts)


def tokens(path: str, index: LineIndex) -> Tokens:
    """Return the tokens of a file's text, as far as it can be read."""
    found = Tokens()
    if path.endswith(C_SUFFIXES):
        _read_c([index.line(number) for number in range(1, index.count + 1)], (1, 0), index, found)
        return found
    # What follows an error has no colors.
    with suppress(tokenize.TokenError, SyntaxError, ValueError):
        _read_python(index, found)
    return found


def colored(text: str, kinds: Sequence[tuple[str, int, int]]) -> Iterator[tuple[str, str]]:
    """Yield the parts of a line, each with the kind of its token; empty for none."""
    at = 0
    for kind, start, end in kinds:
        if start > at:
            yield "", text[at:start]
        yield kind, text[start:end]
        at = end
    yield "", text[at:]


def _read_python(index: LineIndex, found: Tokens) -> None:
    scopes = _Scopes(found.functions)
    before = ""
    for kind, text, start, end, _ in tokenize.generate_tokens(_reader(index)):
        if kind == tokenize.OP:  # most tokens
            before = text
        elif kind == tokenize.NAME:
            if before in ("def", "class"):
                found.add(DEFINITION, start, end, index)
                scopes.define(text, start[0], is_function=before == "def")
            elif text in _KEYWORDS:
                found.add(KEYWORD, start, end, index)
            before = text
        elif kind == tokenize.STRING and _STATEMENT.search(text) and _METAL.search(text):
            _read_metal(text, start, end, index, found)
        elif kind in _KINDS:
            found.add(_KINDS[kind], start, end, index)
        elif kind == tokenize.INDENT:
            scopes.enter()
        elif kind == tokenize.DEDENT:
            scopes.leave(start[0] - 1)
        elif kind == tokenize.NEWLINE:
            scopes.end_line(start[0])
            before = ""
    scopes.end(index.count)


def _reader(index: LineIndex) -> Callable[[], str]:
    """Get a function that returns the next line at each call, and an empty text after the last."""
    if "\r" not in index.text:
        return io.StringIO(index.text, newline="\n").readline
    lines = (f"{index.line(number)}\n" for number in range(1, index.count + 1))
    return lambda: next(lines, "")


class _Scope(Struct):
    name: str
    first: int
    is_function: bool


class _Scopes:
    """The classes and functions around a token, by its indentation."""

    def __init__(self, functions: list[Function]) -> None:
        self._functions = functions
        self._open: list[_Scope | None] = []
        self._defined: _Scope | None = None
        self._is_ended = False

    def define(self, name: str, line: int, *, is_function: bool) -> None:
        self._close(line - 1)
        around = [f"{scope.name}." for scope in self._open if scope is not None]
        qualified = quoted(f"{around[-1] if around else ''}{name}", MOST_OF_NAME)
        self._defined = _Scope(qualified, line, is_function)
        self._is_ended = False

    def enter(self) -> None:
        self._open.append(self._defined)
        self._defined = None

    def leave(self, last: int) -> None:
        self._close(last)
        self._add(self._open.pop() if self._open else None, last)

    def end_line(self, line: int) -> None:
        """End a logical line: a body on it is over with the next one."""
        if self._defined is not None and self._is_ended:
            self._close(line - 1)
        self._is_ended = True

    def end(self, last: int) -> None:
        """End the text: what is on its last line is over."""
        self._close(last)

    def _close(self, last: int) -> None:
        self._add(self._defined, last)
        self._defined = None

    def _add(self, scope: _Scope | None, last: int) -> None:
        if scope is not None and scope.is_function:
            self._functions.append(Function(scope.name, scope.first, max(last, scope.first)))


def _read_metal(literal: str, start: Place, end: Place, index: LineIndex, found: Tokens) -> None:
    """Add the tokens of a literal that holds Metal, and its quotes."""
    opening = read_opening(literal)
    first, last = (start[0], start[1] + opening.length), (end[0], end[1] - len(opening.quote))
    found.add(STRING, start, first, index)
    content = literal[opening.length : len(literal) - len(opening.quote)]
    _read_c(content.split("\n"), first, index, found)
    found.add(STRING, last, end, index)


def _read_c(lines: Sequence[str], start: Place, index: LineIndex, found: Tokens) -> None:
    """Add the tokens of a text that starts at a place of the file."""
    encoded = [line.encode("utf-8", "surrogatepass") for line in lines]
    places = _Places(encoded, start)
    for node in _leaves(tree_of(b"\n".join(encoded)).root):
        kind = _kind(node)
        if kind:
            first = places.next(*node.start_point)
            found.add(kind, first, places.next(*node.end_point), index)


class _Places:
    """The places of a text's bytes, asked for in their order: each line is decoded once."""

    def __init__(self, lines: list[bytes], start: Place) -> None:
        self._lines = lines
        self._first, self._column = start
        self._row = self._byte = 0

    def next(self, row: int, byte: int) -> Place:
        """Return the place of a byte, which is not before the last one."""
        if row != self._row:
            self._row, self._byte, self._column = row, 0, 0
        if row < len(self._lines):
            passed = self._lines[row][self._byte : byte]
            self._column += len(passed.decode("utf-8", "replace"))
            self._byte = byte
        return self._first + row, self._column


def _leaves(root: Node) -> Iterator[Node]:
    """Yield the nodes without children, and literals as a whole, in order."""
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in _C_KINDS or not node.child_count:
            yield node
        else:
            stack += reversed(node.children)


def _kind(node: Node) -> str:
    if node.type in _C_KINDS:
        return _C_KINDS[node.type]
    # The grammar of C++ has names where Metal has keywords; a directive starts with a hash.
    word = (node.text or b"").decode("utf-8", "replace")
    is_keyword = (
        word in KEYWORDS or word in NAMED or word in ATTRIBUTES or node.type.startswith("#")
    )
    return KEYWORD if is_keyword else ""


#: Characters of all sources that a report holds; above it every file is shown in parts.
MOST_CHARACTERS = 3_000_000
#: Lines before and after a finding that a part holds: the first with which the sources fit, or the
#: last. Parts that are fewer lines apart than these are one.
AROUND = (200, 100, 50, 25, 15)
APART = 5
#: Characters of a line that are shown in any case; and where a finding stands further on.
LINE_LENGTH = 500
LONGEST_LINE = 5_000
#: Characters shown after a finding in a line that is cut.
BEHIND = 80


class Source(Struct, frozen=True):
    """The shown part of a file.

    Attributes:
        count: lines of the file.
        parts: the first line's number of each part, and its lines.
        changed: whether the file is newer than the findings.
        cells: of a notebook, whose cells of code stand one below the other: the number of each,
            and its first line.
    """

    count: int
    parts: tuple[tuple[int, tuple[str, ...]], ...]
    changed: bool
    cells: tuple[tuple[int, int], ...]


class Text(Struct, frozen=True):
    """The text of a file, or of the code cells of a notebook."""

    index: LineIndex
    cells: CellTable | None = None

    def placed(self, findings: Sequence[dict[str, Any]]) -> list[dict[str, Any]] | None:
        """Findings at the lines of this text; None where it can't be the text that was checked."""
        placed = []
        for finding in findings:
            cell = finding.get("cell")
            if (cell is None) != (self.cells is None):
                return None
            if cell is not None and self.cells is not None:
                if cell not in self.cells.numbers:
                    return None
                lines = {name: self.cells.line_of(cell, finding[name]) for name in _LINES}
                if self.cells.place(lines["line"])[0] != cell:
                    return None
                finding = finding | lines  # noqa: PLW2901
            placed.append(finding)
        return placed if matches(self.index, placed) else None


_LINES = ("line", "end_line")


def read(path: str, root: str | None = None) -> Text | None:
    """Return a file's text; None where there is no such file any more, or no text in it.

    Args:
        path: the file.
        root: the folder that it must lie in, links resolved; None for anywhere.
    """
    from embercoach.fixes.source_file import LineIndex, decode

    try:
        text = decode(read_bytes(path, root=root)).text
        if not is_notebook(path):
            return Text(LineIndex(text))
        from embercoach.notebooks.cell_module import parse

        notebook = parse(text)
        return None if notebook is None else Text(*notebook.written())
    except (OSError, ValueError, PlacedError):
        return None


def is_there(path: str) -> bool:
    """Return whether there is a file that could be read."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def is_outside(path: str, root: str) -> bool:
    """Return whether a path, links resolved, leads out of a folder."""
    try:
        return not is_inside(path, root)
    except (OSError, ValueError):
        return True


def newer(path: str, saved_at: float | None) -> bool:
    """Return whether a file was written after the findings (seconds since the epoch)."""
    try:
        return saved_at is not None and Path(path).stat().st_mtime > saved_at
    except (OSError, ValueError):
        return False


def matches(index: LineIndex, findings: Iterable[dict[str, Any]]) -> bool:
    """Return whether all places of a file's findings are in its text."""
    return all(
        _holds(index, finding["line"], finding["column"])
        and _holds(index, finding["end_line"], finding["end_column"])
        and (finding["line"], finding["column"]) <= (finding["end_line"], finding["end_column"])
        for finding in findings
    )


def _holds(index: LineIndex, line: int, column: int) -> bool:
    # An end may be the start of a missing line, directly after the last line end.
    return line <= len(index.starts) and column <= len(index.line(line)) + 1


def sources(
    found: dict[str, Sequence[dict[str, Any]]], texts: dict[str, Text], changed: set[str]
) -> dict[str, Source]:
    """Return the shown part of each file that could be read.

    Args:
        found: the findings of each file, at the lines of its text.
        texts: what is to be shown of the files.
        changed: the files that are newer than the findings.
    """
    indexes = {path: text.index for path, text in texts.items()}
    lines = {path: sorted({f["line"] for f in found[path]}) for path in indexes}
    spans = _fitting(lines, indexes)
    return {
        path: Source(
            text.index.count,
            _parts(text.index, found[path], spans[path]),
            path in changed,
            ()
            if text.cells is None
            else tuple(zip(text.cells.numbers, text.cells.first_lines, strict=True)),
        )
        for path, text in texts.items()
    }


def _fitting(
    lines: dict[str, list[int]], indexes: dict[str, LineIndex]
) -> dict[str, list[tuple[int, int]]]:
    """First and last lines of every file's parts, as many as fit into the report."""
    if sum(len(index.text) for index in indexes.values()) <= MOST_CHARACTERS:
        return {path: [(1, index.count)] for path, index in indexes.items()}
    spans = {}
    for around in AROUND:
        spans = {path: _spans(lines[path], index.count, around) for path, index in indexes.items()}
        if sum(_size(indexes[path], spans[path]) for path in indexes) <= MOST_CHARACTERS:
            break
    return spans


def _spans(lines: Sequence[int], count: int, around: int) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for line in lines:
        first, last = max(line - around, 1), min(line + around, count)
        if spans and first <= spans[-1][1] + APART:
            spans[-1] = (spans[-1][0], last)
        else:
            spans.append((first, last))
    return spans


def _size(index: LineIndex, spans: Sequence[tuple[int, int]]) -> int:
    return sum(index.offset(last + 1, 1) - index.offset(first, 1) for first, last in spans)


def _parts(
    index: LineIndex, findings: Sequence[dict[str, Any]], spans: Sequence[tuple[int, int]]
) -> tuple[tuple[int, tuple[str, ...]], ...]:
    ends: dict[int, int] = {}
    for finding in findings:
        line, end = finding["line"], finding["end_column"]
        if finding["end_line"] != line:
            end = finding["column"]
        ends[line] = max(ends.get(line, 0), end)
    return tuple(
        (first, tuple(_line(index.line(n), ends.get(n, 0)) for n in range(first, last + 1)))
        for first, last in spans
    )


def _line(text: str, end: int) -> str:
    most = min(max(LINE_LENGTH, end + BEHIND), LONGEST_LINE)
    return visible(text if len(text) <= most else f"{text[:most]}…")
