"""Syntax around pulls, for fixes that move them: loops, comprehensions, bound and tested names."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import children, target_names, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module

LOOPS = (cst.For, cst.While)
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


@lru_cache(maxsize=64)
def stored_in_comprehensions(statement: cst.CSTNode) -> frozenset[str]:
    """The names that a simple statement binds before it ends."""
    found = {
        name
        for node in walk(statement)
        if isinstance(node, (cst.CompFor, cst.NamedExpr))
        for name in target_names(node.target)
    }
    return frozenset(found)


@lru_cache(maxsize=64)
def tested(root: cst.CSTNode) -> frozenset[str]:
    """The names whose own value some condition depends on, such as ``x is not None``."""
    found: set[str] = set()
    for node in walk(root):
        if isinstance(node, (cst.If, cst.IfExp, cst.While, cst.Assert)):
            tests: list[cst.CSTNode] = [node.test]
        elif isinstance(node, cst.BooleanOperation):
            tests = [node.left, node.right]
        else:
            continue
        while tests:
            test = tests.pop()
            if isinstance(test, cst.Name):
                found.add(test.value)
            elif not isinstance(test, (cst.Subscript, cst.Attribute)):
                tests.extend(children(test))
    return frozenset(found)


@lru_cache(maxsize=16)
def parents(root: cst.CSTNode) -> dict[cst.CSTNode, cst.CSTNode]:
    """The node above each node below a root."""
    return {child: node for node in walk(root) for child in children(node)}


@lru_cache(maxsize=16)
def _outer_loops(body: cst.CSTNode) -> dict[cst.CSTNode, tuple[cst.For | cst.While, ...]]:
    """The loops around each loop of a function's body, outermost first, with the loop itself."""
    found: dict[cst.CSTNode, tuple[cst.For | cst.While, ...]] = {}
    pending: list[tuple[cst.CSTNode, tuple[cst.For | cst.While, ...]]] = [(body, ())]
    while pending:
        node, around = pending.pop()
        if isinstance(node, (cst.BaseExpression, cst.FunctionDef, cst.ClassDef)):
            continue
        if isinstance(node, LOOPS):
            around = (*around, node)
            found[node] = around
        pending.extend((child, around) for child in children(node))
    return found


def loops_around(module: Module, place: FactPlace) -> tuple[cst.For | cst.While, ...]:
    """The loop statements around a place, outermost first."""
    if place.loop is None:
        return ()
    body = module.tree if place.function is None else place.function.node.body
    return _outer_loops(body).get(place.loop, ())


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


def fresh(module: Module, name: str) -> str | None:
    """The name, None if the source has it already."""
    return None if name in module.source else name
