"""Changes between two calls of a compiled function: of attributes and entries of objects."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import CompiledCall
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import (
    DEFINITIONS,
    children,
    dotted,
    evaluated,
    small_statements,
)
from embercoach.analysis.values.joins import as_number, holds_arrays
from embercoach.analysis.values.lattice import UNKNOWN, Dict, Instance
from embercoach.checks.arrays.compiled.compilations import root_of
from embercoach.checks.arrays.compiled.model_calls import variable

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

    #: Changes of a member, by the function that makes them: of which object, and the statements.
    Stores = dict[FunctionInfo | None, list[tuple[str, cst.CSTNode]]]


def is_data(value: Value) -> bool:
    """Return whether a value is a number, or holds arrays."""
    return as_number(value) is not None or holds_arrays(value)


@lru_cache(maxsize=4)
def calls_of_compiled(
    function: FunctionInfo | None, module: Module
) -> dict[FunctionInfo | None, list[cst.CSTNode]]:
    """The statements of a function that call what is compiled, by the function compiled."""
    found: dict[FunctionInfo | None, list[cst.CSTNode]] = {}
    for call in module.facts_of(function):
        if type(call) is CompiledCall:
            found.setdefault(root_of(call.callee), []).append(call.place.statement)
    return found


@lru_cache(maxsize=4)
def order_of(
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


def member_of(node: cst.CSTNode) -> tuple[str, str | None]:
    """The name of an attribute or an entry, and the path of its owner: ``cfg["scale"]``."""
    if type(node) is cst.Attribute:
        return node.attr.value, dotted(node.value)
    if type(node) is not cst.Subscript:
        return "", None
    part = node.slice[0].slice
    key = part.value if isinstance(part, cst.Index) else None
    text = evaluated(key) if isinstance(key, cst.SimpleString) else None
    return (f"[{text}]", dotted(node.value)) if isinstance(text, str) else ("", None)


@lru_cache(maxsize=1)
def attribute_stores(
    module: Module,
) -> dict[str, Stores]:
    """The assignments to attributes and entries of variables, by their names and the function.

    An entry's name is its key in brackets.
    """
    found: dict[str, Stores] = {}
    for function in (None, *module.functions):
        for node in small_statements(module.tree if function is None else function.node.body):
            targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
            if isinstance(node, cst.AugAssign):
                targets = [node.target]
            for target in targets:
                name, owner = member_of(target)
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
    for function, held in stores.items():
        if function in functions:
            continue
        order, loops = order_of(function, module)
        called = [s for f in functions for s in calls_of_compiled(function, module).get(f, ())]
        calls = [order.get(id(statement), -1) for statement in called]
        for path, store in held:
            at = order.get(id(store), -1)
            is_same = variable(path, function, module) == variable(name, info, module)
            if is_same and any(at in lo and any(c in lo for c in calls) for lo in loops):
                return True
    return False


def _member(owner: Value, name: str) -> Value:
    if type(owner) is Instance:
        return owner.info.attributes.get(name, UNKNOWN)
    held = owner.get(name[1:-1]) if type(owner) is Dict else None
    return UNKNOWN if held is None else held
