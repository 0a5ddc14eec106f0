"""Rules of shapes that raise, or are not those that the program means."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.origins import Stop
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.project.module import Module
from embercoach.analysis.shapes.differing_sizes import unmeant
from embercoach.analysis.shapes.interpreter import Machine, ShapeEvent
from embercoach.analysis.shapes.program import shapes_of
from embercoach.analysis.shapes.requirements import Condition
from embercoach.analysis.syntax.convert_expressions import packed_name_range, packed_range
from embercoach.analysis.syntax.trees import children
from embercoach.analysis.values.facts import Fact
from embercoach.checks.arrays.shape_remedies import command, message_of, remedy_of
from embercoach.checks.registry import Report, check


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
        """Return the node at a place; of a definition its name. None for a node of another file."""
        if id(node) not in self._own:
            return None
        if isinstance(node, ast.arg):
            return self._by_range.get(packed_name_range(node))
        if not isinstance(node, (ast.expr, ast.stmt)):
            return None
        return self._by_range.get(packed_range(node))

    def call_at(self, line: int, callees: tuple[str, ...]) -> LocatedNode | None:
        """Return a call that begins on a line, if possible of one of these names."""
        calls = self._calls.get(line)
        if not calls:
            return None
        return next((one for one in calls if last_name(one.node) in callees), calls[0])

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
            elif isinstance(one.node, _OPERATIONS) and not isinstance(one.node, cst.Expr):
                found.setdefault(place, one)  # of an `Expr`, its value
        return found

    @cached_property
    def _calls(self) -> dict[int, list[LocatedNode]]:
        found: dict[int, list[LocatedNode]] = {}
        for one in self._by_range.values():
            span = self.module.parsed.converted.range_of(one.node)
            if span is not None and isinstance(one.node, cst.Call):
                found.setdefault(span.line, []).append(one)
        return found


_OPERATIONS = (cst.BaseExpression, cst.BaseSmallStatement)


def _located(tree: cst.Module) -> Iterator[LocatedNode]:
    """Yield all nodes, those around others first."""
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


#: By operation: the rule of its errors, where that is a separate one.
_ERRORS = {"mlx.core.split": "API-009", "mlx.core.array.split": "API-009"}
#: Calls that lead to an operation, of which a finding shows so many.
MOST_CALLERS = 3


@check(
    *(f"SHAPE-00{number}" for number in range(1, 9)),
    *("API-006", "API-009", "INDEX-001", "NN-011"),
)
def shape_errors(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Operations that raise, broadcast or mix axes, and annotations of other shapes."""
    machine = shapes_of(module)
    if machine is None or not machine.events:
        return
    nodes = ShapeNodes(module, machine.file.tree)
    raised = {id(e.node) for e in machine.events.values() if e.condition is None and not e.code}
    for event in machine.events.values():
        if (event.condition or event.code == "SHAPE-008") and id(event.node) in raised:
            continue
        if event.file.path == module.path:
            yield from _report(event, machine, module, nodes)
    yield from _raised_elsewhere(machine, module, nodes)


def _report(
    event: ShapeEvent, machine: Machine, module: Module, nodes: ShapeNodes
) -> Iterator[Report]:
    code, doubt = _rule_of(event, machine)
    if event.condition is not None and not doubt:
        return
    found = nodes.find(event.node)
    if found is None:
        return
    remedy = remedy_of(event, code, found.node, module)
    yield Report.in_file(
        module,
        found.node,
        code,
        message=message_of(event, code, doubt),
        help=remedy.help,
        change=remedy.change,
        related=tuple(_callers(event, module, nodes, found)),
    )


def _callers(
    event: ShapeEvent, module: Module, nodes: ShapeNodes, found: LocatedNode
) -> Iterator[Stop]:
    """Yield the calls of this file that lead to an operation, the nearest first."""
    scopes = found.scopes
    calls: list[Stop] = []
    for file, line in event.callers:
        call = nodes.call_at(line, scopes) if file.path == module.path else None
        scopes = () if call is None else call.scopes
        if call is not None:
            calls.append(Stop(call.node, call.statement, "called with these shapes here"))
    # The outermost one has the numbers.
    yield from calls if len(calls) <= MOST_CALLERS else (*calls[: MOST_CALLERS - 1], calls[-1])


def _raised_elsewhere(machine: Machine, module: Module, nodes: ShapeNodes) -> Iterator[Report]:
    """Yield calls that pass what an operation or an annotation of another file is not for."""
    known: dict[Path, frozenset[int]] = {}
    for event in machine.events.values():
        path = event.file.path
        is_passed = event.code == "SHAPE-006" and isinstance(event.node, ast.arg)
        if path == module.path or (event.code and not is_passed):
            continue
        code, doubt = _rule_of(event, machine)
        if event.condition is not None and (not doubt or _is_of_one_kind(event.condition)):
            continue
        line = next((n for file, n in event.callers if file.path == module.path), None)
        call = None if line is None else nodes.call_at(line, ())
        if call is None:
            continue
        if path not in known:
            known[path] = _reported_in(path, module)
        if id(event.node) in known[path]:
            continue  # it is reported for whatever is passed
        where = f" in {path.name}:{getattr(event.node, 'lineno', 0)}"
        yield Report.in_file(
            module,
            call.node,
            code,
            message=message_of(event, code, doubt, where),
            help=f"Pass arrays and sizes that fit: `{command(module.path)}` prints what is passed",
        )


def _is_of_one_kind(condition: Condition) -> bool:
    """Return whether sizes are as ``in_channels`` and ``out_channels``: the caller's business."""
    kinds = [
        name.removeprefix("in").removeprefix("out").removeprefix("put").lstrip("_")
        for name in map(str, (condition.left, condition.right))
    ]
    return kinds[0] == kinds[1]


def _reported_in(path: Path, module: Module) -> frozenset[int]:
    """Return the operations that raise in a file by itself, or are suspected to."""
    other = module.project.load(path, module.path.parent)
    machine = None if other is None else shapes_of(other)
    if machine is None:
        return frozenset()
    events = machine.events.values()
    return frozenset(
        id(e.node) for e in events if not e.code and (not e.condition or unmeant(e, machine))
    )


def _rule_of(event: ShapeEvent, machine: Machine) -> tuple[str, str]:
    """Return the rule that an event breaks, and the condition under which it does not."""
    if event.condition is None:
        return event.code or _ERRORS.get(event.operation, "SHAPE-001"), ""
    code = "SHAPE-003" if event.condition.adds_axes else "SHAPE-002"
    return code, (unmeant(event, machine) or "").removeprefix("unless ")
