"""COMPILE-003: functions that are compiled again for each use."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.dataflow.layout import layout_of
from embercoach.analysis.dataflow.scopes import scope_of
from embercoach.analysis.facts.facts import CallFact, CompiledCall, calls_by_function
from embercoach.analysis.syntax.trees import SCOPES, children, dotted, walk
from embercoach.analysis.values.lattice import Function, Sequence, Transformed
from embercoach.checks.arrays.compiled.compilations import root_of
from embercoach.checks.fallbacks import REFUSED, is_expected
from embercoach.checks.registry import VALUE, Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CompileFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: Functions that run once in a process, or once for each object.
_ONCE = frozenset({"main", "__init__", "setup", "build"})
_CACHES = ("lru_cache", "cache", "cached_property")
_LOOPS = (cst.For, cst.While, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


@check("COMPILE-003", of=(VALUE,))
def compiled_per_call(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(f)(x)`` in a function, or in a loop."""
    function, loop = fact.place.function, fact.place.loop
    if function is None and loop is None:
        return
    if loop is None and function is not None and _runs_once(function, module):
        return
    body = loop if loop is not None else function.node if function is not None else module.tree
    if not _is_discarded(fact, body, module) or is_expected(
        module, fact.place.statement, REFUSED, broadly=True
    ):
        return
    where = "in every iteration" if loop is not None else "at every call"
    yield Report.at(
        fact,
        "COMPILE-003",
        message=f"mx.compile result is discarded: it traces again {where}",
        help="Compile once, at module level or in `__init__`, and call the result",
    )


@check("COMPILE-003", of=(VALUE,))
def made_per_iteration(call: CallFact, module: Module) -> Iterator[Report]:
    """``make_blend(alpha)(x)`` in a loop, where each call of ``make_blend`` compiles a closure."""
    loop, statement, node = call.place.loop, call.place.statement, call.node
    function = call.place.function
    if type(call.callee) is not Function:
        return
    if loop is None and (function is None or not _is_called_in_loop(function, module)):
        return
    made = _made_by(call.callee.info, call.result)
    if made is None or not _keeps_nothing(call.callee.info):
        return
    is_called = made == WHOLE and any(
        type(other) is CompiledCall and other.node.func is node
        for other in module.facts_of(call.place.function)
    )
    if not is_called:
        name = _assigned_name(statement, node, made)
        if name is None:
            return
        body = function.node if loop is None and function is not None else loop
        is_same = loop is not None and _is_invariant(call, loop, module)
        if body is None or not _is_only_called(name, statement, body, in_loops=is_same):
            return
    yield Report.at(
        call,
        "COMPILE-003",
        message="a new closure is compiled and traced "
        + ("at every call" if loop is None else "in every iteration"),
        help="Compile one function before the loop, and pass what changes as an array",
    )


def _is_called_in_loop(function: FunctionInfo, module: Module) -> bool:
    if function.name in _ONCE or _is_cached(function):
        return False
    calls = calls_by_function(module).get(function, ())
    return any(call.place.loops and not call.place.periodic for call in calls)


#: The compiled function is the result as a whole, not an item of it.
WHOLE = -1


def _made_by(maker: FunctionInfo, result: Value) -> int | None:
    """The place of a function that the call has compiled among its results, ``WHOLE`` if alone."""
    if _is_made_by(maker, result):
        return WHOLE
    items = result.items or () if isinstance(result, Sequence) else ()
    return next((i for i, item in enumerate(items) if _is_made_by(maker, item)), None)


def _is_made_by(maker: FunctionInfo, value: Value) -> bool:
    if not isinstance(value, Transformed) or value.transform != "compile":
        return False
    root = root_of(value)
    return root is not None and root.outer is maker


#: Targets of assignments that bind local variables alone.
_LOCAL = (cst.Name, cst.Tuple)


@lru_cache(maxsize=16)
def _keeps_nothing(maker: FunctionInfo) -> bool:
    """Return whether no call of a function keeps its result for the next one."""
    if _is_cached(maker) or isinstance(maker.node, cst.Lambda):
        return False
    returns = 0
    for node in walk(maker.node.body, SCOPES):
        if isinstance(node, cst.Return):
            returns += 1
        elif type(node) in (cst.Global, cst.Nonlocal, cst.Yield) or (
            type(node) is cst.AssignTarget and type(node.target) not in _LOCAL
        ):
            return False
    return returns == 1


def _assigned_name(statement: cst.CSTNode, node: cst.Call, made: int) -> str | None:
    """``step`` of ``step = make()``, and of ``step, state = make()``."""
    if not isinstance(statement, cst.Assign) or statement.value is not node:
        return None
    target: cst.BaseExpression = statement.targets[0].target
    if made != WHOLE:
        elements = target.elements if isinstance(target, cst.Tuple) else ()
        if len(elements) <= made or any(isinstance(e, cst.StarredElement) for e in elements):
            return None
        target = elements[made].value
    return target.value if isinstance(target, cst.Name) and len(statement.targets) == 1 else None


def _is_invariant(call: CallFact, loop: cst.For | cst.While, module: Module) -> bool:
    """Return whether a call in a loop makes the same in each iteration, and is not under a test.

    Nothing that it gets is bound in the loop, and no attribute of that is set there.
    """
    if not any(
        isinstance(line, cst.SimpleStatementLine) and call.place.statement in line.body
        for line in loop.body.body
    ):
        return False
    reaching = scope_of(module, call.place.function).reaching
    layout = layout_of(module, call.place.function)
    used = {node.value for node in walk(call.node) if isinstance(node, cst.Name)}
    bound = {
        name
        for name in used
        for binding in reaching.bindings.get(name, ())
        if binding.statement is loop or layout.is_inside(binding.statement, loop)
    }
    return not bound and used.isdisjoint(_owners_changed(loop))


@lru_cache(maxsize=8)
def _owners_changed(loop: cst.For | cst.While) -> frozenset[str]:
    """The names of what a loop sets attributes or items of."""
    found: set[str] = set()
    for node in walk(loop.body, (cst.BaseExpression, *SCOPES)):
        targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
        if isinstance(node, (cst.AugAssign, cst.AnnAssign)):
            targets = [node.target]
        for target in targets:
            if isinstance(target, (cst.Attribute, cst.Subscript)):
                found.add((dotted(target.value) or "").partition(".")[0])
    return frozenset(found)


def _is_cached(function: FunctionInfo) -> bool:
    return any(name.rpartition(".")[2] in _CACHES for name in function.decorators)


def _runs_once(function: FunctionInfo, module: Module) -> bool:
    if function.name in _ONCE and (function.outer is None or function.name != "main"):
        return True
    if _is_cached(function):
        return True
    calls = calls_by_function(module).get(function, ())
    return bool(calls) and not any(
        call.place.loops or (call.place.function is not None and call.place.function.name != "main")
        for call in calls
    )


def _is_discarded(fact: CompileFact, body: cst.CSTNode, module: Module) -> bool:
    """Return whether what was compiled is called in the body, not in a loop there, and lost."""
    node, statement = fact.node, fact.place.statement
    if fact.decorated is None:
        called = (
            other
            for other in module.facts_of(fact.place.function)
            if type(other) is CompiledCall and other.node.func is node
        )
        if any(True for _ in called):
            return True
        if not isinstance(statement, cst.Assign) or not _is_value(statement.value, node):
            return False
        target = statement.targets[0].target
        if len(statement.targets) != 1 or not isinstance(target, cst.Name):
            return False
        name, own = target.value, target
    else:
        name, own = fact.decorated.name, None
        if fact.decorated.cls is not None:
            return False
    function = fact.place.function
    if function is not None and name in function.global_names:
        return False
    bindings = scope_of(module, function).reaching.bindings.get(name, [])
    if fact.place.loop is None:  # a parameter may be compiled, and bound to its own name
        bindings = [b for b in bindings if b.kind != "parameter"]
    if len(bindings) != 1:
        return False
    return _is_only_called(name, statement if own is not None else None, body)


def _is_value(value: cst.BaseExpression, node: cst.CSTNode) -> bool:
    """``f = mx.compile(g)``, or one alternative of a conditional expression."""
    if isinstance(value, cst.IfExp):
        return value.body is node or value.orelse is node
    return value is node


def _is_only_called(
    name: str, binding: cst.CSTNode | None, body: cst.CSTNode, *, in_loops: bool = False
) -> bool:
    """Return whether a body calls a name, and no more: unless ``in_loops``, not in inner loops."""
    calls = 0
    pending: list[tuple[cst.CSTNode, bool]] = [(body, False)]
    while pending:
        node, repeats = pending.pop()
        if node is binding:
            continue
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
            if node.func.value == name:
                if repeats and not in_loops:
                    return False
                calls += 1
                pending += [(argument, repeats) for argument in node.args]
                continue
        elif isinstance(node, cst.Name) and node.value == name:
            return False
        inner = node is not body and isinstance(node, (*_LOOPS, cst.FunctionDef, cst.Lambda))
        pending += [(child, repeats or inner) for child in _below(node)]
    return calls > 0


def _below(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes below, without the names of attributes, keywords and parameters."""
    if isinstance(node, cst.Param):
        return [] if node.default is None else [node.default]
    if isinstance(node, (cst.Attribute, cst.Arg)):
        return [node.value]
    if isinstance(node, cst.FunctionDef):
        return [node.params, node.body]
    return children(node)
