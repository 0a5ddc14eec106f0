"""Invariants of loops: arrays from before a loop, and what a loop computes from them alone."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import children, dotted
from embercoach.analysis.values.joins import as_array
from embercoach.checks.arrays.pulls.value_uses import region_of
from embercoach.checks.hoisted_reads import is_array
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module

#: Nodes of an expression that are looked at.
_MOST_NODES = 64


@lru_cache(maxsize=64)
def _is_changed(name: str, body: cst.CSTNode) -> bool:
    """Test whether a body assigns items of what a name holds."""
    region = region_of(body)
    for read, _ in region.reads.get(name, ()):
        node: cst.CSTNode = read
        while isinstance(region.parents[node], (cst.Subscript, cst.Attribute)):
            node = region.parents[node]
        if node is not read and isinstance(region.parents[node], cst.AssignTarget):
            return True
    return False


def is_invariant(node: cst.CSTNode, place: FactPlace, module: Module) -> bool:
    """Test whether an expression is of arrays from before the loop, or of their elements."""
    pending = [(node, False)]
    for _ in range(_MOST_NODES):
        if not pending:
            return True
        at, is_index = pending.pop()
        if isinstance(at, cst.Name):
            own = place.loop_names if is_index else place.array_names
            if at.value not in own and not _is_from_before(at.value, place, module):
                return False
        elif isinstance(at, cst.Call):
            if not _is_operation(at, module):
                return False
            pending += ((argument.value, is_index) for argument in at.args)
            if isinstance(at.func, cst.Attribute):
                pending.append((at.func.value, is_index))
        elif isinstance(at, cst.Subscript):
            if not is_array(module, place, at.value):
                return False  # each item of a list is another array
            pending.append((at.value, is_index))
            # A slice by the loop's variable is an element, but no operation takes all of them.
            parts = [element.slice for element in at.slice]
            pending += ((p, isinstance(p, cst.Index) or at is node) for p in parts)
        elif isinstance(at, cst.Attribute):
            if dotted(at.value) != (mlx_alias(module) or "mlx.core"):
                return False
        else:
            pending += ((child, is_index) for child in children(at))
    return False


def _is_operation(call: cst.Call, module: Module) -> bool:
    """Test whether MLX computes a call's result of arrays, without random numbers."""
    fact = evaluation_of(module).calls.get(call)
    if fact is None or fact.array is not None:
        return fact is not None
    name = fact.symbol or ""
    is_random = name.startswith("mlx.core.random.")
    takes_arrays = any(as_array(argument.value) is not None for argument in fact.arguments)
    return name.startswith("mlx.core.") and not is_random and takes_arrays


def _is_from_before(name: str, place: FactPlace, module: Module) -> bool:
    """Test whether a name is bound before the innermost loop, which does not change its items."""
    if name in place.loop_names:
        return False
    layout = layout_of(module, place.function)
    loop = next(layout.loops(place.statement), None)
    if loop is None:
        return True  # in a comprehension alone
    if _is_changed(name, loop.body):
        return False
    reaching = scope_of(module, place.function).reaching
    found = reaching.before(place.statement, name)
    if found is None:
        return name not in reaching.bindings
    return all(b.statement is not loop and not layout.is_inside(b.statement, loop) for b in found)
