"""Tokens of sources, for their colors: by Python's tokenizer, or the C++ grammar.

Both take linear time. Pygments' lexers take four times as long as Python's tokenizer, and
quadratic time for some texts, which are not ours to trust.
"""

from __future__ import annotations

import io
import tokenize
from contextlib import suppress
from dataclasses import dataclass, field
from keyword import kwlist
from typing import TYPE_CHECKING

from embercoach.metal.grammar import tree_of
from embercoach.metal.keywords import KEYWORDS
from embercoach.quoting import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tree_sitter import Node

    from embercoach.fixes.source_file import LineIndex

    #: Line from 1, column from 0.
    Place = tuple[int, int]

COMMENT, STRING, NUMBER, KEYWORD, DEFINITION = "csnkd"
#: Characters of a qualified name: the names of nested definitions add up.
MOST_OF_NAME = 200
#: Suffixes of files in Metal and Objective-C++; other files are Python.
C_SUFFIXES = (".metal", ".mm", ".m")
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


@dataclass(frozen=True, slots=True)
class Function:
    """A function: its qualified name, and its first and last line."""

    name: str
    first: int
    last: int


@dataclass(slots=True)
class Tokens:
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
        """The tokens of a line as text: gap, kind and length of each, such as ``0k3,1d7``."""
        at, parts = 0, []
        for kind, start, end in self.lines.get(line, ()):
            parts.append(f"{start - at}{kind}{end - start}")
            at = end
        return ",".join(parts)


def tokens(path: str, index: LineIndex) -> Tokens:
    """The tokens of a file's text, as far as it can be read."""
    found = Tokens()
    if path.endswith(C_SUFFIXES):
        _read_c(index, found)
        return found
    # What follows an error has no colors.
    with suppress(tokenize.TokenError, SyntaxError, ValueError):
        _read_python(index, found)
    return found


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
    """A function that returns the next line at each call, and an empty text after the last."""
    if "\r" not in index.text:
        return io.StringIO(index.text, newline="\n").readline
    lines = (f"{index.line(number)}\n" for number in range(1, index.count + 1))
    return lambda: next(lines, "")


@dataclass(slots=True)
class _Scope:
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


def _read_c(index: LineIndex, found: Tokens) -> None:
    lines = [index.line(number) for number in range(1, index.count + 1)]
    encoded = [line.encode("utf-8", "surrogatepass") for line in lines]
    places = _Places(encoded)
    for node in _leaves(tree_of(b"\n".join(encoded)).root):
        kind = _kind(node)
        if kind:
            start = places.next(*node.start_point)
            found.add(kind, start, places.next(*node.end_point), index)


class _Places:
    """The places of a text's bytes, asked for in their order: each line is decoded once."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self._row = self._byte = self._column = 0

    def next(self, row: int, byte: int) -> Place:
        """The place of a byte, which is not before the last one."""
        if row != self._row:
            self._row, self._byte, self._column = row, 0, 0
        if row < len(self._lines):
            passed = self._lines[row][self._byte : byte]
            self._column += len(passed.decode("utf-8", "replace"))
            self._byte = byte
        return row + 1, self._column


def _leaves(root: Node) -> Iterator[Node]:
    """The nodes without children, and literals as a whole, in order."""
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
    return KEYWORD if word in KEYWORDS or node.type.startswith("#") else ""
