"""NN-009 and NN-010: optimizers made in every step, and gradients stored as parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.syntax.trees import dotted, target_names, walk
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import BoundMember, Instance, LibraryObject, Transformed
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module

#: Optimizers that keep moments of the gradients; SGD does so with a momentum.
_OPTIMIZERS = frozenset(
    f"mlx.optimizers.{name}"
    for name in (
        *("SGD", "RMSprop", "Adagrad", "AdaDelta", "Adam", "AdamW", "Adamax", "Lion"),
        *("Adafactor", "Muon"),
    )
)
_LOOPS = (cst.For, cst.While)
_SCOPES = (cst.FunctionDef, cst.Lambda, cst.ClassDef)


@check("NN-009", of=_OPTIMIZERS)
def optimizer_in_loop(fact: CallFact, module: Module) -> Iterator[Report]:
    """``for batch in data: optimizer = optim.Adam(lr); ...; optimizer.update(model, grads)``."""
    statement, function, loop = fact.place.statement, fact.place.function, fact.place.loop
    if fact.symbol == "mlx.optimizers.SGD" and fact.argument(1, "momentum") is None:
        return
    if not isinstance(statement, cst.Assign) or statement.value is not fact.node:
        return
    names = {name for target in statement.targets for name in target_names(target.target)}
    if loop is not None:
        body: cst.CSTNode = loop.body
    elif function is not None and not isinstance(function.node, cst.Lambda):
        calls = sources_of(module).callers(function)
        if not any(call.place.loops for call in calls):
            return
        body = function.node.body
    else:
        return
    model = _updated_model(body, names)
    if model is not None and not _is_made_in(body, model):
        yield Report.at(
            fact,
            "NN-009",
            message="optimizer made in every iteration: its state is lost after each step",
            help="Make the optimizer once, before the loop",
        )


def _updated_model(body: cst.CSTNode, optimizers: set[str]) -> str | None:
    """The name of the model that one of the optimizers updates, once in each iteration."""
    for node in walk(body, (*_LOOPS, *_SCOPES)):
        func = node.func if isinstance(node, cst.Call) else None
        if not isinstance(func, cst.Attribute) or dotted(func.value) not in optimizers:
            continue
        if func.attr.value == "update" and isinstance(node, cst.Call) and node.args:
            path = dotted(node.args[0].value)
            return None if path is None else path.partition(".")[0]
    return None


def _is_made_in(body: cst.CSTNode, name: str) -> bool:
    """Return whether statements bind a name: the model is another one in each iteration."""
    for node in walk(body, (cst.BaseExpression, *_SCOPES)):
        targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
        if any(name in target_names(target) for target in targets):
            return True
    return False


@check("NN-010", of=(".update",))
def gradients_as_parameters(fact: CallFact, module: Module) -> Iterator[Report]:
    """``model.update(grads)``."""
    owner = fact.callee.owner if isinstance(fact.callee, BoundMember) else None
    is_module = isinstance(owner, Instance) and is_layer(owner.info)
    if isinstance(owner, LibraryObject):
        is_module = owner.cls.startswith("mlx.nn.")
    given = fact.positional(0)
    if not is_module or given is None or not isinstance(given.node, cst.Name):
        return
    reaching = scope_of(module, fact.place.function).reaching
    held = reaching.before(fact.place.statement, given.node.value)
    if held and all(_is_gradient(binding.value, module) for binding in held):
        yield Report.at(
            fact,
            "NN-010",
            message=f"`update({given.node.value})` replaces the parameters by gradients",
            help="Use `optimizer.update(model, grads)`",
        )


def _is_gradient(made: cst.BaseExpression | None, module: Module) -> bool:
    """Return whether a call of a differentiated function computes a value, or a pair with it."""
    fact = None if made is None else calls_of(module).get(made)
    callee = None if fact is None else fact.callee
    while isinstance(callee, Transformed) and callee.transform in ("compile", "partial", "same"):
        callee = callee.inner
    return isinstance(callee, Transformed) and "grad" in callee.transform
