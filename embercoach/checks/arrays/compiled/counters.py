"""COMPILE-011: Python numbers that a compiled function updates, only when it is traced."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import DEFINITIONS, dotted
from embercoach.analysis.values.inheritance import find_method
from embercoach.analysis.values.joins import as_number
from embercoach.checks.arrays.compiled.compilations import nodes_in, place_in, traced_by
from embercoach.checks.registry import Report, check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CompileFact
    from embercoach.analysis.project.module import Module


#: Parts of the names of numbers that count traces on purpose.
_COUNTS_TRACES = ("trace", "compil")


@check("COMPILE-011")
def traced_counter(fact: CompileFact, module: Module) -> Iterator[Report]:
    """``self.steps += 1`` in a compiled function."""
    functions = traced_by(fact, module)
    for info in functions:
        if isinstance(info.node, cst.Lambda):
            continue
        for node in nodes_in(info.node.body, module, (*DEFINITIONS, cst.BaseExpression)):
            target = dotted(node.target) if isinstance(node, cst.AugAssign) else None
            if target is not None and _is_number(target, info, functions, module):
                shown = target if len(target) <= 24 else "a number"
                yield Report.at(
                    fact,
                    "COMPILE-011",
                    node=node,
                    place=place_in(fact, info, node),
                    message=f"`{shown}` is updated only when mx.compile traces the function",
                    help="Update it outside of the compiled function, and pass it as an array",
                    context="compiled",
                )


def _is_number(
    path: str, info: FunctionInfo, functions: frozenset[FunctionInfo], module: Module
) -> bool:
    """Return whether a path is a Python number that outlives the compiled function."""
    name, _, attribute = path.partition(".")
    if any(word in path.lower() for word in _COUNTS_TRACES):
        return False
    if attribute:
        owner = info.parameters[0].name if info.is_method and info.parameters else None
        if name != owner or info.cls is None or find_method(info.cls, "__init__") in functions:
            return False
        value = info.cls.attributes.get(attribute)
        return value is not None and as_number(value) is not None
    if name in info.global_names:
        value = module.frame.names.get(name)
        return value is not None and as_number(value) is not None
    if name not in info.nonlocal_names:
        return False
    scope = scope_of(module, info).outer
    while scope is not None and not scope.binds(name):
        scope = scope.outer
    if scope is None or scope.owner in functions:
        return False
    value = None if info.closure is None else info.closure.lookup(name)
    return value is not None and as_number(value) is not None
