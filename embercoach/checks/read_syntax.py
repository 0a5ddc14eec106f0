"""Syntax around pulls, for fixes that move them: comprehensions, bound and tested names."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import children, dotted, parameters_of, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


@lru_cache(maxsize=64)
def stored(root: cst.CSTNode) -> frozenset[str]:
    """The names that a statement binds, deletes, or changes parts of."""
    found: set[str] = set()
    for node in walk(root):
        if isinstance(node, cst.Assign):
            targets: list[cst.CSTNode] = [one.target for one in node.targets]
        elif isinstance(
            node, (cst.AnnAssign, cst.AugAssign, cst.For, cst.CompFor, cst.NamedExpr, cst.Del)
        ):
            targets = [node.target]
        elif isinstance(node, (cst.AsName, cst.FunctionDef, cst.ClassDef)):
            targets = [node.name]
        else:
            continue
        while targets:
            target = targets.pop()
            if isinstance(target, (cst.Tuple, cst.List)):
                targets.extend(element.value for element in target.elements)
            elif isinstance(target, (cst.Subscript, cst.Attribute)):
                targets.append(target.value)
            elif isinstance(target, cst.Name):
                found.add(target.value)
    return frozenset(found)


def may_be_none(module: Module, function: FunctionInfo | None, name: str) -> bool:
    """Test whether a scope tests a name itself, or whether its parameter has a default."""
    if function is None:
        return name in _tested(module.tree)
    defaults = (p.default for p in parameters_of(function.node.params) if p.name.value == name)
    return any(default is not None for default in defaults) or name in _tested(function.node.body)


@lru_cache(maxsize=16)
def _tested(body: cst.CSTNode) -> frozenset[str]:
    """The names whose own truth a body tests, or that it compares with None."""
    found: list[cst.CSTNode] = []
    for node in walk(body):
        if isinstance(node, (cst.If, cst.IfExp, cst.While, cst.Assert)):
            found.append(node.test)
        elif isinstance(node, cst.BooleanOperation):
            found += (node.left, node.right)
        elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            found.append(node.expression)
        elif isinstance(node, cst.ComparisonTarget) and dotted(node.comparator) == "None":
            found.append(parents(body)[node].left)  # type: ignore[attr-defined]
    return frozenset(node.value for node in found if isinstance(node, cst.Name))


@lru_cache(maxsize=16)
def parents(root: cst.CSTNode) -> dict[cst.CSTNode, cst.CSTNode]:
    """The node above each node below a root."""
    return {child: node for node in walk(root) for child in children(node)}


def comprehensions_around(statement: cst.CSTNode, node: cst.CSTNode) -> list[cst.BaseComp]:
    """The comprehensions of a statement that evaluate a node repeatedly, outermost first."""
    if not isinstance(statement, cst.BaseSmallStatement):
        return []
    above = parents(statement)
    found: list[cst.BaseComp] = []
    inner = once = node
    while inner in above:
        inner, below = above[inner], inner
        if isinstance(inner, (cst.Lambda, cst.FunctionDef)):
            return []
        if isinstance(inner, cst.CompFor) and below is inner.iter:
            once = inner
        if isinstance(inner, COMPREHENSIONS) and inner.for_in is not once:
            found.insert(0, inner)
    return found


def clauses(comprehension: cst.BaseComp) -> Iterator[cst.CompFor]:
    """The ``for`` clauses of a comprehension, outermost first."""
    clause: cst.CompFor | None = comprehension.for_in
    while clause is not None:
        yield clause
        clause = clause.inner_for_in


def comprehension_of(statement: cst.CSTNode, clause: cst.CompFor) -> cst.CSTNode | None:
    """The comprehension that has a clause."""
    above = parents(statement)
    node: cst.CSTNode | None = clause
    while node is not None and not isinstance(node, COMPREHENSIONS):
        node = above.get(node)
    return node
