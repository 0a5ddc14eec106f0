"""Functions of MLX that compute an attribute of a module: asked for NN-002."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.calls.definitions import FunctionInfo
from embercoach.analysis.facts.scopes import Expression, scope_of
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted, small_statements, walk
from embercoach.analysis.value_sources import Source, sources_of
from embercoach.analysis.values.lattice import Symbol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.scopes import Scope
    from embercoach.analysis.project.module import Module

#: Expressions that are followed from an attribute through names, and nodes that are looked at.
MOST_SOURCES, MOST_NODES = 64, 2000
RANDOM = "mlx.core.random"


def functions_of(start: Expression, module: Module) -> set[str]:
    """The functions of MLX that an expression calls, through names and functions.

    All functions of ``mlx.core.random`` count as one.
    """
    sources = sources_of(module)
    found: set[str] = set()
    pending = [start]
    seen: set[int] = set()
    nodes = 0
    while pending and len(seen) < MOST_SOURCES and nodes < MOST_NODES:
        expression = pending.pop()
        if id(expression.node) in seen:
            continue
        seen.add(id(expression.node))
        for node in walk(expression.node):
            nodes += 1
            if isinstance(node, cst.Name):
                pending += _bound(node.value, expression.scope)
            if not isinstance(node, cst.Call):
                continue
            source = _source(node, expression.scope)
            pending += [_body(callee.function) for callee in sources.callees(source)]
            call = sources.library_call(source)
            name = _of_numpy(node, expression.scope) if call is None else call.name
            found.add(RANDOM if name.startswith(f"{RANDOM}.") else name)
    return found - {""}


def _of_numpy(node: cst.Call, scope: Scope) -> str:
    """``numpy.sin`` for a call of ``np.sin``."""
    head, _, rest = (dotted(node.func) or "").partition(".")
    is_numpy = scope.module.frame.names.get(head) == Symbol("numpy")
    if not is_numpy:
        return ""
    return "numpy.random" if rest.startswith("random.") else f"numpy.{rest}"


def _source(node: cst.Call, scope: Scope) -> Source:
    function = scope.owner if scope.owner is not scope.module else None
    return Source(node, node, function, scope.module)  # type: ignore[arg-type]


def _body(function: FunctionInfo) -> Expression:
    return Expression(function.node.body, scope_of(function.module, function))


def _bound(name: str, scope: Scope) -> Iterator[Expression]:
    """Find the values of a name, and those that its elements are assigned."""
    found = scope.find(name)
    if found is None:
        return
    scope, value = found
    if value is not None:
        if isinstance(value.node, DEFINITIONS):
            return
        yield value
    bindings = scope.reaching.bindings.get(name, ())
    for binding in bindings:
        if binding.kind in ("assigned", "updated") and binding.value is not None:
            yield Expression(binding.value, scope)
    if isinstance(scope.owner, FunctionInfo):
        for statement in small_statements(scope.owner.node.body):
            if isinstance(statement, cst.Assign) and _stores_to(statement, name):
                yield Expression(statement.value, scope)


def _stores_to(statement: cst.Assign, name: str) -> bool:
    """``table[:, 0::2] = value``."""
    target = statement.targets[0].target
    return isinstance(target, cst.Subscript) and dotted(target.value) == name
