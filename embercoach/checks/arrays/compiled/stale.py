"""COMPILE-007: what a compiled function reads of its surroundings, and what changes later."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import by_parameter, scope_of
from embercoach.analysis.syntax.trees import (
    DEFINITIONS,
    dotted,
    keyed_path,
    names_below,
    small_statements,
)
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import Instance, LibraryObject, Transformed
from embercoach.checks.arrays.compiled.between_calls import (
    attribute_stores,
    calls_of_compiled,
    is_data,
    is_set_on_object,
    member_of,
    order_of,
)
from embercoach.checks.arrays.compiled.captured_state import captured_owners, is_captured
from embercoach.checks.arrays.compiled.compilations import (
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
from embercoach.checks.arrays.compiled.updates import sources_in, updates_of
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.facts.facts import CompileFact
    from embercoach.analysis.facts.scopes import Scope
    from embercoach.analysis.project.module import Module

    #: Whether a path in a function is the variable at hand.
    Test = Callable[[str, "FunctionInfo | None"], bool]

HELP = "Pass it to the compiled function as an array: `mx.array(value)`"
HELP_WITH_STATE = "Add `[model.state]` to both `inputs=` and `outputs=`"


@check("COMPILE-007")
def stale_number(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``x * scale`` in a compiled function, and ``scale *= 0.9`` after a call."""
    inputs = fact.option(1, "inputs")
    captured = [] if inputs is None else captured_owners(fact, inputs, module)
    if fact.has_star or captured is None:
        return
    functions = traced_by(fact, module)
    held = {dotted(owner.node) or "" for owner in captured}
    for info in functions:
        seen: set[str] = set()
        reported: set[str] = set()
        nodes = list(nodes_in(info.node.body, module))
        labels = {node.keyword for node in nodes if isinstance(node, cst.Arg)}
        labels.update(node.attr for node in nodes if isinstance(node, cst.Attribute))
        for node in nodes:
            path = None if node in labels else _path(node)
            if path is None or path in seen:
                continue
            seen.add(path)
            if held and (info.cls is not None and is_layer(info.cls)):
                continue  # its arrays may be in the state
            if any(f"{path}.".startswith(f"{owner}.") for owner in held):
                continue
            name = path.partition(".")[0]
            if name in reported or (path == name and _holds_one_of(name, reported)):
                continue  # one report for a dictionary and its entry
            if _is_changed(path, info, functions, fact, module):
                reported.add(path)
                yield Report.at(
                    fact,
                    "COMPILE-007",
                    node=node,
                    place=place_in(fact, info, info.statement or info.node),
                    message="read when the function is traced: later changes have no effect",
                    help=HELP,
                    context="compiled",
                )


def _holds_one_of(name: str, paths: set[str]) -> bool:
    return any(path.startswith(f"{name}.") for path in paths)


def _path(node: cst.CSTNode) -> str | None:
    """The path of a name or an attribute; ``cfg.[scale]`` of the entry ``cfg["scale"]``."""
    if isinstance(node, (cst.Name, cst.Attribute)):
        return dotted(node)
    name, owner = member_of(node)
    if owner is None or "." in owner:
        return keyed_path(node)
    return None if "." in name else f"{owner}.{name}"


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
    if "." in attribute:  # of an object or a dictionary that an attribute holds
        methods = () if cls is None or attribute.count(".") > 1 else cls.methods.values()
        return path in _operands(info, module) and any(
            changes_attribute(method, attribute, module)
            for method in methods
            if method not in functions
        )
    if cls is None:
        return is_set_on_object(name, attribute, info, functions, module)
    value = cls.attributes.get(attribute)
    if value is None or not (is_data(value) or path in _operands(info, module)):
        return False
    return any(
        changes_attribute(method, attribute, module)
        for method in cls.setters.get(attribute, ())
        if method not in functions
    ) or _is_set_outside(attribute, fact, cls, module)


@lru_cache(maxsize=8)
def _operands(info: FunctionInfo, module: Module) -> frozenset[str]:
    """The paths of what a function computes with: numbers and arrays alone."""
    nodes = list(nodes_in(info.node.body, module))
    operations = [node for node in nodes if isinstance(node, cst.BinaryOperation)]
    found = {keyed_path(side) for node in operations for side in (node.left, node.right)}
    for node in nodes:  # ``a = self.alpha``
        if isinstance(node, cst.Assign) and dotted(node.targets[0].target) in found:
            found.add(keyed_path(node.value))
    return frozenset(path for path in found if path is not None)


def _is_set_outside(attribute: str, fact: CompileFact, cls: ClassInfo, module: Module) -> bool:
    """``guide.strength = 2.0`` after a call of ``guide.predict(x)``, or in a loop with one."""
    statement = fact.place.statement
    targets = statement.targets if isinstance(statement, cst.Assign) else ()
    compiled = (dotted(target.target) for target in targets)
    called = {name.rpartition(".")[2] for name in compiled if name is not None}
    called |= {name for name, m in cls.methods.items() if name != "__init__" and _reads(m, called)}
    for function, stores in attribute_stores(module).get(attribute, {}).items():
        if function is fact.place.function:
            continue
        order, loops = order_of(function, module)
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
    if scope is None:
        return False
    if scope.owner is module:
        value = module.frame.names.get(name)
    else:
        value = None if info.closure is None else info.closure.names.get(name)
    if changes_variable(name, scope.owner, module) - functions:
        return value is not None and is_data(value)
    if scope.owner is module:
        if owner is not None:
            return False
    elif scope.owner is not owner:
        return False
    if value is None or not is_data(value):
        return False
    order, loops = order_of(owner, module)
    called = calls_of_compiled(owner, module).get(root_of(fact.function), ())
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


@check("COMPILE-007")
def stale_module(fact: CompileFact, module: Module) -> Iterator[Report]:
    """A compiled function calls ``model``, and the training step around updates its weights."""
    if fact.has_star:
        return
    inputs = fact.option(1, "inputs")
    captured = [] if inputs is None else captured_owners(fact, inputs, module)
    functions = traced_by(fact, module)
    for update in updates_of(module):
        model = update.model
        if model is None or update.function in functions:
            continue
        if is_captured(sources_in(update, module)[1], captured):
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
                help=HELP_WITH_STATE,
                context="compiled",
            )
            return


def _comes_after(statement: cst.CSTNode, fact: CompileFact, module: Module) -> bool:
    order, _ = order_of(fact.place.function, module)
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
