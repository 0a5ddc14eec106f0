"""COMPILE-003: functions that are compiled again for each use."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import CompiledCall, CompileFact, LocalCall
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import SCOPES, children, walk
from embercoach.checks.arrays.compiled.compilations import root_of
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module

#: Functions that run once in a process, or once for each object.
_ONCE = frozenset({"main", "__init__", "setup", "build"})
_CACHES = ("lru_cache", "cache", "cached_property")
_LOOPS = (cst.For, cst.While, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


@check("COMPILE-003")
def compiled_per_call(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(f)(x)`` in a function, or in a loop."""
    function, loop = fact.place.function, fact.place.loop
    if function is None and loop is None:
        return
    if loop is None and function is not None and _runs_once(function, module):
        return
    body = loop if loop is not None else function.node if function is not None else module.tree
    if not _is_discarded(fact, body, module):
        return
    where = "in every iteration" if loop is not None else "at every call"
    yield Report.at(
        fact,
        "COMPILE-003",
        message=f"mx.compile result is discarded: it traces again {where}",
        help="Compile once, at module level or in `__init__`, and call the result",
    )


@check("COMPILE-003")
def made_per_iteration(call: LocalCall, module: Module) -> Iterator[Report]:
    """``make_blend(alpha)(x)`` in a loop, where each call of ``make_blend`` compiles a closure."""
    loop, statement, node = call.place.loop, call.place.statement, call.node
    if loop is None or call.function.module is not module or not _makes(call.function, module):
        return
    is_called = any(
        type(other) is CompiledCall and other.node.func is node
        for other in module.facts_of(call.place.function)
    )
    if not is_called:
        if not isinstance(statement, cst.Assign) or statement.value is not node:
            return
        target = statement.targets[0].target
        if len(statement.targets) != 1 or not isinstance(target, cst.Name):
            return
        if not _is_only_called(target.value, statement, loop):
            return
    yield Report.at(
        call,
        "COMPILE-003",
        message="a new closure is compiled and traced in every iteration",
        help="Compile one function before the loop, and pass what changes as an array",
    )


@lru_cache(maxsize=16)
def _makes(maker: FunctionInfo, module: Module) -> bool:
    """Return whether each call of a function compiles a function in it, and returns that alone."""
    if _is_cached(maker) or isinstance(maker.node, cst.Lambda):
        return False
    returned: list[cst.BaseExpression | None] = []
    for node in walk(maker.node.body, SCOPES):
        if isinstance(node, cst.Return):
            returned.append(node.value)
        elif isinstance(node, (cst.Global, cst.Nonlocal, cst.Yield)):
            return False
        elif isinstance(node, cst.AssignTarget) and not isinstance(node.target, cst.Name):
            return False  # it may keep the result for the next call
    if len(returned) != 1:
        return False
    compiled = [
        fact
        for fact in module.facts_of(maker)
        if type(fact) is CompileFact
        and (root := root_of(fact.function)) is not None
        and root.outer is maker
    ]
    return any(_is_result(fact, returned[0]) for fact in compiled)


def _is_result(fact: CompileFact, returned: cst.BaseExpression | None) -> bool:
    """``return mx.compile(f)``, ``return f`` below ``@mx.compile``, or ``g = mx.compile(f)``."""
    if returned is fact.node:
        return True
    if not isinstance(returned, cst.Name):
        return False
    if fact.decorated is not None:
        return fact.decorated.name == returned.value
    assigned = fact.place.statement
    if not isinstance(assigned, cst.Assign) or assigned.value is not fact.node:
        return False
    target = assigned.targets[0].target
    return isinstance(target, cst.Name) and target.value == returned.value


def _is_cached(function: FunctionInfo) -> bool:
    return any(name.rpartition(".")[2] in _CACHES for name in function.decorators)


def _runs_once(function: FunctionInfo, module: Module) -> bool:
    if function.name in _ONCE and (function.outer is None or function.name != "main"):
        return True
    if _is_cached(function):
        return True
    calls = _calls(module).get(function, [])
    return bool(calls) and not any(
        place.loops or (place.function is not None and place.function.name != "main")
        for place in calls
    )


@lru_cache(maxsize=1)
def _calls(module: Module) -> dict[FunctionInfo, list[FactPlace]]:
    """Where a file calls its functions."""
    found: dict[FunctionInfo, list[FactPlace]] = {}
    for fact in module.facts():
        if type(fact) is LocalCall:
            found.setdefault(fact.function, []).append(fact.place)
    return found


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
    reaching = scope_of(module, function).reaching
    bindings = [] if reaching is None else reaching.bindings.get(name, [])
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


def _is_only_called(name: str, binding: cst.CSTNode | None, body: cst.CSTNode) -> bool:
    """Return whether a body calls a name, outside of inner loops and functions, and no more."""
    calls = 0
    pending: list[tuple[cst.CSTNode, bool]] = [(body, False)]
    while pending:
        node, repeats = pending.pop()
        if node is binding:
            continue
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
            if node.func.value == name:
                if repeats:
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
