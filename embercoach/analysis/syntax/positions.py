"""Positions of nodes by libcst's own account: from the code that it generates for a tree."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from libcst._nodes.internal import CodegenState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import libcst as cst


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
    """The spans of nodes, equal to those of libcst's ``PositionProvider``, which stores all.

    ``with_parentheses`` includes those around an expression.
    """
    listed = list(nodes)
    indent = getattr(tree, "default_indent", "    ")
    state = _RecordingState(indent, getattr(tree, "default_newline", "\n"))
    state.nodes = frozenset(map(id, listed))
    state.with_parentheses = with_parentheses
    tree._codegen(state)  # noqa: SLF001  (libcst has no public method for a custom state)
    return {node: state.spans[id(node)] for node in listed}
