"""Updates of modules and optimizers: where a file has them, and of what."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

import libcst as cst

from embercoach.analysis.syntax.trees import SCOPES, children, dotted
from embercoach.analysis.value_sources import Source

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
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
