"""LAZY-001: losses of a whole data set in one comprehension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import SCOPES, dotted, head_of, target_names, walk
from embercoach.checks.arrays.lazy.growth import is_consumed
from embercoach.checks.arrays.lazy.lazy_loops import is_traced, may_ask
from embercoach.checks.arrays.lazy.loop_lengths import is_short
from embercoach.checks.arrays.lazy.step_loops import lineage_of, runs_model
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import Fact, FactPlace
    from embercoach.analysis.project.module import Module

_COMPREHENSIONS = (cst.ListComp, cst.GeneratorExp)


@check("LAZY-001")
def losses_at_once(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``sum(loss_fn(model, x) for x in batches)``."""
    seen: set[int] = set()
    for fact in facts:
        place = fact.place
        if not place.loop_names or id(place.statement) in seen:
            continue
        seen.add(id(place.statement))
        for node in head_of(place.statement):
            if type(node) in _COMPREHENSIONS and _keeps_graphs(node, place, module):  # type: ignore[arg-type]
                yield Report.at(
                    fact,
                    "LAZY-001",
                    node=node,
                    message="no element is evaluated: the graphs of all batches are kept",
                    help="Evaluate each element: `.item()`, or a loop with `mx.eval()`",
                )


def _keeps_graphs(node: cst.ListComp | cst.GeneratorExp, place: FactPlace, module: Module) -> bool:
    if is_traced(place, module) or not may_ask(place, module):
        return False
    loop, statement, function = node.for_in, place.statement, place.function
    targets = set(target_names(loop.target))
    if is_short(loop.iter, function, module):
        return False
    if any(isinstance(n, cst.Call) and dotted(n.func) in targets for n in walk(node.elt, SCOPES)):
        return False  # over layers
    lineage = lineage_of(node.elt, statement, function, loop, module)
    if not lineage.is_reduced or lineage.is_evaluated or not runs_model(lineage, loop, module):
        return False
    return is_consumed(node, statement, function, module)
