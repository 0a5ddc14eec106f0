"""Functions that are passed to a timer: by name, as a lambda, or by a loop over several."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.facts import calls_by_function
from embercoach.analysis.facts.scopes import (
    Expression,
    by_parameter,
    display,
    resolve_name,
    scope_of,
)
from embercoach.analysis.syntax.trees import SCOPES, dotted, small_statements, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.scopes import Scope
    from embercoach.analysis.project.module import Module

Function = cst.FunctionDef | cst.Lambda
#: Functions of one list that are looked at.
_MOST_ITEMS = 16
_EVAL = "mlx.core.eval"


def functions_at(
    node: cst.BaseExpression, function: FunctionInfo | None, module: Module
) -> list[Function]:
    """Return the functions of the file that a name or an argument of a function may be."""
    scope = scope_of(module, function)
    direct = _function(node, scope)
    if direct is not None:
        return [direct]
    if not isinstance(node, cst.Name):
        return []
    body = module.tree if function is None else function.node.body
    loops = (n for n in walk(body, SCOPES) if isinstance(n, (cst.For, cst.CompFor)))
    found: list[Function] = []
    for loop in loops:
        for container in _containers(loop, function, module):
            items = _items(loop, container, node.value)
            made = (_function(item, container.scope) for item in items)
            found += [item for item in made if item is not None]
    return found


def _function(node: cst.BaseExpression, scope: Scope) -> Function | None:
    if isinstance(node, cst.Name):
        found = scope.find(node.value)
        made = None if found is None or found[1] is None else found[1].node
        return made if isinstance(made, (cst.FunctionDef, cst.Lambda)) else None
    return node if isinstance(node, cst.Lambda) else None


def _containers(
    loop: cst.For | cst.CompFor, function: FunctionInfo | None, module: Module
) -> list[Expression]:
    """The container that a loop walks over; of a parameter, those that callers pass."""
    node, func = loop.iter, getattr(loop.iter, "func", None)
    if _view(loop) is not None and isinstance(func, cst.Attribute):
        node = func.value
    made = resolve_name(Expression(node, scope_of(module, function)))
    if function is None or not isinstance(made.node, cst.Name):
        return [made]
    name, found = made.node.value, []
    for call in calls_by_function(module).get(function, ())[:_MOST_ITEMS]:
        pairs = [(a.keyword.value if a.keyword else None, a.value) for a in call.node.args]
        given = by_parameter(function, pairs, is_bound=call.is_bound).get(name)
        if given is not None:
            scope = scope_of(module, call.place.function)
            found.append(resolve_name(Expression(given, scope)))
    return found


def _view(loop: cst.For | cst.CompFor) -> str | None:
    """The method of a loop over ``cases.items()`` or ``cases.values()``."""
    node = loop.iter
    func = node.func if isinstance(node, cst.Call) and not node.args else None
    return func.attr.value if isinstance(func, cst.Attribute) else None


def _items(
    loop: cst.For | cst.CompFor, container: Expression, name: str
) -> Iterator[cst.BaseExpression]:
    """Yield what a loop over a list, a tuple or a dictionary binds a name to."""
    made, view = container.node, _view(loop)
    if isinstance(made, cst.Dict) and view in ("items", "values"):
        pairs = [e for e in made.elements if isinstance(e, cst.DictElement)]
        rows = [[e.key, e.value] if view == "items" else e.value for e in pairs]
    elif view is None:
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


def is_evaluated_elsewhere(
    func: cst.BaseExpression, function: FunctionInfo | None, module: Module
) -> bool:
    """Return whether a function evaluates what a parameter of it returns: ``mx.eval(f(x))``.

    A warm-up shows so that the result is lazy, whichever function is passed.
    """
    path = dotted(func)
    if path is None or function is None or not scope_of(module, function).binds(_root(path)):
        return False
    return path in _evaluated_calls(function, module)


def _root(path: str) -> str:
    return path.partition(".")[0]


@lru_cache(maxsize=8)
def _evaluated_calls(function: FunctionInfo, module: Module) -> frozenset[str]:
    """The paths of what a function calls, where it gives the result to ``mx.eval``."""
    calls, found = evaluation_of(module).calls, set[str | None]()
    evaluated: set[str | None] = set()
    for node in walk(function.node.body):
        fact = calls.get(node) if isinstance(node, cst.Call) else None
        for argument in fact.arguments if fact is not None and fact.symbol == _EVAL else ():
            if isinstance(argument.node, cst.Call):
                found.add(dotted(argument.node.func))
            else:
                evaluated.add(dotted(argument.node))
    for statement in small_statements(function.node.body):
        made = statement.value if isinstance(statement, cst.Assign) else None
        targets = statement.targets if isinstance(statement, cst.Assign) else ()
        is_evaluated = any(dotted(target.target) in evaluated for target in targets)
        if is_evaluated and isinstance(made, cst.Call):
            found.add(dotted(made.func))
    return frozenset(path for path in found if path is not None)
