"""Parameters whose arrays all callers of the file have evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.facts import calls_by_function
from embercoach.analysis.facts.scopes import by_parameter, is_rebound
from embercoach.analysis.syntax.trees import dotted

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import FactPlace, LocalCall

#: Calls of a function that are looked at.
_MOST_CALLS = 8


def is_evaluated_by_callers(place: FactPlace, subject: cst.CSTNode) -> bool:
    """Test whether a function reads a parameter that each call has evaluated just before."""
    function = place.function
    if function is None or not isinstance(subject, cst.Name):
        return False
    if all(parameter.name != subject.value for parameter in function.parameters):
        return False
    calls = calls_by_function(function.module).get(function, ())
    if not 0 < len(calls) <= _MOST_CALLS or is_rebound(function.module, function, subject.value):
        return False
    return all(_passes_evaluated(call, subject.value) for call in calls)


def _passes_evaluated(call: LocalCall, name: str) -> bool:
    arguments = call.node.args
    if any(argument.star for argument in arguments) or not call.place.evaluated:
        return False
    pairs = ((a.keyword.value if a.keyword else None, a.value) for a in arguments)
    given = by_parameter(call.function, pairs, is_bound=call.is_bound).get(name)
    return given is not None and dotted(given) in call.place.evaluated
