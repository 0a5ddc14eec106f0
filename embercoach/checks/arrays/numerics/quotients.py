"""DTYPE-011 and DTYPE-012: quotients and differences of exponentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.value_sources import sources_of
from embercoach.checks.arrays.numerics.compositions import SUM, called, is_same, only_end
from embercoach.checks.arrays.numerics.exponentials import (
    beside_one,
    exponents,
    is_bounded,
    is_one,
)
from embercoach.checks.arrays.numerics.unstable import inexact, unstable
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.value_sources import Source, Sources


@check("DTYPE-011", "DTYPE-012")
def quotient_or_difference(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``mx.exp(x) / mx.sum(mx.exp(x))``, ``mx.exp(x) - 1``."""
    if fact.operator == "/":
        yield from _quotient(fact, fact.left.node, fact.right.node, module)
    elif fact.operator == "-" and is_one(fact.right.node):
        sources = sources_of(module)
        ends = sources.ends(sources.of(fact, fact.left.node), through_callers=True)
        calls = [sources.library_call(end) for end in ends]
        if calls and all(call is not None and call.name == "mlx.core.exp" for call in calls):
            yield inexact(fact, "exp(x) - 1", "mx.expm1(x)")


@check("DTYPE-011", of=("mlx.core.divide",))
def quotient_by_divide(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.divide(mx.exp(x), mx.sum(mx.exp(x)))``."""
    first, second = fact.positional(0), fact.positional(1)
    if first is not None and second is not None:
        yield from _quotient(fact, first.node, second.node, module)


def _quotient(
    fact: Fact, left: cst.BaseExpression, right: cst.BaseExpression, module: Module
) -> Iterator[Report]:
    sources = sources_of(module)
    numerator, denominator = sources.of(fact, left), sources.of(fact, right)
    above = exponents(numerator, sources) or _summed_exponents(numerator, sources)
    if not above:
        if _is_tanh(numerator, denominator, sources):
            yield unstable(fact, "(exp(x) - exp(-x)) / (exp(x) + exp(-x))", "mx.tanh(x)")
        return
    total = called(denominator, sources)
    if total is not None and total.name in SUM:
        summed = exponents(total.array, sources)
        shared = [x for x in above if _is_among(x, summed, sources)]
        if shared and not is_bounded(shared[0], sources):
            yield _softmax(fact, shared[0], module)
        return
    other = beside_one(denominator, cst.Add, sources)
    if other is not None:
        below = exponents(other, sources)
        is_same_one = len(below) == len(above) == 1 and is_same(above[0], below[0], sources)
        if is_same_one and not is_bounded(above[0], sources):
            yield unstable(fact, "exp(x) / (1 + exp(x))", "mx.sigmoid(x)")
        return
    below = exponents(denominator, sources)
    if len(above) == len(below) == 1 and not any(is_bounded(x, sources) for x in (*above, *below)):
        yield unstable(fact, "exp(x) / exp(y)", "mx.exp(x - y)")


def _summed_exponents(numerator: Source, sources: Sources) -> list[Source]:
    """``x`` of ``mx.sum(mx.exp(x) * v)``, a weighted mean's numerator."""
    total = called(numerator, sources)
    is_sum = total is not None and total.name in SUM
    return exponents(total.array, sources) if is_sum and total is not None else []


def _is_among(source: Source, others: list[Source], sources: Sources) -> bool:
    return any(is_same(source, other, sources) for other in others)


def _softmax(fact: Fact, exponent: Source, module: Module) -> Report:
    """Report the quotient, or the exponential in the function that passes it."""
    report = unstable(fact, "exp(x) / sum(exp(x))", "mx.softmax(x, axis)")
    if exponent.call is not None or exponent.function is fact.place.function:
        return report  # computed here, or in a function that is called here
    calls = calls_of(module).values()
    made = next((c for c in calls if any(a.node is exponent.node for a in c.arguments)), None)
    if made is None:
        return report
    return unstable(made, "exp(x) / sum(exp(x))", "mx.softmax(x, axis)")


def _is_tanh(numerator: Source, denominator: Source, sources: Sources) -> bool:
    """Test for ``(exp(x) - exp(-x)) / (exp(x) + exp(-x))``."""
    above = _exponential_pair(numerator, cst.Subtract, sources)
    below = None if above is None else _exponential_pair(denominator, cst.Add, sources)
    if above is None or below is None:
        return False
    return all(is_same(a, b, sources) for a, b in zip(above, below, strict=True))


def _exponential_pair(
    source: Source, operator: type, sources: Sources
) -> tuple[Source, Source] | None:
    end = only_end(source, sources)
    node = end.node
    if not isinstance(node, cst.BinaryOperation) or not isinstance(node.operator, operator):
        return None
    one, other = (exponents(end.at(side), sources) for side in (node.left, node.right))
    return (one[0], other[0]) if len(one) == len(other) == 1 else None
