"""Calls and updates of models: under several names, and where a file has them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.dataflow.evaluation import evaluation_of
from embercoach.analysis.dataflow.scopes import assigned_attributes, by_parameter, scope_of
from embercoach.analysis.dataflow.value_sources import Source
from embercoach.analysis.syntax.trees import SCOPES, children, dotted, small_statements
from embercoach.checks.arrays.compiled.compilations import nodes_in

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from embercoach.analysis.dataflow.scopes import Scope
    from embercoach.analysis.project.module import Module

_NAMES = re.compile(r"\b(update|apply_gradients)\b")
#: Updates of a file that are looked at.
MOST_UPDATES = 64


class Update(NamedTuple):
    """``optimizer.update(model, gradients)``.

    owner: the path of the optimizer.
    model: the path of the module, None for ``apply_gradients``.
    in_loop: whether it is in a loop of its function.
    """

    node: cst.Call
    statement: cst.CSTNode
    function: FunctionInfo | None
    owner: str
    model: str | None
    in_loop: bool


@lru_cache(maxsize=1)
def updates_of(module: Module) -> tuple[Update, ...]:
    """The calls of a file that update a module by an optimizer, in any order."""
    found: list[Update] = []
    if _NAMES.search(module.source) is None:
        return ()
    for function in (None, *module.functions):
        body = module.tree if function is None else function.node.body
        pending: list[tuple[cst.CSTNode, cst.CSTNode, bool]] = [(body, body, False)]
        while pending:
            node, statement, in_loop = pending.pop()
            kind = type(node)
            if kind in SCOPES:
                continue
            if type(node) is cst.Call:
                update = _update(node, statement, function, in_loop=in_loop)
                if update is not None and len(found) < MOST_UPDATES:
                    found.append(update)
            inside = in_loop or kind is cst.For or kind is cst.While
            is_line = kind is cst.SimpleStatementLine or kind is cst.SimpleStatementSuite
            pending += [(c, c if is_line else statement, inside) for c in children(node)]
    return tuple(found)


def sources_in(update: Update, module: Module) -> tuple[Source, ...]:
    """The optimizer of an update, and the module if it has one."""
    given = [] if update.model is None else [update.node.args[0].value]
    nodes = [cst.ensure_type(update.node.func, cst.Attribute).value, *given]
    return tuple(Source(n, update.statement, update.function, module) for n in nodes)


def _update(
    node: cst.Call, statement: cst.CSTNode, function: FunctionInfo | None, *, in_loop: bool
) -> Update | None:
    func = node.func
    if not isinstance(func, cst.Attribute) or len(node.args) != 2:
        return None
    if any(argument.star for argument in node.args):
        return None
    owner = dotted(func.value)
    if owner is None:
        return None
    if func.attr.value == "apply_gradients":
        return Update(node, statement, function, owner, None, in_loop)
    model = dotted(node.args[0].value)
    if func.attr.value != "update" or model is None or node.args[0].keyword is not None:
        return None
    return Update(node, statement, function, owner, model, in_loop)


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
