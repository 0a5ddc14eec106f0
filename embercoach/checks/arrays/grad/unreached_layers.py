"""GRAD-008: layers that get no gradient, as their results only choose an index or are rounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.facts.facts import ArrayIndexFact, BinaryFact, CallFact
from embercoach.checks.arrays.numerics.compositions import computed
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    import libcst as cst

    from embercoach.analysis.facts.facts import Fact
    from embercoach.analysis.gradients.gradient_roots import UnreachedLayer
    from embercoach.analysis.project.module import Module

#: What would train such layers, or not: files that mention it are left aside.
_FROZEN = ("freeze(", "trainable")


@check("GRAD-008")
def unreached_layers(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``book[mx.argmin(distances(encoder(x)))]`` without a straight-through gradient."""
    if any(text in module.source for text in _FROZEN):
        return
    reported: set[cst.CSTNode] = set()
    for result in module.differentiated:
        for unreached in result.unreached:
            place = _lookup(unreached, module) or result.root
            if place.node in reported:
                continue
            reported.add(place.node)
            yield Report.at(
                place,
                "GRAD-008",
                message=f"`{_shown(unreached)}` gets no gradient through `{unreached.operation}()`",
                help="Add it straight through: `q = z + mx.stop_gradient(q - z)`",
            )


def _shown(unreached: UnreachedLayer) -> str:
    text = unreached.method.module.parsed.code(unreached.layer.func)
    return text if len(text) <= 24 else "a layer"


def _lookup(unreached: UnreachedLayer, module: Module) -> Fact | None:
    """The call or subscript that is given the chosen index; without one, what chooses it."""
    if unreached.method.module is not module:
        return None
    cls = unreached.method.cls
    methods = (unreached.method,) if cls is None else cls.methods.values()
    facts = [fact for method in methods for fact in module.facts_of(method)]
    choices = {
        fact.node: fact
        for fact in facts
        if isinstance(fact, CallFact)
        and fact.entry is not None
        and fact.entry.name.rpartition(".")[2] == unreached.operation
    }
    sources = sources_of(module)
    for fact in facts:
        for node in _given(fact):
            ends = computed(sources.of(fact, node), sources)
            if fact.node not in choices and any(end.node in choices for end in ends):
                return fact
    return next(iter(choices.values()), None)


def _given(fact: Fact) -> Iterator[cst.BaseExpression]:
    """The expressions that a call is given, or that a subscript has as its index."""
    if isinstance(fact, CallFact) and fact.symbol != "mlx.core.stop_gradient":
        yield from (argument.node for argument in fact.arguments if not argument.star)
    elif isinstance(fact, BinaryFact):
        yield from (fact.left.node, fact.right.node)
    elif isinstance(fact, ArrayIndexFact):
        yield from (index[0] for index in fact.indices if index is not None)
