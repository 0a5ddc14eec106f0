"""Dotted names in the syntax trees of Python, and walks of these, which are slow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import TypeAlias

import libcst as cst

Kinds: TypeAlias = "tuple[type, ...]"
#: Nodes with separate names and a separate order: they do not run where they are defined.
SCOPES: Kinds = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
#: Fields that hold punctuation, operators and space; so do all whose names begin with ``_SPACE``.
_SIGNS = frozenset(
    (
        *("lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "dot", "relative", "star"),
        *("comma", "trailing_comma", "semicolon", "equal", "colon", "first_colon", "second_colon"),
        *("operator", "separator", "asynchronous", "posonly_ind", "header", "footer"),
        *("leading_lines", "lines_after_decorators", "leading_whitespace", "trailing_whitespace"),
    )
)
_SPACE = "whitespace"
#: Where the order of a kind's fields is not that of the text. By name: not all exist everywhere.
_IN_THE_TEXT = {
    "Arg": ("keyword", "value"),
    "ClassDef": ("decorators", "name", "type_parameters", "bases", "keywords", "body"),
    "ExceptHandler": ("type", "name", "body"),
    "ExceptStarHandler": ("type", "name", "body"),
    "FunctionDef": ("decorators", "name", "type_parameters", "params", "returns", "body"),
    "IfExp": ("body", "test", "orelse"),
    "MatchCase": ("pattern", "guard", "body"),
    "Parameters": ("posonly_params", "params", "star_arg", "kwonly_params", "star_kwarg"),
    "TypeAlias": ("name", "type_parameters", "value"),
}
#: Longer chains are not paths: each link of a chain asks for the path that ends there.
MOST_PARTS = 32


def dotted(node: cst.CSTNode) -> str | None:
    """``"self.cache.keys"`` for a chain of names, None for anything else."""
    if type(node) is cst.Name:
        return node.value
    if type(node) is cst.Attribute and type(node.value) is cst.Name:  # most of them
        return f"{node.value.value}.{node.attr.value}"
    parts: list[str] = []
    while type(node) is cst.Attribute and len(parts) < MOST_PARTS:
        parts.append(node.attr.value)
        node = node.value
    if type(node) is not cst.Name:
        return None
    parts.append(node.value)
    return ".".join(reversed(parts))


def keyed_path(node: cst.CSTNode) -> str | None:
    """Get a dotted path, also of an item by its name: ``out.["logits"]`` for ``out["logits"]``."""
    if type(node) is not cst.Subscript:
        return dotted(node)
    index = node.slice[0].slice if len(node.slice) == 1 else None
    if type(index) is not cst.Index or type(index.value) is not cst.SimpleString:
        return None
    path = dotted(node.value)
    return None if path is None or "." in index.value.value else f"{path}.[{index.value.value}]"


@cache
def _fields_of(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """Get the fields of a kind that may hold nodes other than signs, in the order of the text."""
    known = _IN_THE_TEXT.get(kind.__name__)
    if known is not None:
        return known
    names = (field.name for field in fields(kind) if field.type is not str)
    return tuple(n for n in names if n not in _SIGNS and not n.startswith(_SPACE))


@cache
def is_one_of(kind: type, kinds: Kinds) -> bool:
    """``isinstance``, which is slow for the abstract classes of libcst, of the type of a node."""
    return issubclass(kind, kinds)


@cache
def _is_node(kind: type) -> bool:
    return issubclass(kind, cst.CSTNode) and kind is not cst.ParamStar


def evaluated(
    literal: cst.SimpleString | cst.ConcatenatedString | cst.Integer | cst.Float,
) -> str | bytes | int | float | None:
    """Return the value of a literal; None where Python refuses what libcst has parsed."""
    try:
        return literal.evaluated_value
    except (SyntaxError, ValueError):  # an escape of no character, thousands of digits
        return None


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes right below a node in the order of the text: no space, punctuation or operators.

    ``node.children`` visits the node to collect them, which takes ten times as long.
    """
    found: list[cst.CSTNode] = []
    for name in _fields_of(type(node)):
        held = getattr(node, name)
        kind: type = type(held)
        if kind is tuple or kind is list:
            found.extend(held)
        elif held is not None and _is_node(kind):
            found.append(held)
    return found


def walk(node: cst.CSTNode, closed: Kinds = ()) -> Iterator[cst.CSTNode]:
    """Yield a node and all below it, in the order of the text.

    Args:
        node: where to begin.
        closed: kinds of nodes that are not entered.
    """
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        if not (closed and is_one_of(type(current), closed)):
            pending.extend(reversed(children(current)))


def statements_below(body: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A body and its statements, without what is inside of expressions, functions and classes."""
    return walk(body, (cst.BaseExpression, *SCOPES))


#: Leaf classes alone: ``isinstance`` is slow for the classes of libcst that it denies.
BODIES = frozenset(
    (
        cst.IndentedBlock,
        cst.SimpleStatementSuite,
        cst.Else,
        cst.Finally,
        cst.If,
        cst.MatchCase,
        cst.ExceptHandler,
        cst.ExceptStarHandler,
        *SCOPES,
    )
)


def names_below(node: cst.CSTNode) -> Iterator[str]:
    """Return all names in a node: of variables, attributes and keywords."""
    return (inner.value for inner in walk(node) if type(inner) is cst.Name)


def parameters_of(parameters: cst.Parameters) -> Iterator[cst.Param]:
    """Yield the parameters of a function, those with stars among them."""
    yield from (*parameters.posonly_params, *parameters.params)
    for star in (parameters.star_arg, *parameters.kwonly_params, parameters.star_kwarg):
        if isinstance(star, cst.Param):
            yield star


def around(body: cst.CSTNode, statement: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Return the nodes around a statement, outermost first; none if it is not in the body."""
    pending: list[tuple[cst.CSTNode, tuple[cst.CSTNode, ...]]] = [(body, ())]
    while pending:
        node, outer = pending.pop()
        if node is statement:
            return outer
        if not isinstance(node, cst.BaseExpression):
            inner = (*outer, node)
            pending.extend((child, inner) for child in children(node))
    return ()


def target_names(target: cst.CSTNode) -> Iterator[str]:
    """Yield the names that an assignment target binds."""
    if isinstance(target, cst.Name):
        yield target.value
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from target_names(element.value)


_ONE_TARGET = frozenset((cst.AnnAssign, cst.AugAssign, cst.For))


def targets_of(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield the targets of an assignment or a loop, those of a tuple one by one."""
    # By their types: ``isinstance`` is slow, and this is asked of every node of a file.
    if type(node) is cst.Assign:
        pending: list[cst.BaseExpression] = [target.target for target in node.targets]
    elif type(node) in _ONE_TARGET:
        pending = [node.target]  # type: ignore[attr-defined]
    else:
        return
    while pending:
        target = pending.pop()
        if type(target) is cst.Tuple or type(target) is cst.List:
            pending += [element.value for element in target.elements]
        yield target


def assigned_attributes(node: cst.FunctionDef, self_name: str) -> set[str]:
    """Return the attributes that a method assigns on its first parameter, or appends to."""
    found: set[str] = set()
    for statement in small_statements(node.body):
        targets = targets_of(statement)
        if type(statement) is cst.Expr and type(statement.value) is cst.Call:
            called = statement.value.func
            if type(called) is cst.Attribute and called.attr.value == "append":
                targets = iter((called.value,))
        for target in targets:
            if type(target) is cst.Attribute and dotted(target.value) == self_name:
                found.add(target.attr.value)
    return found


DEFINITIONS = (cst.FunctionDef, cst.ClassDef)


def small_statements(suite: cst.CSTNode) -> Iterator[cst.BaseSmallStatement]:
    """The simple statements of a suite and of those nested in it, but for those of definitions."""
    pending: list[cst.CSTNode] = [suite]
    while pending:
        node = pending.pop()
        kind = type(node)
        if kind is cst.SimpleStatementLine or kind is cst.SimpleStatementSuite:
            yield from node.body  # type: ignore[attr-defined]
        elif kind is cst.IndentedBlock or kind is cst.Module:
            pending.extend(reversed(node.body))  # type: ignore[attr-defined]
        elif kind not in DEFINITIONS:
            for name in ("finalbody", "orelse", "body"):
                inner = getattr(node, name, None)
                if inner is not None:
                    pending.append(inner)
            pending.extend(getattr(node, "handlers", ()))
            pending.extend(getattr(node, "cases", ()))
