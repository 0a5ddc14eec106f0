"""How many iterations a loop has, as far as its text shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import Expression, display, resolve_name, scope_of
from embercoach.analysis.syntax.trees import dotted, target_names, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.project.module import Module

#: Iterations up to which a graph of all of them is small.
SHORT = 16


def is_long(loop: cst.For | cst.While) -> bool:
    """Return whether a loop may have many iterations, and is not one over layers or weights."""
    if isinstance(loop, cst.While):
        return True
    iterable = loop.iter
    if isinstance(iterable, (cst.List, cst.Tuple)):
        return False
    if isinstance(iterable, cst.Call) and dotted(iterable.func) == "range":
        counts = [_integer(argument.value) for argument in iterable.args]
        known = [count for count in counts if count is not None]
        if len(known) == len(counts) and 0 < len(known) <= 3 and known[2:] != [0]:
            return len(range(*known)) > SHORT
    targets = set(target_names(loop.target))
    return not any(_root(call.func) in targets for call in calls_below(loop.body))


def _integer(node: cst.CSTNode) -> int | None:
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        inner = _integer(node.expression)
        return None if inner is None else -inner
    return int(node.value) if isinstance(node, cst.Integer) and node.value.isdigit() else None


def _root(node: cst.CSTNode) -> str | None:
    """The name of what is called: of an element of a loop, a layer."""
    return node.value if isinstance(node, cst.Name) else None


def walks_short_list(
    loop: cst.For | cst.While, function: FunctionInfo | None, module: Module
) -> bool:
    """Return whether a loop has few items: of a list, tuple or range, here or at a name."""
    return isinstance(loop, cst.For) and is_short(loop.iter, function, module)


def counts_by_setting(loop: cst.For | cst.While) -> bool:
    """Return whether a loop is one over ``range(steps)``: its length is a setting, not a fact."""
    iterable = loop.iter if isinstance(loop, cst.For) else None
    is_range = isinstance(iterable, cst.Call) and dotted(iterable.func) == "range"
    return is_range and any(
        dotted(a.value) is not None for a in cst.ensure_type(iterable, cst.Call).args
    )


def is_short(
    node: cst.BaseExpression, function: FunctionInfo | None, module: Module, most: int = SHORT
) -> bool:
    """Return whether an iterable has few items: at most ``most``."""
    count = _count(node, function, module)
    if count is not None:
        return count <= most
    if isinstance(node, cst.Call) and dotted(node.func) in ("enumerate", "zip", "reversed"):
        node = node.args[0].value if node.args else node
    found = display(resolve_name(Expression(node, scope_of(module, function))).node)
    return found is not None and 0 < len(found) <= most


def _count(node: cst.BaseExpression, function: FunctionInfo | None, module: Module) -> int | None:
    """The number of items of ``range(COUNT)``: of a constant, or a parameter's default."""
    if not isinstance(node, cst.Call) or dotted(node.func) != "range" or len(node.args) != 1:
        return None
    bound: cst.CSTNode = node.args[0].value
    parameters = () if function is None else function.parameters
    default = next((p.default for p in parameters if p.name == dotted(bound)), None)
    return _integer(default or resolve_name(Expression(bound, scope_of(module, function))).node)


def is_counted(loop: cst.For | cst.While, least: int) -> bool:
    """Return whether a loop has a known number of iterations, at least so many."""
    iterable = loop.iter if isinstance(loop, cst.For) else None
    if not isinstance(iterable, cst.Call) or dotted(iterable.func) != "range":
        return False
    counts = [_integer(argument.value) for argument in iterable.args]
    known = [count for count in counts if count is not None]
    return len(counts) == len(known) < 3 and known[-1] - sum(known[:-1]) >= least


def calls_below(body: cst.CSTNode) -> Iterator[cst.Call]:
    """Yield the calls below a node, without those of classes."""
    for node in walk(body, (cst.ClassDef,)):
        if type(node) is cst.Call:
            yield node
