"""Code that expects a name of MLX to be missing: it asks first, or handles the error."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import libcst as cst

from embercoach.analysis.syntax.trees import children, names_below

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.project.module import Module

#: Errors of a missing name, and those that a call of it with other arguments raises.
MISSING = frozenset(("AttributeError", "ImportError", "ModuleNotFoundError", "NameError"))
REFUSED = MISSING | {"TypeError", "ValueError"}
_BROAD = frozenset(("Exception", "BaseException"))
#: What the names in a test contain that asks for a version or a feature.
_ASKING = ("attr", "version", "_has_", "support", "compat", "type_checking")
_WITHIN = 60  # characters before a name's text in which ``hasattr(`` is looked for

_parents: WeakKeyDictionary[Module, dict[cst.CSTNode, cst.CSTNode]] = WeakKeyDictionary()


def is_expected(
    module: Module, node: cst.CSTNode, errors: frozenset[str], *, broadly: bool
) -> bool:
    """Test whether a ``try`` or an ``if`` around a statement deals with what it raises.

    Args:
        module: the file.
        node: the statement.
        errors: the errors that a handler must name.
        broadly: a handler of all exceptions counts too; within a handler it always does.
    """
    return any(
        _handles(outer, inner, errors, broadly=broadly) or _asks(outer)
        for outer, inner in _outwards(module, node)
    )


def is_patched(module: Module, owner: str, name: str) -> bool:
    """Test whether a file asks for a name, or sets it: ``hasattr(mx, "norm")``, ``mx.norm = f``."""
    sources = [module.source, *(imported.source for imported in module.imported)]
    return _asks_by_text(module.source, name) or any(
        f"{owner}.{name} =" in source
        or f"{owner}.{name}=" in source
        or _asks_by_text(source, name, "setattr(")
        or f'.{name}"' in source
        or f".{name}'" in source
        for source in sources
    )


def _asks_by_text(source: str, name: str, function: str = "attr(") -> bool:
    for quote in "\"'":
        text = f"{quote}{name}{quote}"
        at = source.find(text)
        while at >= 0:
            if function in source[max(0, at - _WITHIN) : at]:
                return True
            at = source.find(text, at + 1)
    return False


def _outwards(module: Module, node: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The nodes around a statement, each with the one that it directly contains."""
    if module not in _parents:
        _parents[module] = dict(_links(module.tree))
    parents = _parents[module]
    yield node, node  # the test of an ``if``, the items of a ``with``
    while (outer := parents.get(node)) is not None:
        yield outer, node
        node = outer


def _links(tree: cst.CSTNode) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    pending = [tree]
    while pending:
        outer = pending.pop()
        for child in children(outer):
            if not isinstance(child, cst.BaseExpression):
                yield child, outer
                pending.append(child)


def _handles(
    outer: cst.CSTNode, inner: cst.CSTNode, errors: frozenset[str], *, broadly: bool
) -> bool:
    if isinstance(outer, cst.With):
        names = {name for item in outer.items for name in names_below(item)}
        return "suppress" in names and bool(names & (errors | _BROAD if broadly else errors))
    if not isinstance(outer, (cst.Try, cst.TryStar)) or inner is outer.finalbody or outer is inner:
        return False
    broadly = broadly or inner in outer.handlers  # it is the fallback
    for handler in outer.handlers:
        names = {"Exception"} if handler.type is None else set(names_below(handler.type))
        if names & errors or (broadly and names & _BROAD):
            return True
    return False


def _asks(outer: cst.CSTNode) -> bool:
    if not isinstance(outer, cst.If):
        return False
    names = (f"_{name.lower()}" for name in names_below(outer.test))
    return any(mark in name for name in names for mark in _ASKING)
