"""Parsing with libcst on a deep stack, without second checks, and positions by its own account."""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import libcst as cst
from libcst._nodes.base import CSTNode
from libcst._nodes.internal import CodegenState

from embercoach.analysis.work import WorkExceededError
from embercoach.finding import PlacedError


class Span(NamedTuple):
    """A range of the source: lines from 1, columns from 0 in characters, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass
class _RecordingState(CodegenState):
    """A code generation state that keeps the spans of ``nodes``.

    Nodes are known by their ``id``: hashing a libcst node runs Python code.
    """

    def __post_init__(self) -> None:
        self.line = 1
        self.column = 0
        self.nodes: frozenset[int] = frozenset()
        self.with_parentheses = False
        self.spans: dict[int, Span] = {}
        self.starts: list[tuple[int, int]] = []

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.column += len(token)

    def add_token(self, value: str) -> None:
        if "\n" in value or "\r" in value:
            lines = value.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            self.line += len(lines) - 1
            self.column = len(lines[-1])
        else:
            self.column += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.nodes:
            self.starts.append((self.line, self.column))

    def after_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.nodes:
            start = self.starts.pop()
            # A syntactic position, where the node records one, is the narrower and stays.
            self.spans.setdefault(id(node), Span(*start, self.line, self.column))

    @contextmanager
    def record_syntactic_position(
        self,
        node: cst.CSTNode,
        *,
        start_node: cst.CSTNode | None = None,
        end_node: cst.CSTNode | None = None,
    ) -> Iterator[None]:
        if self.with_parentheses or id(node) not in self.nodes:
            yield
            return
        start = (self.line, self.column)
        yield
        first = self.spans.get(id(start_node)) if start_node is not None else None
        last = self.spans.get(id(end_node)) if end_node is not None else None
        begin = (first.line, first.column) if first else start
        end = (last.end_line, last.end_column) if last else (self.line, self.column)
        self.spans[id(node)] = Span(*begin, *end)

    def pop_trailing_newline(self) -> None:
        """Nothing was stored, so there is nothing to drop."""


def locate(
    tree: cst.CSTNode, nodes: Iterable[cst.CSTNode], *, with_parentheses: bool = False
) -> dict[cst.CSTNode, Span]:
    """Return the spans of nodes, equal to those of libcst's ``PositionProvider``, which stores all.

    ``with_parentheses`` includes those around an expression.
    """
    listed = list(nodes)
    indent = getattr(tree, "default_indent", "    ")
    state = _RecordingState(indent, getattr(tree, "default_newline", "\n"))
    state.nodes = frozenset(map(id, listed))
    state.with_parentheses = with_parentheses
    tree._codegen(state)  # noqa: SLF001  (libcst has no public method for a custom state)
    return {node: state.spans[id(node)] for node in listed}


_validate = CSTNode.__post_init__
_Whitespace = cst.SimpleWhitespace
_Newline = cst.Newline


def _skip_validation(self: CSTNode) -> None:
    """Replace the validation of a node that comes straight from the parser."""


class TooDeepError(Exception):
    """Source that nests more deeply than Python itself allows; libcst's parser could crash."""


class TooManyFieldsError(TooDeepError):
    """Source whose f-strings have more fields than its budget of work allows to parse."""

    def __init__(self) -> None:
        super().__init__("f-strings have too many replacement fields")


#: Python itself takes 200 open brackets.
MAX_BRACKETS = 200
#: What chains expressions and statements, each link within the one before. libcst's parser overruns
#: the stack at several thousand of them.
_LINKS = (*".([+-*/%@&|^~", "<<", ">>", "not", "and", "or", "if", "lambda", "await")
MAX_DEPTH = 3_000
#: libcst's parser takes some 4 KB of memory, and 15 µs, for each bracket and each one around it.
#: So many may be in a file, and so many more for each character.
MOST_NESTED = 25_000
MOST_NESTED_A_CHARACTER = 0.9
#: And some 0.5 µs for each link of a chain, as of sums or attributes, and each one around it. An
#: expression of a thousand has half a million. Shorter ones than so many characters don't count.
MOST_LINKED = 600_000
MOST_LINKED_A_CHARACTER = 5
_LONG = 500
#: Tokens that begin and end a string with fields, and how many more of them are open then.
_STRING_ENDS = {
    getattr(tokenize, f"{kind}STRING_{end}", -1): change
    for kind in "FT"
    for end, change in (("START", 1), ("END", -1))
}
#: The fields of f-strings take both parsers some 25 µs each, before Python 3.12. So many may be in
#: a file, and so many more for each character: ordinary code has at most a quarter of those.
MOST_FIELDS = 8_000
MOST_FIELDS_A_CHARACTER = 0.08


def outline_of(source: str) -> ast.Module | None:
    """Return the tree of Python's own parser, which takes a tenth of libcst's time.

    None where it can't read the source, as with syntax newer than the running Python.
    """
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def refuse_many_fields(source: str) -> None:
    """Refuse f-strings with so many replacement fields that parsing them takes too long.

    Raises:
        TooManyFieldsError: there are too many.
    """
    most = MOST_FIELDS + int(MOST_FIELDS_A_CHARACTER * len(source))
    if source.count("{") > most and _fields(source) > most:
        raise TooManyFieldsError


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    """Yield the tokens of a source, up to one that is none: what follows is not parsed either."""
    with suppress(tokenize.TokenError, SyntaxError):
        yield from tokenize.generate_tokens(io.StringIO(source).readline)


def _fields(source: str) -> int:
    """Return how many replacement fields f-strings have, as far as the source is tokenisable."""
    found = inside = 0
    for token in _tokens(source):
        if token.type == tokenize.STRING:
            if "f" in token.string[:2].lower():
                found += token.string.count("{") - 2 * token.string.count("{{")
        # From Python 3.12 on an f-string is several tokens.
        elif token.type in _STRING_ENDS:
            inside += _STRING_ENDS[token.type]
        elif inside and token.type == tokenize.OP and token.string == "{":
            found += 1
    return found


def refuse_deep_nesting(source: str) -> None:
    """Let Python's parser, which has limits, judge what looks deeply nested.

    Raises:
        TooDeepError: Python refuses the source for its nesting.
    """
    refuse_wide_nesting(source)
    if not _may_be_deep(source):
        return
    try:
        tree = ast.parse(source)
    except (MemoryError, RecursionError) as error:
        raise TooDeepError("expressions are nested too deeply") from error
    except SyntaxError as error:
        if "too many" in (error.msg or "") or "too complex" in (error.msg or ""):
            raise TooDeepError(error.msg) from error
    except ValueError:
        return  # libcst reports the error
    else:
        if _is_deep(tree, source):
            raise TooDeepError("expressions are nested too deeply")


def refuse_wide_nesting(source: str) -> None:
    """Refuse brackets in brackets of which so many are in a file that parsing exhausts memory.

    Raises:
        TooDeepError: there are too many.
    """
    most = MOST_NESTED + int(MOST_NESTED_A_CHARACTER * len(source))
    if _nested_at_most(source) > most and _nested(source) > most:
        raise TooDeepError("too many expressions are nested")


def _nested_at_most(source: str) -> int:
    """Return a quick bound of what ``_nested`` gives, which counts brackets in strings too."""
    found = before = 0
    for line in source.split("\n"):
        opened = line.count("(") + line.count("[") + line.count("{")
        if opened:
            found += before * opened + opened * (opened + 1) // 2
        closed = line.count(")") + line.count("]") + line.count("}")
        before = max(0, before + opened - closed)
    return found


def _nested(source: str) -> int:
    """Return the sum, over all brackets, of how many are around each one, itself included."""
    found = depth = 0
    for token in _tokens(source):
        if token.type == tokenize.OP and token.string in "([{":
            depth += 1
            found += depth
        elif token.type == tokenize.OP and token.string in ")]}":
            depth -= 1
    return found


def _is_deep(tree: ast.Module, source: str) -> bool:
    """Return whether statements, an expression or all together nest too deeply.

    A level takes a character at least: only long expressions are looked into.
    """
    linked = 0
    most = MOST_LINKED + MOST_LINKED_A_CHARACTER * len(source)
    ends = [0, *accumulate(len(line) + 1 for line in source.split("\n"))]
    pending: list[tuple[ast.AST, int]] = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > MAX_DEPTH:
            return True
        for child in ast.iter_child_nodes(node):
            if not isinstance(child, ast.expr):
                pending.append((child, depth + 1))
            elif ends[(child.end_lineno or child.lineno)] - ends[child.lineno - 1] > _LONG:
                deepest, around = _depths(child)
                linked += around
                if deepest > MAX_DEPTH or linked > most:
                    return True
    return False


def _depths(expression: ast.expr) -> tuple[int, int]:
    """Get the depth of an expression, and the sum of its operations' depths, as libcst has them."""
    deepest = linked = 0
    pending: list[tuple[ast.AST, int]] = [(expression, 0)]
    while pending:
        node, depth = pending.pop()
        if isinstance(node, ast.BoolOp):
            linked += depth * len(node.values) + len(node.values) ** 2 // 2
            depth += len(node.values)  # flat to Python, a chain to libcst
        elif not isinstance(node, (ast.Name, ast.Constant, ast.expr_context, ast.operator)):
            linked += depth
        deepest = max(deepest, depth)
        pending.extend((child, depth + 1) for child in ast.iter_child_nodes(node))
    return deepest, linked


def _may_be_deep(source: str) -> bool:
    """Return whether brackets and operators, even in strings, suggest depth."""
    if any(source.count(link) > MAX_DEPTH // 2 for link in _LINKS):
        return True
    # Brackets open before a paragraph, and those that it opens itself, bound the depth in it.
    before = 0
    for paragraph in source.split("\n\n"):
        opened = sum(map(paragraph.count, "([{"))
        if before + opened > MAX_BRACKETS:
            return True
        before = max(0, before + opened - sum(map(paragraph.count, ")]}")))
    return False


@contextmanager
def unvalidated() -> Iterator[None]:
    """Build nodes without validation, as those of a parser need none; equal spaces are one node.

    libcst validates each node on construction, those that its own parser builds too; that is a
    sixth of the time of parsing. Nodes made later, for fixes, are validated as ever. Nearly half of
    all nodes are spaces, mostly empty ones: they are made once a file, which saves a ninth.
    """
    CSTNode.__post_init__ = _skip_validation  # type: ignore[method-assign]
    cst.SimpleWhitespace = lru_cache(maxsize=256)(_Whitespace)  # type: ignore[misc, assignment]
    cst.Newline = lru_cache(maxsize=8)(_Newline)  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        cst.Newline = _Newline  # type: ignore[misc]
        cst.SimpleWhitespace = _Whitespace  # type: ignore[misc]
        CSTNode.__post_init__ = _validate  # type: ignore[method-assign]


def parse(source: str) -> cst.Module:
    """Return the tree of a module with all its trivia.

    Raises:
        libcst.ParserSyntaxError: the source does not parse.
        TooDeepError: it nests too deeply for libcst's parser.
    """
    refuse_deep_nesting(source)
    with unvalidated():
        return cst.parse_module(source)


#: Deeply nested expressions recurse; a file beyond this is an error, not a crash.
RECURSION_LIMIT = 6_000


class SyntaxProblem(PlacedError):  # noqa: N818 (it describes the linted file, not a failure of EmberCoach)
    """A file that does not parse, with the line and column, both from 1, and the reason."""


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise Python's recursion limit; checks run on a stack that is large enough."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@contextmanager
def reading(source: str) -> Iterator[None]:
    """Parse and analyse a source inside.

    Raises:
        SyntaxProblem: the source does not parse, or nests too deeply to be analysed.
        WorkExceededError: it exceeds the work budget.
    """
    try:
        with deep_recursion():
            yield
    except UnicodeEncodeError as error:  # decoders such as UTF-7's let lone surrogates through
        before = source[: error.start].split("\n")
        message = f"{source[error.start]!a} is half a character"
        raise SyntaxProblem(len(before), len(before[-1]) + 1, message) from error
    except cst.ParserSyntaxError as error:
        raise SyntaxProblem(error.editor_line, error.editor_column, error.message) from error
    except TooManyFieldsError as error:
        raise WorkExceededError(str(error)) from error
    except (RecursionError, TooDeepError) as error:
        raise SyntaxProblem(1, 1, "expressions are nested too deeply to be analysed") from error
