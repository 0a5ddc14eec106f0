"""NN-005 and NN-006: modules that are evaluated in training mode, or trained in evaluation mode."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import LocalCall, calls_of
from embercoach.analysis.syntax.trees import dotted, walk
from embercoach.analysis.values.inheritance import is_layer, lineage
from embercoach.analysis.values.joins import any_item
from embercoach.analysis.values.lattice import (
    BoundMember,
    Instance,
    LibraryObject,
    Sequence,
    Transformed,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.facts.facts import CallFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: Layers that compute something else in training.
BY_MODE = ("mlx.nn.Dropout", "mlx.nn.BatchNorm")
NAMES = ("Dropout", "BatchNorm")
#: How deep layers are searched for others.
DEEPEST = 4
#: Loops of a function that are looked at.
MOST_LOOPS = 32


@check("NN-005")
def evaluated_in_training_mode(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``model(x)`` outside of the loss, in a file that never calls ``model.eval()``."""
    source = module.source
    if not any(name in source for name in NAMES) or ".eval()" in source or "train(" not in source:
        return
    if "value_and_grad" not in source or "train(False" in source or "train(mode=" in source:
        return
    calls = [f for f in facts if isinstance(f, LocalCall) and not _is_transformed(f, module)]
    by_mode = {call for call in calls if _calls_by_mode(call)}
    losses = {f for c in by_mode if (f := c.place.function) is not None and f.differentiated}
    for fact in calls:
        if _is_evaluation(fact) and (fact in by_mode or fact.function in losses):
            yield Report.at(
                fact,
                "NN-005",
                message="model is evaluated in training mode: dropout and batch norm are active",
                help="Call `model.eval()` before, and `model.train()` before training goes on",
            )


def _calls_by_mode(call: LocalCall) -> bool:
    """Return whether a model with such layers is called."""
    cls = call.function.cls
    return call.function.name == "__call__" and cls is not None and _changes_by_mode(cls, DEEPEST)


def _is_transformed(call: LocalCall, module: Module) -> bool:
    """Return whether a gradient or a compilation of a function is called."""
    fact = calls_of(module).get(call.node)
    return fact is not None and isinstance(fact.callee, Transformed)


def _is_evaluation(call: LocalCall) -> bool:
    """Return whether a model or a loss is called for its result, without a gradient."""
    caller = call.place.function
    if caller is None:
        return True
    is_part = caller.cls is not None and is_layer(caller.cls)
    return not (is_part or caller.differentiated or caller.is_test)


def _changes_by_mode(cls: ClassInfo, depth: int) -> bool:
    """Return whether a layer holds one that computes something else in training."""
    if depth == 0:
        return False
    held = (value for base in lineage(cls) for value in base.attributes.values())
    return any(_is_by_mode(value, depth) for value in held)


def _is_by_mode(value: Value, depth: int) -> bool:
    if type(value) is LibraryObject:
        return value.cls.startswith(BY_MODE)
    if type(value) is Instance:
        return is_layer(value.info) and _changes_by_mode(value.info, depth - 1)
    if type(value) is Sequence and depth:
        items = value.items if value.items is not None else (any_item(value),)
        return any(_is_by_mode(item, depth - 1) for item in items)
    return False


@check("NN-006", of=(".",))
def trained_in_evaluation_mode(fact: CallFact, module: Module) -> Iterator[Report]:
    """``optimizer.update(model, gradients)`` in a loop that calls ``model.eval()`` alone."""
    if not isinstance(fact.callee, BoundMember) or fact.callee.name != "update":
        return
    given = fact.positional(0)
    name = None if given is None else dotted(given.node)
    if name is None or len(fact.arguments) != 2 or fact.place.function is None:
        return
    for calls, modes in _loops(fact.place.function):
        if fact.node in calls and f"{name}.eval" in modes and f"{name}.train" not in modes:
            yield Report.at(
                fact,
                "NN-006",
                message="the loop calls `eval()`, and never `train()`: training goes on without",
                help="Call `model.train()` at the start of each round",
            )
            return


@lru_cache(maxsize=4)
def _loops(function: FunctionInfo) -> list[tuple[frozenset[cst.Call], frozenset[str | None]]]:
    """The calls in each loop of a function, and the dotted names of what they call."""
    found: list[tuple[frozenset[cst.Call], frozenset[str | None]]] = []
    for loop in walk(function.node.body, (cst.BaseExpression,)):
        if isinstance(loop, (cst.For, cst.While)) and len(found) < MOST_LOOPS:
            calls = frozenset(node for node in walk(loop) if isinstance(node, cst.Call))
            found.append((calls, frozenset(dotted(call.func) for call in calls)))
    return found
