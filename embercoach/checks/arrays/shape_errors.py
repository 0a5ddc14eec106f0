"""SHAPE-001 to SHAPE-003: shapes that raise, and shapes that broadcast by accident."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.stops import Stop
from embercoach.analysis.shapes.differing_sizes import unmeant
from embercoach.analysis.shapes.source_files import shapes_of
from embercoach.analysis.syntax.conversion.conversion_state import packed_range
from embercoach.analysis.syntax.trees import walk
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.shapes.interpreter import ShapeEvent


@check("SHAPE-001", "SHAPE-002", "SHAPE-003", "SHAPE-004", "SHAPE-005")
def shape_errors(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Operations that raise for the shapes that reach them."""
    machine = shapes_of(module)
    if machine is None:
        return
    nodes = _Nodes(module)
    raised = {id(e.node) for e in machine.events.values() if e.condition is None and not e.code}
    for event in machine.events.values():
        if event.file.path != module.path or (event.condition and id(event.node) in raised):
            continue
        found = nodes.find(event.node)
        if found is None:
            continue
        node, statement = found
        place = module.frame.place()._replace(statement=statement)
        if event.code:
            yield Report(
                event.code,
                node,
                place,
                message=event.reason,
                help="Print the shapes with `embercoach shapes`",
                context="default",
            )
            continue
        if event.condition is None:
            yield Report(
                "SHAPE-001",
                node,
                place,
                message=_sentence(event),
                help="Print the shapes with `embercoach shapes`",
                context="default",
                related=tuple(_callers(event, module, nodes)),
            )
            continue
        doubt = unmeant(event, machine)
        if doubt is not None:
            code = "SHAPE-003" if event.condition.adds_axes else "SHAPE-002"
            yield Report(
                code,
                node,
                place,
                message=f"{_sentence(event)} {doubt}",
                help="Print the shapes with `embercoach shapes`",
                context="default",
            )


def _sentence(event: ShapeEvent) -> str:
    name = event.operation.rpartition(".")[2]
    return f"`{name}` raises: {event.reason}"


def _callers(event: ShapeEvent, module: Module, nodes: _Nodes) -> Iterator[Stop]:
    return iter(())


class _Nodes:
    """The nodes of a module's tree, by those of ``ast``."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.known: dict[int, list[cst.CSTNode]] | None = None
        self.statements: dict[int, cst.CSTNode] = {}

    def find(self, node: ast.AST) -> tuple[cst.CSTNode, cst.CSTNode] | None:
        """The node at a place, and the statement around it."""
        ranges = self.module.parsed.converted.ranges
        if ranges is None:
            return None
        wanted = packed_range(node)  # type: ignore[arg-type]
        statement: cst.CSTNode | None = None
        for one in walk(self.module.tree):
            if isinstance(one, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                statement = one
            if ranges.get(id(one)) == wanted and isinstance(one, cst.BaseExpression):
                return None if statement is None else (one, statement)
        return None
