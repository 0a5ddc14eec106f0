"""Syntax around pulls, for fixes that move them: loops, comprehensions, bound and tested names."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import (
    children,
    parameters_of,
    small_statements,
    statements_below,
    target_names,
    walk,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module

LOOPS = (cst.For, cst.While)
#: Statements before a loop that are searched for what excludes None.
_MOST_EARLIER = 64
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
def names_tested(root: cst.CSTNode, *, with_none: bool = True) -> frozenset[str]:
    """The names whose own value some condition depends on.

    Args:
        root: a statement or an expression.
        with_none: take ``x is None`` and ``x is not None`` for such conditions.
    """
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
            elif isinstance(test, (cst.Subscript, cst.Attribute)) or _is_length(test):
                continue
            elif with_none or not _compares_none(test):
                tests.extend(children(test))
    return frozenset(found)


def _compares_none(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return False
    target = node.comparisons[0]
    is_none = isinstance(target.comparator, cst.Name) and target.comparator.value == "None"
    return is_none and isinstance(target.operator, (cst.Is, cst.IsNot))


def _is_length(node: cst.CSTNode) -> bool:
    return (
        isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "len"
    )


def read_before(
    function: FunctionInfo | None, before: cst.CSTNode, name: str, value: str
) -> str | None:
    """The expression that reads an array before a statement, also where it may be None there.

    Args:
        function: the function of the statement, None at module level.
        before: the statement.
        name: the array's name.
        value: the expression, of an array.
    """
    if name in names_tested(before, with_none=False):
        return None
    may_be_none = name in names_tested(before) or (
        function is not None and _may_be_none(function.node, before, name)
    )
    return f"None if {name} is None else {value}" if may_be_none else value


@lru_cache(maxsize=64)
def _may_be_none(function: cst.FunctionDef | cst.Lambda, before: cst.CSTNode, name: str) -> bool:
    """Test whether a function compares a name with None, or defaults to it, unguarded."""
    parameters = [p for p in parameters_of(function.params) if p.name.value == name]
    defaults = [p.default for p in parameters if p.default is not None]
    is_default = any(isinstance(d, cst.Name) and d.value == "None" for d in defaults)
    if not is_default and name not in _compared_with_none(function.body):
        return False
    above, inner = _statements_above(function.body), before
    while inner in above:
        node = above[inner]
        if isinstance(node, cst.If) and inner is node.body and _requires(node.test, name):
            return False
        if isinstance(node, cst.IndentedBlock):
            position = next(n for n, statement in enumerate(node.body) if statement is inner)
            earlier = node.body[max(0, position - _MOST_EARLIER) : position]
            if any(_excludes_none(statement, name) for statement in earlier):
                return False
        inner = node
    return True


@lru_cache(maxsize=16)
def _compared_with_none(body: cst.CSTNode) -> frozenset[str]:
    """The names that a function compares with None."""
    return frozenset(
        node.left.value
        for node in walk(body)
        if isinstance(node, cst.Comparison)
        and isinstance(node.left, cst.Name)
        and _compares_none(node)
    )


@lru_cache(maxsize=4)
def _statements_above(body: cst.CSTNode) -> dict[cst.CSTNode, cst.CSTNode]:
    """The node above each statement and block of a function."""
    return {child: node for node in statements_below(body) for child in children(node)}


def _excludes_none(statement: cst.CSTNode, name: str) -> bool:
    """Test whether a name isn't None after ``if x is None: return``, or ``x = f()``."""
    if isinstance(statement, cst.If):
        last = [*small_statements(statement.body, ())][-1:]
        leaves = any(isinstance(one, (cst.Return, cst.Raise, cst.Continue)) for one in last)
        return _none_test(statement.test, name) is True and (
            leaves or name in stored(statement.body)
        )
    if not isinstance(statement, cst.SimpleStatementLine):
        return False
    return any(
        isinstance(small, cst.Assign)
        and isinstance(small.value, (cst.Call, cst.BinaryOperation, cst.Comparison))
        and any(name in target_names(one.target) for one in small.targets)
        for small in statement.body
    )


def _none_test(node: cst.CSTNode, name: str) -> bool | None:
    """True for ``name is None``, False for ``name is not None``, None for anything else."""
    if not _compares_none(node):
        return None
    assert isinstance(node, cst.Comparison)
    if not isinstance(node.left, cst.Name) or node.left.value != name:
        return None
    return isinstance(node.comparisons[0].operator, cst.Is)


def _requires(test: cst.BaseExpression, name: str) -> bool:
    """Test whether a condition holds only for a name that isn't None."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _requires(test.left, name) or _requires(test.right, name)
    return _none_test(test, name) is False


@lru_cache(maxsize=16)
def counters(body: cst.CSTNode) -> frozenset[str]:
    """The names of a function that only hold ints: ``n = 0``, and then ``n += 1``."""
    ints: set[str] = set()
    others: set[str] = set()
    for node in walk(body):
        if isinstance(node, cst.Assign):
            for one in node.targets:
                for name, value in _bindings(one.target, node.value):
                    (ints if isinstance(value, cst.Integer) else others).add(name)
        elif isinstance(node, cst.AugAssign) and isinstance(node.target, cst.Name):
            plain = isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign))
            if not (plain and isinstance(node.value, cst.Integer)):
                others.add(node.target.value)
        elif isinstance(node, (cst.AnnAssign, cst.For, cst.CompFor, cst.NamedExpr)):
            others.update(target_names(node.target))
        elif isinstance(node, cst.AsName):
            others.update(target_names(node.name))
        elif isinstance(node, (cst.Param, cst.FunctionDef, cst.ClassDef)):
            others.add(node.name.value)
        elif isinstance(node, (cst.Global, cst.Nonlocal)):
            others.update(item.name.value for item in node.names)
    return frozenset(ints - others)


def _bindings(
    target: cst.CSTNode, value: cst.BaseExpression
) -> Iterator[tuple[str, cst.BaseExpression | None]]:
    """The names that an assignment binds, with their values where these are written out."""
    if isinstance(target, cst.Name):
        yield target.value, value
    elif isinstance(target, (cst.Tuple, cst.List)):
        parts: list[cst.BaseExpression | None] = [None] * len(target.elements)
        if isinstance(value, cst.Tuple) and len(value.elements) == len(parts):
            parts = [element.value for element in value.elements]
        for element, part in zip(target.elements, parts, strict=True):
            if part is None:
                yield from ((name, None) for name in target_names(element.value))
            else:
                yield from _bindings(element.value, part)


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
