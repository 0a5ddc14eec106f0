"""GRAD-001: ``mx.where`` that guards a value, and not its gradient."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.facts import BinaryFact, CallFact
from embercoach.analysis.syntax.dotted_paths import dotted
from embercoach.analysis.syntax.trees import walk
from embercoach.analysis.values import promotion
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.joins import as_array
from embercoach.checks.arrays.gradient_results import bound_once
from embercoach.checks.registry import Report, check
from embercoach.checks.source_text import code_of

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
#: A clamped value is safe to divide by.
_CLAMPS = frozenset(("maximum", "clip", "where"))


class Guard(NamedTuple):
    """A condition of ``mx.where`` about one value: the expression, and what it is there."""

    subject: cst.BaseExpression
    text: str


@check("GRAD-001", of=("mlx.core.where",))
def guarded_gradient(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.where(x > 0, mx.sqrt(x), 0)``."""
    info = fact.place.function
    positional = [a for a in fact.arguments if a.keyword is None and not a.star]
    if info is None or len(positional) != 3 or not _has_gradient(info):
        return
    texts = _Texts(module, info)
    guards = list(texts.guards(positional[0].node))
    if not guards:
        return
    facts = _operations(module, info)
    for branch in positional[1:]:
        for node in texts.operands(branch.node):
            guarded = facts.get(node)
            subject = None if guarded is None else _subject(guarded)
            if guarded is None or subject is None:
                continue
            value, shown = subject
            text = texts.of(value)
            is_guarded = text is not None and any(text == guard.text for guard in guards)
            if is_guarded and not texts.is_clamped(value):
                yield Report.at(
                    fact,
                    "GRAD-001",
                    message=f"gradient is NaN where `mx.where` masks {shown}",
                    help="Replace the argument where it is masked: `mx.sqrt(mx.where(x > 0, x, 1))`",
                )
                return


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


def _subject(fact: Fact) -> tuple[cst.BaseExpression, str] | None:
    """What an operation has no finite gradient for, and the operation."""
    if isinstance(fact, CallFact):
        return _subject_of_call(fact)
    if isinstance(fact, BinaryFact):
        if fact.operator == "/" and _is_float(fact.right):
            return fact.right_node, "a division by 0"
        if fact.operator == "**" and _is_float(fact.left) and _is_root(fact.right_node):
            return fact.left_node, "a power of 0"
    return None


def _subject_of_call(fact: CallFact) -> tuple[cst.BaseExpression, str] | None:
    symbol = fact.symbol
    name = symbol.removeprefix("mlx.core.") if symbol is not None else ""
    receiver = fact.receiver_node
    if symbol is None and receiver is not None and _is_float(fact.receiver):
        func = fact.node.func
        name = func.attr.value if isinstance(func, cst.Attribute) else ""
        return (receiver, f"`{name}()`") if name in RISKY and not fact.arguments else None
    first, second = fact.positional(0), fact.positional(1)
    if name in RISKY and first is not None and _is_float(first.value):
        return first.node, f"`mx.{name}()`"
    if name == "divide" and second is not None and _is_float(second.value):
        return second.node, "a division by 0"
    if name == "power" and first is not None and second is not None and _is_root(second.node):
        return first.node, "a power of 0"
    return None


def _is_float(value: Value | None) -> bool:
    """Return whether a value may be an array of floats that is no constant."""
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

    def guards(self, condition: cst.BaseExpression) -> Iterator[Guard]:
        """The values that a condition compares with 0 or a small number."""
        for node in self._conditions(condition):
            if len(node.comparisons) != 1:
                continue
            target = node.comparisons[0]
            if isinstance(target.operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)):
                continue
            for subject, bound in (
                (node.left, target.comparator),
                (target.comparator, node.left),
            ):
                text = self.of(_without_abs(subject))
                if text is not None and _is_small(bound, _has_abs(subject)):
                    yield Guard(subject, text)

    def _conditions(self, node: cst.BaseExpression) -> Iterator[cst.Comparison]:
        if isinstance(node, cst.Comparison):
            yield node
        elif isinstance(node, cst.Name):
            for value in bound_once(self._info, node.value):
                if isinstance(value, (cst.Comparison, cst.BinaryOperation)):
                    yield from self._conditions(value)
        elif isinstance(node, cst.BinaryOperation):
            yield from self._conditions(node.left)
            yield from self._conditions(node.right)

    def operands(self, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
        """The operations that a value is made of, element by element."""
        pending, seen = [node], set[str]()
        while pending:
            current = pending.pop()
            yield current
            if isinstance(current, cst.BinaryOperation):
                pending += [current.left, current.right]
            elif isinstance(current, cst.UnaryOperation):
                pending.append(current.expression)
            elif isinstance(current, cst.Call):
                pending += [a.value for a in current.args if a.keyword is None]
                if isinstance(current.func, cst.Attribute):
                    pending.append(current.func.value)
            elif isinstance(current, cst.Name) and current.value not in seen:
                seen.add(current.value)
                pending += bound_once(self._info, current.value)

    def of(self, node: cst.BaseExpression) -> str | None:
        """The text of a name, a path or an expression without numbers alone."""
        if isinstance(node, (cst.Integer, cst.Float)):
            return None
        path = dotted(node)
        return path if path is not None else code_of(self._module, node)

    def is_clamped(self, node: cst.BaseExpression) -> bool:
        """Return whether a name has been given a value that is never zero."""
        if not isinstance(node, cst.Name):
            return False
        for value in bound_once(self._info, node.value):
            for inner in walk(value):
                func = inner.func if isinstance(inner, cst.Call) else None
                path = dotted(func) if func is not None else None
                if path is not None and path.rpartition(".")[2] in _CLAMPS:
                    return True
        return False


def _has_abs(node: cst.BaseExpression) -> bool:
    path = dotted(node.func) if isinstance(node, cst.Call) else None
    return path is not None and path.rpartition(".")[2] in ("abs", "fabs")


def _without_abs(node: cst.BaseExpression) -> cst.BaseExpression:
    if _has_abs(node) and isinstance(node, cst.Call) and len(node.args) == 1:
        return node.args[0].value
    return node


def _is_small(node: cst.BaseExpression, of_abs: bool) -> bool:
    """Return whether a bound is 0, a small number, or 1 for an absolute value."""
    if isinstance(node, cst.UnaryOperation):
        return _is_small(node.expression, True)
    if isinstance(node, (cst.Integer, cst.Float)):
        number = abs(float(node.value.replace("_", "")))
        return number < 0.01 or (of_abs and number == 1)
    path = dotted(node)
    return path is not None and any(word in path.lower() for word in _SMALL)
