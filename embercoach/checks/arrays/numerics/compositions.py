"""Compositions of MLX's functions: the calls that compute an expression, and its squares."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.facts.facts import LocalCall, calls_of
from embercoach.analysis.facts.scopes import Expression, resolve_name, scope_of
from embercoach.analysis.syntax.trees import small_statements
from embercoach.analysis.values.joins import as_array
from embercoach.analysis.values.lattice import BoundMember

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

SUM = frozenset(["mlx.core.sum"])
_SQUARE = frozenset(["mlx.core.square"])
_PRODUCTS = frozenset(["mlx.core.multiply", "mlx.core.power"])
#: How many calls of functions with one expression are followed.
MOST_CALLS = 3


class Called(NamedTuple):
    """A call of a function of MLX, or of a method of an array: the name, and the array."""

    name: str
    array: Expression


def called(expression: Expression, module: Module) -> Called | None:
    """Return the call of MLX that computes an expression, through names, functions and methods."""
    for _ in range(MOST_CALLS):
        expression = resolve_name(expression)
        node = expression.node
        if not isinstance(node, cst.Call):
            return None
        fact = calls_of(module).get(node)
        if fact is not None and fact.symbol is not None and fact.symbol.startswith("mlx."):
            if not node.args or node.args[0].star:
                return None
            return Called(fact.symbol, expression.at(node.args[0].value))
        if fact is not None and isinstance(fact.callee, BoundMember):
            if as_array(fact.callee.owner) is None or not isinstance(node.func, cst.Attribute):
                return None
            return Called(f"mlx.core.{fact.callee.name}", expression.at(node.func.value))
        function = _local_functions(module).get(node)
        value = None if function is None else _only_result(function)
        if function is None or value is None:
            return None
        expression = Expression(value, scope_of(module, function))
    return None


@lru_cache(maxsize=2)
def _local_functions(module: Module) -> dict[cst.CSTNode, FunctionInfo]:
    """The functions of a file that its calls call, methods among them."""
    return {f.node: f.function for f in module.facts() if isinstance(f, LocalCall)}


def _only_result(function: FunctionInfo) -> cst.BaseExpression | None:
    """The expression that a function returns, if it has one ``return``."""
    if isinstance(function.node, cst.Lambda):
        return function.node.body
    statements = small_statements(function.node.body)
    values = [node.value for node in statements if isinstance(node, cst.Return)]
    return values[0] if len(values) == 1 else None


def squared(expression: Expression, module: Module) -> Expression | None:
    """Return ``x`` of ``x ** 2``, ``x * x`` and ``mx.square(x)``."""
    found = resolve_name(expression)
    node = found.node
    if isinstance(node, cst.BinaryOperation):
        if isinstance(node.operator, cst.Power):
            return found.at(node.left) if _is_two(node.right) else None
        is_square = isinstance(node.operator, cst.Multiply) and node.left.deep_equals(node.right)
        return found.at(node.left) if is_square else None
    call = called(found, module)
    if call is None or not isinstance(node, cst.Call):
        return None
    if call.name in _SQUARE:
        return call.array
    if call.name not in _PRODUCTS or len(node.args) < 2:
        return None
    second = node.args[1].value
    is_square = _is_two(second) or call.array.node.deep_equals(second)
    return call.array if is_square else None


def _is_two(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Integer, cst.Float)) and float(node.value) == 2
