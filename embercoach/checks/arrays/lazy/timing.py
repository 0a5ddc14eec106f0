"""LAZY-003: clocks, ``with`` and ``timeit`` that stop before the timed arrays are evaluated."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.dataflow.evaluation import evaluation_of
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.facts.facts import ProjectCall
from embercoach.analysis.syntax.trees import SCOPES, dotted, names_below, target_names, walk
from embercoach.analysis.values.lattice import Class
from embercoach.checks.arrays.lazy.laziness import (
    CLOCKS,
    LAZY,
    Work,
    work_of,
    work_of_function,
)
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
