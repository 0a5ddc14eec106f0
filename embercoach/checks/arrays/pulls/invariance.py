"""Invariants of loops: arrays from before a loop, and what a loop computes from them alone."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import children, names_below
from embercoach.analysis.values.joins import as_array
from embercoach.analysis.values.lattice import BoundMember, Symbol
from embercoach.checks.arrays.pulls.value_uses import region_of

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module

#: Bindings that a name is followed through; operations in an expression that are looked at.
_MOST_NAMES, _MOST_OPERATIONS = 4, 32
#: Reductions of a part of a list, which may be read before the loop.
_OF_LISTS = frozenset(("all", "any", "max", "min", "sum"))


@lru_cache(maxsize=64)
def is_changed(name: str, body: cst.CSTNode) -> bool:
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
    loops = list(layout_of(module, place.function).loops(place.statement))
    loop = loops[0] if loops else None
    return _Invariance(loop, place, module).holds(node, place.statement)


class _Invariance:
    """The search for what an expression of a loop is computed from."""

    def __init__(self, loop: cst.For | cst.While | None, place: FactPlace, module: Module) -> None:
        self._loop = loop
        self._place = place
        self._layout = layout_of(module, place.function)
        self._reaching = scope_of(module, place.function).reaching
        self._calls = evaluation_of(module).calls
        self._names, self._operations = _MOST_NAMES, _MOST_OPERATIONS
        #: The expression is computed of arrays: it is not one of them, or a part of one.
        self._computes = False

    def holds(self, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
        self._operations -= 1
        if self._operations < 0:
            return False
        if isinstance(node, cst.Name):
            return self._name(node.value, statement)
        if isinstance(node, cst.Subscript):
            if self._computes and not self._has_fixed_bounds(node, statement):
                return False
            return self.holds(node.value, statement)
        if isinstance(node, cst.Call):
            self._computes = True
            return self._call(node, statement)
        self._computes = self._computes or isinstance(node, cst.BinaryOperation)
        if isinstance(node, (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)):
            return all(
                isinstance(c, cst.BaseNumber) or self.holds(c, statement) for c in _operands(node)
            )
        return False

    def _call(self, node: cst.Call, statement: cst.CSTNode) -> bool:
        """Test whether MLX computes a call's result from such arrays."""
        fact = self._calls.get(node)
        if fact is None:
            return False
        operands = [a.node for a in fact.arguments if as_array(a.value) is not None]
        callee = fact.callee
        if isinstance(callee, BoundMember) and fact.array is not None:
            assert isinstance(node.func, cst.Attribute)
            operands.append(node.func.value)
        elif not isinstance(callee, Symbol) or not _is_operation(callee.name):
            return False
        if callee.name.rpartition(".")[2] in _OF_LISTS:
            operands = [o.value if _is_part(o) else o for o in operands]
        numbers = [a.node for a in fact.arguments if as_array(a.value) is None]
        return (
            bool(operands)
            and all(self.holds(o, statement) for o in operands)
            and all(self._is_fixed(n, statement) for n in numbers)
        )

    def _has_fixed_bounds(self, node: cst.Subscript, statement: cst.CSTNode) -> bool:
        """Test whether slices are the same in each iteration: one operation takes all of them.

        Rows, ``x[i]``, are those of one operation on the whole array.
        """
        slices = (e.slice for e in node.slice if isinstance(e.slice, cst.Slice))
        bounds = (b for s in slices for b in (s.lower, s.upper, s.step) if b is not None)
        return all(self._is_fixed(bound, statement) for bound in bounds)

    def _is_fixed(self, node: cst.CSTNode, statement: cst.CSTNode) -> bool:
        """Test whether no name in an expression of numbers is bound in the loop."""
        if self._loop is None:
            return self._place.loop_names.isdisjoint(names_below(node))
        for name in names_below(node):
            found = self._reaching.before(statement, name)
            if name in self._place.loop_names or any(
                b.statement is self._loop or self._layout.is_inside(b.statement, self._loop)
                for b in found or ()
            ):
                return False
        return True

    def _name(self, name: str, statement: cst.CSTNode) -> bool:
        place = self._place
        if name in place.array_names:
            return True
        if self._loop is not None and is_changed(name, self._loop.body):
            return False
        if self._loop is None:
            return name not in place.loop_names  # in a comprehension alone
        found = self._reaching.before(statement, name)
        if found is None:
            outside = name not in self._reaching.bindings
            return outside and name not in place.loop_names
        for binding in found:
            if binding.statement is self._loop or binding.statement is statement:
                return False
            if not self._layout.is_inside(binding.statement, self._loop):
                continue
            if binding.kind != "assigned" or binding.value is None or not self._names:
                return False
            self._names -= 1
            if not self.holds(binding.value, binding.statement):
                return False
        return True


def _is_part(node: cst.CSTNode) -> TypeGuard[cst.Subscript]:
    """Test whether a node is ``x[a:b]``, which a list has too."""
    is_single = isinstance(node, cst.Subscript) and len(node.slice) == 1
    return is_single and isinstance(node.slice[0].slice, cst.Slice)  # type: ignore[attr-defined]


def _is_operation(name: str) -> bool:
    return name.startswith("mlx.core.") and not name.startswith("mlx.core.random.")


def _operands(node: cst.CSTNode) -> list[cst.CSTNode]:
    if isinstance(node, cst.Comparison):
        return [node.left, *(target.comparator for target in node.comparisons)]
    return [c for c in children(node) if isinstance(c, cst.BaseExpression)]
