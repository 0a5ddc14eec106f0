"""Nodes of a file's tree, by those of ``ast`` that the inference of shapes reads."""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.syntax.conversion.conversion_state import packed_name_range, packed_range
from embercoach.analysis.syntax.trees import children

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module


class LocatedNode(NamedTuple):
    """A node, the statement around it, and the names of the functions and classes around it.

    scopes: these names, the inner ones first.
    """

    node: cst.CSTNode
    statement: cst.CSTNode
    scopes: tuple[str, ...]


class ShapeNodes:
    """The nodes of a module."""

    def __init__(self, module: Module, tree: ast.Module) -> None:
        """Prepare for the nodes of a tree, which is that of the module."""
        self.module = module
        self.tree = tree

    def find(self, node: ast.AST) -> LocatedNode | None:
        """The node at a place; of a definition its name. None for a node of another file."""
        if id(node) not in self._own:
            return None
        if isinstance(node, ast.arg):
            return self._by_range.get(packed_name_range(node))
        if not isinstance(node, (ast.expr, ast.stmt)):
            return None
        return self._by_range.get(packed_range(node))

    def call_at(self, line: int, callees: tuple[str, ...]) -> LocatedNode | None:
        """A call that begins on a line, if possible of one of these names."""
        calls = self._calls.get(line)
        if not calls:
            return None
        return next((one for one in calls if _called(one.node) in callees), calls[0])

    @cached_property
    def _own(self) -> frozenset[int]:
        return frozenset(id(node) for node in ast.walk(self.tree))

    @cached_property
    def _by_range(self) -> dict[int, LocatedNode]:
        ranges = self.module.parsed.converted.ranges or {}
        found: dict[int, LocatedNode] = {}
        for one in _located(self.module.tree):
            place = ranges.get(id(one.node))
            if place is None:
                continue
            if isinstance(one.node, cst.FunctionDef):
                found.setdefault(place, one._replace(node=one.node.name, statement=one.node))
            elif isinstance(one.node, (cst.BaseExpression, cst.BaseSmallStatement)):
                found.setdefault(place, one)
        return found

    @cached_property
    def _calls(self) -> dict[int, list[LocatedNode]]:
        found: dict[int, list[LocatedNode]] = {}
        for one in self._by_range.values():
            span = self.module.parsed.converted.range_of(one.node)
            if span is not None and isinstance(one.node, cst.Call):
                found.setdefault(span.line, []).append(one)
        return found


def _called(node: cst.CSTNode) -> str:
    """The last name of what is called."""
    called = node.func if isinstance(node, cst.Call) else node
    if isinstance(called, cst.Attribute):
        called = called.attr
    return called.value if isinstance(called, cst.Name) else ""


def _located(tree: cst.Module) -> Iterator[LocatedNode]:
    """All nodes, those around others first."""
    pending = [LocatedNode(node, node, ()) for node in children(tree)]
    while pending:
        at = pending.pop()
        node, statement, scopes = at
        if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            statement = node
        yield LocatedNode(node, statement, scopes)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            scopes = (node.name.value, *scopes)
        inner = [LocatedNode(child, statement, scopes) for child in children(node)]
        pending += reversed(inner)
