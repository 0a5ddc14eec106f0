"""API-023: queries that are scaled before attention, and by attention again."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.value_sources import Source, Sources, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import evaluated
from embercoach.analysis.values.facts import CallFact
from embercoach.checks.arrays.compositions import SHAPING, is_same, only_end
from embercoach.checks.registry import Report, check

#: Operations that are followed from the queries.
_MOST_STEPS = 32


@check("API-023", of=("mlx.core.fast.scaled_dot_product_attention",))
def scaled_twice(fact: CallFact, module: Module) -> Iterator[Report]:
    """``scaled_dot_product_attention(q * self.scale, k, v, scale=self.scale)``."""
    given = {param.name: argument for param, argument in fact.matched}
    if "scale" not in given:
        return
    sources = sources_of(module)
    scale = sources.of(fact, given["scale"].node)
    if "q" not in given or _is_one(scale, sources):
        return
    factors = _factors(sources.of(fact, given["q"].node), sources)
    if any(_is_scale(factor, scale, sources) for factor in factors):
        yield Report.at(
            fact,
            node=given["scale"].node,
            message="queries are scaled twice: before attention, and by its `scale`",
            help="Pass the unscaled queries, or `scale=1.0`",
        )


def _factors(start: Source, sources: Sources) -> Iterator[Source]:
    """Yield what an array is multiplied with, or divided by, before its axes are arranged."""
    pending = [start]
    for _ in range(_MOST_STEPS):
        if not pending:
            return
        for end in sources.ends(pending.pop()):
            node = end.node
            if isinstance(node, cst.BinaryOperation):
                if isinstance(node.operator, cst.Multiply):
                    yield end.at(node.left)
                    yield end.at(node.right)
                    pending += [end.at(node.left), end.at(node.right)]
                elif isinstance(node.operator, cst.Divide):
                    yield end
                    pending.append(end.at(node.left))
            elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
                called = sources.library_call(end)
                name = node.func.attr.value
                if called is not None and called.name.removeprefix("mlx.core.") in SHAPING:
                    pending += [called.array] if called.array is not None else []
                elif called is None and name in SHAPING:
                    pending.append(end.at(node.func.value))


def _is_one(scale: Source, sources: Sources) -> bool:
    node = only_end(scale, sources).node
    value = evaluated(node) if isinstance(node, (cst.Integer, cst.Float)) else None
    return value == 1


def _is_scale(factor: Source, scale: Source, sources: Sources) -> bool:
    """Return whether a factor is the scale of attention, or both are one over a root."""
    if _is_root(factor, sources):
        return _is_root(scale, sources)
    node = only_end(factor, sources).node
    if isinstance(node, (cst.Integer, cst.Float, cst.Call)):
        return False
    return is_same(factor, scale, sources)


def _is_root(source: Source, sources: Sources) -> bool:
    """Test for ``d ** -0.5``, ``1 / math.sqrt(d)`` and ``x / math.sqrt(d)``."""
    end = only_end(source, sources)
    node = end.node
    if not isinstance(node, cst.BinaryOperation):
        return False
    if isinstance(node.operator, cst.Power):
        right = node.right
        if not isinstance(right, cst.UnaryOperation) or not isinstance(right.operator, cst.Minus):
            return False
        return _is_half(right.expression)
    below = only_end(end.at(node.right), sources).node
    if not isinstance(node.operator, cst.Divide):
        return False
    if isinstance(below, cst.BinaryOperation):
        return isinstance(below.operator, cst.Power) and _is_half(below.right)
    return isinstance(below, cst.Call) and last_name(below) == "sqrt"


def _is_half(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Float) and float(node.value) == 0.5
