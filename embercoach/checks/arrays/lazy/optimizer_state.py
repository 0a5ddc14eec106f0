"""LAZY-006: training loops that never evaluate the state of their optimizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.syntax.trees import dotted, names_below, small_statements, target_names
from embercoach.analysis.values.lattice import BoundMember, LibraryObject
from embercoach.checks.arrays.lazy.lazy_loops import is_traced, may_ask
from embercoach.checks.arrays.lazy.loop_lengths import is_long
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module

#: Parts of names of learning rates that depend on the step, which is then evaluated with weights.
_SCHEDULES = ("schedule", "decay(", "warmup", "get_lr")


@check("LAZY-006", of=(".update",))
def unevaluated_state(fact: CallFact, module: Module) -> Iterator[Report]:
    """``mx.eval(loss, model.parameters())`` in a loop, without ``optimizer.state``."""
    place, func = fact.place, fact.node.func
    if not place.loops or place.loop is None or not _is_optimizer(fact):
        return
    path = dotted(func.value) if isinstance(func, cst.Attribute) else None
    if path is None or is_traced(place, module) or not may_ask(place, module):
        return
    if any(word in module.source.lower() for word in _SCHEDULES):
        return
    loops = layout_of(module, place.function).loops(place.statement)
    loop = next((around for around in loops if is_long(around)), None)
    evaluation = evaluation_of(module)
    if loop is None or not evaluation.evaluates(loop.body):
        return  # LAZY-002 reports a loop that evaluates nothing
    outermost = list(layout_of(module, place.function).loops(place.statement))[-1]
    if not evaluation.may_evaluate(outermost.body.body, {path, *_holders(path, fact, module)}):
        yield Report.at(
            fact,
            "LAZY-006",
            message="the loop never evaluates the optimizer's state: its graph grows",
            help=f"Add it to the evaluation: `mx.eval(model.parameters(), {path}.state)`",
        )


def _holders(path: str, fact: CallFact, module: Module) -> Iterator[str]:
    """Names that a function binds to values made of the optimizer: ``state``."""
    function, name = fact.place.function, path.rpartition(".")[2]
    body = module.tree if function is None else function.node.body
    for statement in small_statements(body):
        if isinstance(statement, cst.Assign) and name in names_below(statement.value):
            for target in statement.targets:
                yield from target_names(target.target)


def _is_optimizer(fact: CallFact) -> bool:
    callee = fact.callee
    owner = callee.owner if isinstance(callee, BoundMember) else None
    return isinstance(owner, LibraryObject) and owner.cls.startswith("mlx.optimizers.")
