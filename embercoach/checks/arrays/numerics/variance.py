"""DTYPE-014: variances as a difference of two large means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import Expression, resolve_name, scope_of
from embercoach.checks.arrays.numerics.compositions import SUM, called, squared
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import BinaryFact
    from embercoach.analysis.project.module import Module

_MEAN = frozenset(["mlx.core.mean"])


@check("DTYPE-014")
def variance_by_difference(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``mx.mean(x * x) - mx.mean(x) ** 2``."""
    if fact.operator != "-" or not isinstance(fact.node, cst.BinaryOperation):
        return
    scope = scope_of(module, fact.place.function)
    mean = squared(Expression(fact.right.node, scope), module)
    averaged = None if mean is None else _averaged(mean, module)
    if averaged is None:
        return
    squares = _averaged(Expression(fact.left.node, scope), module)
    base = None if squares is None else squared(squares, module)
    if base is not None and _is_same(base, averaged):
        yield Report.at(
            fact,
            "DTYPE-014",
            message="variance as a difference of means loses its digits, and may be negative",
            help="Use `mx.var(x, axis)`, which subtracts the mean before it squares",
        )


def _averaged(expression: Expression, module: Module) -> Expression | None:
    """``x`` of ``mx.mean(x)``, ``x.mean()`` and ``mx.sum(x) / n``."""
    found = resolve_name(expression)
    if isinstance(found.node, cst.BinaryOperation) and isinstance(found.node.operator, cst.Divide):
        total = called(found.at(found.node.left), module)
        return total.array if total is not None and total.name in SUM else None
    mean = called(found, module)
    return mean.array if mean is not None and mean.name in _MEAN else None


def _is_same(first: Expression, second: Expression) -> bool:
    one, other = resolve_name(first), resolve_name(second)
    return one.scope is other.scope and one.node.deep_equals(other.node)
