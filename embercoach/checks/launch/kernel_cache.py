"""KERNEL-CACHE-001: a kernel that is built again at every call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.contexts import context_of
from embercoach.analysis.facts.facts import FunctionVisit
from embercoach.analysis.facts.scopes import assigned_attributes, scope_of
from embercoach.analysis.syntax.trees import around, children, dotted, names_below
from embercoach.checks.programs.kernels import definitions
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CallFact, Fact, FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.checks.programs.kernels import Definition

#: Words in the name of a decorator that keeps what a function returns.
KEEPERS = ("cache", "memo", "once", "singleton")


@dataclass(frozen=True, slots=True)
class Build:
    """An expression that builds a kernel when it runs; by: a function that it calls for that."""

    node: cst.Call
    place: FactPlace
    by: FunctionInfo | None = None


@check("KERNEL-CACHE-001")
def kernel_per_call(module: Module, facts: list[Fact]) -> Iterator[Report]:
    """``kernel = mx.fast.metal_kernel(...)`` and ``kernel(...)`` in one function."""
    reported: set[cst.CSTNode] = set()
    for definition in definitions(module, facts):
        if not definition.own:
            continue
        builds = [Build(definition.fact.node, definition.fact.place)]
        for build in (*builds, *_made_by_a_factory(definition, module, facts)):
            if build.node not in reported and _is_repeated(build, definition.launches):
                reported.add(build.node)
                yield from _report(build, module)


def _report(build: Build, module: Module) -> Iterator[Report]:
    context = context_of(build.place, module, by_calls=True)
    function = build.place.function
    if function is None or (function.name == "main" and function.outer is None):
        return
    how = "" if build.by is None else f" through `{build.by.name}`"
    yield Report.at(
        build,
        "KERNEL-CACHE-001",
        message=f"`{function.name}` rebuilds its kernel in every call{how}",
        help="Build it once, at module level or in a cached function; pass what varies as inputs",
        context=context,
    )


def _is_repeated(build: Build, launches: Sequence[CallFact]) -> bool:
    """Return whether each call of the function builds, launches and drops the kernel."""
    function = build.place.function
    if function is None or runs_once(function):
        return False
    own = [f for f in launches if f.place.function is function and _launches(f.node, build)]
    amortised = any(launch.place.loops > build.place.loops for launch in own)
    return bool(own) and not amortised and _built_each_time(build, function, own)


def _launches(call: cst.Call, build: Build) -> bool:
    """Return whether a call may launch the built kernel: a factory may make several."""
    statement = build.place.statement
    if build.by is None or call.func is build.node or not isinstance(statement, cst.Assign):
        return build.by is None or call.func is build.node
    names = {t.target.value for t in statement.targets if isinstance(t.target, cst.Name)}
    return isinstance(call.func, cst.Name) and call.func.value in names


def _made_by_a_factory(
    definition: Definition, module: Module, facts: list[Fact]
) -> Iterator[Build]:
    """The calls of a function that returns a new kernel each time."""
    factory = definition.fact.place.function
    if factory is None or runs_once(factory) or not _returns_new(definition, factory):
        return
    name = factory.name
    if factory.cls is None:
        found = scope_of(module, factory.outer).find(name)
        if found is None or found[1] is None or found[1].node is not factory.node:
            return
    elif name in assigned_attributes(module):
        return
    for fact in facts:
        if not isinstance(fact, FunctionVisit) or fact.function is not factory:
            continue
        # Under another name it may be wrapped in something that keeps its results.
        if (dotted(fact.node.func) or "").rpartition(".")[2] == name:
            yield Build(fact.node, fact.place, factory)


def _returns_new(definition: Definition, factory: FunctionInfo) -> bool:
    """Return whether a function always builds a kernel, returns it, and does not keep it."""
    body, statement = factory.node.body, definition.fact.place.statement
    if isinstance(body, cst.BaseExpression):
        return body is definition.fact.node
    if any(isinstance(outer, cst.If) for outer in around(body, statement)):
        return False
    if isinstance(statement, cst.Return):
        return statement.value is definition.fact.node
    if not isinstance(statement, cst.Assign) or statement.value is not definition.fact.node:
        return False
    targets = [t.target for t in statement.targets]
    name = targets[0].value if len(targets) == 1 and isinstance(targets[0], cst.Name) else None
    if name is None or name in factory.global_names:
        return False
    return not _is_kept(body, name, returned=True)


def runs_once(function: FunctionInfo) -> bool:
    """Return whether the function runs once, or its results are kept."""
    if function.name == "__init__" or function.compiled:
        return True
    node = function.node
    for decorator in node.decorators if isinstance(node, cst.FunctionDef) else ():
        called = decorator.decorator
        name = dotted(called.func if isinstance(called, cst.Call) else called) or ""
        if any(keeper in name.lower() for keeper in KEEPERS):
            return True
    return False


def _built_each_time(build: Build, function: FunctionInfo, launches: Sequence[CallFact]) -> bool:
    """Return whether every call builds the kernel, and nothing keeps it for the next one."""
    body = function.node.body
    if isinstance(body, cst.BaseExpression):
        return True
    statement = build.place.statement
    tests = [outer.test for outer in around(body, statement) if isinstance(outer, cst.If)]
    if any(map(_asks_for_kept, tests)):
        return False
    if isinstance(statement, (cst.Assign, cst.AnnAssign)) and statement.value is build.node:
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
    return any(launch.node.func is build.node for launch in launches)


def _asks_for_kept(test: cst.CSTNode) -> bool:
    """Return whether a condition may ask for a kernel that was built before."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return True
    if isinstance(test, cst.Comparison):
        operators = (target.operator for target in test.comparisons)
        return any(isinstance(o, (cst.Is, cst.IsNot, cst.In, cst.NotIn)) for o in operators)
    if isinstance(test, cst.BooleanOperation):
        return _asks_for_kept(test.left) or _asks_for_kept(test.right)
    return isinstance(test, cst.Call) and dotted(test.func) == "hasattr"


def _is_kept(body: cst.CSTNode, name: str, *, returned: bool = False) -> bool:
    """Return whether a local name is used other than being bound, called or returned."""
    pending: list[cst.CSTNode] = [body]
    while pending:
        node = pending.pop()
        if isinstance(node, cst.Name):
            if node.value == name:
                return True
            continue
        if returned and isinstance(node, cst.Return) and isinstance(node.value, cst.Name):
            continue
        if isinstance(node, (cst.FunctionDef, cst.Lambda, cst.Nonlocal)):
            # Functions inside may keep it, or launch it later.
            if name in names_below(node):
                return True
            continue
        inner = children(node)
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
            inner = [child for child in inner if child is not node.func]
        elif isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Name):
            continue
        elif isinstance(node, cst.AnnAssign):
            inner = [] if node.value is None else [node.value]
        elif isinstance(node, (cst.Attribute, cst.Arg)):
            # Names of members and of keywords are not variables.
            inner = [node.value]
        pending.extend(inner)
    return False
