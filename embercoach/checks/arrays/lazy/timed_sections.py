"""LAZY-003: timers that end before the timed arrays are evaluated: ``with`` and ``timeit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.facts import ProjectCall
from embercoach.analysis.facts.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.syntax.trees import SCOPES, dotted, names_below, walk
from embercoach.analysis.values.lattice import Class
from embercoach.checks.arrays.lazy.laziness import (
    CLOCKS,
    LAZY,
    Work,
    work_of,
    work_of_function,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CallFact, Fact
    from embercoach.analysis.project.module import Module

_MANAGER = "contextlib.contextmanager"
#: Calls in a timer that may evaluate, or wait for, what it times.
_WAITING = frozenset(("eval", "async_eval"))
_CLOCK_NAMES = frozenset(clock.rpartition(".")[2] for clock in CLOCKS)
#: Sections of one file that are looked at: each takes a walk of what it times.
_MOST_SECTIONS = 64


@check("LAZY-003")
def timed_section(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``with timer("matmul"): y = a @ b``, where the timer reads a clock before and after."""
    timers = _timers(module, facts) if "with " in module.source else _NONE
    if not any(timers[:3]):
        return
    at = {id(fact.place.statement): fact for fact in facts}
    sections = (node for node in walk(module.tree, (cst.BaseExpression,)) if type(node) is cst.With)
    for _, node in zip(range(_MOST_SECTIONS), sections, strict=False):
        last = _last(node)
        fact = None if last is None else at.get(id(last))
        if fact is None or last is None:
            continue
        function = fact.place.function
        if function is not None and (function.compiled or function.vmapped):
            continue
        if not any(_is_timer(item.item, timers, function, module) for item in node.items):
            continue
        is_scheduled = is_scheduling(last, module)
        done = Work.SCHEDULED if is_scheduled else work_of(node.body.body, function, module)
        if done is Work.LAZY or (done is Work.SCHEDULED and not timers.has_wait):
            yield Report.at(
                fact,
                "LAZY-003",
                node=getattr(last, "value", last),
                message=SCHEDULED if is_scheduled else _UNEVALUATED.format("timer ends"),
                help="Call `mx.eval(...)` of the results at the end of the timed block",
            )


SCHEDULED = "clock stops when the work is scheduled: `mx.async_eval()` does not wait"
_UNEVALUATED = "{} before the arrays are evaluated: only graph building is timed"


@check("LAZY-003", of=("timeit.timeit", "timeit.repeat"))
def timed_function(fact: CallFact, module: Module) -> Iterator[Report]:
    """``timeit.timeit(lambda: a @ b, number=100)``."""
    given = fact.argument(0, "stmt")
    if given is None or given.star:
        return
    found = resolve_name(Expression(given.node, scope_of(module, fact.place.function))).node
    if isinstance(found, (cst.FunctionDef, cst.Lambda)) and work_of_function(found, module) in LAZY:
        yield Report.at(
            fact,
            "LAZY-003",
            message=_UNEVALUATED.format("`timeit` returns"),
            help="Evaluate the result in the timed function: `mx.eval(...)`",
        )


def is_scheduling(statement: cst.CSTNode, module: Module) -> bool:
    """Return whether a statement is ``mx.async_eval(y)``."""
    call = statement.value if isinstance(statement, cst.Expr) else None
    fact = evaluation_of(module).calls.get(call) if call is not None else None
    return fact is not None and fact.symbol == "mlx.core.async_eval"


class _Timers(NamedTuple):
    """Names of functions and classes of the file that time a block, and calls of others.

    has_wait: one of them waits for scheduled work.
    """

    functions: frozenset[str]
    classes: frozenset[str]
    calls: frozenset[cst.CSTNode]
    has_wait: bool = False


_NONE = _Timers(frozenset(), frozenset(), frozenset())


def _timers(module: Module, facts: list[Fact]) -> _Timers:
    functions, classes, calls = set(), set(), set()
    for info in module.functions:
        if _times_yield(info):
            functions.add(info.name)
        elif info.name == "__exit__" and info.cls is not None and _times_exit(info):
            classes.add(info.cls.name)
    for name, value in module.frame.names.items():
        exits = value.info.methods.get("__exit__") if type(value) is Class else None
        if exits is not None and exits.module is not module and _times_exit(exits):
            classes.add(name)
    for fact in facts:
        if type(fact) is ProjectCall and _times_yield(fact.function):
            calls.add(fact.node)
    has_wait = "synchronize" in module.source
    return _Timers(frozenset(functions), frozenset(classes), frozenset(calls), has_wait)


def _times_yield(info: FunctionInfo) -> bool:
    """Test whether a context manager reads a clock before and after its ``yield``."""
    return _MANAGER in info.decorators and _readings(info) > 1


def _times_exit(info: FunctionInfo) -> bool:
    """Test whether ``__enter__`` and ``__exit__`` read a clock."""
    enters = None if info.cls is None else info.cls.methods.get("__enter__")
    return enters is not None and _readings(enters) > 0 and _readings(info) > 0


def _readings(info: FunctionInfo) -> int:
    """How often a function reads a clock; none if it may evaluate arrays too."""
    body = info.node.body
    if not _WAITING.isdisjoint(names_below(body)):
        return 0
    calls = (n for n in walk(body, SCOPES) if isinstance(n, cst.Call))
    return sum((dotted(c.func) or "").rpartition(".")[2] in _CLOCK_NAMES for c in calls)


def _is_timer(
    node: cst.BaseExpression, timers: _Timers, function: FunctionInfo | None, module: Module
) -> bool:
    """Test whether a ``with`` enters a timer."""
    made = resolve_name(Expression(node, scope_of(module, function))).node
    if made in timers.calls:
        return True
    name = (dotted(made.func) or "").rpartition(".")[2] if isinstance(made, cst.Call) else ""
    return name in timers.functions or name in timers.classes


def _last(section: cst.With) -> cst.CSTNode | None:
    """The last simple statement of a block."""
    node = section.body.body[-1]
    while isinstance(node, (cst.For, cst.While, cst.With)):
        node = node.body.body[-1]
    return node.body[-1] if isinstance(node, cst.SimpleStatementLine) else None
