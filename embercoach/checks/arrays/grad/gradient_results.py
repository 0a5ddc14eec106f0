"""GRAD-002 to GRAD-004: results that have no gradient, and gradients of custom functions."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.facts.facts import CallFact
from embercoach.analysis.shapes.node_shapes import ArrayAxes, is_scalar, returned_by
from embercoach.analysis.syntax.trees import SCOPES, names_below, walk
from embercoach.analysis.values.gradient_marks import zero_by
from embercoach.analysis.values.lattice import Array, Function, Str
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Fact, FactPlace
    from embercoach.analysis.gradients.gradient_roots import DifferentiatedResult, GradientRoot
    from embercoach.analysis.project.module import Module

#: Losses of ``mlx.nn`` that return one number for each example by default.
UNREDUCED = frozenset(
    f"mlx.nn.losses.{name}"
    for name in (
        "cross_entropy",
        "nll_loss",
        "kl_div_loss",
        "triplet_loss",
        "hinge_loss",
        "huber_loss",
        "log_cosh_loss",
        "cosine_similarity_loss",
        "margin_ranking_loss",
    )
)
#: Functions that a differentiated one calls, directly or not, that are looked at.
MOST_FUNCTIONS = 32
CUSTOM = "mlx.core.custom_function"


@check("GRAD-002", "GRAD-003")
def differentiated_results(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """Losses whose gradient is zero, and losses that are not scalars."""
    calls: dict[cst.CSTNode, CallFact] | None = None
    zeros: dict[cst.CSTNode, Report] = {}
    for result in module.differentiated:
        for zero in _zero_gradient(result, module):
            zeros.setdefault(zero.node, zero)
        root = result.root
        if not root.first_result:
            continue
        if root.info.module is module:
            if calls is None:
                calls = {fact.node: fact for fact in facts if isinstance(fact, CallFact)}
            found = list(_unreduced(root.info, calls, module))
            yield from found
            if found:
                continue
        yield from _not_scalar(result, module)
    yield from zeros.values()


_ROUNDING = frozenset(("round", "floor", "ceil", "sign"))
_THROUGH = "Add it straight through: `x + mx.stop_gradient(mx.{}(x) - x)`"
_DIFFERENTIABLE = "Use a differentiable loss, such as cross entropy of the logits"


def _zero_gradient(result: DifferentiatedResult, module: Module) -> Iterator[Report]:
    operation = zero_by(result.value) if result.is_complete else None
    if operation is None or type(result.value) is not Array:
        return
    shown = f"`{operation}`" if not operation.isidentifier() else f"`{operation}()`"
    yield Report.at(
        _only_call(operation, result.root.info, module) or result.root,
        "GRAD-002",
        message=f"gradient of {_named(result.root)} is zero: it passes through {shown}",
        help=_THROUGH.format(operation) if operation in _ROUNDING else _DIFFERENTIABLE,
    )


def _only_call(operation: str, root: FunctionInfo, module: Module) -> CallFact | None:
    """The call of an operation in the code that is differentiated, if there is one alone."""
    reached = {root: None}
    pending = [root]
    while pending and len(reached) < MOST_FUNCTIONS:
        callees = [c for c in pending.pop().calls if c.module is module and c not in reached]
        reached.update(dict.fromkeys(callees))
        pending += callees
    found = [
        fact
        for info in reached
        if info.module is module
        for fact in module.facts_of(info)
        if isinstance(fact, CallFact) and _name(fact) == operation
    ]
    return found[0] if len(found) == 1 else None


def _name(fact: CallFact) -> str:
    """The last name of what a call calls: of a function, or of an array's method."""
    return "" if fact.entry is None else fact.entry.name.rpartition(".")[2]


def _not_scalar(result: DifferentiatedResult, module: Module) -> Iterator[Report]:
    returned = returned_by(module, result.root.info.node)
    if type(returned) is tuple and returned:
        returned = returned[0]
    if type(returned) is not ArrayAxes or not returned.has_some:
        return
    yield Report.at(
        result.root,
        "GRAD-003",
        message=f"result of {_named(result.root)} isn't a scalar: its gradient raises",
        help="Reduce the loss to a scalar: `mx.mean(...)` or `mx.sum(...)`",
    )


def _named(root: GradientRoot) -> str:
    name = root.info.name
    return "the lambda" if name == "<lambda>" else f"`{name[:24]}`"


def _unreduced(
    info: FunctionInfo, calls: dict[cst.CSTNode, CallFact], module: Module
) -> Iterator[Report]:
    """The calls of losses without a reduction that a function returns."""
    for returned in _returned(info):
        for node in elementwise(returned, info):
            fact = calls.get(node)
            if fact is not None and fact.symbol in UNREDUCED and _is_unreduced(fact, module):
                short = fact.symbol.removeprefix("mlx.nn.losses.")
                yield Report.at(
                    fact,
                    "GRAD-003",
                    message=f"`{short}()` returns one loss per example: its gradient raises",
                    help='Pass `reduction="mean"`, or reduce the result with mx.mean',
                )


def _is_unreduced(fact: CallFact, module: Module) -> bool:
    if any(argument.star for argument in fact.arguments):
        return False
    targets = fact.argument(1, "targets")
    given = fact.keyword("reduction")
    if given is None:
        if sum(argument.keyword is None for argument in fact.arguments) > 2:
            return False
    elif not isinstance(given.value, Str) or given.value.text != "none":
        return False
    return targets is None or not is_scalar(module, targets.node)


def _returned(info: FunctionInfo) -> Iterator[cst.BaseExpression]:
    """The expressions of which a function returns the value to be differentiated."""
    if isinstance(info.node, cst.Lambda):
        nodes: list[cst.BaseExpression] = [info.node.body]
    else:
        found = walk(info.node.body, SCOPES)
        nodes = [n.value for n in found if isinstance(n, cst.Return) and n.value is not None]
    for node in nodes:
        yield node.elements[0].value if isinstance(node, cst.Tuple) and node.elements else node


def elementwise(
    node: cst.BaseExpression, info: FunctionInfo, *, through_calls: bool = False
) -> Iterator[cst.BaseExpression]:
    """An expression and its operands, through names that are bound once, and through calls."""
    pending, seen = [node], set[str]()
    while pending:
        current = pending.pop()
        yield current
        if isinstance(current, cst.BinaryOperation):
            pending += [current.left, current.right]
        elif isinstance(current, cst.UnaryOperation):
            pending.append(current.expression)
        elif isinstance(current, cst.Call) and through_calls:
            pending += [a.value for a in current.args if a.keyword is None]
            if isinstance(current.func, cst.Attribute):
                pending.append(current.func.value)
        elif isinstance(current, cst.Name) and current.value not in seen:
            seen.add(current.value)
            pending += bound_once(info, current.value)


def bound_once(info: FunctionInfo, name: str) -> list[cst.BaseExpression]:
    """The expression that a name of a function is bound to, if there is one binding alone."""
    values = _bindings(info).get(name, ())
    return [v for v in values if v is not None] if len(values) == 1 else []


_BINDING = frozenset((cst.AugAssign, cst.AnnAssign, cst.For, cst.NamedExpr, cst.CompFor))


@lru_cache(maxsize=4)
def _bindings(info: FunctionInfo) -> dict[str, list[cst.BaseExpression | None]]:
    """Expressions that each name of a function is bound to; None for other bindings."""
    found: dict[str, list[cst.BaseExpression | None]] = {p.name: [None] for p in info.parameters}
    for node in walk(info.node.body, SCOPES):
        if type(node) is cst.Assign:
            for target in node.targets:
                is_name = isinstance(target.target, cst.Name)
                for name in names_below(target.target):
                    found.setdefault(name, []).append(node.value if is_name else None)
        elif type(node) in _BINDING:
            for name in names_below(node.target):  # type: ignore[attr-defined]
                found.setdefault(name, []).append(None)
        elif type(node) is cst.AsName:
            for name in names_below(node.name):
                found.setdefault(name, []).append(None)
    return found


@check("GRAD-004")
def custom_gradients(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``(x,) = primals`` in the VJP of a custom function of one argument."""
    if "custom_function" not in module.source:
        return
    for info in module.functions:
        function = _custom_function(info)
        places = [p for p in info.parameters if not p.star and not p.keyword_only]
        if function is None or not places or isinstance(info.node, cst.Lambda):
            continue
        primals = places[0].name
        body = info.node.body
        statement: cst.CSTNode = info.node
        tests_type = any(_tests_type(node, primals) for node in walk(body, SCOPES))
        for node in walk(body, SCOPES):
            if isinstance(node, cst.BaseSmallStatement):
                statement = node
            if _unpacks(node, primals) and not tests_type:
                yield Report.at(
                    _placed(info, node, statement),
                    "GRAD-004",
                    message=f"`{primals[:16]}` is the array itself, not a tuple of arguments",
                    help=f"Use `{primals}` as the array, without unpacking or indexing it",
                )


class _Placed(NamedTuple):
    """A node of a function's body, and its place."""

    node: cst.CSTNode
    place: FactPlace


def _placed(info: FunctionInfo, node: cst.CSTNode, statement: cst.CSTNode) -> _Placed:
    frame = Frame(info.module, info, record=False)
    frame.statement = statement
    return _Placed(node, frame.place())


def _custom_function(info: FunctionInfo) -> FunctionInfo | None:
    """The custom function of one argument that a function is the VJP or JVP of."""
    if isinstance(info.node, cst.Lambda):
        return None
    for decorator in info.node.decorators:
        node = decorator.decorator
        if not isinstance(node, cst.Attribute) or node.attr.value not in ("vjp", "jvp"):
            continue
        frame = info.closure or info.module.frame
        if not isinstance(node.value, cst.Name):
            continue
        value = frame.lookup(node.value.value)
        if isinstance(value, Function) and CUSTOM in value.info.decorators:
            function = value.info
            plain = len(function.parameters) == 1 and not function.parameters[0].star
            return function if plain and not function.is_method else None
    return None


def _tests_type(node: cst.CSTNode, primals: str) -> bool:
    """Return whether a node asks what the primals are: ``isinstance(primals, tuple)``."""
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Name)
        and node.func.value in ("isinstance", "type", "hasattr", "len")
        and bool(node.args)
        and isinstance(node.args[0].value, cst.Name)
        and node.args[0].value.value == primals
    )


def _unpacks(node: cst.CSTNode, primals: str) -> bool:
    """Return whether a node is ``(x,) = primals`` or ``primals[0]``."""
    if isinstance(node, cst.Assign):
        target = node.targets[0].target
        is_one = isinstance(target, (cst.Tuple, cst.List)) and len(target.elements) == 1
        return is_one and isinstance(node.value, cst.Name) and node.value.value == primals
    if isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        is_first = isinstance(index, cst.Index) and isinstance(index.value, cst.Integer)
        return is_first and isinstance(node.value, cst.Name) and node.value.value == primals
    return False
