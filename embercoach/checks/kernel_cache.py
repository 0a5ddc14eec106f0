"""KERNEL-CACHE-001: a kernel that is built again at every call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.contexts import context_of
from embercoach.analysis.paths import dotted
from embercoach.checks.kernels import definitions
from embercoach.checks.registry import Report, file_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.definitions import FunctionInfo
    from embercoach.analysis.facts import CallFact, Fact
    from embercoach.analysis.module import Module
    from embercoach.checks.kernels import Definition

#: Words in the name of a decorator that keeps what a function returns.
KEEPERS = ("cache", "memo", "once", "singleton")


@file_check("KERNEL-CACHE-001")
def kernel_per_call(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``kernel = mx.fast.metal_kernel(...)`` and ``kernel(...)`` in one function."""
    for definition in definitions(module, facts):
        function = definition.fact.place.function
        if not definition.own or function is None or runs_once(function):
            continue
        launches = [f for f in definition.launches if f.place.function is function]
        if not launches or any(_amortised(definition, launch) for launch in launches):
            continue
        if not _built_each_time(definition, function):
            continue
        context = context_of(definition.fact.place, module.is_test)
        if context == "script":
            continue
        yield Report(
            "KERNEL-CACHE-001",
            definition.fact.node,
            definition.fact.place,
            f"`{function.name}` builds its kernel at every call: the work on its source is done "
            "again each time, and a value that is formatted into the source compiles it again",
            "build it once, at module level or in a function behind functools.cache; pass what "
            "varies as inputs or as template arguments",
            context,
        )


def runs_once(function: FunctionInfo) -> bool:
    """Whether the function runs once, or its results are kept."""
    if function.name == "__init__" or function.compiled:
        return True
    node = function.node
    for decorator in node.decorators if isinstance(node, cst.FunctionDef) else ():
        called = decorator.decorator
        name = dotted(called.func if isinstance(called, cst.Call) else called) or ""
        if any(keeper in name.lower() for keeper in KEEPERS):
            return True
    return False


def _amortised(definition: Definition, launch: CallFact) -> bool:
    """Whether the launch stands in a loop that the definition stands before."""
    return launch.place.loops > definition.fact.place.loops


def _built_each_time(definition: Definition, function: FunctionInfo) -> bool:
    """Whether every call builds the kernel, and nothing keeps it for the next one."""
    body = function.node.body
    if isinstance(body, cst.BaseExpression):
        return True
    statement = definition.fact.place.statement
    if any(_asks_for_kept(test) for test in _tests_around(body, statement)):
        return False
    if isinstance(statement, (cst.Assign, cst.AnnAssign)):
        targets = (
            [t.target for t in statement.targets]
            if isinstance(statement, cst.Assign)
            else [statement.target]
        )
        names = [t.value for t in targets if isinstance(t, cst.Name)]
        if len(names) < len(targets) or function.global_names.intersection(names):
            return False
        return not any(_is_kept(body, name) for name in names)
    # The kernel is launched where it is built, or it went elsewhere.
    return any(launch.node.func is definition.fact.node for launch in definition.launches)


def _tests_around(body: cst.CSTNode, statement: cst.CSTNode) -> list[cst.BaseExpression]:
    """The conditions of the ``if`` statements that a statement stands in."""
    pending: list[tuple[cst.CSTNode, tuple[cst.BaseExpression, ...]]] = [(body, ())]
    while pending:
        node, tests = pending.pop()
        if node is statement:
            return list(tests)
        if isinstance(node, cst.If):
            tests = (*tests, node.test)
        if not isinstance(node, cst.BaseExpression):
            pending.extend((child, tests) for child in node.children)
    return []


def _asks_for_kept(test: cst.CSTNode) -> bool:
    """Whether a condition may ask for a kernel that was built before."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return True
    if isinstance(test, cst.Comparison):
        operators = (target.operator for target in test.comparisons)
        return any(isinstance(o, (cst.Is, cst.IsNot, cst.In, cst.NotIn)) for o in operators)
    if isinstance(test, cst.BooleanOperation):
        return _asks_for_kept(test.left) or _asks_for_kept(test.right)
    return isinstance(test, cst.Call) and dotted(test.func) == "hasattr"


def _is_kept(body: cst.CSTNode, name: str) -> bool:
    """Whether a local name is used for anything else than being bound and called."""
    pending: list[cst.CSTNode] = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Name):
            if node.value == name:
                return True
            continue
        if isinstance(node, (cst.FunctionDef, cst.Lambda, cst.Nonlocal)):
            # Functions inside may keep it, or launch it later.
            if any(n == name for n in _names_below(node)):
                return True
            continue
        children = list(node.children)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
            children = [child for child in children if child is not node.func]
        elif isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Name):
            continue
        elif isinstance(node, cst.AnnAssign):
            children = [] if node.value is None else [node.value]
        elif isinstance(node, (cst.Attribute, cst.Arg)):
            # Names of members and of keywords are no variables.
            children = [node.value]
        pending.extend(children)
    return False


def _names_below(node: cst.CSTNode) -> Iterator[str]:
    pending = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, cst.Name):
            yield current.value
        pending.extend(current.children)
