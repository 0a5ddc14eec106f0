"""Uses of a host value in a loop's body or in a function: followed through names and expressions.

Asked for findings alone: the nodes of a body are walked once, and kept for the next finding in it.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum, auto
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import SCOPES, children, target_names, walk
from embercoach.analysis.values.lattice import Symbol

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.reaching import Binding, Reaching
    from embercoach.analysis.project.module import Module


class Use(Enum):
    """One use of a host value."""

    #: The host needs it here: an argument, a comparison, a yield.
    NOW = auto()
    #: It decides a branch.
    DECIDES = auto()
    #: It chooses one of two values: `mx.where` can do that on the device.
    CHOOSES = auto()
    #: It is put into a list.
    COLLECTED = auto()
    #: It becomes an attribute, or an entry of a dictionary.
    STORED = auto()
    #: It is added to a number of earlier iterations.
    SUMMED = auto()
    #: ``<`` or ``>`` with it decides that the loop ends.
    CONVERGED = auto()
    #: The function returns it.
    RETURNED = auto()
    #: Only the size, shape or dtype of its copy is read.
    METADATA = auto()
    #: An operation of arrays takes it.
    DEVICE = auto()
    #: It decides only if an exception is raised.
    CHECKED = auto()


#: Expressions that are followed for one value.
_MOST_USES = 64
_COLLECTING = frozenset(("append", "extend", "insert", "add", "appendleft"))
#: Builtins whose result has the value in it.
_PASSING = frozenset(
    f"builtins.{name}"
    for name in (
        *("abs", "bool", "dict", "enumerate", "float", "int", "iter", "len", "list", "max", "min"),
        *("next", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip"),
    )
)
_METADATA = frozenset(("shape", "size", "ndim", "dtype", "nbytes", "itemsize"))
_ORDERING = (cst.LessThan, cst.GreaterThan, cst.LessThanEqual, cst.GreaterThanEqual)
#: Nodes that use the value below them.
_USING: dict[type[cst.CSTNode], Use] = {
    cst.AugAssign: Use.SUMMED,
    cst.Return: Use.RETURNED,
    **dict.fromkeys((cst.Yield, cst.Await, cst.WithItem, cst.Match), Use.NOW),
}
_STRINGS = (cst.SimpleString, cst.FormattedString)
_TESTED = (cst.If, cst.While, cst.IfExp, cst.Assert)


class _Carrier(NamedTuple):
    """An expression that has the value in it; ``is_ordered`` if it is the result of ``<``."""

    node: cst.CSTNode
    is_ordered: bool = False


class Region:
    """The nodes of a body: around each its parent, and each read of a name with its statement."""

    def __init__(self, body: cst.CSTNode) -> None:
        """Walk the body."""
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.reads: dict[str, list[tuple[cst.Name, cst.CSTNode]]] = defaultdict(list)
        #: Calls by their function's name, for a second read of the same array.
        self.calls: dict[str, list[tuple[cst.Call, cst.CSTNode]]] = defaultdict(list)
        pending: list[tuple[cst.CSTNode, cst.CSTNode]] = [(body, body)]
        while pending:
            node, statement = pending.pop()
            if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                statement = node
            if type(node) is cst.Name:
                self.reads[node.value].append((node, statement))
            elif type(node) is cst.Call:
                name = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
                self.calls[name].append((node, statement))
            for child in children(node):
                self.parents[child] = node
                pending.append((child, statement))


@lru_cache(maxsize=8)
def region_of(body: cst.CSTNode) -> Region:
    """The nodes of a body; of few bodies, as it keeps them in memory."""
    return Region(body)


def uses_of(
    node: cst.CSTNode, body: cst.CSTNode, module: Module, function: FunctionInfo | None
) -> frozenset[Use]:
    """The uses of an expression's value in a body of that function, or of the module."""
    return _Uses(region_of(body), module, scope_of(module, function).reaching).of(node)


def lists_of(
    node: cst.CSTNode, body: cst.CSTNode, module: Module, function: FunctionInfo | None
) -> frozenset[str]:
    """The names of the lists that an expression's value is put into."""
    uses = _Uses(region_of(body), module, scope_of(module, function).reaching)
    uses.of(node)
    return frozenset(uses.lists)


class _Uses:
    """The search for one value."""

    def __init__(self, region: Region, module: Module, reaching: Reaching | None) -> None:
        self._region = region
        self._evaluation = evaluation_of(module)
        self._reaching = reaching
        self._found: set[Use] = set()
        self.lists: set[str] = set()
        self._pending: list[_Carrier] = []
        self._seen: set[cst.CSTNode] = set()

    def of(self, node: cst.CSTNode) -> frozenset[Use]:
        self._pending.append(_Carrier(node, isinstance(node, cst.Comparison) and _orders(node)))
        while self._pending and len(self._seen) < _MOST_USES:
            carrier = self._pending.pop()
            if carrier.node not in self._seen:
                self._seen.add(carrier.node)
                self._climb(carrier)
        return frozenset(self._found)

    def _climb(self, carrier: _Carrier) -> None:
        """Follow a value to the expression around it, or to the statement that uses it."""
        node, is_ordered = carrier
        parent = self._region.parents.get(node)
        if parent is None or isinstance(parent, (cst.Raise, cst.Expr, *SCOPES)):
            return
        kind = type(parent)
        if kind is cst.Arg:
            self._argument(parent, is_ordered)
        elif kind is cst.Attribute:
            self._attribute(parent)  # type: ignore[arg-type]
        elif isinstance(parent, _TESTED) and parent.test is node:
            self._tested(parent, is_ordered)
        elif kind is cst.Comparison or kind is cst.ComparisonTarget:
            self._compared(parent, is_ordered)
        elif isinstance(parent, (cst.Assign, cst.AnnAssign, cst.NamedExpr)):
            self._assigned(node, parent)
        elif isinstance(parent, (cst.For, cst.CompFor)):
            self._iterated(node, parent)
        elif kind is cst.BinaryOperation and self._is_array(parent):
            self._found.add(Use.DEVICE)
        elif kind in _USING:
            self._found.add(_USING[kind])
            if isinstance(parent, cst.AugAssign):
                self._bind(parent.target, parent)
        elif not isinstance(parent, cst.BaseSuite):
            self._pending.append(_Carrier(parent, is_ordered))

    def _is_array(self, operation: cst.CSTNode) -> bool:
        evaluation = self._evaluation
        fact = evaluation.operations.get(operation) or evaluation.comparisons.get(operation)
        return fact is not None and (fact.left.array is not None or fact.right.array is not None)

    def _argument(self, argument: cst.CSTNode, is_ordered: bool) -> None:
        call = self._region.parents.get(argument)
        if not isinstance(call, cst.Call):
            return
        fact = self._evaluation.calls.get(call)
        callee = None if fact is None else fact.callee
        symbol = callee.name if isinstance(callee, Symbol) else ""
        if symbol in _PASSING or symbol.startswith("numpy."):
            self._pending.append(_Carrier(call, is_ordered))
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value in _COLLECTING:
            self._found.add(Use.COLLECTED)
            if isinstance(call.func.value, cst.Name):
                self.lists.add(call.func.value.value)
        else:
            self._found.add(Use.NOW)

    def _attribute(self, node: cst.Attribute) -> None:
        if node.attr.value in _METADATA:
            self._found.add(Use.METADATA)
            return
        call = self._region.parents.get(node)
        self._pending.append(_Carrier(call if isinstance(call, cst.Call) else node))

    def _compared(self, node: cst.CSTNode, is_ordered: bool) -> None:
        comparison = node if type(node) is cst.Comparison else self._region.parents.get(node)
        if not isinstance(comparison, cst.Comparison):
            return
        if self._is_array(comparison):
            self._found.add(Use.DEVICE)
        else:
            self._pending.append(_Carrier(comparison, is_ordered or _orders(comparison)))

    def _tested(self, node: cst.CSTNode, is_ordered: bool) -> None:
        if isinstance(node, cst.Assert) or (isinstance(node, cst.If) and _only(node, cst.Raise)):
            self._found.add(Use.CHECKED)
            return
        if isinstance(node, cst.IfExp):
            self._found.add(Use.CHOOSES)
            return
        leaves = isinstance(node, cst.If) and _only(node, cst.Break, cst.Return)
        ends = leaves or isinstance(node, cst.While)
        self._found.add(Use.CONVERGED if is_ordered and ends else Use.DECIDES)

    def _iterated(self, node: cst.CSTNode, loop: cst.For | cst.CompFor) -> None:
        if loop.iter is node:
            self._bind(loop.target, loop)
            if isinstance(loop, cst.CompFor):
                self._pending.append(_Carrier(loop))

    def _assigned(self, value: cst.CSTNode, node: cst.CSTNode) -> None:
        if isinstance(node, cst.Assign):
            targets = [target.target for target in node.targets]
        else:
            targets = [node.target]  # type: ignore[attr-defined]
        for target in targets:
            if isinstance(target, (cst.Attribute, cst.Subscript)):
                self._found.add(Use.STORED if self._is_entry(target, node) else Use.COLLECTED)
                continue
            names = set(target_names(target))
            if isinstance(value, cst.BinaryOperation) and any(
                isinstance(n, cst.Name) and n.value in names for n in walk(value)
            ):
                self._found.add(Use.SUMMED)
            self._bind(target, node)
        if isinstance(node, cst.NamedExpr):
            self._pending.append(_Carrier(node))

    def _is_entry(self, target: cst.Attribute | cst.Subscript, statement: cst.CSTNode) -> bool:
        """Test whether a target is an attribute, or an entry of a dictionary.

        Of one as written, or of what ``mx.load`` has returned.
        """
        if isinstance(target, cst.Attribute):
            return True
        index = target.slice[0].slice
        if isinstance(index, cst.Index) and isinstance(index.value, _STRINGS):
            return True
        name = target.value.value if isinstance(target.value, cst.Name) else None
        if self._reaching is None or name is None:
            return False
        bindings = self._reaching.before(statement, name) or ()
        return bool(bindings) and all(self._is_dictionary(b) for b in bindings)

    def _is_dictionary(self, binding: Binding) -> bool:
        if isinstance(binding.value, cst.Call):
            made = self._evaluation.calls.get(binding.value)
            return made is not None and made.symbol == "mlx.core.load"
        return isinstance(binding.value, cst.Dict)

    def _bind(self, target: cst.CSTNode, binder: cst.CSTNode) -> None:
        """Follow the names of a target to where they are read."""
        if isinstance(target, (cst.Attribute, cst.Subscript)):
            return
        for name in target_names(target):
            for read, statement in self._region.reads.get(name, [])[:_MOST_USES]:
                if self._may_hold(name, statement, binder) and not self._is_target(read):
                    self._pending.append(_Carrier(read))

    def _may_hold(self, name: str, statement: cst.CSTNode, binder: cst.CSTNode) -> bool:
        if isinstance(binder, (cst.CompFor, cst.NamedExpr)) or self._reaching is None:
            return True
        bindings = self._reaching.before(statement, name)
        return not bindings or any(binding.statement is binder for binding in bindings)

    def _is_target(self, read: cst.Name) -> bool:
        parent = self._region.parents.get(read)
        return (
            isinstance(parent, (cst.AssignTarget, cst.Param))
            or (isinstance(parent, (cst.For, cst.CompFor, cst.AugAssign)) and parent.target is read)
            or (isinstance(parent, cst.Attribute) and parent.attr is read)
            or (isinstance(parent, cst.Arg) and parent.keyword is read)
        )


def _orders(node: cst.Comparison) -> bool:
    return any(isinstance(target.operator, _ORDERING) for target in node.comparisons)


def _only(node: cst.If, *kinds: type[cst.CSTNode]) -> bool:
    """Test whether the body of an ``if`` ends with such a statement, and has no other suite."""
    body = node.body.body
    last = body[-1] if body else None
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return node.orelse is None and isinstance(last, kinds)
