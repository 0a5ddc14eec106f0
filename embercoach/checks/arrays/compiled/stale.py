"""COMPILE-007: what a compiled function reads of its surroundings, and what changes later."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import CompiledCall
from embercoach.analysis.facts.scopes import by_parameter, scope_of
from embercoach.analysis.syntax.trees import (
    DEFINITIONS,
    children,
    dotted,
    names_below,
    small_statements,
)
from embercoach.analysis.values.joins import as_number, holds_arrays
from embercoach.analysis.values.lattice import UNKNOWN, Instance, LibraryObject, Transformed
from embercoach.checks.arrays.compiled.compilations import (
    captured_paths,
    is_captured,
    nodes_in,
    place_in,
    root_of,
    traced_by,
)
from embercoach.checks.arrays.compiled.later_changes import (
    changes_attribute,
    changes_variable,
    owner_of,
)
from embercoach.checks.arrays.compiled.model_calls import calls_variable, variable
from embercoach.checks.arrays.compiled.updates import updates_of
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.facts.facts import CompileFact
    from embercoach.analysis.facts.scopes import Scope
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

    #: Whether a path in a function is the variable at hand.
    Test = Callable[[str, "FunctionInfo | None"], bool]

HELP = "Pass it as an argument, or add it to `inputs=` of mx.compile"


@check("COMPILE-007")
def stale_number(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``x * scale`` in a compiled function, and ``scale *= 0.9`` after a call."""
    if fact.has_star or fact.option(1, "inputs") is not None:
        return
    functions = traced_by(fact, module)
    for info in functions:
        seen: set[str] = set()
        for node in nodes_in(info.node.body, module):
            path = dotted(node) if isinstance(node, (cst.Name, cst.Attribute)) else None
            if path is None or path in seen:
                continue
            seen.add(path)
            if _is_changed(path, info, functions, fact, module):
                yield Report.at(
                    fact,
                    "COMPILE-007",
                    node=node,
                    place=place_in(fact, info, info.statement or info.node),
                    message="read when the function is traced: later changes have no effect",
                    help=HELP,
                    context="compiled",
                )


def _is_changed(
    path: str,
    info: FunctionInfo,
    functions: frozenset[FunctionInfo],
    fact: CompileFact,
    module: Module,
) -> bool:
    name, _, attribute = path.partition(".")
    if not attribute:
        return _is_rebound(name, info, functions, fact, module)
    cls = owner_of(name, info, module)
    if "." in attribute:
        return False
    if cls is None:
        return _is_set_on_object(name, attribute, info, functions, module)
    value = cls.attributes.get(attribute)
    if value is None or not (_is_data(value) or path in _operands(info, module)):
        return False
    return any(
        changes_attribute(method, attribute, module)
        for method in cls.setters.get(attribute, ())
        if method not in functions
    ) or _is_set_outside(attribute, fact, cls, module)


def _is_set_on_object(
    name: str,
    attribute: str,
    info: FunctionInfo,
    functions: frozenset[FunctionInfo],
    module: Module,
) -> bool:
    """``guide.scale *= 0.9`` in a loop that calls a function which reads the global ``guide``."""
    stores = _attribute_stores(module).get(attribute)
    if not stores or scope_of(module, info).binds(name):
        return False
    owner = module.frame.names.get(name) if info.closure is None else info.closure.lookup(name)
    if type(owner) is not Instance or not _is_data(owner.info.attributes.get(attribute, UNKNOWN)):
        return False
    for function, held in stores.items():
        if function in functions:
            continue
        order, loops = _layout(function, module)
        called = [s for f in functions for s in _calls(function, module).get(f, ())]
        calls = [order.get(id(statement), -1) for statement in called]
        for path, store in held:
            at = order.get(id(store), -1)
            is_same = variable(path, function, module) == variable(name, info, module)
            if is_same and any(at in lo and any(c in lo for c in calls) for lo in loops):
                return True
    return False


@lru_cache(maxsize=8)
def _operands(info: FunctionInfo, module: Module) -> frozenset[str]:
    """The paths of what a function computes with: numbers and arrays alone."""
    return frozenset(
        path
        for node in nodes_in(info.node.body, module)
        if isinstance(node, cst.BinaryOperation)
        for side in (node.left, node.right)
        if (path := dotted(side)) is not None
    )


def _is_set_outside(attribute: str, fact: CompileFact, cls: ClassInfo, module: Module) -> bool:
    """``guide.strength = 2.0`` after a call of ``guide.predict(x)``, or in a loop with one."""
    statement = fact.place.statement
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    compiled = (dotted(target.target) for target in targets)
    called = {name.rpartition(".")[2] for name in compiled if name is not None}
    called |= {name for name, m in cls.methods.items() if name != "__init__" and _reads(m, called)}
    for function, stores in _attribute_stores(module).get(attribute, {}).items():
        if function is fact.place.function:
            continue
        order, loops = _layout(function, module)
        calls = [
            (order.get(id(statement), -1), dotted(call.func) or "")
            for statement, call in _calls_in(function, module)
        ]
        for owner, store in stores:
            uses = [at for at, path in calls if _is_method_of(path, owner, called)]
            at = order.get(id(store), -1)
            around = [loop for loop in loops if at in loop]
            if uses and (min(uses) < at < max(uses) or any(u in lo for lo in around for u in uses)):
                return True
    return False


def _reads(method: FunctionInfo, names: set[str]) -> bool:
    return not names.isdisjoint(names_below(method.node.body))


def _is_method_of(path: str, owner: str, names: set[str]) -> bool:
    return path.rpartition(".")[0] == owner and path.rpartition(".")[2] in names


def _calls_in(
    function: FunctionInfo | None, module: Module
) -> Iterator[tuple[cst.CSTNode, cst.Call]]:
    body = module.tree if function is None else function.node.body
    for statement in small_statements(body):
        for node in nodes_in(statement, module):
            if isinstance(node, cst.Call):
                yield statement, node


@lru_cache(maxsize=1)
def _attribute_stores(
    module: Module,
) -> dict[str, dict[FunctionInfo | None, list[tuple[str, cst.CSTNode]]]]:
    """The assignments to attributes of variables, with the variables, by attribute and function."""
    found: dict[str, dict[FunctionInfo | None, list[tuple[str, cst.CSTNode]]]] = {}
    for function in (None, *module.functions):
        for node in small_statements(module.tree if function is None else function.node.body):
            targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
            if isinstance(node, cst.AugAssign):
                targets = [node.target]
            for target in targets:
                owner = dotted(target.value) if isinstance(target, cst.Attribute) else None
                if owner is not None and isinstance(target, cst.Attribute):
                    stores = found.setdefault(target.attr.value, {})
                    stores.setdefault(function, []).append((owner, node))
    return found


def _is_data(value: Value) -> bool:
    return as_number(value) is not None or holds_arrays(value)


def _is_rebound(
    name: str,
    info: FunctionInfo,
    functions: frozenset[FunctionInfo],
    fact: CompileFact,
    module: Module,
) -> bool:
    """Return whether a name around the compiled function changes between two calls of it."""
    scope: Scope | None = scope_of(module, info)
    while scope is not None and (scope.owner in functions or not scope.binds(name)):
        if scope.binds(name):
            return False
        scope = scope.outer
    owner = fact.place.function
    if scope is None or scope.reaching is None:
        return False
    if scope.owner is module:
        value = module.frame.names.get(name)
    else:
        value = None if info.closure is None else info.closure.names.get(name)
    if changes_variable(name, scope.owner, module) - functions:
        return value is not None and _is_data(value)
    if scope.owner is module:
        if owner is not None:
            return False
    elif scope.owner is not owner:
        return False
    if value is None or not _is_data(value):
        return False
    order, loops = _layout(owner, module)
    called = _calls(owner, module).get(root_of(fact.function), ())
    calls = [order.get(id(statement), -1) for statement in called]
    bindings = [binding.statement for binding in scope.reaching.bindings[name]]
    changed = [*bindings, *_stores(owner, module).get(name, ())]
    if len(changed) < 2:
        return False
    changes = [order.get(id(statement), -1) for statement in changed]
    if not calls:
        return False
    return any(
        min(calls) < change < max(calls)
        or any(change in loop and any(call in loop for call in calls) for loop in loops)
        for change in changes
    )


@lru_cache(maxsize=4)
def _stores(function: FunctionInfo | None, module: Module) -> dict[str, list[cst.CSTNode]]:
    """The statements of a function that assign to items, ``xs[0] = x``, by the name."""
    body = module.tree if function is None else function.node.body
    found: dict[str, list[cst.CSTNode]] = {}
    for node in nodes_in(body, module, (*DEFINITIONS, cst.BaseExpression)):
        targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
        if isinstance(node, cst.AugAssign):
            targets = [node.target]
        for target in targets:
            if isinstance(target, cst.Subscript) and isinstance(target.value, cst.Name):
                found.setdefault(target.value.value, []).append(node)
    return found


@lru_cache(maxsize=4)
def _calls(
    function: FunctionInfo | None, module: Module
) -> dict[FunctionInfo | None, list[cst.CSTNode]]:
    """The statements of a function that call what is compiled, by the function compiled."""
    found: dict[FunctionInfo | None, list[cst.CSTNode]] = {}
    for call in module.facts_of(function):
        if type(call) is CompiledCall:
            found.setdefault(root_of(call.callee), []).append(call.place.statement)
    return found


@check("COMPILE-007")
def stale_module(fact: CompileFact, module: Module) -> Iterator[Report]:
    """A compiled function calls ``model``, and the training step around updates its weights."""
    if fact.has_star:
        return
    inputs = fact.option(1, "inputs")
    paths = frozenset[str]() if inputs is None else captured_paths(inputs, fact.place, module)
    functions = traced_by(fact, module)
    for update in updates_of(module):
        model = update.model
        if model is None or update.function in functions or is_captured(model, paths):
            continue
        if update.function is fact.place.function and not (
            update.in_loop and _comes_after(update.statement, fact, module)
        ):
            continue
        if _uses(fact, functions, model, update.function, module):
            yield Report.at(
                fact,
                "COMPILE-007",
                message="weights are read when traced: optimizer updates have no effect",
                help="Add the model's state: `inputs=[model.state]`",
                context="compiled",
            )
            return


@lru_cache(maxsize=4)
def _layout(
    function: FunctionInfo | None, module: Module
) -> tuple[dict[int, int], tuple[range, ...]]:
    """The places of a function's statements in the text, by identity, and those of its loops."""
    body = module.tree if function is None else function.node.body
    order: dict[int, int] = {}
    loops: list[range] = []
    pending: list[tuple[cst.CSTNode, bool]] = [(body, False)]
    while pending:
        node, is_left = pending.pop()
        if is_left:
            loops.append(range(order[id(node)], len(order)))
            continue
        order[id(node)] = len(order)
        if isinstance(node, (cst.For, cst.While)):
            pending.append((node, True))
        if not isinstance(node, (cst.BaseExpression, *DEFINITIONS)):
            pending += [(child, False) for child in reversed(children(node))]
    return order, tuple(loops)


def _comes_after(statement: cst.CSTNode, fact: CompileFact, module: Module) -> bool:
    order, _ = _layout(fact.place.function, module)
    return order.get(id(statement), -1) > order.get(id(fact.place.statement), -1)


def _uses(
    fact: CompileFact,
    functions: frozenset[FunctionInfo],
    model: str,
    updater: FunctionInfo | None,
    module: Module,
) -> bool:
    """Return whether the compiled code runs the very model that the other code updates."""
    updated = variable(model, updater, module)

    def is_updated(path: str, info: FunctionInfo | None) -> bool:
        return variable(path, info, module) == updated

    if any(_is_set(is_updated, info, module) for info in functions):
        return False
    node, owner = fact.node, fact.place.function
    if isinstance(node, cst.Call) and fact.decorated is None and node.args:
        # ``mx.compile(model)``, ``mx.compile(nn.value_and_grad(model, loss))``.
        given = node.args[0].value
        path = dotted(given)
        if isinstance(fact.function, (Instance, LibraryObject)) and path is not None:
            return is_updated(path, owner)
        if isinstance(given, cst.Call) and isinstance(fact.function, Transformed) and given.args:
            path = dotted(given.args[0].value)
            if fact.function.transform == "partial" and _takes(is_updated, fact, given, module):
                return True
            is_module = fact.function.transform == "module_value_and_grad"
            if is_module and path is not None and is_updated(path, owner):
                return True
    return any(
        calls_variable(info, partial(_applied, is_updated, info), module) for info in functions
    )


def _takes(is_updated: Test, fact: CompileFact, given: cst.Call, module: Module) -> bool:
    """``partial(predict, model)`` of a function that calls its argument."""
    root = root_of(fact.function)
    if root is None or root.module is not module:
        return False
    pairs = [(a.keyword.value if a.keyword else None, a.value) for a in given.args[1:]]
    passed = by_parameter(root, pairs, is_bound=root.is_method)
    return any(
        (path := dotted(argument)) is not None
        and is_updated(path, fact.place.function)
        and calls_variable(root, name.__eq__, module)
        for name, argument in passed.items()
    )


def _applied(is_updated: Test, info: FunctionInfo, path: str) -> bool:
    return is_updated(path, info)


def _is_set(is_updated: Test, info: FunctionInfo, module: Module) -> bool:
    """``model.update(parameters)``: the weights are arguments."""
    for node in nodes_in(info.node.body, module):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            path = dotted(node.func.value) if node.func.attr.value == "update" else None
            if path is not None and is_updated(path, info):
                return True
    return False
