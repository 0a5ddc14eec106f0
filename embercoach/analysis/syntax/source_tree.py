"""A source and its tree, for the analysis without trivia, with exact text where it is asked for."""

from __future__ import annotations

import keyword
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst
from msgspec import Struct, field

from embercoach.analysis.syntax.convert_expressions import (
    Converted,
    ParsedExpression,
    SourceLines,
    UnconvertibleError,
)
from embercoach.analysis.syntax.convert_statements import convert
from embercoach.analysis.syntax.parse import (
    Span,
    locate,
    outline_of,
    parse,
    refuse_many_fields,
    unvalidated,
)
from embercoach.analysis.syntax.trees import children, walk

if TYPE_CHECKING:
    import ast

#: ``ast`` counts their parentheses, libcst doesn't; or they hold more than one node of ``ast``.
_OTHER_RANGE = (cst.Tuple, cst.GeneratorExp, cst.Decorator, cst.Expr, cst.BaseCompoundStatement)


@cache
def _is_expression(kind: type) -> bool:
    return issubclass(kind, cst.BaseExpression)


@cache
def _has_other_range(kind: type) -> bool:
    return issubclass(kind, _OTHER_RANGE)


def read_tree(source: str, outline: ast.Module | None = None) -> SourceTree:
    """Return the tree of a source.

    Args:
        source: the text.
        outline: what ``ast.parse`` makes of it, where that is known.

    Raises:
        libcst.ParserSyntaxError: the source does not parse.
        TooDeepError: it nests too deeply, or has too many fields in f-strings.
    """
    refuse_many_fields(source)
    if source.startswith("\ufeff"):
        outline = None
    elif outline is None:
        outline = outline_of(source)
    if outline is not None:
        try:
            with unvalidated():
                return SourceTree(source, convert(source, outline), outline)
        except UnconvertibleError:
            pass
    return SourceTree(source, Converted(parse(source), None))


class _Exact(Struct, frozen=True):
    """Statements as libcst parses them.

    Attributes:
        module: a module of nothing else.
        lines: how many lines of the source precede it.
        nodes: its nodes by the ``id`` of those that the analysis reads.
    """

    module: cst.Module
    lines: int
    nodes: Mapping[int, cst.CSTNode]


class _Stretch(NamedTuple):
    """SourceLines of the source, from 1, and the statement that they hold."""

    first: int
    last: int
    node: cst.CSTNode


class SourceTree(Struct, eq=False, dict=True):
    """A source and its tree.

    Most trees lack trivia (see `embercoach.analysis.syntax.convert_statements`): ask here for the
    text and the position of a node.
    """

    source: str
    converted: Converted
    #: What ``ast.parse`` makes of it, None where libcst alone can read it.
    outline: ast.Module | None = None
    _exact: dict[int, _Exact] = field(default_factory=dict)
    #: The top-level statement that holds a node, for those of the first ``_walked`` ones.
    _holders: dict[int, int] = field(default_factory=dict)
    _walked: int = 0

    @property
    def tree(self) -> cst.Module:
        """The tree that the analysis reads."""
        return self.converted.tree

    def spans(
        self, statements: Mapping[cst.CSTNode, cst.CSTNode], *, with_parentheses: bool = False
    ) -> dict[cst.CSTNode, Span]:
        """Return the spans of nodes, equal to those of libcst's ``PositionProvider``.

        Args:
            statements: maps each node to its statement or decorator.
            with_parentheses: include those around an expression.
        """
        located = partial(locate, with_parentheses=with_parentheses)
        if self.converted.ranges is None:
            return located(self.tree, statements)
        found: dict[cst.CSTNode, Span] = {}
        within: dict[int, list[cst.CSTNode]] = {}
        others: dict[_Stretch, list[cst.CSTNode]] = {}
        for node, statement in statements.items():
            span = None if with_parentheses else self._quick_span(node)
            if span is not None:
                found[node] = span
            elif id(node) in self._parsed_by_libcst:
                within.setdefault(self._parsed_by_libcst[id(node)], []).append(node)
            else:
                others.setdefault(self._stretch_of(node, statement), []).append(node)
        for number, nodes in within.items():
            parsed = self.converted.parsed[number]
            for node, span in located(parsed.node, nodes).items():
                found[node] = _shifted(span, parsed)
        for stretch, nodes in others.items():
            exact = self._exact_at(stretch)
            by_exact = {exact.nodes[id(node)]: node for node in nodes}
            for inner, span in located(exact.module, by_exact).items():
                line, column, end_line, end_column = span
                shifted = Span(line + exact.lines, column, end_line + exact.lines, end_column)
                found[by_exact[inner]] = shifted
        return found

    def exact(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the node as libcst parses it, with its trivia."""
        if self.converted.ranges is None or id(node) in self._parsed_by_libcst:
            return node
        return self._exact_at(self._stretch_of(node, node)).nodes[id(node)]

    def code(self, node: cst.CSTNode) -> str:
        """Return a node's own source text, with the parentheses around it."""
        span = self._quick_span(node) if _is_expression(type(node)) else None
        if span is not None and not self._may_have_parentheses(span):
            return self._lines.between(*span)
        text = cst.Module([]).code_for_node(self.exact(node))
        if "\n" not in text or not _is_expression(type(node)):
            return text
        # libcst indents further lines as if the statement stood at the left.
        return self._lines.between(*self.spans({node: node}, with_parentheses=True)[node])

    def bare_code(self, node: cst.CSTNode) -> str:
        """Return a node's own source text, without the parentheses around it."""
        return self._lines.between(*self.spans({node: node})[node])

    def may_have_walrus(self, node: cst.CSTNode) -> bool:
        """Return whether ``:=`` is in the lines of a statement or expression."""
        if not self._has_walrus:
            return False
        span = self.converted.range_of(node)
        if span is None:
            return True
        return any(":=" in line for line in self._lines.texts[span.line - 1 : span.end_line])

    @cached_property
    def _has_walrus(self) -> bool:
        return ":=" in self.source  # each function asks: the whole text is searched once

    @cached_property
    def _lines(self) -> SourceLines:
        return SourceLines(self.source)

    @cached_property
    def _parsed_by_libcst(self) -> Mapping[int, int]:
        """The expression that holds a part of one that libcst has parsed, by the part's ``id``."""
        return {
            id(inner): number
            for number, parsed in enumerate(self.converted.parsed)
            for inner in walk(parsed.node)
            if inner is not parsed.node
        }

    def _may_have_parentheses(self, span: Span) -> bool:
        """Return whether brackets around a span may belong to its node; yes for several lines."""
        if span.line != span.end_line:
            return True
        line = self._lines.texts[span.line - 1]
        start, end = _start_of_space(line, span.column), span.end_column
        while end < len(line) and line[end].isspace():
            end += 1
        if end < len(line) and line[end] not in ")#\\":
            return False
        return not start or (line[start - 1] == "(" and not _is_of_call(line, start - 1))

    def _quick_span(self, node: cst.CSTNode) -> Span | None:
        found = self.converted.range_of(node)
        if found is None or _has_other_range(type(node)):
            return None
        line, offset, end_line, end_offset = found
        columns = self._lines.column(line, offset), self._lines.column(end_line, end_offset)
        return Span(line, columns[0], end_line, columns[1])

    @cached_property
    def _first_lines(self) -> Sequence[int]:
        """The first line of each top-level statement."""
        return [self._first_line(statement) for statement in self.tree.body]

    def _first_line(self, statement: cst.CSTNode) -> int:
        inner = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement
        start = self.converted.range_of(statement) or self.converted.range_of(inner)
        assert start is not None
        decorators = map(self.converted.range_of, getattr(statement, "decorators", ()))
        lines = [self._lines.start_of_decorator(one) for one in decorators if one is not None]
        return min((start.line, *lines))

    def _stretch_of(self, node: cst.CSTNode, statement: cst.CSTNode) -> _Stretch:
        """Get the lines to parse for a node: of its simple statement, else of its top-level one."""
        known = self.converted.range_of(node) or self.converted.range_of(statement)
        if known is None:
            return self._top(self._holder(node))
        index = bisect_right(self._starts_of_lines, known.line) - 1
        if index >= 0:
            line = self.converted.lines[index]
            stretch = _Stretch(line.first, line.last, line.node)
            # The statement given may be one that only uses what another one holds.
            if known.end_line <= line.last and id(node) in self._exact_at(stretch).nodes:
                return stretch
        if self.converted.range_of(node) is None:
            return self._top(self._holder(node))
        return self._top(bisect_right(self._first_lines, known.line) - 1)

    def _holder(self, node: cst.CSTNode) -> int:
        """Return the top-level statement that holds a node without a range."""
        while id(node) not in self._holders:
            index = self._walked
            self._walked += 1
            self._holders.update((id(one), index) for one in walk(self.tree.body[index]))
        return self._holders[id(node)]

    @cached_property
    def _starts_of_lines(self) -> Sequence[int]:
        return [line.first for line in self.converted.lines]

    def _top(self, index: int) -> _Stretch:
        """Return the lines of a top-level statement, up to the next one."""
        after = self._first_lines[index + 1 : index + 2]
        last = after[0] - 1 if after else len(self._lines.texts)
        return _Stretch(self._first_lines[index], last, self.tree.body[index])

    def _exact_at(self, stretch: _Stretch) -> _Exact:
        exact = self._exact.get(stretch.first)
        if exact is None or id(stretch.node) not in exact.nodes:
            exact = self._exact[stretch.first] = self._parsed(stretch)
        return exact

    def _parsed(self, stretch: _Stretch) -> _Exact:
        first = stretch.first - 1
        text = "".join(self._lines.texts[first : stretch.last])
        if text[:1] in (" ", "\t", "\f"):
            module = parse(f"if x:\n{text}")
            nodes = _paired([stretch.node], module.body[0].body.body)  # type: ignore[union-attr]
            return _Exact(module, first - 1, nodes)
        module = parse(text)
        return _Exact(module, first, _paired([stretch.node], module.body))


def _shifted(span: Span, parsed: ParsedExpression) -> Span:
    """Get a span in an expression's text, which begins with a parenthesis, as one in the source."""
    line, column, end_line, end_column = span
    first = parsed.line - 1
    start = column + parsed.column - 1 if line == 1 else column
    end = end_column + parsed.column - 1 if end_line == 1 else end_column
    return Span(first + line, start, first + end_line, end)


def _start_of_space(line: str, end: int) -> int:
    while end and line[end - 1].isspace():
        end -= 1
    return end


def _is_of_call(line: str, at: int) -> bool:
    """Return whether a parenthesis begins the arguments of a call; if in doubt, it doesn't.

    Those around an expression follow an operator, another bracket, or a keyword.
    """
    end = _start_of_space(line, at)
    if end and line[end - 1] in ")]}'\"":
        return True
    start = end
    while start and (line[start - 1].isalnum() or line[start - 1] == "_"):
        start -= 1
    word = line[start:end]
    if keyword.issoftkeyword(word):
        return line[start - 1 : start] == "."
    return word.isidentifier() and not keyword.iskeyword(word)


def _paired(nodes: Sequence[cst.CSTNode], others: Sequence[cst.CSTNode]) -> dict[int, cst.CSTNode]:
    """Return the nodes of two trees that are equal but for trivia, side by side."""
    found: dict[int, cst.CSTNode] = {}
    pending: list[tuple[Iterable[cst.CSTNode], Iterable[cst.CSTNode]]] = [(nodes, others)]
    while pending:
        for mine, other in zip(*pending.pop(), strict=True):
            assert type(mine) is type(other), f"{type(mine)} is not {type(other)}"
            found[id(mine)] = other
            pending.append((children(mine), children(other)))
    return found
