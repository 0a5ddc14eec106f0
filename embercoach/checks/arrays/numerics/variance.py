"""DTYPE-014: variances as a difference of two large means."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.value_sources import Source, sources_of
from embercoach.analysis.syntax.trees import dotted, small_statements
from embercoach.checks.arrays.numerics.compositions import (
    MEAN,
    SUM,
    called,
    is_same,
    only_end,
    squared,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.dataflow.value_sources import Sources
    from embercoach.analysis.facts.facts import BinaryFact, CallFact, Fact
    from embercoach.analysis.project.module import Module


@check("DTYPE-014")
def variance_by_difference(fact: BinaryFact, module: Module) -> Iterator[Report]:
    """``mx.mean(x * x) - mx.mean(x) ** 2``."""
    if fact.operator == "-" and isinstance(fact.node, cst.BinaryOperation):
        yield from _variance(fact, fact.left.node, fact.right.node, module)


@check("DTYPE-014", of=("mlx.core.subtract",))
def variance_by_subtract(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.subtract(mx.mean(x * x), mx.square(mx.mean(x)))``."""
    first, second = fact.positional(0), fact.positional(1)
    if first is not None and second is not None:
        yield from _variance(fact, first.node, second.node, module)


def _variance(
    fact: Fact, left: cst.BaseExpression, right: cst.BaseExpression, module: Module
) -> Iterator[Report]:
    sources = sources_of(module)
    mean = squared(sources.of(fact, right), sources)
    averaged = None if mean is None else _averaged(mean, sources)
    if averaged is None:
        return
    squares = _averaged(sources.of(fact, left), sources)
    base = None if squares is None else squared(squares, sources)
    if base is not None and is_same(base, averaged, sources):
        yield Report.at(
            fact,
            "DTYPE-014",
            message="variance as a difference of means loses its digits, and may be negative",
            help="Use `mx.var(x, axis)`, which subtracts the mean before it squares",
        )


def _averaged(source: Source, sources: Sources) -> Source | None:
    """``x`` of ``mx.mean(x)``, ``x.mean()``, ``mx.sum(x) / n``, and of a running sum over n."""
    found = only_end(source, sources)
    if isinstance(found.node, cst.BinaryOperation) and isinstance(found.node.operator, cst.Divide):
        return _summed(found.at(found.node.left), sources)
    mean = called(found, sources)
    return mean.array if mean is not None and mean.name in MEAN else None


def _summed(source: Source, sources: Sources) -> Source | None:
    """``x`` of ``mx.sum(x)``, and of what ``+= mx.sum(x)`` or ``+= x`` updates."""
    total = called(source, sources)
    if total is not None and total.name in SUM:
        return total.array
    path = dotted(source.node)
    added = [] if path is None else _added_to(path, source)
    if len(added) != 1:
        return None
    total = called(added[0], sources)
    return total.array if total is not None and total.name in SUM else added[0]


def _added_to(path: str, source: Source) -> list[Source]:
    """The values that statements add to a name of a function, or to an attribute in any method."""
    function = source.function
    if function is None:
        return []
    owner, _, name = path.partition(".")
    adding: list[FunctionInfo] = [function]
    if name:
        cls = function.cls
        if cls is None or owner != "self" or "." in name:
            return []
        adding = cls.setters.get(name, [])
    return [
        Source(value, statement, one, source.module)
        for one in adding
        if not isinstance(one.node, cst.Lambda)
        for statement in small_statements(one.node.body)
        if (value := _addend(statement, path)) is not None
    ]


def _addend(statement: cst.CSTNode, path: str) -> cst.BaseExpression | None:
    """``v`` of ``path += v`` and ``path = path + v``."""
    if isinstance(statement, cst.AugAssign):
        is_sum = isinstance(statement.operator, cst.AddAssign) and dotted(statement.target) == path
        return statement.value if is_sum else None
    if not isinstance(statement, cst.Assign) or len(statement.targets) > 1:
        return None
    value = statement.value
    if dotted(statement.targets[0].target) != path or not isinstance(value, cst.BinaryOperation):
        return None
    is_sum = isinstance(value.operator, cst.Add) and dotted(value.left) == path
    return value.right if is_sum else None
