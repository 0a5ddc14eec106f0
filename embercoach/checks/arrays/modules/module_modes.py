"""NN-005 and NN-006: modules that are evaluated in training mode, or trained in evaluation mode."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import LocalCall, calls_of
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted, walk
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import Transformed
from embercoach.checks.arrays.modules.mode_effects import Effect, ModeEffects, is_imported
from embercoach.checks.arrays.modules.mode_layers import (
    DEEPEST,
    NAMES,
    changes_by_mode,
    is_by_mode,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.facts.facts import Fact, ProjectCall
    from embercoach.analysis.project.module import Module

#: Names of functions that evaluate a model, and the definition or the call of one.
_EVALUATES = re.compile(r"_?(valid|eval|accuracy|predict|infer|score)")
_EVALUATING = re.compile(r"\bdef _?(valid|eval)|(?<!\.)\b_?(valid|eval|accuracy)\w*\(")
#: Loops of a function that are looked at.
MOST_LOOPS = 32


@check("NN-005")
def evaluated_in_training_mode(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model(x)`` outside of the loss, in a file that never calls ``model.eval()``."""
    source = module.source
    if "value_and_grad" not in source or "train(False" in source or "train(mode=" in source:
        return
    if ".eval()" in source or not ("train(" in source or _EVALUATING.search(source)):
        return
    if not any(name in source for name in NAMES) and not _imports(facts, module):
        return
    if any(e.kind == "eval" for e in _imported_effects(facts, module)):
        return
    calls = [
        f
        for f in facts
        if (type(f) is LocalCall or is_imported(f, module)) and not _is_transformed(f, module)
    ]
    by_mode = {call for call in calls if _calls_by_mode(call, module)}
    losses = {f for c in by_mode if (f := c.place.function) is not None and f.differentiated}
    roots = {root.info for root in module.gradient_roots}
    if any(changes_by_mode(cls, module, DEEPEST) for cls in _layers(module)):
        losses |= {info for info in roots if info.module is module}
    for fact in calls:
        is_loss = fact.function in losses or _is_loss_of(fact, roots, module)
        is_named = _is_named_evaluation(fact, module)
        if "train(" not in source and not is_named:
            continue
        if fact not in by_mode and not is_loss and not (is_named and _evaluates(fact, module)):
            continue
        if _is_evaluation(fact):
            yield Report.at(
                fact,
                "NN-005",
                message="model is evaluated in training mode: dropout and batch norm are active",
                help="Call `model.eval()` before, and `model.train()` before training goes on",
            )


def _layers(module: Module) -> Iterator[ClassInfo]:
    """The classes of a file that are layers."""
    owners = dict.fromkeys(info.cls for info in module.functions if info.cls is not None)
    yield from (cls for cls in owners if is_layer(cls))


def _is_named_evaluation(call: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a call is in, or is of, a function whose name says that it evaluates."""
    caller = call.function if is_imported(call, module) else call.place.function
    return caller is not None and _EVALUATES.match(caller.name) is not None


def _evaluates(call: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a function of another file calls the model that it is given, untrained."""
    if not is_imported(call, module):
        return False
    function = call.function
    given = [a.value for a in call.arguments if not a.star]
    names = [p.name for p in function.parameters if not p.star][call.is_bound :]
    models = {n for n, v in zip(names, given, strict=False) if is_by_mode(v, module, DEEPEST)}
    paths = [dotted(n.func) for n in walk(function.node.body) if isinstance(n, cst.Call)]
    trains = any((path or "").rpartition(".")[2] == "value_and_grad" for path in paths)
    return not trains and not models.isdisjoint(paths)


def _imports(facts: list[Fact], module: Module) -> bool:
    return any(is_imported(fact, module) for fact in facts)


def _imported_effects(facts: list[Fact], module: Module) -> Iterator[Effect]:
    """Yield the effects on models of functions of other files."""
    effects = ModeEffects(module)
    for function in {f.function for f in facts if is_imported(f, module)}:
        yield from effects.of(function.node.body)


def _calls_by_mode(call: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a model with such layers is called."""
    cls = call.function.cls
    is_call = call.function.name == "__call__" and cls is not None
    return is_call and cls is not None and changes_by_mode(cls, module, DEEPEST)


def _is_loss_of(call: LocalCall | ProjectCall, losses: set[FunctionInfo], module: Module) -> bool:
    """Return whether a loss of another file is called with a model that has such layers."""
    if not is_imported(call, module) or call.function not in losses:
        return False
    given = (argument.value for argument in call.arguments)
    return any(is_by_mode(value, module, DEEPEST) for value in given)


def _is_transformed(call: LocalCall | ProjectCall, module: Module) -> bool:
    """Return whether a gradient or a compilation of a function is called."""
    fact = calls_of(module).get(call.node)
    return fact is not None and isinstance(fact.callee, Transformed)


def _is_evaluation(call: LocalCall | ProjectCall) -> bool:
    """Return whether a model or a loss is called for its result, without a gradient."""
    caller = call.place.function
    if caller is None:
        return True
    is_part = caller.cls is not None and is_layer(caller.cls)
    return not (is_part or caller.differentiated or caller.is_test)


@check("NN-006")
def trained_in_evaluation_mode(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """A loop that trains a model and calls ``model.eval()`` alone, by itself or in a function."""
    if not module.trains or (".eval()" not in module.source and not _imports(facts, module)):
        return
    effects = ModeEffects(module)
    reported: set[cst.CSTNode] = set()
    for function in (None, *module.functions):
        body = module.tree if function is None else function.node.body
        for loop in islice(_loops(body), MOST_LOOPS):
            for effect in _left_in_evaluation(loop, effects):
                leaves = layout_of(module, function).leaves(effect.statement, loop)
                if effect.node in reported or leaves:
                    continue
                reported.add(effect.node)
                place = module.frame.place()._replace(statement=effect.statement, function=function)
                yield Report(
                    "NN-006",
                    effect.node,
                    place,
                    message="leaves the model in evaluation mode: training goes on without",
                    help="Call `model.train()` after it, or at the start of each iteration",
                )


def _loops(body: cst.CSTNode) -> Iterator[cst.For | cst.While]:
    for node in walk(body, (cst.BaseExpression, *DEFINITIONS)):
        if isinstance(node, (cst.For, cst.While)):
            yield node


def _left_in_evaluation(loop: cst.For | cst.While, effects: ModeEffects) -> list[Effect]:
    """The calls that switch a model to evaluation which the loop trains, and never switches."""
    found = list(effects.of(loop.body))
    paths = {
        kind: {e.path for e in found if e.kind == kind} for kind in ("eval", "train", "update")
    }
    left = (paths["eval"] & paths["update"]) - paths["train"]
    return [effect for effect in found if effect.kind == "eval" and effect.path in left]
