"""State of one conversion: the source's lines, and where each node stands."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from io import StringIO
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

if TYPE_CHECKING:
    import ast

#: Nodes without any text: one of each kind serves all trees.
EMPTY = cst.SimpleWhitespace("")
SPACE = cst.SimpleWhitespace(" ")
LINE_END = cst.TrailingWhitespace()
DOT = cst.Dot()
EQUAL = cst.AssignEqual()
COLON = cst.Colon()
ASYNC = cst.Asynchronous()
#: Operators have parentheses, so that generated code keeps the tree's order of evaluation.
OPEN = (cst.LeftParen(),)
CLOSE = (cst.RightParen(),)

#: Lines from so many characters on are not encoded again for each place in them.
_LONG = 500
_BITS = 24
_MASK = (1 << _BITS) - 1


class UnconvertibleError(Exception):
    """Source that only libcst can turn into a tree."""


class AstRange(NamedTuple):
    """A range as ``ast`` counts: lines from 1, columns from 0 in UTF-8 bytes, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class StatementLine(NamedTuple):
    """Simple statements on lines where nothing else is."""

    first: int
    last: int
    node: cst.SimpleStatementLine


class ParsedExpression(NamedTuple):
    """An expression that libcst has parsed, in parentheses, and where it begins.

    Lines count from 1, columns from 0 in characters.
    """

    node: cst.BaseExpression
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Converted:
    """A tree, and the packed ranges of its statements and expressions by their ``id``.

    ``ranges`` is None for a tree of libcst's own, which is complete.

    Attributes:
        tree: the tree.
        ranges: see above.
        lines: simple statements on separate lines.
        parsed: expressions whose parts have trivia, but no ranges.
    """

    tree: cst.Module
    ranges: dict[int, int] | None
    lines: tuple[StatementLine, ...] = ()
    parsed: tuple[ParsedExpression, ...] = ()

    def range_of(self, node: cst.CSTNode) -> AstRange | None:
        """Where ``ast`` places a node, None for a node that it doesn't have."""
        packed = None if self.ranges is None else self.ranges.get(id(node))
        return None if packed is None else _unpacked(packed)


def packed_range(node: ast.expr | ast.stmt) -> int:
    """The range of a node in one number: a tree has many of them."""
    end_line, end_column = node.end_lineno or 0, node.end_col_offset or 0
    start = node.lineno << _BITS | node.col_offset
    return (start << _BITS | end_line) << _BITS | end_column


def packed_name_range(node: ast.arg) -> int:
    """The range of a parameter's name: ``ast`` counts its annotation, too."""
    start = node.lineno << _BITS | node.col_offset
    end_column = node.col_offset + len(node.arg.encode())
    return (start << _BITS | node.lineno) << _BITS | end_column


def _unpacked(packed: int) -> AstRange:
    return AstRange(
        packed >> 3 * _BITS,
        packed >> 2 * _BITS & _MASK,
        packed >> _BITS & _MASK,
        packed & _MASK,
    )


class SourceLines:
    """The lines of a source with their ends, as Python's tokenizer counts them."""

    def __init__(self, source: str) -> None:
        self.texts = list(StringIO(source, newline=""))
        self.is_ascii = source.isascii()
        self._offsets: dict[int, list[int]] = {}  # of each character, by line
        self.has_continuations = "\\\n" in source or "\\\r" in source

    def column(self, line: int, offset: int) -> int:
        """The column in characters of an offset in UTF-8 bytes."""
        if self.is_ascii or not offset:
            return offset
        text = self.texts[line - 1]
        if text.isascii():
            return offset
        if len(text) < _LONG:
            return len(text.encode()[:offset].decode())
        offsets = self._offsets.get(line)
        if offsets is None:
            offsets = self._offsets[line] = [0, *accumulate(len(c.encode()) for c in text)]
        return bisect_left(offsets, offset)

    def segment(self, node: ast.expr) -> str:
        """The text of an expression, without parentheses around it."""
        line, end_line = node.lineno, node.end_lineno or node.lineno
        start = self.column(line, node.col_offset)
        return self.between(line, start, end_line, self.column(end_line, node.end_col_offset or 0))

    def between(self, line: int, start: int, end_line: int, end: int) -> str:
        """The text from a column of a line, from 1, to one of the same or another line."""
        if line == end_line:
            return self.texts[line - 1][start:end]
        inner = self.texts[line : end_line - 1]
        return "".join((self.texts[line - 1][start:], *inner, self.texts[end_line - 1][:end]))

    def start_of_decorator(self, node: ast.expr | AstRange) -> int:
        """The line of a decorator's ``@``, which parentheses may set apart from the expression."""
        line = node.line if isinstance(node, AstRange) else node.lineno
        while line > 1 and not self.texts[line - 1].lstrip().startswith("@"):
            line -= 1
        return line

    def follows_continuation(self, node: ast.stmt) -> bool:
        """Return whether the line before a statement's first one goes on in it."""
        return node.lineno > 1 and self.texts[node.lineno - 2].rstrip("\r\n").endswith("\\")

    def before(self, node: ast.stmt) -> str:
        """Return the text that precedes a statement on its first line."""
        return self.texts[node.lineno - 1][: self.column(node.lineno, node.col_offset)]
