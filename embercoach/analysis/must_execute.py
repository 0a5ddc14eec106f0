"""The expressions of a function that must execute, given what is known of its conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import libcst as cst

from embercoach.analysis.trees import SCOPES, children, statements_below

#: The truth of a condition, None where it is unknown.
Judge: TypeAlias = Callable[[cst.BaseExpression], "bool | None"]


def must_execute(body: cst.CSTNode, judge: Judge) -> tuple[cst.CSTNode, ...]:
    """The expressions of a function's body that run whenever it does, functions inside left out.

    Loops are taken to run at least once, and a branch that only raises not to be taken. Nothing
    after an exit that may be taken is certain.
    """
    walk = _Walk(judge)
    if isinstance(body, cst.BaseExpression):
        walk.expression(body)
    else:
        walk.block(body)
    return tuple(walk.found)


class _Walk:
    def __init__(self, judge: Judge) -> None:
        self.judge = judge
        self.found: list[cst.CSTNode] = []

    def block(self, node: cst.CSTNode) -> bool:
        """Follow statements; whether what comes after them must execute."""
        return all(self.statement(child) for child in getattr(node, "body", ()))

    def statement(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.SimpleStatementLine):
            return self.block(node)
        if isinstance(node, cst.If):
            return self._if(node)
        if isinstance(node, (cst.For, cst.While)):
            self.expression(node.iter if isinstance(node, cst.For) else node.test)
            self.block(node.body)
            return not _leaves(node.body, (cst.Return,))
        if isinstance(node, (cst.Try, cst.TryStar)):
            certain = self.block(node.body)
            if node.finalbody is not None:
                certain = self.block(node.finalbody.body) and certain
            return certain
        if isinstance(node, cst.With):
            for item in node.items:
                self.expression(item.item)
            return self.block(node.body)
        if isinstance(node, cst.Match):
            self.expression(node.subject)
            return not _leaves(node, (cst.Return, cst.Break, cst.Continue))
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            return True
        self.expression(node)
        return not isinstance(node, (cst.Return, cst.Raise, cst.Break, cst.Continue))

    def _if(self, node: cst.If) -> bool:
        self.expression(node.test)
        outcome = self.judge(node.test)
        otherwise = node.orelse
        if outcome is None and _only_raises(node.body):
            outcome = False
        elif outcome is None and isinstance(otherwise, cst.Else) and _only_raises(otherwise.body):
            outcome = True
        if outcome is None:
            return not _leaves(node, (cst.Return, cst.Break, cst.Continue))
        if outcome:
            return self.block(node.body)
        if isinstance(otherwise, cst.If):
            return self._if(otherwise)
        return otherwise is None or self.block(otherwise.body)

    def expression(self, node: cst.CSTNode) -> None:
        """Note an expression and the parts of it that must be computed."""
        self.found.append(node)
        for child in self._computed(node):
            if not isinstance(child, SCOPES):
                self.expression(child)

    def _computed(self, node: cst.CSTNode) -> Sequence[cst.CSTNode]:
        if isinstance(node, cst.IfExp):
            outcome = self.judge(node.test)
            branches = {True: (node.body,), False: (node.orelse,)}
            return (node.test, *(() if outcome is None else branches[outcome]))
        if isinstance(node, cst.BooleanOperation):
            first = self.judge(node.left)
            both = first is isinstance(node.operator, cst.And) and first is not None
            return (node.left, node.right) if both else (node.left,)
        if isinstance(node, cst.BaseComp) and _is_filtered(node.for_in):
            return (node.for_in.iter,)
        return children(node)


def _is_filtered(loop: cst.CompFor | None) -> bool:
    while loop is not None:
        if loop.ifs:
            return True
        loop = loop.inner_for_in
    return False


def _only_raises(body: cst.BaseSuite) -> bool:
    """Whether a branch ends the function by an error."""
    last = body.body[-1] if body.body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return isinstance(last, cst.Raise)


def _leaves(root: cst.CSTNode, kinds: tuple[type[cst.CSTNode], ...]) -> bool:
    """Whether a statement of some kinds stands below a node."""
    return any(isinstance(node, kinds) for node in statements_below(root))
