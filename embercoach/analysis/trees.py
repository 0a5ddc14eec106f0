"""Walks over the syntax trees of Python. They are slow: for the few places that need them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Iterator

Kinds: TypeAlias = "tuple[type, ...]"
#: What has names and an order of its own: it does not run where it stands.
SCOPES: Kinds = (cst.FunctionDef, cst.ClassDef, cst.Lambda)


def walk(node: cst.CSTNode, closed: Kinds = ()) -> Iterator[cst.CSTNode]:
    """A node and all below it, in the order of the text.

    Args:
        node: where to begin.
        closed: kinds of nodes that are not entered.
    """
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        if not isinstance(current, closed):
            pending.extend(reversed(current.children))


def statements_below(body: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A body and its statements, without what is inside of expressions, functions and classes."""
    return walk(body, (cst.BaseExpression, *SCOPES))


def names_below(node: cst.CSTNode) -> Iterator[str]:
    """All names in a node: of variables, attributes and keywords."""
    return (inner.value for inner in walk(node) if isinstance(inner, cst.Name))


def around(body: cst.CSTNode, statement: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """The nodes that a statement stands in, outermost first; none where it is not in the body."""
    pending: list[tuple[cst.CSTNode, tuple[cst.CSTNode, ...]]] = [(body, ())]
    while pending:
        node, outer = pending.pop()
        if node is statement:
            return outer
        if not isinstance(node, cst.BaseExpression):
            inner = (*outer, node)
            pending.extend((child, inner) for child in node.children)
    return ()
