"""COMPILE-005 and COMPILE-006: state that a compiled function changes and ``outputs=`` lacks."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.parameters import closure_of
from embercoach.analysis.evaluate.frame import Frame
from embercoach.analysis.evaluate.members import member
from embercoach.analysis.facts.contexts import is_traced
from embercoach.analysis.facts.facts import BinaryFact, CallFact, StoreFact
from embercoach.analysis.facts.scopes import made_in_init, scope_of
from embercoach.analysis.syntax.trees import children, dotted
from embercoach.analysis.value_sources import sources_of
from embercoach.analysis.values.inheritance import find_method
from embercoach.analysis.values.joins import holds_arrays
from embercoach.analysis.values.lattice import UNKNOWN, Instance
from embercoach.checks.arrays.compiled.captured_state import captured_owners, is_captured
from embercoach.checks.arrays.compiled.compilations import (
    imported_by,
    nodes_in,
    place_in,
    traced_by,
)
from embercoach.checks.arrays.compiled.updates import sources_in, updates_of
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CompileFact, Fact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

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
    given = {name: fact.option(i, name) for i, name in ((1, "inputs"), (2, "outputs"))}
    captured = {
        name: [] if a is None else captured_owners(fact, a, module) for name, a in given.items()
    }
    for update in updates_of(module):
        info = update.function
        if info is None or info not in functions or not _is_outer(update.owner, info, module):
            continue
        if update.model is None and _mentions(info, f"{update.owner}.state", module):
            continue  # the state is an argument and a result
        state = sources_in(update, module)
        for name in ("outputs", "inputs"):
            lacking = [s for s in state if not is_captured(s, captured[name])]
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


def _mentions(info: FunctionInfo, path: str, module: Module) -> bool:
    return any(
        dotted(n) == path for n in nodes_in(info.node.body, module) if isinstance(n, cst.Attribute)
    )


def _is_outer(path: str, info: FunctionInfo, module: Module) -> bool:
    """Return whether a path begins with a name that a function does not bind, or with ``self``."""
    name = path.partition(".")[0]
    if not scope_of(module, info).binds(name):
        return True
    return info.is_method and bool(info.parameters) and info.parameters[0].name == name


@check("COMPILE-006")
def leaked_tracer(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``history.append(loss)`` and ``self.last = y`` in a compiled function."""
    functions = traced_by(fact, module)
    if fact.has_star:
        return
    outputs = fact.option(2, "outputs")
    captured = [] if outputs is None else captured_owners(fact, outputs, module)
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
def leaking_layer(fact: CompileFact, module: Module) -> Iterator[Report]:
    """A compiled function calls a layer of another file that keeps ``self.last = y``."""
    if fact.has_star or fact.option(2, "outputs") is not None:
        return
    imported = imported_by(fact, module)
    for info in imported:
        names = () if info.cls is None or info.name == "__init__" else info.cls.set_by.get(info, ())
        for name in names:
            held = _held(info, name)
            readers = _reads(module).get(name, frozenset()) - traced_by(fact, module)
            if name in _OF_CONTAINERS:
                continue  # ``config.keys()`` does not read it
            if readers and holds_arrays(held) and is_traced(held):
                yield Report.at(
                    fact,
                    "COMPILE-006",
                    message=f"`{info.qualified_name[:32]}` stores a traced array in `{name[:16]}`",
                    help=RETURN_OR_CAPTURE,
                )
                return


def _held(info: FunctionInfo, name: str) -> Value:
    assert info.cls is not None
    frame = Frame(info.module, info, closure_of(info), record=False)
    return member(frame, Instance(info.cls), name)


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
    elif not _outlives(name, info, functions, module):
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


def _outlives(
    name: str, info: FunctionInfo, functions: frozenset[FunctionInfo], module: Module
) -> bool:
    """Return whether a name belongs to a scope around the compiled functions."""
    if name in info.global_names:
        return True
    current: FunctionInfo | None = info
    while current is not None:
        if name not in current.nonlocal_names and scope_of(module, current).binds(name):
            return current not in functions
        current = current.outer
    return scope_of(module, None).binds(name)


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
