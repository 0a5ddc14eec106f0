"""Fixes of round trips: ``mx.array(np.f(x))`` where ``mx.f(x)`` computes the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis import mlx_api
from embercoach.analysis.facts.facts import calls_of
from embercoach.analysis.values.joins import any_item, as_array, definite_array
from embercoach.analysis.values.lattice import Sequence
from embercoach.checks.read_syntax import parents
from embercoach.checks.registry import ProposedFix
from embercoach.checks.source_text import mlx_alias

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import CallFact
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: Methods of NumPy's arrays that MLX's arrays have with the same parameters.
METHODS = frozenset(("transpose", "reshape", "squeeze", "flatten", "swapaxes"))
#: Functions of NumPy whose first arguments mean the same in MLX, with the number of these.
FUNCTIONS = {
    **dict.fromkeys(("abs", "exp", "log", "sqrt", "square", "sin", "cos", "tan", "tanh"), 1),
    **dict.fromkeys(("floor", "ceil", "negative", "sign", "transpose", "squeeze", "ravel"), 1),
    **dict.fromkeys(("stack", "concatenate", "expand_dims", "broadcast_to", "tile"), 2),
    **dict.fromkeys(("repeat", "swapaxes", "moveaxis"), 3),
}
#: Reductions of NumPy that raise for MLX's arrays.
REDUCTIONS = frozenset(("sum", "mean", "max", "min", "prod", "any", "all", "std", "var"))
RENAMED = {"ravel": "flatten"}
#: Expressions that ``.transpose()`` can follow without parentheses.
PRIMARIES = (cst.Name, cst.Attribute, cst.Subscript, cst.Call)


def method_fix(module: Module, fact: CallFact) -> ProposedFix | None:
    """Replace ``mx.array(np.array(x).transpose(1, 0))`` by ``x.transpose(1, 0)``."""
    if len(fact.arguments) != 1 or as_array(fact.arguments[0].value) is None:
        return None
    above = _parents(fact)
    node: cst.CSTNode = fact.node
    methods = ""
    while True:
        member, call = above.get(node), above.get(above.get(node, node))
        if not isinstance(member, cst.Attribute) or not isinstance(call, cst.Call):
            break
        if call.func is not member or member.attr.value not in METHODS:
            return None
        given = ", ".join(module.parsed.code(argument).rstrip(", ") for argument in call.args)
        methods += f".{member.attr.value}({given})"
        node = call
    outer = _mlx_array(module, above, node)
    if not methods or outer is None:
        return None
    source = fact.arguments[0].node
    text = module.parsed.code(source)
    text = text if isinstance(source, PRIMARIES) else f"({text})"
    return ProposedFix("Compute on the device", False, ((outer, text + methods),))


def function_fix(module: Module, fact: CallFact, name: str) -> ProposedFix | None:
    """Replace ``mx.array(np.stack(xs))`` by ``mx.stack(xs)``."""
    mx, short = mlx_alias(module), name.removeprefix("numpy.")
    most = 2 if short in REDUCTIONS else FUNCTIONS.get(short, 0)
    twin = RENAMED.get(short, short)
    entry = mlx_api.lookup(f"mlx.core.{twin}")
    if mx is None or entry is None or not 1 <= len(fact.arguments) <= most:
        return None
    known = {param.name for param in entry.params}
    for argument in fact.arguments:
        if argument.star or (argument.keyword is not None and argument.keyword not in known):
            return None
    first = fact.arguments[0].value
    items: tuple[Value, ...] = (first,)
    if isinstance(first, Sequence):
        items = (any_item(first),) if first.items is None else first.items
    if not items or any(definite_array(item) is None for item in items):
        return None
    outer = _mlx_array(module, _parents(fact), fact.node)
    if outer is None and short in REDUCTIONS:
        outer = fact.node  # it raises: no NumPy array is expected of it
    if outer is None:
        return None
    given = ", ".join(module.parsed.code(argument).rstrip(", ") for argument in fact.node.args)
    return ProposedFix(f"Use `{mx}.{twin}`", False, ((outer, f"{mx}.{twin}({given})"),))


def _parents(fact: CallFact) -> dict[cst.CSTNode, cst.CSTNode]:
    statement = fact.place.statement
    return parents(statement) if isinstance(statement, cst.BaseSmallStatement) else {}


def _mlx_array(
    module: Module, above: dict[cst.CSTNode, cst.CSTNode], node: cst.CSTNode
) -> cst.Call | None:
    """The call ``mx.array(node)`` around an expression."""
    call = above.get(above.get(node, node))
    if not isinstance(call, cst.Call) or len(call.args) != 1 or call.args[0].value is not node:
        return None
    fact = calls_of(module).get(call)
    is_array = fact is not None and fact.symbol in ("mlx.core.array", "mlx.core.asarray")
    return call if is_array and call.args[0].keyword is None else None
