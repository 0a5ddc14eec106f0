"""Results of functions, and places in assignments: asked for where values come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import SCOPES, small_statements, walk

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.reaching import Binding


def returned_by(function: FunctionInfo) -> list[tuple[cst.BaseExpression, cst.CSTNode]]:
    """The results of a function, with the statements; none where it may return something else."""
    node = function.node
    if isinstance(node, cst.Lambda):
        return [(node.body, node)]
    if function.is_async or function.name == "__init__":
        return []
    found: list[tuple[cst.BaseExpression, cst.CSTNode]] = []
    for statement in small_statements(node.body):
        if isinstance(statement, cst.Return):
            if statement.value is None:
                return []
            found.append((statement.value, statement))
    if found and any(isinstance(inner, cst.Yield) for inner in walk(node.body, SCOPES)):
        return []
    return found


def target_index(binding: Binding) -> int | None:
    """The place of a name among the targets of an assignment to several."""
    statement = binding.statement
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    if len(targets) != 1 or not isinstance(targets[0].target, (cst.Tuple, cst.List)):
        return None
    for index, element in enumerate(targets[0].target.elements):
        if isinstance(element, cst.StarredElement):
            return None
        if isinstance(element.value, cst.Name) and element.value.value == binding.name:
            return index
    return None


def first_statement(function: FunctionInfo | None) -> cst.CSTNode | None:
    """The first statement of a function's body."""
    if function is None or isinstance(function.node, cst.Lambda):
        return None
    return next(small_statements(function.node.body), None)
