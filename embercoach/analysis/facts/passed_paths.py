"""Paths such as ``meter.total`` in a function that the object is passed to: ``self.total``.

``evaluation`` asks it as it follows arrays into the functions of a file, and out of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.scopes import by_parameter
from embercoach.analysis.syntax.trees import SCOPES, dotted, names_below, walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from embercoach.analysis.facts.facts import LocalCall, ProjectCall


def results_of(definition: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """Yield what a function returns."""
    for node in walk(definition.body, SCOPES):
        if isinstance(node, cst.Return) and node.value is not None:
            yield node.value


def passed_by(call: LocalCall | ProjectCall) -> dict[str, cst.BaseExpression]:
    """Return what a call passes by parameter, with the object that a method is of."""
    function, func = call.function, call.node.func
    pairs = [(a.keyword.value if a.keyword else None, a.value) for a in call.node.args]
    passed = by_parameter(function, pairs, is_bound=call.is_bound)
    if call.is_bound and function.parameters:
        is_named = isinstance(func, cst.Attribute) and func.attr.value == function.name
        if function.name == "__call__" and not is_named:
            passed[function.parameters[0].name] = func  # ``metric(x)``, ``self.metric(x)``
        elif isinstance(func, cst.Attribute):
            passed[function.parameters[0].name] = func.value
    return passed


def _passed_paths(call: LocalCall) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a call, and the paths that are passed for them."""
    for parameter, node in passed_by(call).items():
        path = dotted(node)
        if path is not None:
            yield parameter, path


def derived_attributes(call: LocalCall, inner: set[str]) -> set[str]:
    """The attributes that a function has set to something derived, as its caller knows them."""
    return {
        f"{path}{name[len(parameter) :]}"
        for parameter, path in _passed_paths(call)
        for name in inner
        if name.startswith(f"{parameter}.")
    }


def renamed(call: LocalCall, names: set[str]) -> set[str]:
    """The names as the function of the file that is called knows them."""
    function = call.function
    found: set[str] = set()
    for parameter, path in _passed_paths(call):
        found |= {f"{parameter}{n[len(path) :]}" for n in names if n.startswith(f"{path}.")}
    if function.nonlocal_names or function.global_names or function.outer is not None:
        own = {parameter.name for parameter in function.parameters}
        free = names - own
        found |= free & set(names_below(function.node.body)) if free else set()
    return found
