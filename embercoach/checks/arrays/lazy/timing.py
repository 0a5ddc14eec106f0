"""LAZY-003: clocks that stop before the timed arrays are evaluated."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.layout import layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import dotted, target_names, walk
from embercoach.checks.arrays.lazy.laziness import CLOCKS, LAZY, work_of
from embercoach.checks.arrays.lazy.timed_sections import SCHEDULED, is_scheduling
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module

#: Readings of one function that are looked at: each takes a walk of what it times.
_MOST_READINGS = 64
_SUITES = (cst.For, cst.While, cst.With)


@check("LAZY-003", of=CLOCKS)
def unevaluated_timing(fact: CallFact, module: Module) -> Iterator[Report]:
    """``y = f(x)`` between ``start = time.time()`` and ``time.time() - start``."""
    function = fact.place.function
    if function is not None and (function.compiled or function.vmapped):
        return
    asked = evaluation_of(module).asked
    asked[_scope(fact)] += 1
    if asked[_scope(fact)] > _MOST_READINGS:
        return
    stop = fact.place.statement
    for name in _starts(fact, module):
        start = _started_at(name, stop, function, module)
        timed = (
            () if start is None else layout_of(module, function).between(start, stop, whole=True)
        )
        if not timed:
            continue
        if _evaluates(stop, fact.node, module):
            continue
        is_scheduled = _ends_scheduled(timed, module)
        if not is_scheduled and work_of(timed, function, module) not in LAZY:
            continue
        names = _results(timed, function, module)
        what = f"`{names[-1]}`" if names else "the result"
        graph = f"clock stops before {what} is evaluated: only graph building is timed"
        yield Report.at(
            fact,
            "LAZY-003",
            message=SCHEDULED if is_scheduled else graph,
            help=f"Call `mx.eval({', '.join(names) or '...'})` before the clock stops",
            change=_change(names, stop, module),
        )
        return


def _ends_scheduled(timed: Sequence[cst.CSTNode], module: Module) -> bool:
    """Test whether ``mx.async_eval(y)`` is all that follows what computes an array."""
    last = timed[-1]
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return is_scheduling(last, module)


def _scope(fact: CallFact) -> cst.CSTNode | None:
    return None if fact.place.function is None else fact.place.function.node


def _starts(fact: CallFact, module: Module) -> Sequence[str]:
    """The variables that a clock's reading is compared with."""
    differences, compared = _differences(module, fact.place.function)
    direct = differences.get(fact.node)
    if direct is not None:
        return (direct,)
    statement = fact.place.statement
    if isinstance(statement, cst.Assign) and statement.value is fact.node:
        names = list(target_names(statement.targets[0].target))
        # A reading that another one is compared with ends one part of several.
        starts = {*compared.values(), *differences.values()}
        if len(names) == 1 and names[0] not in starts:
            return sorted({start for stop, start in compared.items() if stop[0] == names[0]})
    return ()


@lru_cache(maxsize=2)
def _differences(
    module: Module, function: FunctionInfo | None
) -> tuple[dict[cst.CSTNode, str], dict[tuple[str, str], str]]:
    """``clock() - start`` by the call, and ``stop - start`` by both names."""
    direct: dict[cst.CSTNode, str] = {}
    compared: dict[tuple[str, str], str] = {}
    body = module.tree if function is None else function.node.body
    for node in walk(body, (cst.FunctionDef, cst.ClassDef)):
        if not isinstance(node, cst.BinaryOperation):
            continue
        left, right = node.left, node.right
        start = dotted(right)
        if isinstance(node.operator, cst.Subtract) and start is not None:
            if isinstance(left, cst.Call):
                direct[left] = start
            elif isinstance(left, cst.Name):
                compared[left.value, start] = start
    return direct, compared


def _started_at(
    name: str, stop: cst.CSTNode, function: FunctionInfo | None, module: Module
) -> cst.CSTNode | None:
    """The statement that alone reads the clock into a variable or an attribute."""
    if "." in name:
        return _attribute_started_at(name, stop, function, module)
    bindings = scope_of(module, function).reaching.before(stop, name) or ()
    if len(bindings) != 1 or bindings[0].kind != "assigned" or bindings[0].value is None:
        return None
    call = evaluation_of(module).calls.get(bindings[0].value)
    return bindings[0].statement if call is not None and call.symbol in CLOCKS else None


def _attribute_started_at(
    path: str, stop: cst.CSTNode, function: FunctionInfo | None, module: Module
) -> cst.CSTNode | None:
    """The last statement before another one, of its suites, that assigns an attribute."""
    for level in layout_of(module, function).outward(stop):
        for statement in reversed(level.statements[: level.position]):
            if not isinstance(statement, cst.Assign):
                continue
            if path in (dotted(target.target) for target in statement.targets):
                call = evaluation_of(module).calls.get(statement.value)
                return statement if call is not None and call.symbol in CLOCKS else None
    return None


def _evaluates(stop: cst.CSTNode, clock: cst.CSTNode, module: Module) -> bool:
    """Test whether the statement of the second reading evaluates arrays, such as in a return."""
    evaluation = evaluation_of(module)
    return any(
        isinstance(node, cst.Call)
        and node in evaluation.calls
        and evaluation.effect(node) != "lazy"
        and not any(inner is clock for inner in walk(node))
        for node in walk(stop, (cst.Lambda,))
    )


def _results(
    timed: Sequence[cst.CSTNode], function: FunctionInfo | None, module: Module
) -> list[str]:
    """The names that the last of the timed statements binds to lazy arrays."""
    pending = list(timed)
    while pending:
        statement = pending.pop()
        if isinstance(statement, cst.Assign):
            if work_of((statement.value,), function, module) not in LAZY:
                continue
            names = list(chain.from_iterable(target_names(t.target) for t in statement.targets))
            if names and all(name != "_" for name in names):
                return names
        elif isinstance(statement, cst.SimpleStatementLine):
            pending.extend(statement.body)
        elif isinstance(statement, _SUITES):
            pending.extend(statement.body.body)
    return []


def _change(names: list[str], stop: cst.CSTNode, module: Module) -> ProposedFix | None:
    """``mx.eval(y)`` in the line before the second reading."""
    mx = mlx_alias(module)
    if mx is None or not names:
        return None
    call = f"{mx}.eval({', '.join(names)})"
    return ProposedFix(f"Insert `{call}`", False, (), ((stop, call),))
