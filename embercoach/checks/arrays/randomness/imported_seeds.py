"""RANDOM-004: functions of other files that seed alike at every call of a loop."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.parameters import closure_of
from embercoach.analysis.evaluate.dispatch import evaluate
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.facts.scopes import by_parameter
from embercoach.analysis.syntax.trees import dotted, names_below, walk
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.lattice import Symbol
from embercoach.checks.arrays.randomness.random_keys import PREFIX
from embercoach.checks.arrays.randomness.repeated_seeds import (
    TIMERS,
    is_of_one_object,
    is_unchanging,
    repeats,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import ProjectCall
    from embercoach.analysis.project.module import Module

#: Functions that take no random numbers.
_KEYS = frozenset(f"{PREFIX}{name}" for name in ("seed", "key", "split", "state"))


@check("RANDOM-004")
def seed_in_other_file(fact: ProjectCall, module: Module) -> Iterator[Report]:
    """``x = sampler.step(x)`` in a loop, where ``step`` begins with ``mx.random.seed(0)``."""
    function, place = fact.function, fact.place
    if not place.loops or place.periodic or function.module is module or module.is_test:
        return
    if place.function is not None and place.function.is_test:
        return
    seed = _seed(function)
    if seed is None or any(timer in module.source for timer in TIMERS):
        return
    if not isinstance(_default(seed, fact), cst.Integer):
        if not is_unchanging(seed, function, function.module):
            return
        if not is_of_one_object(fact, function, module):
            return
    if repeats(fact, function, sources_of(module)):
        yield Report.at(
            fact,
            "RANDOM-004",
            message=f"`{function.name[:20]}()` seeds alike at every call: the same numbers",
            help="Seed once, before the loop",
        )


def _default(seed: cst.BaseExpression, fact: ProjectCall) -> cst.CSTNode | None:
    """The seed, or the default of the parameter that it is, if the call passes none."""
    function, name = fact.function, dotted(seed)
    parameter = next((p for p in function.parameters if p.name == name), None)
    if parameter is None:
        return seed
    pairs = ((a.keyword, a.node) for a in fact.arguments)
    passed = by_parameter(function, pairs, is_bound=fact.is_bound)
    has_star = any(a.star for a in fact.arguments)
    return None if has_star or parameter.name in passed else parameter.default


@lru_cache(maxsize=256)
def _seed(function: FunctionInfo) -> cst.BaseExpression | None:
    """The seed that a function always sets before it draws numbers itself."""
    if isinstance(function.node, cst.Lambda) or "seed" not in names_below(function.node.body):
        return None
    frame = Frame(function.module, function, closure_of(function), record=False)
    found: cst.BaseExpression | None = None
    for line in function.node.body.body:
        for node in walk(line, (cst.FunctionDef, cst.ClassDef)):
            if not isinstance(node, cst.Call) or dotted(node.func) is None:
                continue
            callee = evaluate(frame, node.func)
            name = callee.name if isinstance(callee, Symbol) else ""
            is_certain = isinstance(line, cst.SimpleStatementLine)
            if name == f"{PREFIX}seed" and is_certain and len(node.args) == 1:
                found = node.args[0].value
            elif found is not None and name.startswith(PREFIX) and name not in _KEYS:
                has_key = any(a.keyword is not None and a.keyword.value == "key" for a in node.args)
                return None if has_key else found
    return None
