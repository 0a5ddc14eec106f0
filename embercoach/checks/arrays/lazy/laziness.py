"""Statements that compute arrays and certainly evaluate none of them."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.evaluation import evaluation_of, is_append
from embercoach.analysis.dataflow.scopes import (
    Expression,
    by_parameter,
    display,
    is_rebound,
    made_in_init,
    resolve_name,
    scope_of,
)
from embercoach.analysis.facts.facts import (
    BinaryFact,
    FormatFact,
    TruthFact,
    calls_by_function,
)
from embercoach.analysis.syntax.trees import SCOPES, dotted, small_statements, walk
from embercoach.analysis.values.lattice import (
    BoundMember,
    Function,
    Sequence,
    Unknown,
    as_array,
    holds_arrays,
    options,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.dataflow.scopes import Scope
    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

FunctionNode = cst.FunctionDef | cst.Lambda
#: Functions of one list that are looked at.
_MOST_ITEMS = 16
_EVAL = "mlx.core.eval"


def functions_at(
    node: cst.BaseExpression, function: FunctionInfo | None, module: Module
) -> list[FunctionNode]:
    """Return the functions of the file that a name or an argument of a function may be."""
    scope = scope_of(module, function)
    direct = _function(node, scope)
    if direct is not None:
        return [direct]
    if not isinstance(node, cst.Name):
        return []
    body = module.tree if function is None else function.node.body
    loops = (n for n in walk(body, SCOPES) if isinstance(n, (cst.For, cst.CompFor)))
    found: list[FunctionNode] = []
    for loop in loops:
        for container in _containers(loop, function, module):
            items = _items(loop, container, node.value)
            made = (_function(item, container.scope) for item in items)
            found += [item for item in made if item is not None]
    return found


def _function(node: cst.BaseExpression, scope: Scope) -> FunctionNode | None:
    if isinstance(node, cst.Name):
        found = scope.find(node.value)
        made = None if found is None or found[1] is None else found[1].node
        return made if isinstance(made, (cst.FunctionDef, cst.Lambda)) else None
    return node if isinstance(node, cst.Lambda) else None


def _containers(
    loop: cst.For | cst.CompFor, function: FunctionInfo | None, module: Module
) -> list[Expression]:
    """The container that a loop walks over; of a parameter, those that callers pass."""
    node, func = loop.iter, getattr(loop.iter, "func", None)
    if _view(loop) is not None and isinstance(func, cst.Attribute):
        node = func.value
    made = resolve_name(Expression(node, scope_of(module, function)))
    if function is None or not isinstance(made.node, cst.Name):
        return [made]
    name, found = made.node.value, []
    for call in calls_by_function(module).get(function, ())[:_MOST_ITEMS]:
        pairs = [(a.keyword.value if a.keyword else None, a.value) for a in call.node.args]
        given = by_parameter(function, pairs, is_bound=call.is_bound).get(name)
        if given is not None:
            scope = scope_of(module, call.place.function)
            found.append(resolve_name(Expression(given, scope)))
    return found


def _view(loop: cst.For | cst.CompFor) -> str | None:
    """The method of a loop over ``cases.items()`` or ``cases.values()``."""
    node = loop.iter
    func = node.func if isinstance(node, cst.Call) and not node.args else None
    return func.attr.value if isinstance(func, cst.Attribute) else None


def _items(
    loop: cst.For | cst.CompFor, container: Expression, name: str
) -> Iterator[cst.BaseExpression]:
    """Yield what a loop over a list, a tuple or a dictionary binds a name to."""
    made, view = container.node, _view(loop)
    if isinstance(made, cst.Dict) and view in ("items", "values"):
        pairs = [e for e in made.elements if isinstance(e, cst.DictElement)]
        rows = [[e.key, e.value] if view == "items" else e.value for e in pairs]
    elif view is None:
        rows = [display(item) or item for item in display(made) or ()]
    else:
        return
    targets = display(loop.target)
    for row in rows[:_MOST_ITEMS]:
        if isinstance(row, list) and targets is not None and len(row) == len(targets):
            for target, item in zip(targets, row, strict=True):
                if isinstance(target, cst.Name) and target.value == name:
                    yield item
            continue
        is_name = isinstance(loop.target, cst.Name) and loop.target.value == name
        if is_name and not isinstance(row, list):
            yield row


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


@lru_cache(maxsize=8)
def _evaluated_calls(function: FunctionInfo, module: Module) -> frozenset[str]:
    """The paths of what a function calls, where it gives the result to ``mx.eval``."""
    calls, found = evaluation_of(module).calls, set[str | None]()
    evaluated: set[str | None] = set()
    for node in walk(function.node.body):
        fact = calls.get(node) if isinstance(node, cst.Call) else None
        for argument in fact.arguments if fact is not None and fact.symbol == _EVAL else ():
            if isinstance(argument.node, cst.Call):
                found.add(dotted(argument.node.func))
            else:
                evaluated.add(dotted(argument.node))
    for statement in small_statements(function.node.body):
        made = statement.value if isinstance(statement, cst.Assign) else None
        targets = statement.targets if isinstance(statement, cst.Assign) else ()
        is_evaluated = any(dotted(target.target) in evaluated for target in targets)
        if is_evaluated and isinstance(made, cst.Call):
            found.add(dotted(made.func))
    return frozenset(path for path in found if path is not None)


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
#: Calls of functions of the file that are followed.
_MOST_CALLS = 3


class Work(Enum):
    """The work of statements on arrays, up to the first thing that may evaluate one.

    SCHEDULED: ``mx.async_eval()``, which doesn't wait.
    WAIT: ``mx.synchronize()``, which waits for what is scheduled alone.
    """

    NONE = 0
    LAZY = 1
    SCHEDULED = 2
    WAIT = 3
    OTHER = 4


_SCHEDULING = {"mlx.core.async_eval": Work.SCHEDULED, "mlx.core.synchronize": Work.WAIT}
LAZY = (Work.LAZY, Work.SCHEDULED)


def work_of(
    nodes: Iterable[cst.CSTNode],
    function: FunctionInfo | None,
    module: Module,
    depth: int = 0,
) -> Work:
    """Return what statements or expressions of a function do, with the functions that they call."""
    found = Work.NONE
    for node in nodes:
        for inner in walk(node, SCOPES):
            done = _work_of_node(inner, function, module, depth)
            if done is Work.OTHER or (done is Work.WAIT and found is Work.SCHEDULED):
                return Work.OTHER
            if done is Work.SCHEDULED or (done is Work.LAZY and found is Work.NONE):
                found = done
    return found


def _work_of_node(
    node: cst.CSTNode, function: FunctionInfo | None, module: Module, depth: int
) -> Work:
    if isinstance(node, (cst.Await, cst.Yield, cst.Import, cst.ImportFrom, cst.Assert)):
        return Work.OTHER
    evaluating, computing = _operations(module)
    if node in evaluating:
        return Work.OTHER
    if node in computing:
        return Work.LAZY
    if not isinstance(node, cst.Call):
        return Work.NONE
    fact, local = evaluation_of(module).calls.get(node), evaluation_of(module).local_call(node)
    if local is not None:
        done = _work_of_function(local.function.node, local.function, module, depth)
        made = local.function.name == "__init__"  # weights are lazy, and layers are made anyway
        return Work.NONE if made and done in LAZY else done
    callees = [] if fact is None else list(options(fact.callee))
    if any(_work_of_value(callee, module, depth) in LAZY for callee in callees):
        return Work.LAZY  # one of several functions
    is_known = fact is not None and Unknown not in map(type, callees)
    passed = None if is_known else _work_of_passed(node.func, function, module, depth)
    if passed is None and not is_known and is_evaluated_elsewhere(node.func, function, module):
        return Work.LAZY
    if passed is not None:
        return passed
    if fact is None:
        name = node.func.value if isinstance(node.func, cst.Name) else ""
        is_builtin = name in _BUILTINS and name not in module.frame.names
        return Work.NONE if is_builtin else Work.OTHER
    return _work_of_call(fact, module)


def _work_of_value(callee: Value, module: Module, depth: int) -> Work:
    """The work of a value that is called, if that is a function of the file."""
    if type(callee) is not Function or callee.info.module is not module:
        return Work.NONE
    return _work_of_function(callee.info.node, callee.info, module, depth)


def _work_of_passed(
    func: cst.BaseExpression, function: FunctionInfo | None, module: Module, depth: int
) -> Work | None:
    """The work of a parameter, of ``self.function``, or of an item of a list of functions."""
    name = func.value if isinstance(func, cst.Name) else ""
    owner = function
    while owner is not None:
        if any(p.name == name for p in owner.parameters):
            return _work_of_parameter(name, owner, module, depth)
        owner = owner.outer
    kept = None if function is None else _parameter_of_attribute(func, function)
    if kept is not None:
        return _work_of_parameter(*kept, module, depth)
    items = functions_at(func, function, module) if name else []
    is_lazy = any(_work_of_function(item, None, module, depth) in LAZY for item in items)
    return Work.LAZY if is_lazy else None


def _work_of_call(fact: CallFact, module: Module) -> Work:
    if fact.symbol in CLOCKS:
        return Work.NONE
    if fact.symbol in _SCHEDULING:
        return _SCHEDULING[fact.symbol]
    if evaluation_of(module).effect(fact.node) != "lazy" or not _is_known(fact):
        return Work.OTHER
    if fact.symbol in _HOST_WORK:
        return Work.OTHER
    computes = holds_arrays(fact.result) and fact.symbol not in _CREATION
    return Work.LAZY if computes else Work.NONE


def work_of_function(node: cst.FunctionDef | cst.Lambda, module: Module) -> Work:
    """Return what a call of a function of the file does."""
    return _work_of_function(node, None, module, 0)


def _work_of_function(
    node: cst.FunctionDef | cst.Lambda, function: FunctionInfo | None, module: Module, depth: int
) -> Work:
    if depth == _MOST_CALLS or getattr(node, "asynchronous", None) is not None:
        return Work.OTHER
    known = _functions(module)
    if node not in known:
        known[node] = Work.OTHER  # for functions that call each other
        known[node] = work_of((node.body,), function, module, depth + 1)
    return known[node]


def _work_of_parameter(
    name: str, function: FunctionInfo, module: Module, depth: int
) -> Work | None:
    """The work of a function that is passed to another one of the file, lazy if any's is."""
    if is_rebound(module, function, name):
        return Work.OTHER
    if function.parameters[0].name == name:
        decorated = [f.node for f in module.functions if function.name in _decorators(f)]
        if any(_work_of_function(node, None, module, depth) in LAZY for node in decorated):
            return Work.LAZY
    is_known = False
    for call in calls_by_function(module).get(function, ()):
        pairs = [(a.keyword.value if a.keyword else None, a.value) for a in call.node.args]
        passed = by_parameter(function, pairs, is_bound=call.is_bound).get(name)
        found = [] if passed is None else functions_at(passed, call.place.function, module)
        is_known = is_known or bool(found)
        # Their own parameters are not followed: who calls them is not known.
        if any(_work_of_function(node, None, module, depth) in LAZY for node in found):
            return Work.LAZY
    return Work.OTHER if is_known else None


def _parameter_of_attribute(
    func: cst.BaseExpression, function: FunctionInfo
) -> tuple[str, FunctionInfo] | None:
    """The parameter of ``__init__`` that ``self.function`` always holds."""
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
    """The names of the decorators of a function, without those that are called."""
    if isinstance(function.node, cst.Lambda):
        return []
    return [dotted(decorator.decorator) for decorator in function.node.decorators]


@lru_cache(maxsize=2)
def _functions(module: Module) -> dict[cst.CSTNode, Work]:
    """The known work of the functions of a file."""
    return {}


def _is_known(fact: CallFact) -> bool:
    """Test whether MLX has what is called: a method of a layer may do anything."""
    callee = fact.callee
    if not isinstance(callee, BoundMember) or as_array(callee.owner) is not None:
        return True
    return isinstance(callee.owner, Sequence) and is_append(fact.node)


@lru_cache(maxsize=2)
def _operations(module: Module) -> tuple[frozenset[cst.CSTNode], frozenset[cst.CSTNode]]:
    """The expressions of a file that evaluate arrays, and the lazy operators."""
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
