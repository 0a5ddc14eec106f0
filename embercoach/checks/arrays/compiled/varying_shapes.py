"""COMPILE-004: arrays and lists whose shapes or lengths differ from one call to the next."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import CallFact
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import dotted, targets_of, walk
from embercoach.analysis.values.joins import any_item, as_number, options
from embercoach.analysis.values.lattice import UNKNOWN, Array, Sequence, Value
from embercoach.checks.arrays.compiled.varying import Varying, walks_few

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Argument, FactPlace
    from embercoach.analysis.facts.reaching import Binding
    from embercoach.analysis.project.module import Module

_GROWS = frozenset(("append", "extend", "insert"))


def changes_shape(varying: Varying, node: cst.BaseExpression, statement: cst.CSTNode) -> bool:
    """Return whether an array has another shape in each round of the loop."""
    if isinstance(node, cst.Subscript):
        return any(_cut(varying, e.slice, statement) for e in node.slice)
    if isinstance(node, cst.Name):
        return any(_is_extended(varying, b) for b in varying.bindings(node.value, statement))
    if not isinstance(node, cst.Call):
        return False
    fact = varying.calls.get(node)
    if fact is None or fact.symbol is None or not node.args:
        return False
    first = node.args[0].value
    if fact.symbol == "mlx.core.array":
        return isinstance(first, cst.Name) and varying.grows(first.value)
    if fact.symbol in ("mlx.core.zeros", "mlx.core.ones", "mlx.core.arange"):
        sizes = [e.value for e in getattr(first, "elements", ())] or [first]
        return any(varying.number(size, statement) for size in sizes)
    return False


def _cut(varying: Varying, part: cst.BaseSlice, statement: cst.CSTNode) -> bool:
    """``:i`` or ``i:``; ``i : i + 8`` always has 8 elements."""
    if not isinstance(part, cst.Slice) or (part.lower is None) == (part.upper is None):
        return False
    bound = part.lower or part.upper
    return bound is not None and varying.number(bound, statement)


def _is_extended(varying: Varying, binding: Binding) -> bool:
    """``x = mx.concatenate([x, y])`` in the loop."""
    if binding.kind != "assigned" or not varying.is_inside(binding.statement):
        return False
    value = binding.value
    fact = varying.calls.get(value) if value is not None else None
    if not isinstance(fact, CallFact):
        return False
    if fact.symbol != "mlx.core.concatenate":
        return isinstance(value, cst.Call) and changes_shape(varying, value, binding.statement)
    parts = getattr(fact.node.args[0].value, "elements", ()) if fact.node.args else ()
    return len(parts) > 1 and any(
        isinstance(p.value, cst.Name) and p.value.value == binding.name for p in parts
    )


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
