"""COMPILE-005, 006 and 011: state that a compiled function changes, and what it captures."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import libcst as cst

from embercoach.analysis.dataflow.contexts import is_traced
from embercoach.analysis.dataflow.function_summaries import evaluated_calls, frame_of, nodes_in
from embercoach.analysis.dataflow.held_sources import changed_containers
from embercoach.analysis.dataflow.scopes import made_in_init, scope_of
from embercoach.analysis.dataflow.value_sources import sources_of
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.facts.facts import BinaryFact, CallFact, StoreFact
from embercoach.analysis.syntax.trees import children, dotted, names_below, walk
from embercoach.analysis.values.inheritance import find_method, lineage
from embercoach.analysis.values.joins import holds_arrays, options
from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Dict,
    Instance,
    Sequence,
    Symbol,
    Value,
)
from embercoach.analysis.values.memo import kept_for_file
from embercoach.checks.arrays.compiled.compilations import (
    imported_by,
    place_in,
    sources_in,
    traced_by,
    update_in,
    updates_of,
    variable,
)
from embercoach.checks.arrays.modules.module_modes import DEEPEST, is_by_mode
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from embercoach.analysis.calls.definitions import ClassInfo, FunctionInfo
    from embercoach.analysis.dataflow.value_sources import Source, Sources
    from embercoach.analysis.facts.facts import CompileFact, Fact, FactPlace
    from embercoach.analysis.project.module import Module

Option = Literal["inputs", "outputs"]
#: The place of an option among the arguments of ``mx.compile``.
_PLACES: dict[Option, int] = {"outputs": 2, "inputs": 1}
RANDOM_STATE = "mlx.core.random.state"
#: Elements of ``inputs=`` and ``outputs=`` that are looked at.
MOST_CAPTURED = 64
#: The attribute that holds the state of a module, of an optimizer, or of ``mx.random``.
STATE = "state"


def captures_random_state(fact: CompileFact, option: Option, module: Module) -> bool:
    """Return whether ``inputs=`` or ``outputs=`` has ``mx.random.state``, or may have it."""
    argument = fact.option(_PLACES[option], option)
    if argument is None:
        return False
    known = _holds(argument.value, RANDOM_STATE)
    if known is None:  # nothing is known of the value, but perhaps of its expression
        return captured_owners(fact, option, module) is None
    return known


def _holds(value: Value, name: str) -> bool | None:
    """Return whether a symbol is in a value; None if nothing is known of the value."""
    if value is UNKNOWN:
        return None
    for option in options(value):
        if isinstance(option, Symbol):
            if option.name == name:
                return True
        elif isinstance(option, Sequence):
            items = option.items if option.items is not None else (option.common or UNKNOWN,)
            if any(_holds(item, name) for item in items):
                return True
            if option.items is None and option.common is UNKNOWN:
                return None
        elif isinstance(option, Dict):
            values = [option.item, *(held for _, held in option.known)]
            if any(_holds(held, name) for held in values):
                return True
    return None if UNKNOWN in options(value) else False


@kept_for_file
def captured_owners(fact: CompileFact, option: Option, module: Module) -> list[Source] | None:
    """The objects whose states are in ``inputs=`` or ``outputs=``, None if some are not known."""
    argument = fact.option(_PLACES[option], option)
    if argument is None:
        return []
    sources = sources_of(module)
    found: list[Source] = []
    pending = [sources.at_place(argument.node, _place_of(fact))]
    for _ in range(MOST_CAPTURED):
        if not pending:
            return found
        source = pending.pop()
        ends = sources.ends(source)
        if not ends or _may_grow(source, ends):
            return None
        if dotted(source.node) is not None:  # a list or a dictionary is captured itself
            found += [source for end in ends if isinstance(end.node, (cst.List, cst.Dict))]
        for end in ends:
            node = end.node
            if isinstance(node, (cst.List, cst.Tuple, cst.Dict)):
                pending += [end.at(element.value) for element in node.elements]
            elif isinstance(node, cst.BinaryOperation):
                pending += [end.at(node.left), end.at(node.right)]
            else:
                owner = _owner_of_state(end, sources)
                if owner is None:
                    return None
                found.append(owner)
    return None


def _place_of(fact: CompileFact) -> FactPlace:
    """The place of the arguments of ``mx.compile``: of a decorator, the definition's."""
    if fact.decorated is None:
        return fact.place
    return fact.place._replace(statement=fact.decorated.node)


def _may_grow(source: Source, ends: list[Source]) -> bool:
    """Return whether a list with a name may get further elements after it is made."""
    path = dotted(source.node)
    if path is None or not any(isinstance(e.node, (cst.List, cst.Dict)) for e in ends):
        return False
    modules = dict.fromkeys((source.module, *(end.module for end in ends)))
    return any(path.rpartition(".")[2] in changed_containers(module) for module in modules)


def _owner_of_state(source: Source, sources: Sources) -> Source | None:
    """The module or the optimizer whose ``state`` an expression is."""
    node = source.node
    if not isinstance(node, cst.Attribute) or node.attr.value != STATE:
        return None  # an attribute that may hold several states
    owner = source.at(node.value)
    value = sources.value(owner)
    if isinstance(value, Instance) and any(map(_defines_state, lineage(value.info))):
        return None
    return owner if dotted(owner.node) is not None else None


def _defines_state(cls: ClassInfo) -> bool:
    """Return whether a class has a ``state`` that is not MLX's."""
    return STATE in cls.setters or STATE in cls.methods or STATE in cls.variables


def is_captured(owner: Source, captured: list[Source] | None) -> bool:
    """Return whether an object's state is captured, or may be.

    Args:
        owner: the object, by a name or a path.
        captured: the objects whose states are captured.
    """
    if captured is None:
        return True
    path = dotted(owner.node) or ""
    name = path.rpartition(".")[2]
    for known in captured:
        held = dotted(known.node) or ""
        if name in held.split(".") or path.startswith(f"{held}."):
            return True
    keys = _keys(owner) if captured else set()
    return any(not keys.isdisjoint(_keys(known)) for known in captured)


def _keys(source: Source) -> set[Hashable]:
    """Keys that two expressions of one object have in common."""
    found: set[Hashable] = set()
    for end in (source, *sources_of(source.module).ends(source)):
        path = dotted(end.node)
        found.add(id(end.node) if path is None else variable(path, end.function, end.module))
    return found


_OF_CONTAINERS = frozenset((*dir(dict), *dir(list), *dir(str)))
#: An array that is added to a list: only a trace runs ``append``, even with ``outputs=``.
RETURN = "Return the array, and store it outside of the compiled function"
RETURN_OR_CAPTURE = "Return the array, or add its container to `outputs=` of mx.compile"
_ADDS = frozenset({"append", "extend", "insert", "add", "appendleft"})


@check("COMPILE-005")
def uncaptured_update(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``optimizer.update(model, gradients)`` without ``outputs=state``."""
    functions = traced_by(fact, module)
    if fact.has_star or not functions:
        return
    for update in updates_of(module):
        info = update.function
        if info is None or info not in functions or not _is_outer(update.owner, info):
            continue
        if update.model is None and _mentions(info, f"{update.owner}.state", module):
            continue  # the state is an argument and a result
        state = sources_in(update, module)
        for name in _PLACES:
            captured = captured_owners(fact, name, module)
            lacking = [s for s in state if not is_captured(s, captured)]
            if lacking:
                shown = (dotted(lacking[0].node) or "").rpartition(".")[2]
                yield Report.at(
                    fact,
                    "COMPILE-005",
                    node=update.node,
                    place=place_in(fact, info, update.statement),
                    message=f"updates `{shown}`, which `{name}=` of mx.compile lacks"[:80],
                    help="Add `[model.state, optimizer.state]` to `inputs=` and `outputs=`",
                    context="compiled",
                )
                break


@check("COMPILE-005")
def imported_update(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(step)`` of a function of another file that updates its model."""
    if fact.has_star or fact.option(2, "outputs") is not None:
        return
    for info in imported_by(fact, module):
        for call in evaluated_calls(info):
            update = update_in(call.node, call.place.statement, info)
            owner = "" if update is None else update.owner
            if "opt" in owner.lower() and _is_outer(owner, info):
                yield Report.at(
                    fact,
                    "COMPILE-005",
                    message=f"`{info.name[:20]}()` updates `{owner[:12]}`, "
                    "which `outputs=` of mx.compile lacks",
                    help="Add `[model.state, optimizer.state]` to `inputs=` and `outputs=`",
                )
                return


def _mentions(info: FunctionInfo, path: str, module: Module) -> bool:
    return any(
        dotted(n) == path for n in nodes_in(info.node.body, module) if isinstance(n, cst.Attribute)
    )


def _is_outer(path: str, info: FunctionInfo) -> bool:
    """Return whether a path begins with a name that a function does not bind, or with ``self``."""
    name = path.partition(".")[0]
    if not scope_of(info.module, info).binds(name):
        return True
    return info.is_method and bool(info.parameters) and info.parameters[0].name == name


@check("COMPILE-006")
def leaked_tracer(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``history.append(loss)`` and ``self.last = y`` in a compiled function."""
    functions = traced_by(fact, module)
    if fact.has_star:
        return
    captured = captured_owners(fact, "outputs", module)
    for info in functions:
        for inner in module.facts_of(info):
            target = _stored(inner)
            if target is None or not _leaks(target, info, functions, module):
                continue
            owner = _owner(target)
            if not isinstance(owner, cst.BaseExpression) or dotted(owner) is None:
                continue
            if is_captured(sources_of(module).of(inner, owner), captured):
                continue
            yield Report.at(
                inner,
                "COMPILE-006",
                message="stores a traced array outside of the compiled function",
                help=RETURN if _is_added(target) else RETURN_OR_CAPTURE,
                context="compiled",
            )


@check("COMPILE-006")
def leaking_callback(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``encoder(x, hook=self.taps.append)`` in a compiled function."""
    functions = traced_by(fact, module)
    if fact.has_star or fact.option(2, "outputs") is not None:
        return
    for info in functions:
        for node in nodes_in(info.node.body, module):
            for argument in node.args if isinstance(node, cst.Call) else ():
                target = _added_to(argument.value)
                if target is None or not _leaks(target, info, functions, module):
                    continue
                yield Report.at(
                    fact,
                    "COMPILE-006",
                    node=argument.value,
                    place=place_in(fact, info, info.statement or info.node),
                    message="the callback stores traced arrays outside of the compiled function",
                    help="Collect them in a local list, and return it",
                    context="compiled",
                )


def _added_to(node: cst.BaseExpression) -> cst.Attribute | None:
    """``taps.append``, or that of ``lambda h: taps.append(h)``."""
    if isinstance(node, cst.Lambda) and isinstance(node.body, cst.Call):
        given = {p.name.value for p in node.params.params}
        passed = {dotted(a.value) for a in node.body.args}
        node = node.body.func if passed and passed <= given else node
    is_adding = isinstance(node, cst.Attribute) and node.attr.value in _ADDS
    return node if is_adding and isinstance(node, cst.Attribute) else None


@check("COMPILE-006")
def leaking_import(fact: CompileFact, module: Module) -> Iterator[Report]:
    """A compiled function calls one of another file that keeps ``self.last = y``, or adds ``y``."""
    if fact.has_star or fact.option(2, "outputs") is not None:
        return
    for info in imported_by(fact, module):
        stored = "stores a traced array"
        kept = _kept_attribute(info, traced_by(fact, module), module)
        if kept is not None:
            message = f"`{info.qualified_name[:32]}` {stored} in `{kept[:16]}`"
        elif any(_adds_argument(info, call.node) for call in evaluated_calls(info)):
            message = f"`{info.name[:20]}()` {stored} outside of the compiled function"
        else:
            continue
        yield Report.at(fact, "COMPILE-006", message=message, help=RETURN_OR_CAPTURE)
        return


def _kept_attribute(
    info: FunctionInfo, functions: frozenset[FunctionInfo], module: Module
) -> str | None:
    """The attribute that a method sets to a traced array, and that the file reads elsewhere."""
    if info.cls is None or info.name == "__init__":
        return None
    for name in info.cls.set_by.get(info, ()):
        # ``config.keys()`` does not read it.
        if name not in _OF_CONTAINERS and _reads(module).get(name, frozenset()) - functions:
            held = member(frame_of(info), Instance(info.cls), name)
            if holds_arrays(held) and is_traced(held):
                return name
    return None


def _adds_argument(info: FunctionInfo, node: cst.Call) -> bool:
    """``SEEN.append(x)`` of a list of the file, and of what the function is given."""
    func = node.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _ADDS or not node.args:
        return False
    if not isinstance(func.value, cst.Name) or info.outer is not None:
        return False
    parameters = {p.name for p in info.parameters[info.is_method :]}
    is_given = dotted(node.args[0].value) in parameters
    return is_given and _outlives(func.value.value, info, frozenset((info,)))


def _stored(fact: Fact) -> cst.CSTNode | None:
    """The target of a fact that stores a traced array."""
    if type(fact) is StoreFact:
        return fact.node if _is_traced(fact.value) else None
    if type(fact) is BinaryFact and fact.in_place and isinstance(fact.node, cst.AugAssign):
        target = fact.node.target
        return target if isinstance(target, cst.Subscript) else None
    if type(fact) is not CallFact or fact.callee is not UNKNOWN:
        return None
    func = fact.node.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _ADDS:
        return None
    return func if any(_is_traced(a.value) for a in fact.arguments) else None


def _is_traced(value: Value) -> bool:
    return is_traced(value) and holds_arrays(value)


def _is_added(target: cst.CSTNode) -> bool:
    """Test for ``xs.append``, which a call of a list or a set is of."""
    return isinstance(target, cst.Attribute) and target.attr.value in _ADDS


def _owner(target: cst.CSTNode) -> cst.CSTNode:
    """``xs`` of ``xs.append`` and ``xs[0]``, ``self`` of ``self.x``."""
    return target.value if isinstance(target, (cst.Attribute, cst.Subscript)) else target


def _leaks(
    target: cst.CSTNode,
    info: FunctionInfo,
    functions: frozenset[FunctionInfo],
    module: Module,
) -> bool:
    """Return whether a container outlives the trace, and what is stored is read again."""
    path = dotted(_owner(target))
    if path is None:
        return False
    name = path.partition(".")[0]
    is_self = info.is_method and bool(info.parameters) and info.parameters[0].name == name
    if is_self:
        assert info.cls is not None
        init = find_method(info.cls, "__init__")
        if init in functions:
            return False  # made during the trace
        if _is_given_list(target, info):
            return True  # who made it may read it
    elif not _outlives(name, info, functions):
        return False
    stored = _attribute(target)
    return stored is None or bool(_reads(module).get(stored, frozenset()) - functions)


def _is_given_list(target: cst.CSTNode, info: FunctionInfo) -> bool:
    """Test for the ``self.log`` of ``self.log.append(x)`` that ``__init__`` is given."""
    name = _attribute(target) if isinstance(target, cst.Attribute) else None
    return bool(
        _is_added(target)
        and name
        and info.cls
        and isinstance(made_in_init(info.cls, name), cst.Name)
    )


def _attribute(target: cst.CSTNode) -> str | None:
    """The attribute that holds what is stored; None for other containers."""
    if _is_added(target) or isinstance(target, cst.Subscript):
        target = _owner(target)
    return target.attr.value if isinstance(target, cst.Attribute) else None


def _outlives(name: str, info: FunctionInfo, functions: frozenset[FunctionInfo]) -> bool:
    """Return whether a name belongs to a scope around the compiled functions."""
    if name in info.global_names:
        return True
    around = info.outer if name in info.nonlocal_names else info
    found = scope_of(info.module, around).find(name)
    return found is not None and found[0].owner not in functions


@lru_cache(maxsize=1)
def _reads(module: Module) -> dict[str, frozenset[FunctionInfo | None]]:
    """The functions of a file that read an attribute, by its name."""
    found: dict[str, set[FunctionInfo | None]] = {}
    bodies = {id(info.node): info for info in module.functions}
    pending: list[tuple[cst.CSTNode, FunctionInfo | None]] = [(module.tree, None)]
    while pending:
        node, function = pending.pop()
        function = bodies.get(id(node), function)
        if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Attribute):
            pending.append((node.target.value, function))
            continue
        if isinstance(node, cst.Attribute):
            found.setdefault(node.attr.value, set()).add(function)
        pending += [(child, function) for child in children(node)]
    return {name: frozenset(functions) for name, functions in found.items()}


_NORM = "BatchNorm"


@check("COMPILE-005")
def uncaptured_statistics(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``mx.compile(lambda x: model(x), inputs=model.state)`` of a model with ``nn.BatchNorm``."""
    if fact.has_star or fact.option(2, "outputs") is not None:
        return
    if ".eval()" in module.source or ".train(" in module.source:
        return  # its statistics may not change
    for owner in captured_owners(fact, "inputs", module) or ():
        name = (dotted(owner.node) or "").rpartition(".")[2]
        if _runs(fact, name, module) and _has_norm(owner, module):
            yield Report.at(
                fact,
                "COMPILE-005",
                message=f"batch norm updates `{name}`, which `outputs=` of mx.compile lacks"[:80],
                help=f"Add `{name}.state` to `outputs=` as well",
                context="compiled",
            )
            return


def _runs(fact: CompileFact, name: str, module: Module) -> bool:
    node = fact.node
    given = node.args[0].value if isinstance(node, cst.Call) and node.args else None
    return (given is not None and name in names_below(given)) or any(
        name in names_below(info.node.body) for info in traced_by(fact, module)
    )


def _has_norm(owner: Source, module: Module) -> bool:
    """Return whether a model certainly holds ``nn.BatchNorm``, itself or in a layer."""
    sources = sources_of(module)
    ends = sources.ends(owner)
    made = [end.node for end in ends if isinstance(end.node, cst.Call)]
    if len(made) != len(ends) or not made:
        return False
    if is_by_mode(sources.value(owner), module, DEEPEST, names=(_NORM,)):
        return True
    return all((dotted(call.func) or "").endswith("Sequential") for call in made) and any(
        isinstance(node, cst.Call) and (dotted(node.func) or "").endswith(f"nn.{_NORM}")
        for call in made
        for node in walk(call)
    )
