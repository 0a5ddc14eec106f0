"""KERNEL-ARGS-004: what a launch returns is a list, and it is used as an array."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact, FactPlace
from embercoach.analysis.facts.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.syntax.trees import SCOPES, children, statements_below
from embercoach.analysis.values.joins import options
from embercoach.analysis.values.lattice import Kernel, Value
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

#: Parameters that take arrays, and no lists of them.
ARRAYS_ALONE = frozenset({"array", "scalar|array"})
OF_LISTS = frozenset(dir(list))


@check("KERNEL-ARGS-004")
def results_as_arrays(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``kernel(...) * 2``, ``mx.sum(kernel(...))``, ``y = kernel(...)`` and ``y.shape``."""
    lists = _Lists(module, facts)
    if not lists.calls:
        return
    for place, node, what in lists.misuses(facts):
        yield Report.at(
            Fact(node, place),
            "KERNEL-ARGS-004",
            node=node,
            message=f"kernel launch returns a list: {what}",
            help="Take the output out of the list: `kernel(...)[0]`, or `(y,) = kernel(...)`",
        )


class _Lists:
    """The calls of a file that certainly return what a launch returns."""

    def __init__(self, module: Module, facts: list[Fact]) -> None:
        self.module = module
        calls = [fact for fact in facts if isinstance(fact, CallFact)]
        self.calls: dict[cst.CSTNode, FactPlace] = {
            fact.node: fact.place for fact in calls if _launches(fact.callee)
        }
        self.functions: set[cst.CSTNode] = set()
        launching = {p.function for p in self.calls.values() if p.function is not None}
        self.returning = {info for info in launching if self._returns_lists(info)}
        self.functions.update(info.node for info in self.returning)

    def _returns_lists(self, info: FunctionInfo) -> bool:
        """Return whether all that a function of the file returns is a launch's result."""
        node = info.node
        if isinstance(node, cst.Lambda):
            return self.holds(node.body, info)
        if node.decorators or info.is_async:
            return False
        found: list[cst.Return] = []
        for current in statements_below(node.body):
            if isinstance(current, cst.Expr) and isinstance(current.value, cst.Yield):
                return False
            if isinstance(current, cst.Return):
                found.append(current)
        return bool(found) and all(r.value is not None and self.holds(r.value, info) for r in found)

    def holds(self, node: cst.CSTNode, function: FunctionInfo | None) -> bool:
        """Return whether an expression is such a list, itself or through its name."""
        scope = scope_of(self.module, function)
        node = resolve_name(Expression(node, scope)).node
        if not isinstance(node, cst.Call):
            return False
        return (
            node in self.calls or resolve_name(Expression(node.func, scope)).node in self.functions
        )

    def misuses(self, facts: list[Fact]) -> Iterator[tuple[FactPlace, cst.CSTNode, str]]:
        """Uses of such a list as an array: place, expression, and the error."""
        place = next(iter(self.calls.values()))
        wanted: set[FunctionInfo | None] = {place.function for place in self.calls.values()}
        if self.returning:
            wanted.add(None)
            wanted.update(f for f in self.module.functions if f.calls.keys() & self.returning)
        for fact in facts:
            if fact.place.function not in wanted:
                continue
            if isinstance(fact, BinaryFact):
                yield from self._in_arithmetic(fact)
            elif isinstance(fact, CallFact) and fact.symbol is not None:
                yield from self._as_argument(fact)
        for function in wanted:
            root = self.module.tree if function is None else function.node.body
            yield from self._members(root, place._replace(statement=root, function=function))

    def _in_arithmetic(self, fact: BinaryFact) -> Iterator[tuple[FactPlace, cst.CSTNode, str]]:
        for one, other in ((fact.left, fact.right), (fact.right, fact.left)):
            if fact.in_place and one is fact.left:
                continue
            if self.holds(one.node, fact.place.function) and other.array is not None:
                yield fact.place, one.node, "arithmetic with an array raises ValueError"
                return

    def _as_argument(self, fact: CallFact) -> Iterator[tuple[FactPlace, cst.CSTNode, str]]:
        for param, argument in fact.matched:
            if param.accepts in ARRAYS_ALONE and self.holds(argument.node, fact.place.function):
                name = (fact.symbol or "").replace("mlx.core.", "mx.")
                yield (
                    fact.place,
                    argument.node,
                    f"`{name}` takes an array",
                )

    def _members(
        self, root: cst.CSTNode, place: FactPlace
    ) -> Iterator[tuple[FactPlace, cst.CSTNode, str]]:
        """Attributes, signs and subscripts that arrays have, and lists have not."""
        pending = [(root, place)]
        while pending:
            node, place = pending.pop()
            if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                place = place._replace(statement=node)
            what = _use_of_array(node)
            if what is not None and self.holds(what[0], place.function):
                yield place, node, what[1]
            if not isinstance(node, SCOPES):
                pending.extend((child, place) for child in reversed(children(node)))


def _launches(callee: Value) -> bool:
    """Return whether what is called certainly is a kernel."""
    return all(isinstance(option, Kernel) for option in options(callee))


def _use_of_array(node: cst.CSTNode) -> tuple[cst.CSTNode, str] | None:
    """Return the operand and the error of an expression that a list does not support."""
    if isinstance(node, cst.Attribute) and node.attr.value not in OF_LISTS:
        return node.value, f"`.{node.attr.value}` raises AttributeError"
    if isinstance(node, cst.BinaryOperation):
        for side, other in ((node.left, node.right), (node.right, node.left)):
            repeated = isinstance(node.operator, cst.Multiply) and isinstance(other, cst.Integer)
            if isinstance(other, (cst.Integer, cst.Float)) and not repeated:
                return side, "arithmetic with a number raises TypeError"
    if isinstance(node, cst.UnaryOperation) and not isinstance(node.operator, cst.Not):
        return node.expression, "a unary operator raises TypeError"
    if isinstance(node, cst.Subscript):
        first = node.slice[0].slice
        wide = len(node.slice) > 1
        if wide or (isinstance(first, cst.Index) and isinstance(first.value, cst.Ellipsis)):
            return node.value, "indexing several axes raises TypeError"
    return None
