"""LAZY-003: clocks, ``with`` and ``timeit`` that stop before the timed arrays are evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain
from typing import NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.function_summaries import functions_at, functions_passed
from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.lazy_evaluation import evaluation_of, is_append
from embercoach.analysis.dataflow.reaching import last_name
from embercoach.analysis.dataflow.scopes import (
    Expression,
    is_rebound,
    made_in_init,
    resolve_name,
    scope_of,
)
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import DEFINITIONS, SCOPES, dotted, target_names
from embercoach.analysis.values.facts import (
    BinaryFact,
    CallFact,
    Fact,
    FormatFact,
    ProjectCall,
    TruthFact,
)
from embercoach.analysis.values.lattice import (
    BoundMember,
    Class,
    Function,
    Sequence,
    Unknown,
    Value,
    as_array,
    holds_arrays,
    options,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.analysis.work import MOST_STEPS
from embercoach.checks.registry import ProposedFix, Report, check
from embercoach.checks.source_text import mlx_alias

_EVAL = "mlx.core.eval"


def is_evaluated_elsewhere(
    func: cst.BaseExpression, function: FunctionInfo | None, module: Module
) -> bool:
    """Return whether a function evaluates what a parameter of it returns: ``mx.eval(f(x))``.

    A warm-up shows so that the result is lazy, whichever function is passed.
    """
    path = dotted(func)
    if path is None or function is None or not scope_of(module, function).binds(_root(path)):
        return False
    return path in _evaluated_calls(function, module)


def _root(path: str) -> str:
    return path.partition(".")[0]


@kept_for_file
def _evaluated_calls(function: FunctionInfo, module: Module) -> frozenset[str]:
    """Return the paths of what a function calls, where it gives the result to ``mx.eval``."""
    body = function.node.body
    evals = (fact for fact in evaluation_of(module).calls_in(body) if fact.symbol == _EVAL)
    given = [argument.node for fact in evals for argument in fact.arguments]
    names = {node.value for node in given if isinstance(node, cst.Name)}
    made = (*given, *contents_of(body).values_of(names))
    paths = (dotted(node.func) for node in made if isinstance(node, cst.Call))
    return frozenset(path for path in paths if path is not None)


CLOCKS = frozenset(
    (
        *("time.time", "time.perf_counter", "time.monotonic", "timeit.default_timer"),
        *("time.time_ns", "time.perf_counter_ns", "time.monotonic_ns"),
    )
)
#: Builtins that evaluate an array only if they are given one.
_BUILTINS = frozenset(
    (
        *("bool", "dict", "enumerate", "float", "int", "len", "list", "max", "min", "print"),
        *("range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip"),
    )
)
#: Lazy functions whose time on the host is what a program measures.
_HOST_WORK = frozenset(f"mlx.core.{n}" for n in ("array", "load", "from_dlpack", "asarray"))
#: Functions that only allocate.
_CREATION = frozenset(f"mlx.core.{n}" for n in ("zeros", "ones", "full", "empty", "eye"))


class TimedWork(Enum):
    """The work of statements on arrays, up to the first thing that may evaluate one.

    SCHEDULED: ``mx.async_eval()``, which doesn't wait.
    WAIT: ``mx.synchronize()``, which waits for what is scheduled alone.
    """

    NONE = 0
    LAZY = 1
    SCHEDULED = 2
    WAIT = 3
    OTHER = 4


_SCHEDULING = {"mlx.core.async_eval": TimedWork.SCHEDULED, "mlx.core.synchronize": TimedWork.WAIT}
LAZY = (TimedWork.LAZY, TimedWork.SCHEDULED)


def work_of(
    nodes: Iterable[cst.CSTNode],
    function: FunctionInfo | None,
    module: Module,
) -> TimedWork:
    """Return what statements or expressions of a function do, with the functions that they call."""
    found = TimedWork.NONE
    for node in nodes:
        for inner in contents_of(node, SCOPES):
            done = _work_of_node(inner, function, module)
            if done is TimedWork.OTHER or (done is TimedWork.WAIT and found is TimedWork.SCHEDULED):
                return TimedWork.OTHER
            if done is TimedWork.SCHEDULED or (done is TimedWork.LAZY and found is TimedWork.NONE):
                found = done
    return found


def _work_of_node(node: cst.CSTNode, function: FunctionInfo | None, module: Module) -> TimedWork:
    if isinstance(node, (cst.Await, cst.Yield, cst.Import, cst.ImportFrom, cst.Assert)):
        return TimedWork.OTHER
    evaluating, computing = _operations(module)
    if node in evaluating:
        return TimedWork.OTHER
    if node in computing:
        return TimedWork.LAZY
    if not isinstance(node, cst.Call):
        return TimedWork.NONE
    fact, local = evaluation_of(module).calls.get(node), evaluation_of(module).local_call(node)
    if local is not None:
        done = _work_of_function(local.function.node, local.function, module)
        made = local.function.name == "__init__"  # weights are lazy, and layers are made anyway
        return TimedWork.NONE if made and done in LAZY else done
    callees = [] if fact is None else list(options(fact.callee))
    if any(_work_of_value(callee, module) in LAZY for callee in callees):
        return TimedWork.LAZY  # one of several functions
    is_known = fact is not None and Unknown not in map(type, callees)
    passed = None if is_known else _work_of_passed(node.func, function, module)
    if passed is None and not is_known and is_evaluated_elsewhere(node.func, function, module):
        return TimedWork.LAZY
    if passed is not None:
        return passed
    if fact is None:
        name = node.func.value if isinstance(node.func, cst.Name) else ""
        is_builtin = name in _BUILTINS and name not in module.frame.names
        return TimedWork.NONE if is_builtin else TimedWork.OTHER
    return _work_of_call(fact, module)


def _work_of_value(callee: Value, module: Module) -> TimedWork:
    """Return the work of a value that is called, if that is a function of the file."""
    if type(callee) is not Function or callee.info.module is not module:
        return TimedWork.NONE
    return _work_of_function(callee.info.node, callee.info, module)


def _work_of_passed(
    func: cst.BaseExpression, function: FunctionInfo | None, module: Module
) -> TimedWork | None:
    """Get the work of a parameter, of ``self.function``, or of an item of a list of functions."""
    name = func.value if isinstance(func, cst.Name) else ""
    owner = function
    while owner is not None:
        if any(p.name == name for p in owner.parameters):
            return _work_of_parameter(name, owner, module)
        owner = owner.outer
    kept = None if function is None else _parameter_of_attribute(func, function)
    if kept is not None:
        return _work_of_parameter(*kept, module)
    items = functions_at(func, function, module) if name else []
    is_lazy = any(_work_of_function(item.node, None, module) in LAZY for item in items)
    return TimedWork.LAZY if is_lazy else None


def _work_of_call(fact: CallFact, module: Module) -> TimedWork:
    if fact.symbol in CLOCKS:
        return TimedWork.NONE
    if fact.symbol in _SCHEDULING:
        return _SCHEDULING[fact.symbol]
    if evaluation_of(module).effect(fact.node) != "lazy" or not _is_known(fact):
        return TimedWork.OTHER
    if fact.symbol in _HOST_WORK:
        return TimedWork.OTHER
    computes = holds_arrays(fact.result) and fact.symbol not in _CREATION
    return TimedWork.LAZY if computes else TimedWork.NONE


def work_of_function(node: cst.FunctionDef | cst.Lambda, module: Module) -> TimedWork:
    """Return what a call of a function of the file does."""
    return _work_of_function(node, None, module)


def _work_of_function(
    node: cst.FunctionDef | cst.Lambda, function: FunctionInfo | None, module: Module
) -> TimedWork:
    if getattr(node, "asynchronous", None) is not None:
        return TimedWork.OTHER
    known = _functions(module)
    if node not in known:
        known[node] = TimedWork.OTHER  # for functions that call each other
        known[node] = work_of((node.body,), function, module)
    return known[node]


def _work_of_parameter(name: str, function: FunctionInfo, module: Module) -> TimedWork | None:
    """Return the work of a function that is passed to another one of the file, lazy if any's is."""
    if is_rebound(module, function, name):
        return TimedWork.OTHER
    if function.parameters[0].name == name:
        decorated = [f.node for f in module.functions if function.name in _decorators(f)]
        if any(_work_of_function(node, None, module) in LAZY for node in decorated):
            return TimedWork.LAZY
    passed = [info for found in functions_passed(function, name) for info in found]
    # Their own parameters are not followed: who calls them is not known.
    if any(_work_of_function(info.node, None, module) in LAZY for info in passed):
        return TimedWork.LAZY
    return TimedWork.OTHER if passed else None


def _parameter_of_attribute(
    func: cst.BaseExpression, function: FunctionInfo
) -> tuple[str, FunctionInfo] | None:
    """Return the parameter of ``__init__`` that ``self.function`` always holds."""
    owner, _, attribute = (dotted(func) or "").rpartition(".")
    cls = function.cls
    if cls is None or not function.parameters or owner != function.parameters[0].name:
        return None
    init, made = cls.methods.get("__init__"), made_in_init(cls, attribute)
    if init is None or not isinstance(made, cst.Name):
        return None
    is_parameter = any(p.name == made.value for p in init.parameters)
    return (made.value, init) if is_parameter else None


def _decorators(function: FunctionInfo) -> list[str | None]:
    """Return the names of the decorators of a function, without those that are called."""
    if isinstance(function.node, cst.Lambda):
        return []
    return [dotted(decorator.decorator) for decorator in function.node.decorators]


@kept_for_file
def _functions(module: Module) -> dict[cst.CSTNode, TimedWork]:
    """Return the known work of the functions of a file."""
    return {}


def _is_known(fact: CallFact) -> bool:
    """Test whether MLX has what is called: a method of a layer may do anything."""
    callee = fact.callee
    if not isinstance(callee, BoundMember) or as_array(callee.owner) is not None:
        return True
    return isinstance(callee.owner, Sequence) and is_append(fact.node)


@kept_for_file
def _operations(module: Module) -> tuple[frozenset[cst.CSTNode], frozenset[cst.CSTNode]]:
    """Return the expressions of a file that evaluate arrays, and the lazy operators."""
    evaluating: set[cst.CSTNode] = set()
    computing: set[cst.CSTNode] = set()
    for fact in module.facts():
        if isinstance(fact, (TruthFact, FormatFact)):
            if as_array(fact.value) is not None:
                evaluating.add(fact.node)
        elif isinstance(fact, BinaryFact):
            operands = (fact.left, fact.right)
            if any(side.numpy is not None for side in operands):
                evaluating.add(fact.node)
            elif any(side.array is not None for side in operands):
                computing.add(fact.node)
    return frozenset(evaluating), frozenset(computing)


_MANAGER = "contextlib.contextmanager"
#: Calls in a timer that may evaluate, or wait for, what it times.
_WAITING = frozenset(("eval", "async_eval"))
_CLOCK_NAMES = frozenset(clock.rpartition(".")[2] for clock in CLOCKS)


@check("LAZY-003")
def timed_section(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``with timer("matmul"): y = a @ b``, where the timer reads a clock before and after."""
    timers = _timers(module, facts) if "with " in module.source else _NONE
    if not any(timers[:3]):
        return
    at = {id(fact.place.statement): fact for fact in facts}
    for node in contents_of(module.tree, (cst.BaseExpression,)).of(cst.With):
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
        done = TimedWork.SCHEDULED if is_scheduled else work_of(node.body.body, function, module)
        if done is TimedWork.LAZY or (done is TimedWork.SCHEDULED and not timers.has_wait):
            yield Report.at(
                fact,
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
    """Return how often a function reads a clock; none if it may evaluate arrays too."""
    body = info.node.body
    if not _WAITING.isdisjoint(contents_of(body).names):
        return 0
    return sum(last_name(call) in _CLOCK_NAMES for call in contents_of(body, SCOPES).calls)


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
    """Return the last simple statement of a block."""
    node = section.body.body[-1]
    while isinstance(node, (cst.For, cst.While, cst.With)):
        node = node.body.body[-1]
    return node.body[-1] if isinstance(node, cst.SimpleStatementLine) else None


_SUITES = (cst.For, cst.While, cst.With)


@check("LAZY-003", of=CLOCKS)
def unevaluated_timing(fact: CallFact, module: Module) -> Iterator[Report]:
    """``y = f(x)`` between ``start = time.time()`` and ``time.time() - start``."""
    function = fact.place.function
    if function is not None and (function.compiled or function.vmapped):
        return
    asked = evaluation_of(module).asked
    asked[_scope(fact)] += 1
    if asked[_scope(fact)] > MOST_STEPS:
        return
    stop = fact.place.statement
    for name in _starts(fact, module):
        start = _started_at(name, stop, function, module)
        timed = (
            [] if start is None else layout_of(module, function).between(start, stop, whole=True)
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
            message=SCHEDULED if is_scheduled else graph,
            help=f"Call `mx.eval({', '.join(names) or '...'})` before the clock stops",
            change=_change(names, stop, module),
        )
        return


def _ends_scheduled(timed: list[cst.CSTNode], module: Module) -> bool:
    """Test whether ``mx.async_eval(y)`` is all that follows what computes an array."""
    last = timed[-1]
    if isinstance(last, cst.SimpleStatementLine):
        last = last.body[-1]
    return is_scheduling(last, module)


def _scope(fact: CallFact) -> cst.CSTNode | None:
    return None if fact.place.function is None else fact.place.function.node


def _starts(fact: CallFact, module: Module) -> list[str]:
    """Return the variables that a clock's reading is compared with."""
    differences, compared = _differences(module, fact.place.function)
    direct = differences.get(fact.node)
    if direct is not None:
        return [direct]
    statement = fact.place.statement
    if isinstance(statement, cst.Assign) and statement.value is fact.node:
        names = list(target_names(statement.targets[0].target))
        # A reading that another one is compared with ends one part of several.
        starts = {*compared.values(), *differences.values()}
        if len(names) == 1 and names[0] not in starts:
            return sorted({start for stop, start in compared.items() if stop[0] == names[0]})
    return []


@kept_for_file
def _differences(
    module: Module, function: FunctionInfo | None
) -> tuple[dict[cst.CSTNode, str], dict[tuple[str, str], str]]:
    """``clock() - start`` by the call, and ``stop - start`` by both names."""
    direct: dict[cst.CSTNode, str] = {}
    compared: dict[tuple[str, str], str] = {}
    body = module.tree if function is None else function.node.body
    for node in contents_of(body, DEFINITIONS).of(cst.BinaryOperation):
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
    """Return the statement that alone reads the clock into a variable or an attribute."""
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
    """Return the last statement before another one, of its suites, that assigns an attribute."""
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
        node in evaluation.calls
        and evaluation.effect(node) != "lazy"
        and clock not in contents_of(node)
        for node in contents_of(stop, (cst.Lambda,)).calls
    )


def _results(timed: list[cst.CSTNode], function: FunctionInfo | None, module: Module) -> list[str]:
    """Return the names that the last of the timed statements binds to lazy arrays."""
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
