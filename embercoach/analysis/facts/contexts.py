"""Where a fact stands, in the words of the rule pages, and what it harms there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.dotted_paths import dotted
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.joins import as_array, options
from embercoach.analysis.values.lattice import Sequence

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import Place
    from embercoach.analysis.values.lattice import Value

#: Why a host synchronisation hurts, by context.
HARM = {
    "compiled": "inside a function that mx.compile or mx.vmap traces this raises an error",
    "differentiated": "its value flows into the result of a differentiated function: the gradient "
    "through it is silently lost",
    "loop": "the GPU stalls in every iteration of the loop",
    "forward": "the GPU stalls in every forward pass",
    "function": "the program waits here until the GPU has caught up",
    "evaluated": "the array has just been evaluated, so only the copy is paid",
    "periodic": "the GPU stalls in some iterations of the loop",
    "script": "the program waits here until the GPU has caught up",
    "test": "the test waits here for the result",
}


def context_of(
    place: Place,
    module_is_test: bool,
    *,
    value: Value | None = None,
    pull: cst.CSTNode | None = None,
    subject: cst.CSTNode | None = None,
) -> str:
    """The context of a finding: one of ``embercoach.rulebook.CONTEXTS``.

    value: the array that is pulled; only one that depends on the function's arguments is traced.
    pull: the node of the synchronisation, to be followed into a differentiated result.
    subject: the expression of the array, which may have been evaluated just before.
    """
    function = place.function
    traced = value is None or _is_traced(value)
    if traced and _has_role(function, "compiled", "vmapped"):
        return "compiled"
    if pull is not None and _reaches_result(function, pull):
        return "differentiated"
    if module_is_test or (function is not None and function.is_test):
        return "test"
    if subject is not None and _was_evaluated(place, subject):
        return "evaluated"
    if place.periodic:
        return "periodic"
    if place.loops:
        return "loop"
    return _function_context(function)


def _function_context(function: FunctionInfo | None) -> str:
    if function is None or (function.name == "main" and function.outer is None):
        return "script"
    if function.name == "__call__" and function.cls is not None and is_layer(function.cls):
        return "forward"
    return "function"


def _is_traced(value: Value) -> bool:
    array = as_array(value)
    if array is not None:
        return array.traced
    if isinstance(value, Sequence):
        return any(map(_is_traced, value.items if value.items is not None else (value.item,)))
    return any(getattr(o, "traced", False) for o in options(value))


def _has_role(function: FunctionInfo | None, *roles: str) -> bool:
    return function is not None and any(getattr(function, role) for role in roles)


def _reaches_result(function: FunctionInfo | None, pull: cst.CSTNode) -> bool:
    return function is not None and function.differentiated and pull in function.returned_pulls


def _was_evaluated(place: Place, subject: cst.CSTNode) -> bool:
    if not place.evaluated:
        return False
    while isinstance(subject, cst.Subscript):
        subject = subject.value
    path = dotted(subject)
    pending = place.evaluated.pending
    if pending and path is not None and path not in pending:
        return True  # pipelined: the GPU works on the next value while this one is read
    while path:
        if path in place.evaluated:
            return True
        path = path.rpartition(".")[0]
    return False
