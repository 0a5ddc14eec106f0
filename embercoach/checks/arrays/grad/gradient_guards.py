"""GRAD-001: ``mx.where`` that guards a value, and not its gradient."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.facts import BinaryFact, CallFact
from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.values import promotion
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.joins import as_array
from embercoach.checks.arrays.grad.gradient_results import bound_once, elementwise
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: Functions whose gradient is infinite or NaN at the edge of where they are defined.
RISKY = frozenset(
    ("sqrt", "rsqrt", "log", "log2", "log10", "log1p", "reciprocal", "arccos", "arcsin", "arctanh")
)
#: Names of small thresholds.
_SMALL = ("eps", "tol", "tiny", "epsilon", "threshold")
_COMPARISONS = frozenset(("greater", "greater_equal", "less", "less_equal", "equal", "not_equal"))
#: A clamped value is safe to divide by.
_CLAMPS = frozenset(("maximum", "clip", "where"))
#: The remedies by the operation.
_DIVISION, _POWER = "a division by 0", "a power of 0"
_EPSILON = "Add an epsilon under the root: `mx.sqrt(mx.sum(x * x, -1) + 1e-12)`"
_CLAMP = "Clamp the argument instead: `mx.sqrt(mx.maximum(x, 1e-12))`"


@check("GRAD-001", of=("mlx.core.where",))
def guarded_gradient(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.where(x > 0, mx.sqrt(x), 0)``."""
    info = fact.place.function
    places = _positional(fact)
    if info is None or len(places) != 3 or not _has_gradient(info):
        return
    texts = _Texts(module, info)
    guards = texts.guards(places[0])
    if not guards:
        return
    operations = _operations(module, info)
    for node in (*texts.operands(places[1]), *texts.operands(places[2])):
        risk = _risk(operations.get(node))
        if risk is None:
            continue
        made = map(_risk, map(operations.get, (node, *texts.values(risk.value))))
        roots = [root for root in made if root is not None and root.masks_result]
        if any(texts.is_shifted(root.value) for root in roots):
            continue
        of_argument = texts.of(risk.value) in guards and not texts.is_clamped(risk.value)
        if of_argument or (risk.masks_result and texts.of(node) in guards):
            message = f"gradient is NaN where `mx.where` masks {risk.operation}"
            yield _report(
                fact, message, _masked(risk, has_root=not risk.masks_result and bool(roots))
            )
            return


@check("GRAD-001", of=("mlx.core.maximum",))
def clamped_gradient(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.maximum(mx.sqrt(x * x), 1e-6)`` in a differentiated function."""
    info = fact.place.function
    places = _positional(fact)
    if info is None or len(places) != 2 or not info.differentiated:
        return
    texts = _Texts(module, info)
    operations = _operations(module, info)
    for clamped, bound in (places, places[::-1]):
        if not texts.is_small(bound, False):
            continue
        for node in (clamped, *texts.values(clamped)):
            risk = _risk(operations.get(node))
            if risk is None or not risk.masks_result or texts.is_shifted(risk.value):
                continue
            if "norm" not in risk.operation or texts.is_difference(risk.value):
                message = f"gradient is NaN where `mx.maximum` masks {risk.operation}"
                yield _report(fact, message, _EPSILON if "norm" in risk.operation else _CLAMP)
                return


def _positional(fact: CallFact) -> list[cst.BaseExpression]:
    return [a.node for a in fact.arguments if a.keyword is None and not a.star]


def _report(fact: CallFact, message: str, help_text: str) -> Report:
    return Report.at(fact, "GRAD-001", message=message, help=help_text)


def _masked(risk: Risk, *, has_root: bool) -> str:
    """The remedy where a condition masks the result of an operation, of a root if it has one."""
    if has_root or "norm" in risk.operation:
        return _EPSILON
    shown = risk.operation.strip("`")
    if risk.operation == _DIVISION:
        shown = "x / mx.where(n > 0, n, 1)"
    elif risk.operation == _POWER:
        shown = "mx.where(x > 0, x, 1) ** 0.5"
    else:
        shown = shown.replace("()", "(mx.where(x > 0, x, 1))")
    return f"Mask the argument as well: `{shown}`"


@lru_cache(maxsize=4)
def _operations(module: Module, info: FunctionInfo) -> dict[cst.CSTNode, CallFact | BinaryFact]:
    facts = module.facts_of(info)
    return {fact.node: fact for fact in facts if isinstance(fact, (CallFact, BinaryFact))}


def _has_gradient(info: FunctionInfo) -> bool:
    """Return whether a gradient is taken through a function, or commonly is."""
    if info.differentiated:
        return True
    outer: FunctionInfo | None = info
    while outer is not None:
        if outer.name == "__call__" and outer.cls is not None and is_layer(outer.cls):
            return True
        outer = outer.outer
    return False


class Risk(NamedTuple):
    """An operation without a finite gradient for some ``value``.

    masks_result: that is where its result is 0.
    """

    value: cst.BaseExpression
    operation: str
    masks_result: bool = False


def _risk(fact: Fact | None) -> Risk | None:
    if isinstance(fact, CallFact):
        return _risk_of_call(fact)
    if isinstance(fact, BinaryFact):
        if fact.operator == "/" and _is_float(fact.right.value):
            return Risk(fact.right.node, _DIVISION)
        if fact.operator == "**" and _is_float(fact.left.value) and _is_root(fact.right.node):
            return Risk(fact.left.node, _POWER)
    return None


def _risk_of_call(fact: CallFact) -> Risk | None:
    symbol = fact.symbol
    name = symbol.removeprefix("mlx.core.") if symbol is not None else ""
    receiver = fact.receiver_node
    if symbol is None and receiver is not None and _is_float(fact.receiver):
        func = fact.node.func
        name = func.attr.value if isinstance(func, cst.Attribute) else ""
        is_risky = name in RISKY and not fact.arguments
        return Risk(receiver, f"`{name}()`", name == "sqrt") if is_risky else None
    first, second = fact.positional(0), fact.positional(1)
    if first is None:
        return None
    if name in RISKY and _is_float(first.value):
        return Risk(first.node, f"`mx.{name}()`", name == "sqrt")
    if name == "linalg.norm" and _is_float(first.value) and fact.argument(1, "ord") is None:
        return Risk(first.node, "`mx.linalg.norm()`", True)
    if name == "divide" and second is not None and _is_float(second.value):
        return Risk(second.node, _DIVISION)
    if name == "power" and second is not None and _is_root(second.node):
        return Risk(first.node, _POWER)
    return None


def _is_float(value: Value | None) -> bool:
    """Return whether a value may be an array of floats that is not a constant."""
    array = None if value is None else as_array(value)
    return array is not None and not array.literal and array.dtype not in promotion.INTEGERS


def _is_root(node: cst.BaseExpression) -> bool:
    """Return whether an exponent is below 1: the derivative at 0 is infinite."""
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Minus)
    return isinstance(node, cst.Float) and float(node.value) < 1


class _Texts:
    """Expressions of a function by their text, through names that are bound once."""

    def __init__(self, module: Module, info: FunctionInfo) -> None:
        self._module = module
        self._info = info

    def guards(self, condition: cst.BaseExpression) -> frozenset[str]:
        """The values that a condition compares with 0 or a small number."""
        found = set()
        for left, right in self._comparisons(condition):
            for subject, bound in ((left, right), (right, left)):
                if self.is_small(bound, _has_abs(subject)):
                    found |= self._names_of(_without_abs(subject))
        return frozenset(found)

    def _names_of(self, node: cst.BaseExpression) -> set[str]:
        """An expression's text, and that of what its name is bound to."""
        texts = map(self.of, (node, *self.values(node)))
        return {text for text in texts if text is not None}

    def _comparisons(
        self, node: cst.BaseExpression
    ) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
        if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
            target = node.comparisons[0]
            if not isinstance(target.operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)):
                yield node.left, target.comparator
        elif isinstance(node, cst.Name):
            for value in bound_once(self._info, node.value):
                if isinstance(value, (cst.Comparison, cst.BinaryOperation, cst.Call)):
                    yield from self._comparisons(value)
        elif isinstance(node, cst.BinaryOperation):
            yield from self._comparisons(node.left)
            yield from self._comparisons(node.right)
        elif isinstance(node, cst.Call):
            name = _called(node)
            places = [a.value for a in node.args if a.keyword is None and not a.star]
            if name in _COMPARISONS and len(places) == 2:
                yield places[0], places[1]
            elif name in ("logical_and", "logical_or", "logical_not"):
                for place in places:
                    yield from self._comparisons(place)

    def is_small(self, node: cst.BaseExpression, of_abs: bool) -> bool:
        """Return whether a bound is 0, a small number, or 1 for an absolute value."""
        if isinstance(node, cst.UnaryOperation):
            return self.is_small(node.expression, True)
        if isinstance(node, (cst.Integer, cst.Float)):
            number = abs(float(node.value.replace("_", "")))
            return number < 0.01 or (of_abs and number == 1)
        if isinstance(node, cst.Call):
            name = _called(node)
            if name == "array" and node.args:
                return self.is_small(node.args[0].value, of_abs)
            return name in ("zeros", "zeros_like") or (of_abs and name in ("ones", "ones_like"))
        path = dotted(node)
        if path is not None and any(word in path.lower() for word in _SMALL):
            return True
        values = self.values(node)
        return any(not isinstance(v, cst.Name) and self.is_small(v, of_abs) for v in values)

    def operands(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The operations that a value is made of, element by element."""
        return elementwise(node, self._info, through_calls=True)

    def of(self, node: cst.BaseExpression) -> str | None:
        """The text of a name, a path or an expression without numbers alone."""
        if isinstance(node, (cst.Integer, cst.Float)):
            return None
        path = dotted(node)
        return path if path is not None else self._module.parsed.code(node)

    def values(self, node: cst.BaseExpression) -> list[cst.BaseExpression]:
        """The expression that a name is bound to, if once."""
        return bound_once(self._info, node.value) if isinstance(node, cst.Name) else []

    def is_shifted(self, node: cst.BaseExpression) -> bool:
        """Return whether something that may be a small number is added to a value."""
        for value in (node, *self.values(node)):
            if not isinstance(value, cst.BinaryOperation):
                continue
            parts = (value.left, value.right)
            if isinstance(value.operator, cst.Add) and any(self.is_small(v, False) for v in parts):
                return True
        return self.is_clamped(node)

    def is_difference(self, node: cst.BaseExpression) -> bool:
        """Return whether a value is a difference, which is 0 for two equal vectors."""
        values = (node, *self.values(node))
        operators = [v.operator for v in values if isinstance(v, cst.BinaryOperation)]
        return any(isinstance(operator, cst.Subtract) for operator in operators)

    def is_clamped(self, node: cst.BaseExpression) -> bool:
        """Return whether a name has been given a value that is never zero."""
        if not isinstance(node, cst.Name):
            return False
        for value in bound_once(self._info, node.value):
            for inner in walk(value):
                if isinstance(inner, cst.Call) and _called(inner) in _CLAMPS:
                    return True
        return False


def _has_abs(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and _called(node) in ("abs", "fabs")


def _without_abs(node: cst.BaseExpression) -> cst.BaseExpression:
    if _has_abs(node) and isinstance(node, cst.Call) and len(node.args) == 1:
        return node.args[0].value
    return node


def _called(node: cst.Call) -> str:
    """The last name of what is called."""
    return (dotted(node.func) or "").rpartition(".")[2]
