"""Where nodes stand in the source, computed last and only for the nodes that are asked for.

libcst's ``PositionProvider`` generates the code of the whole module to learn its positions. Here
``ast``, which parses ten times faster, tells where each statement starts, and code is generated
only for the statements (or the headers of compound ones) that hold wanted nodes. Where ``ast``
can't read the source, as with syntax newer than the running Python, the whole module is generated.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import libcst as cst
from libcst._nodes.internal import CodegenState

from embercoach.analysis.parse import skeleton


class Span(NamedTuple):
    """A range of the source: lines from 1, columns from 0 in characters, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class _MismatchError(Exception):
    """The two trees don't pair up."""


@dataclass
class _RecordingState(CodegenState):
    """Follows the position through code generation and keeps the spans of wanted nodes.

    Nodes are known by their ``id``: hashing a libcst node runs Python code.
    """

    def __post_init__(self) -> None:
        self.line = 1
        self.column = 0
        self.wanted: frozenset[int] = frozenset()
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
        if id(node) in self.wanted:
            self.starts.append((self.line, self.column))

    def after_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.wanted:
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
        if id(node) not in self.wanted:
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
    module: cst.Module, source: str, wanted: Mapping[cst.CSTNode, cst.CSTNode]
) -> dict[cst.CSTNode, Span]:
    """The spans of the wanted nodes, equal to those of libcst's ``PositionProvider``.

    ``wanted`` maps each node to the statement, or to the decorator, that it stands in.
    """
    outline = skeleton(source)
    if outline is None:
        return locate_in_whole(module, wanted)
    state = _RecordingState(module.default_indent, module.default_newline)
    state.wanted = frozenset(map(id, wanted))
    try:
        starts = _statement_starts(module, source, outline, wanted.values())
        for statement in {id(s): s for s in wanted.values()}.values():
            state.line, state.column, indent = starts[id(statement)]
            state.indent_tokens = [indent]
            if not isinstance(statement, (cst.BaseSmallStatement, cst.Decorator)):
                state.column -= len(indent)  # a compound statement writes its own indentation
            _generate(_header(statement), state)
        return {node: state.spans[id(node)] for node in wanted}
    except (_MismatchError, KeyError, RecursionError):
        return locate_in_whole(module, wanted)


def locate_in_whole(module: cst.Module, wanted: Iterable[cst.CSTNode]) -> dict[cst.CSTNode, Span]:
    """The spans of the wanted nodes from the code of the whole module."""
    nodes = list(wanted)
    state = _RecordingState(module.default_indent, module.default_newline)
    state.wanted = frozenset(map(id, nodes))
    _generate(module, state)
    return {node: state.spans[id(node)] for node in nodes}


def _generate(node: cst.CSTNode, state: CodegenState) -> None:
    """Write a node's code into a state of our own, for which libcst has no public method."""
    node._codegen(state)  # noqa: SLF001


_EMPTY = cst.SimpleStatementSuite(body=[cst.Pass()])


def _header(statement: cst.CSTNode) -> cst.CSTNode:
    """The statement without what stands before its first token, and without its body."""
    if isinstance(statement, cst.BaseSmallStatement):
        return statement
    if isinstance(statement, cst.Decorator):
        if statement.decorator.lpar:
            raise _MismatchError(statement)  # ``ast`` tells where the inner expression starts
        return statement.decorator
    changes: dict[str, Any] = {"leading_lines": (), "body": _EMPTY}
    if isinstance(statement, (cst.If, cst.For, cst.While)):
        changes["orelse"] = None
    elif isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
        changes.update(decorators=(), lines_after_decorators=())
    elif not isinstance(statement, cst.With):
        raise _MismatchError(statement)
    return statement.with_changes(**changes)


def _statement_starts(
    module: cst.Module, source: str, outline: ast.Module, wanted: Iterable[cst.CSTNode]
) -> dict[int, tuple[int, int, str]]:
    """Line, column and indentation of the wanted statements, by their ids."""
    ids = frozenset(map(id, wanted))
    elifs: set[int] = set()
    found: dict[int, tuple[ast.stmt | ast.expr, str]] = {}
    for mine, other, indent in _pairs(module, outline):
        if type(mine) is cst.If and type(mine.orelse) is cst.If:
            elifs.add(id(mine.orelse))
        if id(mine) in ids:
            found[id(mine)] = (other, indent)
    lines: list[str] | None = None
    starts: dict[int, tuple[int, int, str]] = {}
    for key, (other, indent) in found.items():
        column = other.col_offset
        if column and not source.isascii():
            lines = lines or source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
            column = len(lines[other.lineno - 1].encode()[:column].decode())
        # An ``elif`` by itself is written as an ``if``, two characters less.
        starts[key] = (other.lineno, column + 2 if key in elifs else column, indent)
    return starts


def _pairs(
    module: cst.Module, tree: ast.Module
) -> Iterator[tuple[cst.CSTNode, ast.stmt | ast.expr, str]]:
    """Statements of the two trees side by side, all the way down, with their indentation.

    And their decorators, of which ``ast`` knows the expressions.
    """
    pending: list[tuple[_Block, str]] = [((module.body, tree.body), "")]
    while pending:
        (nodes, statements), indent = pending.pop()
        flat: list[cst.CSTNode] = []
        for node in nodes:
            if type(node) is cst.SimpleStatementLine:
                flat.extend(node.body)
            else:
                flat.append(node)
        if len(flat) != len(statements):
            raise _MismatchError
        for node, statement in zip(flat, statements, strict=True):
            yield node, statement, indent
            if isinstance(statement, _DECORATED):
                decorators = zip(node.decorators, statement.decorator_list, strict=True)  # type: ignore[attr-defined]
                yield from ((mine, other, indent) for mine, other in decorators)
            blocks = _BLOCKS.get(type(node))
            if blocks is None:
                continue
            for suite, other in blocks(node, statement):
                kind = type(suite)
                if kind is cst.If:
                    pending.append((((suite,), other), indent))
                elif kind is cst.IndentedBlock:
                    deeper = module.default_indent if suite.indent is None else suite.indent
                    pending.append(((suite.body, other), indent + deeper))
                else:
                    pending.append(((suite.body, other), indent))


_DECORATED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Block = tuple[Sequence[cst.CSTNode], Sequence[ast.stmt]]
_Suites = list[tuple[Any, Sequence[ast.stmt]]]


def _body(node: Any, statement: Any) -> _Suites:
    return [(node.body, statement.body)]


def _with_else(node: Any, statement: Any) -> _Suites:
    suites = _body(node, statement)
    if isinstance(node.orelse, cst.If):
        suites.append((node.orelse, statement.orelse))
    elif node.orelse is not None:
        suites.append((node.orelse.body, statement.orelse))
    return suites


def _try(node: Any, statement: Any) -> _Suites:
    suites = _body(node, statement)
    for handler, other in zip(node.handlers, statement.handlers, strict=False):
        suites.append((handler.body, other.body))
    if node.orelse is not None:
        suites.append((node.orelse.body, statement.orelse))
    if node.finalbody is not None:
        suites.append((node.finalbody.body, statement.finalbody))
    return suites


def _match(node: Any, statement: Any) -> _Suites:
    return [(c.body, o.body) for c, o in zip(node.cases, statement.cases, strict=False)]


_BLOCKS: dict[type, Any] = {
    cst.FunctionDef: _body,
    cst.ClassDef: _body,
    cst.With: _body,
    cst.If: _with_else,
    cst.For: _with_else,
    cst.While: _with_else,
    cst.Try: _try,
    cst.TryStar: _try,
    cst.Match: _match,
}
