"""Calls of one module under several names: aliases, attributes, arguments of functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.facts.evaluation import evaluation_of
from embercoach.analysis.facts.scopes import assigned_attributes, by_parameter, scope_of
from embercoach.analysis.syntax.trees import dotted, small_statements
from embercoach.checks.arrays.compiled.compilations import nodes_in

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from embercoach.analysis.facts.scopes import Scope
    from embercoach.analysis.project.module import Module

#: Names and calls that are followed.
_MOST_NAMES, _MOST_CALLS = 8, 3


def variable(path: str, function: FunctionInfo | None, module: Module) -> Hashable:
    """A key that is the same for all names of one variable, such as ``model`` and ``self.model``.

    Args:
        path: a name or a dotted path.
        function: the function that it is used in.
        module: the file.
    """
    scope = scope_of(module, function)
    for _ in range(_MOST_NAMES):
        name, _, rest = path.partition(".")
        found = scope.find(name)
        if found is None:
            return path
        scope, expression = found
        owner = scope.owner
        if isinstance(owner, FunctionInfo) and owner.is_method and rest:
            first = owner.parameters[0].name if owner.parameters else ""
            if name == first:
                return owner.cls, rest
        alias = None if rest else _attribute_of(name, scope, module)
        if alias is not None:
            return alias
        other = None if expression is None else dotted(expression.node)
        if expression is None or other is None:
            return owner, path
        path, scope = f"{other}.{rest}" if rest else other, expression.scope
    return path


def _attribute_of(name: str, scope: Scope, module: Module) -> Hashable | None:
    """The attribute that a method sets to a variable: ``self.model = model``."""
    owner = scope.owner
    if not isinstance(owner, FunctionInfo) or not owner.is_method or not owner.parameters:
        return None
    if len(scope.reaching.bindings.get(name, ())) != 1:
        return None
    first = owner.parameters[0].name
    for statement in small_statements(owner.node.body):
        if not isinstance(statement, cst.Assign) or dotted(statement.value) != name:
            continue
        for target in statement.targets:
            holder, _, attribute = (dotted(target.target) or "").partition(".")
            if holder == first and assigned_attributes(module)[attribute] == 1:
                return owner.cls, attribute
    return None


def calls_variable(
    function: FunctionInfo, is_same: Callable[[str], bool], module: Module, depth: int = 0
) -> bool:
    """Return whether a function calls a variable, or passes it to a function that does."""
    evaluation = evaluation_of(module)
    for node in nodes_in(function.node.body, module):
        if not isinstance(node, cst.Call):
            continue
        callee = dotted(node.func)
        if callee is not None and is_same(callee):
            return True
        local = evaluation.local_call(node) if depth < _MOST_CALLS else None
        if local is None or any(a.star for a in node.args):
            continue
        given = ((None if a.keyword is None else a.keyword.value, a.value) for a in node.args)
        passed = by_parameter(local.function, given, is_bound=local.is_bound)
        for name, argument in passed.items():
            path = dotted(argument)
            is_passed = path is not None and is_same(path)
            if is_passed and calls_variable(local.function, name.__eq__, module, depth + 1):
                return True
    return False
