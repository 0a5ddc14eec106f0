"""Functions of the project that evaluate their arguments: ``def sync(*arrays): mx.eval(*arrays)``.

Read from the text of a function that a file calls, whichever file defines it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import by_parameter
from embercoach.analysis.syntax.trees import dotted, keyed_path, small_statements, walk
from embercoach.analysis.values.lattice import Function, Symbol, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Argument

_EVAL = Symbol("mlx.core.eval")
#: Functions that call each other which are followed, and statements of those that are called.
_MOST_CALLS, _MOST_STATEMENTS = 3, 12


def evaluated_by_call(
    info: FunctionInfo, arguments: tuple[Argument, ...], *, is_bound: bool
) -> list[str]:
    """The names and paths that a call of a function passes, and that the function evaluates."""
    names = evaluated_parameters(info)
    if not names or any(argument.star == "**" for argument in arguments):
        return []
    plain = [(a.keyword, a.node) for a in arguments if not a.star]
    passed = by_parameter(info, plain, is_bound=is_bound)
    nodes = [node for name, node in passed.items() if name in names]
    if any(parameter.star == "*" and parameter.name in names for parameter in info.parameters):
        nodes += [a.node for a in arguments if a.keyword is None and a.node not in passed.values()]
    return [path for node in nodes if (path := keyed_path(node)) is not None]


def evaluates_before_return(info: FunctionInfo) -> bool:
    """Test whether a function calls ``mx.eval`` itself, perhaps for its result."""
    if not info.module.mentions_eval:
        return False
    known = info.calls_eval
    if known is None:
        calls = (node for node in walk(info.node.body) if isinstance(node, cst.Call))
        known = any(_called(info, call) == _EVAL for call in calls)
        if info.module.is_complete:  # names may be missing before
            info.calls_eval = known
    return known


def evaluated_parameters(info: FunctionInfo, depth: int = 0) -> frozenset[str]:
    """The parameters whose arrays a function has evaluated whenever it returns.

    A function without a result that evaluates a local list has collected it from ``*args``.
    """
    if not info.module.mentions_eval or isinstance(info.node, cst.Lambda) or info.is_async:
        return frozenset()
    if info.evaluates is not None:
        return info.evaluates
    statements = info.node.body.body
    if depth and len(statements) > _MOST_STATEMENTS:
        return frozenset()
    names = set(_evaluated_names(info, statements, depth))
    found = {p.name for p in info.parameters if p.name in names}
    if names - found and _returns_nothing(info):
        found |= {p.name for p in info.parameters if p.star == "*"}
    if info.module.is_complete and depth == 0:
        info.evaluates = frozenset(found)
    return frozenset(found)


def _evaluated_names(
    info: FunctionInfo, statements: Iterable[cst.CSTNode], depth: int
) -> Iterator[str]:
    """The names that certain statements of a body evaluate."""
    for statement in statements:
        if isinstance(statement, (cst.Try, cst.With)):
            yield from _evaluated_names(info, statement.body.body, depth)
        elif isinstance(statement, cst.For):
            over, target = dotted(statement.iter), dotted(statement.target)
            inner = list(_evaluated_names(info, statement.body.body, depth))
            yield from [over] if over is not None and target in inner else []
        elif isinstance(statement, cst.SimpleStatementLine):
            for small in statement.body:
                if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
                    yield from _evaluated_arguments(info, small.value, depth)


def _evaluated_arguments(info: FunctionInfo, call: cst.Call, depth: int) -> Iterator[str]:
    """The names that a call passes to ``mx.eval``, here or in the function that it calls."""
    callee = _called(info, call)
    nodes: list[cst.BaseExpression] = []
    if callee == _EVAL:
        nodes = [argument.value for argument in call.args]
    elif isinstance(callee, Function) and depth < _MOST_CALLS:
        names = evaluated_parameters(callee.info, depth + 1)
        plain = [(a.keyword.value if a.keyword else None, a.value) for a in call.args if not a.star]
        passed = by_parameter(callee.info, plain, is_bound=False)
        nodes = [node for name, node in passed.items() if name in names]
        if any(p.star == "*" and p.name in names for p in callee.info.parameters):
            nodes += [a.value for a in call.args if a.value not in passed.values()]
    yield from (name for node in nodes if (name := dotted(node)) is not None)


def _returns_nothing(info: FunctionInfo) -> bool:
    return not any(
        isinstance(statement, cst.Return) and statement.value is not None
        for statement in small_statements(info.node.body)
    )


def _called(info: FunctionInfo, call: cst.Call) -> Value | None:
    """The function that a name, or a member of ``mlx.core``, in a function's text stands for."""
    frame = info.closure if info.closure is not None else info.module.frame
    func = call.func
    if isinstance(func, cst.Name):
        return frame.lookup(func.value)
    if isinstance(func, cst.Attribute) and isinstance(func.value, cst.Name):
        owner = frame.lookup(func.value.value)
        return Symbol(f"{owner.name}.{func.attr.value}") if isinstance(owner, Symbol) else None
    return None
