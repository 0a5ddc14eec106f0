"""The context of a finding, as the rule pages name it, and the effect of a pull there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.syntax.trees import dotted
from embercoach.analysis.values.inheritance import is_layer
from embercoach.analysis.values.joins import any_item, as_array, options
from embercoach.analysis.values.lattice import Sequence

if TYPE_CHECKING:
    from embercoach.analysis.calls.definitions import FunctionInfo
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.values.lattice import Value

#: What a pull (a read of an array by the host) does, by context: the end of its message.
EFFECTS = {
    "compiled": "raises inside mx.compile or mx.vmap",
    "differentiated": "detaches the gradient",
    "loop": "synchronizes with the GPU in every iteration",
    "forward": "synchronizes with the GPU in every forward pass",
    "function": "forces evaluation and synchronizes",
    "evaluated": "only costs a device-to-host copy",
    "periodic": "synchronizes with the GPU in some iterations",
    "script": "forces evaluation and synchronizes",
    "test": "forces evaluation and synchronizes",
}


def context_of(
    place: FactPlace,
    module_is_test: bool,
    *,
    value: Value | None = None,
    pull: cst.CSTNode | None = None,
    subject: cst.CSTNode | None = None,
) -> str:
    """The context of a finding: one of ``embercoach.rulebook.CONTEXTS``.

    Args:
        place: the place of the finding.
        module_is_test: the finding is in a test module.
        value: the array that is pulled; only one that depends on the function's arguments is
            traced.
        pull: the node that synchronizes, to be followed into a differentiated result.
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
        return any(map(_is_traced, value.items if value.items is not None else (any_item(value),)))
    return any(getattr(o, "traced", False) for o in options(value))


def _has_role(function: FunctionInfo | None, *roles: str) -> bool:
    return function is not None and any(getattr(function, role) for role in roles)


def _reaches_result(function: FunctionInfo | None, pull: cst.CSTNode) -> bool:
    return function is not None and pull in function.module.detaching


def _was_evaluated(place: FactPlace, subject: cst.CSTNode) -> bool:
    if not place.evaluated:
        return False
    while isinstance(subject, cst.Subscript):
        subject = subject.value
    path = dotted(subject)
    pending = place.evaluated.pending
    if pending and path is not None and path not in pending:
        return True  # pipelined: the GPU computes the next value while the host reads this one
    while path:
        if path in place.evaluated:
            return True
        path = path.rpartition(".")[0]
    return False
