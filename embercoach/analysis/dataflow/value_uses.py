"""Uses of a host value in a loop's body or in a function: followed through names and expressions.

Asked for findings alone: the nodes of a body are walked once, and kept for the next finding in it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.calls import numpy_api
from embercoach.analysis.dataflow.contents import Contents, contents_of
from embercoach.analysis.dataflow.lazy_evaluation import METADATA, evaluation_of
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.syntax.trees import SCOPES, dotted, target_names
from embercoach.analysis.values.lattice import Kernel, LibraryObject, Symbol, holds_arrays
from embercoach.analysis.work import MOST_STEPS

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.dataflow.reaching import Reaching
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.facts import CallFact


class Use(Enum):
    """One use of a host value."""

    #: An operation of arrays takes it: it returns to the device.
    DEVICE = auto()
    #: Only the size, shape or dtype of its copy is read.
    METADATA = auto()
    #: It decides only if an exception is raised.
    CHECKED = auto()
    #: It is printed, or becomes a part of a text.
    SHOWN = auto()
    #: The host needs it: it decides, it is returned, stored, or passed on.
    HOST = auto()


#: Builtins whose result is the value, in another form.
_PASSING = frozenset(f"builtins.{name}" for name in ("bool", "float", "int", "list", "round"))
_SHOWING = frozenset(("builtins.print", "builtins.str", "builtins.repr", "builtins.format"))
#: What a logger is called.
_LOGGERS = ("logging.", "logger.", "log.", "tqdm.write", "self.logger.")
_TESTED = (cst.If, cst.While, cst.IfExp, cst.Assert)
#: Nodes that use the value below them on the host.
_USING = (cst.Return, cst.Yield, cst.Await, cst.WithItem, cst.Match)


def uses_of(
    node: cst.CSTNode, body: cst.CSTNode, module: Module, function: FunctionInfo | None
) -> frozenset[Use]:
    """Return the uses of an expression's value in a body of that function, or of the module."""
    return _Uses(contents_of(body), module, scope_of(module, function).reaching).of(node)


class _Uses:
    """The search for one value."""

    def __init__(self, region: Contents, module: Module, reaching: Reaching | None) -> None:
        self._region = region
        self._evaluation = evaluation_of(module)
        self._reaching = reaching
        self._found: set[Use] = set()
        self._pending: list[cst.CSTNode] = []
        self._seen: set[cst.CSTNode] = set()

    def of(self, node: cst.CSTNode) -> frozenset[Use]:
        self._pending.append(node)
        while self._pending:
            if len(self._seen) > MOST_STEPS:
                return frozenset((Use.HOST,))
            at = self._pending.pop()
            if at not in self._seen:
                self._seen.add(at)
                self._climb(at)
        return frozenset(self._found)

    def _climb(self, node: cst.CSTNode) -> None:
        """Follow a value to the expression around it, or to the statement that uses it."""
        parent = self._region.parent_of(node)
        if parent is None or isinstance(parent, (cst.Raise, cst.Expr)):
            return
        kind = type(parent)
        if kind is cst.Arg:
            self._argument(parent)
        elif kind is cst.Attribute:
            self._attribute(parent)  # type: ignore[arg-type]
        elif isinstance(parent, _TESTED) and parent.test is node:
            self._found.add(Use.CHECKED if _is_check(parent) else Use.HOST)
        elif isinstance(parent, (cst.Assign, cst.AnnAssign, cst.NamedExpr)):
            self._assigned(parent)
        elif isinstance(parent, (cst.For, cst.CompFor)):
            if parent.iter is node:
                self._bind(parent.target, parent)
        elif kind is cst.AugAssign:
            self._found.add(Use.DEVICE if self._is_array(parent) else Use.HOST)
        elif not isinstance(parent, cst.BaseSuite):
            self._within(parent)

    def _within(self, parent: cst.CSTNode) -> None:
        """Follow a value into the expression around it."""
        kind = type(parent)
        if isinstance(parent, (cst.BinaryOperation, cst.Comparison)) and self._is_array(parent):
            self._found.add(Use.DEVICE)
        elif kind is cst.FormattedString:
            self._found.add(Use.SHOWN)
        elif isinstance(parent, (*_USING, *SCOPES)) or kind in (cst.Index, cst.Slice):
            self._found.add(Use.HOST)  # an index or a slice bound is a number of the host
        else:
            self._pending.append(parent)

    def _is_array(self, operation: cst.CSTNode) -> bool:
        evaluation = self._evaluation
        fact = evaluation.operations.get(operation) or evaluation.comparisons.get(operation)
        return fact is not None and (fact.left.array is not None or fact.right.array is not None)

    def _argument(self, argument: cst.CSTNode) -> None:
        call = self._region.parent_of(argument)
        if not isinstance(call, cst.Call):
            return
        fact = self._evaluation.calls.get(call)
        symbol = fact.callee.name if fact is not None and type(fact.callee) is Symbol else ""
        if symbol in _PASSING or (fact is not None and is_replaceable_numpy(fact)):
            self._pending.append(call)
        elif fact is not None and _takes_as_array(fact, argument):
            self._found.add(Use.DEVICE)
        elif symbol in _SHOWING or (dotted(call.func) or "").startswith(_LOGGERS):
            self._found.add(Use.SHOWN)
        else:
            self._found.add(Use.HOST)

    def _attribute(self, node: cst.Attribute) -> None:
        if node.attr.value in METADATA:
            self._found.add(Use.METADATA)
            return
        call = self._region.parent_of(node)
        self._pending.append(call if isinstance(call, cst.Call) else node)

    def _assigned(self, node: cst.Assign | cst.AnnAssign | cst.NamedExpr) -> None:
        if isinstance(node, cst.Assign):
            for one in node.targets:
                self._bind(one.target, node)
            return
        self._bind(node.target, node)
        if isinstance(node, cst.NamedExpr):
            self._pending.append(node)

    def _bind(self, target: cst.CSTNode, binder: cst.CSTNode) -> None:
        """Follow the names of a target to where they are read."""
        if isinstance(target, (cst.Attribute, cst.Subscript)):
            self._found.add(Use.HOST)
            return
        for name in target_names(target):
            for read in self._region.reads.get(name, ()):
                statement = self._region.statement_of(read)
                if self._may_hold(name, statement, binder) and not self._is_target(read):
                    self._pending.append(read)

    def _may_hold(self, name: str, statement: cst.CSTNode, binder: cst.CSTNode) -> bool:
        if isinstance(binder, (cst.CompFor, cst.NamedExpr)) or self._reaching is None:
            return True
        bindings = self._reaching.before(statement, name)
        return not bindings or any(binding.statement is binder for binding in bindings)

    def _is_target(self, read: cst.Name) -> bool:
        parent = self._region.parent_of(read)
        return (
            isinstance(parent, (cst.AssignTarget, cst.Param))
            or (isinstance(parent, (cst.For, cst.CompFor, cst.AugAssign)) and parent.target is read)
            or (isinstance(parent, cst.Attribute) and parent.attr is read)
            or (isinstance(parent, cst.Arg) and parent.keyword is read)
        )


def _is_check(node: cst.CSTNode) -> bool:
    """Test whether a statement raises by a condition, and does nothing else."""
    if isinstance(node, cst.Assert):
        return True
    if not isinstance(node, cst.If) or node.orelse is not None:
        return False
    last = node.body.body[-1]
    last = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return isinstance(last, cst.Raise)


def _takes_as_array(fact: CallFact, argument: cst.CSTNode) -> bool:
    """Test whether a call of MLX takes an argument as data, not as a size or an index."""
    if isinstance(fact.callee, (LibraryObject, Kernel)):
        return holds_arrays(fact.result)
    taken = (
        given.node
        for param, given in fact.matched
        if param.takes_scalar_or_array or param.expects_array or param.accepts == "any"
    )
    node = argument.value if isinstance(argument, cst.Arg) else argument
    return any(given is node for given in taken)


#: Functions of NumPy that slices of an array replace, or methods of it.
_BY_SLICES = frozenset(("flip", "fliplr", "flipud", "astype", "isscalar", "ndim", "shape", "size"))
#: Functions of linear algebra that MLX computes on the GPU too: others raise there.
_ON_DEVICE = frozenset(("linalg.norm", "linalg.cross"))


def is_replaceable_numpy(fact: CallFact) -> bool:
    """Test whether MLX has the function of NumPy that is called, with these arguments."""
    library, _, rest = (fact.symbol or "").partition(".")
    if library != "numpy":
        return False
    # Masked arrays select: ``mx.where`` does that.
    if rest in numpy_api.CONVERSIONS or rest in _BY_SLICES or rest.startswith("ma."):
        return True
    if rest.startswith("linalg.") and rest not in _ON_DEVICE:
        return False
    entry = mlx_api.lookup(f"mlx.core.{rest}")
    if entry is None:
        return False
    # ``np.where(mask)`` finds indices: the shape of its result depends on the numbers.
    required = [parameter.name for parameter in entry.params if not parameter.has_default]
    given = [a for a in fact.arguments if a.keyword is None or a.keyword in required]
    return len(required) <= len(given)
