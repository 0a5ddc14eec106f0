"""COMPILE-007: what a compiled function reads of its surroundings, and what changes later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
from embercoach.analysis.dataflow.contents import contents_of
from embercoach.analysis.dataflow.function_summaries import located_calls
from embercoach.analysis.dataflow.layout import assigned_to, layout_of
from embercoach.analysis.dataflow.scopes import by_parameter, scope_of
from embercoach.analysis.dataflow.value_sources import Callee, argument_of, sources_of
from embercoach.analysis.project.module import Module
from embercoach.analysis.syntax.trees import (
    SCOPES,
    dotted,
    evaluated,
    keyed_path,
    targets_of,
)
from embercoach.analysis.values.facts import CallFact, CompiledCall, CompileFact, Fact, LocalCall
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Dict,
    Function,
    Instance,
    LibraryObject,
    Sequence,
    Transformed,
    Value,
    as_number,
    holds_arrays,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.arrays.compilations import (
    calls_variable,
    captured_owners,
    is_captured,
    place_in,
    root_of,
    sources_in,
    traced_by,
    updates_of,
    variable,
)
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    #: Changes of a member, by the function that makes them: of which object, and the statements.
    Stores = dict[FunctionInfo | None, list[tuple[str, cst.CSTNode]]]
    #: Whether a path in a function is the variable at hand.
    Test = Callable[[str, "FunctionInfo | None"], bool]

#: Methods that prepare an object, before anything is traced.
_PREPARING = ("__init__", "__post_init__", "__new__", "setup", "build", "reset", "load")


def owner_of(name: str, info: FunctionInfo, module: Module) -> ClassInfo | None:
    """Get the class whose instance a name is: of a method, or of the method around a function."""
    current: FunctionInfo | None = info
    while current is not None:
        if current.is_method and current.parameters and current.parameters[0].name == name:
            return current.cls
        if scope_of(module, current).binds(name):
            return None
        current = current.outer
    return None


def changes_attribute(method: FunctionInfo, attribute: str, module: Module) -> bool:
    """Return whether a method changes an attribute of an object that is in use.

    ``self.scale *= 0.9``, ``self.scale = self.scale * 0.9``, or ``self.scale = value`` in a setter.
    """
    if not method.parameters or method.name.startswith(_PREPARING):
        return False
    own = f"{method.parameters[0].name}.{attribute}"
    return _changes(method, own) and not _compiles(method, module)


def changes_variable(name: str, owner: object, module: Module) -> frozenset[FunctionInfo]:
    """The functions that change a global name, or by ``nonlocal`` one of the function around."""
    return frozenset(
        info
        for info in module.functions
        if name in (info.global_names if owner is module else info.nonlocal_names)
        and (owner is module or _is_inside(info, owner))
        and _changes(info, name)
        and not _compiles(info, module)
    )


def _is_inside(info: FunctionInfo, owner: object) -> bool:
    outer = info.outer
    while outer is not None and outer is not owner:
        outer = outer.outer
    return outer is owner


def _compiles(info: FunctionInfo, module: Module) -> bool:
    return any(type(fact) is CompileFact for fact in module.facts_of(info))


def _changes(info: FunctionInfo, path: str) -> bool:
    given = {p.name for p in info.parameters[info.is_method :]}
    for node in contents_of(info.node.body).statements:
        if isinstance(node, cst.AugAssign) and keyed_path(node.target) == path:
            return True
        if not isinstance(node, cst.Assign) or path not in map(keyed_path, assigned_to(node)):
            continue
        if path in map(keyed_path, contents_of(node.value, SCOPES).of(*_PATHS)):
            return True
        if not given.isdisjoint(contents_of(node.value).names) and _is_setter(info, info.module):
            return True
    return False


_PATHS = (cst.Name, cst.Attribute, cst.Subscript)


def _is_setter(info: FunctionInfo, module: Module) -> bool:
    """Return whether a function is meant to be called at any time, or called in a loop."""
    if info.name.startswith(("set_", "update_")) or info.name == "set":
        return True
    if ".setter" in info.decorators:
        return True
    return info in _called_in_loops(module)


@kept_for_file
def _called_in_loops(module: Module) -> frozenset[FunctionInfo]:
    return frozenset(f.function for f in module.facts() if type(f) is LocalCall and f.place.loops)


def is_data(value: Value) -> bool:
    """Return whether a value is a number, or holds arrays."""
    return as_number(value) is not None or holds_arrays(value)


@kept_for_file
def calls_of_compiled(
    function: FunctionInfo | None, module: Module
) -> dict[FunctionInfo | None, list[cst.CSTNode]]:
    """Return the statements of a function that call what is compiled, by the function compiled."""
    found: dict[FunctionInfo | None, list[cst.CSTNode]] = {}
    for call in module.facts_of(function):
        if type(call) is CompiledCall:
            found.setdefault(root_of(call.callee), []).append(call.place.statement)
    return found


def _interleave(
    changes: list[cst.CSTNode],
    calls: list[cst.CSTNode],
    function: FunctionInfo | None,
    module: Module,
) -> bool:
    """Return whether a statement changes what one call sees after another call has seen it.

    It is between two calls, or in a loop with one.
    """
    layout = layout_of(module, function)

    def loops_at(statement: cst.CSTNode) -> set[int]:
        own = (statement,) if isinstance(statement, (cst.For, cst.While)) else ()
        return {id(loop) for loop in (*own, *layout.loops(statement))}

    called = [layout.order.get(id(call), -1) for call in calls]
    loops = {loop for call in calls for loop in loops_at(call)}
    return any(
        min(called) < layout.order.get(id(change), -1) < max(called) or loops & loops_at(change)
        for change in (changes if calls else ())
    )


def member_path(node: cst.CSTNode) -> tuple[str, str | None]:
    """Return the name of an attribute or an entry, and the path of its owner: ``cfg["scale"]``."""
    if type(node) is cst.Attribute:
        return node.attr.value, dotted(node.value)
    if type(node) is not cst.Subscript:
        return "", None
    part = node.slice[0].slice
    key = part.value if isinstance(part, cst.Index) else None
    text = evaluated(key) if isinstance(key, cst.SimpleString) else None
    return (f"[{text}]", dotted(node.value)) if isinstance(text, str) else ("", None)


@kept_for_file
def _targets_in(
    function: FunctionInfo | None, module: Module
) -> tuple[tuple[cst.BaseExpression, cst.CSTNode], ...]:
    """Return the targets of the assignments of a function, with their statements."""
    body = module.tree if function is None else function.node.body
    return tuple((t, node) for node in contents_of(body).statements for t in targets_of(node))


@kept_for_file
def attribute_stores(module: Module) -> dict[str, Stores]:
    """Get the assignments to attributes and entries of variables, by their names and the function.

    An entry's name is its key in brackets.
    """
    found: dict[str, Stores] = {}
    for function in (None, *module.functions):
        for target, node in _targets_in(function, module):
            name, owner = member_path(target)
            if owner is not None:
                found.setdefault(name, {}).setdefault(function, []).append((owner, node))
    return found


def is_set_on_object(
    name: str,
    attribute: str,
    info: FunctionInfo,
    functions: frozenset[FunctionInfo],
    module: Module,
) -> bool:
    """``guide.scale *= 0.9`` in a loop that calls a function which reads the global ``guide``."""
    stores = attribute_stores(module).get(attribute)
    if not stores or scope_of(module, info).binds(name):
        return False
    owner = module.frame.names.get(name) if info.closure is None else info.closure.lookup(name)
    if owner is None or not is_data(_member(owner, attribute)):
        return False
    variable_read = variable(name, info, module)
    for function, held in stores.items():
        if function in functions:
            continue
        compiled = calls_of_compiled(function, module)
        calls = [statement for f in functions for statement in compiled.get(f, ())]
        changes = [s for path, s in held if variable(path, function, module) == variable_read]
        if _interleave(changes, calls, function, module):
            return True
    return False


def _member(owner: Value, name: str) -> Value:
    if type(owner) is Instance:
        return owner.info.attributes.get(name, UNKNOWN)
    held = owner.get(name[1:-1]) if type(owner) is Dict else None
    return UNKNOWN if held is None else held


HELP = "Pass it to the compiled function as an array: `mx.array(value)`"
HELP_WITH_STATE = "Add `[model.state]` to both `inputs=` and `outputs=`"


@check("COMPILE-007")
def stale_number(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``x * scale`` in a compiled function, and ``scale *= 0.9`` after a call."""
    captured = captured_owners(fact, "inputs", module)
    if fact.has_star or captured is None:
        return
    functions = traced_by(fact, module)
    held = {dotted(owner.node) or "" for owner in captured}
    for info in functions:
        seen: set[str] = set()
        reported: set[str] = set()
        contents = contents_of(info.node.body, SCOPES)
        for node in contents.of(*_PATHS):
            path = None if contents.is_label(node) else _path(node)
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
                yield Report(
                    "COMPILE-007",
                    node,
                    place_in(fact, info, info.statement or info.node),
                    message="read when the function is traced: later changes have no effect",
                    help=HELP,
                    context="compiled",
                )


def _holds_one_of(name: str, paths: set[str]) -> bool:
    return any(path.startswith(f"{name}.") for path in paths)


def _path(node: cst.CSTNode) -> str | None:
    """Return the path of a name or an attribute; ``cfg.[scale]`` of the entry ``cfg["scale"]``."""
    if isinstance(node, (cst.Name, cst.Attribute)):
        return dotted(node)
    name, owner = member_path(node)
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
        return path in _operands(info) and any(
            changes_attribute(method, attribute, module)
            for method in methods
            if method not in functions
        )
    if cls is None:
        return is_set_on_object(name, attribute, info, functions, module)
    value = cls.attributes.get(attribute)
    if value is None or not (is_data(value) or path in _operands(info)):
        return False
    return any(
        changes_attribute(method, attribute, module)
        for method in cls.setters.get(attribute, ())
        if method not in functions
    ) or _is_set_outside(attribute, fact, cls, module)


@kept_for_file
def _operands(info: FunctionInfo) -> frozenset[str]:
    """Return the paths of what a function computes with: numbers and arrays alone."""
    contents = contents_of(info.node.body, SCOPES)
    operations = contents.of(cst.BinaryOperation)
    found = {keyed_path(side) for node in operations for side in (node.left, node.right)}
    for statement in contents.of(cst.Assign):  # ``a = self.alpha``
        if dotted(statement.targets[0].target) in found:
            found.add(keyed_path(statement.value))
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
        body = module.tree if function is None else function.node.body
        calls = [(dotted(call.func) or "", at) for call, at in located_calls(body)]
        for owner, store in stores:
            uses = [at for path, at in calls if _is_method_of(path, owner, called)]
            if _interleave([store], uses, function, module):
                return True
    return False


def _reads(method: FunctionInfo, names: set[str]) -> bool:
    return not names.isdisjoint(contents_of(method.node.body).names)


def _is_method_of(path: str, owner: str, names: set[str]) -> bool:
    return path.rpartition(".")[0] == owner and path.rpartition(".")[2] in names


def _is_rebound(
    name: str,
    info: FunctionInfo,
    functions: frozenset[FunctionInfo],
    fact: CompileFact,
    module: Module,
) -> bool:
    """Return whether a name around the compiled function changes between two calls of it."""
    found, owner = scope_of(module, info).find(name), fact.place.function
    if found is None or found[0].owner in functions:
        return False
    scope = found[0]
    if scope.owner is module:
        value = module.frame.names.get(name)
    else:
        value = None if info.closure is None else info.closure.names.get(name)
    if value is None or not is_data(value):
        return False
    if changes_variable(name, scope.owner, module) - functions:
        return True
    if scope.owner is not (module if owner is None else owner):
        return False
    called = calls_of_compiled(owner, module).get(root_of(fact.function), [])
    items = (
        statement
        for target, statement in _targets_in(owner, module)
        if isinstance(target, cst.Subscript) and dotted(target.value) == name
    )
    changed = [*(binding.statement for binding in scope.reaching.bindings[name]), *items]
    return len(changed) > 1 and _interleave(changed, called, owner, module)


@check("COMPILE-007")
def stale_module(fact: CompileFact, module: Module) -> Iterator[Report]:
    """A compiled function calls ``model``, and the training step around updates its weights."""
    if fact.has_star:
        return
    captured = captured_owners(fact, "inputs", module)
    functions = traced_by(fact, module)
    for update in updates_of(module):
        model = update.model
        if model is None or update.function in functions:
            continue
        if is_captured(sources_in(update, module)[1], captured):
            continue
        if update.function is fact.place.function and not (
            update.is_in_loop(module) and _comes_after(update.statement, fact, module)
        ):
            continue
        if _uses(fact, functions, model, update.function, module):
            yield Report.at(
                fact,
                message="weights are read when traced: optimizer updates have no effect",
                help=HELP_WITH_STATE,
                context="compiled",
            )
            return


def _comes_after(statement: cst.CSTNode, fact: CompileFact, module: Module) -> bool:
    order = layout_of(module, fact.place.function).order
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

    if any(_is_set(is_updated, info) for info in functions):
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
    return any(
        (path := dotted(argument)) is not None
        and is_updated(path, fact.place.function)
        and calls_variable(root, name.__eq__, module)
        for name, argument in by_parameter(root, pairs, is_bound=root.is_method).items()
    )


def _applied(is_updated: Test, info: FunctionInfo, path: str) -> bool:
    return is_updated(path, info)


def _is_set(is_updated: Test, info: FunctionInfo) -> bool:
    """``model.update(parameters)``: the weights are arguments."""
    functions = (call.func for call in contents_of(info.node.body, SCOPES).calls)
    updates = (f for f in functions if isinstance(f, cst.Attribute) and f.attr.value == "update")
    return any((path := dotted(f.value)) is not None and is_updated(path, info) for f in updates)


@check("COMPILE-007")
def stale_factory(fact: CallFact, module: Module) -> Iterator[Report]:
    """``evaluate = make_evaluate(model)`` before a loop that trains the model and calls it."""
    if type(fact.callee) is not Function:
        return
    factory = fact.callee.info
    for function in _compiled_in(fact.result):
        if function.outer is None or function.outer.node is not factory.node:
            continue
        if _captures(factory) or not _is_stale(fact, factory, function, module):
            continue
        compiled = [f for f in module.facts_of(factory) if type(f) is CompileFact]
        where: Fact = compiled[0] if len(compiled) == 1 and factory.module is module else fact
        yield Report.at(
            where,
            message="weights are read when traced: optimizer updates have no effect",
            help=HELP_WITH_STATE,
            context="compiled",
        )
        return


def _compiled_in(result: Value) -> Iterator[FunctionInfo]:
    """Yield the functions that are compiled in what a call returns."""
    for item in result.items or () if type(result) is Sequence else (result,):
        root = root_of(item)
        if root is not None and type(item) is Transformed and item.transform == "compile":
            yield root


def _captures(factory: FunctionInfo) -> bool:
    """Return whether a factory passes ``inputs=``, for whatever it compiles."""
    keywords = (argument.keyword for argument in contents_of(factory.node).of(cst.Arg))
    return any(keyword is not None and keyword.value == "inputs" for keyword in keywords)


def _is_stale(
    fact: CallFact, factory: FunctionInfo, function: FunctionInfo, module: Module
) -> bool:
    """Return whether a loop calls the function, and updates a model that the factory was given."""
    caller = fact.place.function
    loops = [
        call.place.loop
        for call in module.facts_of(caller)
        if type(call) is CompiledCall
        and call.place.loop is not None
        and root_of(call.callee) is function
    ]
    if not loops or fact.place.loop in loops:
        return False
    sources = sources_of(module)
    callee = Callee(factory, fact.callee.bound is not None)  # type: ignore[attr-defined]
    for parameter in factory.parameters:
        if not _runs(function, parameter.name):
            continue
        given = argument_of(sources.of(fact, fact.node), callee, parameter.name)
        path = None if given is None else dotted(given.node)
        if path is None:
            continue
        model = variable(path, caller, module)
        for update in updates_of(module):
            if (
                update.model is None
                or update.function is not caller
                or not update.is_in_loop(module)
            ):
                continue
            if variable(update.model, caller, module) == model:
                return True
    return False


def _runs(function: FunctionInfo, name: str) -> bool:
    """Return whether a function calls a model, or passes it to what may call it."""
    if any(parameter.name == name for parameter in function.parameters):
        return False
    return any(
        name in map(dotted, (node.func, *(argument.value for argument in node.args)))
        for node in contents_of(function.node.body, SCOPES).calls
    )
