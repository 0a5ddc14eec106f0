"""SHAPE-001 to SHAPE-003: shapes that raise, and shapes that broadcast by accident."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.stops import Stop
from embercoach.analysis.shapes.integers import (
    Comparison,
    SizeExpr,
    without_common_factors,
)
from embercoach.analysis.shapes.objects import ObjectReference, Place
from embercoach.analysis.shapes.source_files import shapes_of
from embercoach.analysis.syntax.conversion.conversion_state import packed_range
from embercoach.analysis.syntax.trees import walk
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.shapes.integers import Integer, SizeSymbol
    from embercoach.analysis.shapes.machine import Machine, ShapeEvent


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
        doubt = doubtful(event, machine)
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


def doubtful(event: ShapeEvent, machine: Machine) -> str | None:
    """The condition under which a call does not raise, if it is one that nobody means."""
    condition = event.condition
    assert condition is not None
    if condition.comparison is Comparison.DEGENERATE:
        names = sorted({s.name for n in (condition.left, condition.right) for s in _symbols(n)})
        if condition.allows_one:
            return f"unless {_joined(names)} is 1 or 0" if names else None
        return f"unless {_joined(names)} is 0"
    left, right = reduced(condition.left, condition.right)
    if _named_apart(left, right, machine, adds_axes=condition.adds_axes) is None:
        return None
    return f"unless {left} equals {right}"


def reduced(left: Integer, right: Integer) -> tuple[Integer, Integer]:
    """Two sizes without the factors that they have in common: B * T and B * S are T and S."""
    if not isinstance(left, SizeExpr) or not isinstance(right, SizeExpr):
        return left, right
    for one, other in ((left, right), (right, left)):
        if len(one.terms) == 1:
            parts = without_common_factors(other, one)
            return (parts[1], parts[0]) if one is left else parts
    return left, right


def _joined(names: list[str]) -> str:
    return " or ".join(names)


def _symbols(number: Integer) -> frozenset[SizeSymbol]:
    return number.symbols if isinstance(number, SizeExpr) else frozenset()


def _named_apart(
    left: Integer, right: Integer, machine: Machine, *, adds_axes: bool
) -> tuple[SizeSymbol, SizeSymbol] | None:
    """Two symbols that stand for different things, as their names in one scope say."""
    if not isinstance(left, SizeExpr) or not isinstance(right, SizeExpr):
        return None
    a, b = left.symbol, right.symbol
    if a is None or b is None or a.place is None or a.place is not b.place or a.name == b.name:
        return None
    # Fields of a configuration are often equal by convention.
    if not (a.is_named and b.is_named) or isinstance(a.place, (Place, ObjectReference)):
        return None
    if frozenset((a, b)) in machine.heap.compared:
        return None
    default = machine.defaults.get(a)
    if default is not None and default == machine.defaults.get(b) and not adds_axes:
        return None
    return a, b


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
