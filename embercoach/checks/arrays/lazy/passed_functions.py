"""Functions that are passed to a timer: by name, as a lambda, or by a loop over several."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import Expression, display, resolve_name, scope_of
from embercoach.analysis.syntax.trees import SCOPES, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.scopes import Scope
    from embercoach.analysis.project.module import Module

Function = cst.FunctionDef | cst.Lambda
#: Functions of one list that are looked at.
_MOST_ITEMS = 16


def functions_at(
    node: cst.BaseExpression, function: FunctionInfo | None, module: Module
) -> list[Function]:
    """Return the functions of the file that a name or an argument of a function may be."""
    scope = scope_of(module, function)
    found = _function(node, scope)
    if found is not None:
        return [found]
    if not isinstance(node, cst.Name):
        return []
    body = module.tree if function is None else function.node.body
    loops = (n for n in walk(body, SCOPES) if isinstance(n, (cst.For, cst.CompFor)))
    items = (item for loop in loops for item in _items(loop, node.value, scope))
    made = (_function(item, scope) for item in items)
    return [item for item in made if item is not None]


def _function(node: cst.BaseExpression, scope: Scope) -> Function | None:
    if isinstance(node, cst.Name):
        found = scope.find(node.value)
        made = None if found is None or found[1] is None else found[1].node
        return made if isinstance(made, (cst.FunctionDef, cst.Lambda)) else None
    return node if isinstance(node, cst.Lambda) else None


def _items(loop: cst.For | cst.CompFor, name: str, scope: Scope) -> Iterator[cst.BaseExpression]:
    """Yield what a loop over a list, a tuple or a dictionary binds a name to."""
    node, view = loop.iter, ""
    func = node.func if isinstance(node, cst.Call) and not node.args else None
    if isinstance(func, cst.Attribute):
        node, view = func.value, func.attr.value
    made = resolve_name(Expression(node, scope)).node
    if isinstance(made, cst.Dict) and view in ("items", "values"):
        pairs = [e for e in made.elements if isinstance(e, cst.DictElement)]
        rows = [[e.key, e.value] if view == "items" else e.value for e in pairs]
    elif not view:
        rows = [display(item) or item for item in display(made) or ()]
    else:
        return
    targets = display(loop.target)
    for row in rows[:_MOST_ITEMS]:
        if isinstance(row, list) and targets is not None and len(row) == len(targets):
            for target, item in zip(targets, row, strict=True):
                if isinstance(target, cst.Name) and target.value == name:
                    yield item
            continue
        is_name = isinstance(loop.target, cst.Name) and loop.target.value == name
        if is_name and not isinstance(row, list):
            yield row
