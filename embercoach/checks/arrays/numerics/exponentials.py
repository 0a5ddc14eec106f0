"""Exponentials: numbers added to them, and exponents that cannot overflow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.value_sources import reaching_of
from embercoach.analysis.values.joins import as_array
from embercoach.checks.arrays.numerics.compositions import only_end

if TYPE_CHECKING:
    from embercoach.analysis.value_sources import Source, Sources

EXP = frozenset(["mlx.core.exp"])
#: Bindings of a name that are looked at.
_MOST_BINDINGS = 64
#: Parts of an exponent that are looked at.
_MOST_PARTS = 32
#: Functions whose results are small, or never positive where they are exponents by design.
_BOUNDING = frozenset(
    (
        *("clip", "minimum", "tanh", "sin", "cos", "sigmoid", "log", "log_softmax"),
        *("log_sigmoid", "logsumexp", "stop_gradient"),
    )
)


def exponents(source: Source, sources: Sources) -> list[Source]:
    """``x`` of ``mx.exp(x)``, and of its product with a mask, in all alternatives."""
    found: list[Source] = []
    for end in sources.ends(source, through_callers=True):
        node = end.node
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Multiply):
            for side in (node.left, node.right):
                found += _exponents_of_call(only_end(end.at(side), sources), sources)
        else:
            found += _exponents_of_call(end, sources)
    return found


def _exponents_of_call(end: Source, sources: Sources) -> list[Source]:
    call = sources.library_call(end)
    is_exponential = call is not None and call.name in EXP and call.array is not None
    return [call.array] if is_exponential and call is not None and call.array is not None else []


def beside_one(source: Source, operator: type, sources: Sources) -> Source | None:
    """``x`` of ``1 + x`` and ``x + 1``; of ``1 - x`` alone."""
    source = only_end(source, sources)
    node = source.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, operator):
        return None
    if is_one(node.left):
        return source.at(node.right)
    if operator is cst.Add and is_one(node.right):
        return source.at(node.left)
    return None


def is_one(node: cst.CSTNode) -> bool:
    """Test whether an expression is 1 or ``mx.array(1.0)``."""
    if isinstance(node, cst.Call) and node.args:
        node = node.args[0].value
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.value.replace("_", "")) == 1


def is_bounded(source: Source, sources: Sources) -> bool:
    """Return whether an exponent is a difference, as of values and their maximum, or is bounded."""
    end = only_end(source, sources)
    if _is_negated_square(end.node) or _is_constant(source, sources):
        return True
    pending, seen = [end], 0
    while pending and seen < _MOST_PARTS:
        part, seen = pending.pop(), seen + 1
        node = part.node
        if isinstance(node, cst.Name):
            if _is_shifted_name(part, node.value):
                return True
            below = only_end(part, sources)
            pending += [below] if below.node is not node else []
        elif isinstance(node, cst.BinaryOperation):
            if isinstance(node.operator, cst.Subtract):
                return True
            pending += [part.at(node.left), part.at(node.right)]
        elif isinstance(node, cst.UnaryOperation):
            pending.append(part.at(node.expression))
        elif isinstance(node, cst.Call):
            name = (dotted(node.func) or "").rpartition(".")[2]
            if name in _BOUNDING or name == "subtract":
                return True
    return False


def _is_constant(source: Source, sources: Sources) -> bool:
    array = as_array(sources.value(source))
    return array is not None and array.literal


def _is_shifted_name(source: Source, name: str) -> bool:
    """Return whether a name is updated, or given a difference, anywhere in its scope."""
    held = reaching_of(source).bindings.get(name, [])[:_MOST_BINDINGS]
    return any(binding.kind == "updated" or _subtracts(binding.value) for binding in held)


def _subtracts(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Subtract)


def _is_negated_square(node: cst.CSTNode) -> bool:
    """Return whether an exponent is at most 0, as of a Gaussian: ``-0.5 * (x / sigma) ** 2``."""
    factors, squared, negative = [node], False, False
    while factors:
        factor = factors.pop()
        if isinstance(factor, cst.UnaryOperation) and isinstance(factor.operator, cst.Minus):
            negative = not negative
            factors.append(factor.expression)
        elif isinstance(factor, cst.BinaryOperation):
            if isinstance(factor.operator, cst.Power):
                squared = squared or getattr(factor.right, "value", None) == "2"
            elif isinstance(factor.operator, (cst.Multiply, cst.Divide)):
                factors += (factor.left, factor.right)
        elif isinstance(factor, cst.Call):
            squared = squared or (dotted(factor.func) or "").rpartition(".")[2] in ("square", "abs")
    return squared and negative
