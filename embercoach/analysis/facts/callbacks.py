"""Callbacks that the callers of a function in the file pass for a parameter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import LocalCall, calls_by_function
from embercoach.analysis.facts.scopes import by_parameter, is_rebound, scope_of

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import CallFact

#: Calls of a function that are looked at.
_MOST_CALLS = 8
#: Calls that may pass a callback.
_MOST_CALLERS = 16


def called_back(call: CallFact | None) -> list[LocalCall] | None:
    """Return the calls that one of an optional parameter stands for, None for other calls.

    Each is one of a function of the file that a caller passes; without a caller that passes one,
    nothing is called.
    """
    func = None if call is None else call.node.func
    if call is None or not isinstance(func, cst.Name):
        return None
    owner = call.place.function
    while owner is not None and all(p.name != func.value for p in owner.parameters):
        owner = owner.outer
    if owner is None or is_rebound(owner.module, owner, func.value):
        return None
    default = next(p.default for p in owner.parameters if p.name == func.value)
    if not isinstance(default, cst.Name) or default.value != "None":
        return None
    functions = _passed(owner, func.value)
    if functions is None:
        return None
    return [LocalCall(call.node, call.place, info, is_bound=False) for info in functions]


def _passed(owner: FunctionInfo, name: str) -> list[FunctionInfo] | None:
    """The functions that all callers in the file pass; None if one passes anything else."""
    module = owner.module
    calls = calls_by_function(module).get(owner, ())
    if len(calls) > _MOST_CALLERS:
        return None
    found: list[FunctionInfo] = []
    for call in calls:
        if any(argument.star for argument in call.node.args):
            return None
        pairs = [(a.keyword.value if a.keyword else None, a.value) for a in call.node.args]
        given: cst.CSTNode | None = by_parameter(owner, pairs, is_bound=call.is_bound).get(name)
        if given is None or (isinstance(given, cst.Name) and given.value == "None"):
            continue
        if isinstance(given, cst.Name):
            bound = scope_of(module, call.place.function).find(given.value)
            given = None if bound is None or bound[1] is None else bound[1].node
        info = next((f for f in module.functions if f.node is given), None)
        if info is None:
            return None
        found.append(info)
    return found
