"""COMPILE-004: lists that grow from one call of a compiled function to the next."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import dotted, targets_of, walk
from embercoach.analysis.values.joins import any_item, as_number, options
from embercoach.analysis.values.lattice import UNKNOWN, Array, Sequence, Value
from embercoach.checks.arrays.compiled.varying import walks_few

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Argument, FactPlace
    from embercoach.analysis.project.module import Module

_GROWS = frozenset(("append", "extend", "insert"))


def growing_list(argument: Argument, place: FactPlace, module: Module) -> cst.BaseExpression | None:
    """Return the list of an argument that grows: ``tokens``, or ``tokens[-8:]`` of numbers."""
    node = argument.node
    if isinstance(node, cst.Subscript):
        is_slice = any(isinstance(e.slice, cst.Slice) for e in node.slice)
        if not is_slice or not _holds_numbers(argument.value):
            return None  # a window of arrays has a fixed length
        node = node.value
    path = dotted(node)
    if path is None or not _may_be_list(argument.value):
        return None
    if "." in path:
        return node if _is_attribute_grown(path, place.function) else None
    return node if _is_grown(path, place, module) else None


def _may_be_list(value: Value) -> bool:
    return all(
        o is UNKNOWN or (isinstance(o, Sequence) and o.kind == "list") for o in options(value)
    )


def _holds_numbers(value: Value) -> bool:
    item = any_item(value) if isinstance(value, Sequence) else UNKNOWN
    return not isinstance(item, Array) and as_number(item) is not None


def _is_grown(name: str, place: FactPlace, module: Module) -> bool:
    """Return whether a loop around the call, or one of a function around, adds to a list."""
    owner, layout = place.function, layout_of(module, place.function)
    if owner is None or scope_of(module, owner).binds(name):
        loops = (loop for loop in layout.loops(place.statement) if not walks_few(loop))
        return any(_adds(loop, name) for loop in loops)
    while owner is not None and not scope_of(module, owner).binds(name):
        owner = owner.outer
    if owner is None or isinstance(owner.node, cst.Lambda):
        return False  # a list of the module: who adds to it is not known
    return any(_adds(loop, name) for loop in _loops(owner.node))


@lru_cache(maxsize=4)
def _loops(function: cst.FunctionDef) -> tuple[cst.For | cst.While, ...]:
    """The loops of a function, without those of functions in it."""
    closed = (cst.BaseExpression, cst.FunctionDef, cst.ClassDef)
    nodes = walk(function.body, closed)
    return tuple(node for node in nodes if isinstance(node, (cst.For, cst.While)))


@lru_cache(maxsize=32)
def _adds(body: cst.CSTNode, path: str) -> bool:
    """Return whether a loop or a method adds to a list, and does not begin a new one."""
    nodes = [*walk(body)]
    if any(dotted(t) == path for n in nodes if isinstance(n, cst.Assign) for t in targets_of(n)):
        return False
    return any(added == path for added in _added(nodes)) and not any(
        _method(n, path) in ("pop", "clear", "popleft") for n in nodes
    )


def _added(nodes: list[cst.CSTNode]) -> Iterator[str | None]:
    """Yield the paths of what calls and ``+=`` of a list add to."""
    for node in nodes:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            if node.func.attr.value in _GROWS:
                yield dotted(node.func.value)
        elif isinstance(node, cst.AugAssign) and isinstance(node.value, cst.List):
            yield dotted(node.target)


def _method(node: cst.CSTNode, path: str) -> str:
    """The name of the method of a list that a node calls."""
    func = node.func if isinstance(node, cst.Call) else None
    is_own = isinstance(func, cst.Attribute) and dotted(func.value) == path
    return cst.ensure_type(func, cst.Attribute).attr.value if is_own else ""


def _is_attribute_grown(path: str, function: FunctionInfo | None) -> bool:
    """Return whether a method passes ``self.tokens``, and adds to it at each call."""
    cls = None if function is None else function.cls
    if function is None or cls is None or isinstance(function.node, cst.Lambda):
        return False
    setters = cls.setters.get(path.rpartition(".")[2], ())
    if any(s.name != "__init__" for s in setters if s is not function):
        return False
    nodes = [*walk(function.node.body)]
    is_reset = any(
        dotted(t) == path for n in nodes if isinstance(n, cst.Assign) for t in targets_of(n)
    )
    return not is_reset and any(added == path for added in _added(nodes))
