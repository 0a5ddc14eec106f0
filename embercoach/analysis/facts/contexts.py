"""The context of a finding, as the rule pages name it, and the effect of a pull there."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.caller_evaluation import is_evaluated_by_callers
from embercoach.analysis.facts.construction import runs_once
from embercoach.analysis.facts.host_uses import ends_on_host, is_forward, is_hot
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import dotted, keyed_path
from embercoach.analysis.values.evaluation_state import is_evaluated
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
    "sink": "forces evaluation and synchronizes",
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
    may_end: bool = False,
) -> str:
    """The context of a finding: one of ``embercoach.rulebook.CONTEXTS``.

    Args:
        place: the place of the finding.
        module_is_test: the finding is in a test module.
        value: the array that is pulled; only one that depends on the function's arguments is
            traced.
        pull: the node that synchronizes, to be followed into a differentiated result.
        subject: the expression of the array, which may have been evaluated just before.
        may_end: the pull is all that the finding is about, so it may be a sink.
    """
    function = place.function
    traced = value is None or is_traced(value)
    if traced and _has_role(function, "compiled", "vmapped"):
        return "compiled"
    if pull is not None and _reaches_result(function, pull):
        return "differentiated"
    if module_is_test:
        return "test"
    # What it is on other paths, if that is unknown, does not count.
    if pull is not None and value is not None and is_evaluated(as_array(value) or value):
        return "evaluated"
    if subject is not None and (
        was_evaluated(place, subject) or is_evaluated_by_callers(place, subject)
    ):
        return "evaluated"
    if place.periodic:
        return "periodic"
    if pull is not None and function is not None and runs_once(place, function):
        return "script"
    if place.loops:
        return "loop"
    return _function_context(function, pull if may_end else None)


def _function_context(function: FunctionInfo | None, pull: cst.CSTNode | None) -> str:
    if function is None or (function.name == "main" and function.outer is None):
        return "script"
    if is_forward(function):
        return "forward"
    if pull is None:
        return "function"
    if is_hot(function):
        return "loop"
    return "sink" if ends_on_host(function, pull) else "function"


def is_traced(value: Value) -> bool:
    """Return whether a value depends on the arguments of its function."""
    array = as_array(value)
    if array is not None:
        return array.traced
    if isinstance(value, Sequence):
        return any(map(is_traced, value.items if value.items is not None else (any_item(value),)))
    return any(getattr(o, "traced", False) for o in options(value))


def _has_role(function: FunctionInfo | None, *roles: str) -> bool:
    return function is not None and any(getattr(function, role) for role in roles)


def _reaches_result(function: FunctionInfo | None, pull: cst.CSTNode) -> bool:
    return function is not None and pull in function.module.detaching


#: Methods whose result of an evaluated array is a view, or a copy by one small kernel.
_VIEWS = frozenset(("reshape", "squeeze", "flatten", "transpose", "swapaxes", "astype"))


def was_evaluated(place: FactPlace, subject: cst.CSTNode) -> bool:
    """Return whether an array has been evaluated before, or is a part of one that has been."""
    if not place.evaluated:
        return False
    inner: cst.CSTNode | None = subject
    while inner is not None:
        path = keyed_path(inner)
        if path is not None and path in place.evaluated:
            return True
        subject, inner = inner, _viewed(inner)
    path = dotted(subject)
    if path is not None and "." in path and _is_in_state(place, path.rpartition(".")[0]):
        return True
    pending = place.evaluated.pending
    if pending and path is not None and path not in pending:
        return True  # pipelined: the GPU computes the next value while the host reads this one
    while path:
        if path in place.evaluated:
            return True
        path = path.rpartition(".")[0]
    return False


#: Evaluated names that may hold lists of states.
_MOST_LISTS = 16


def _is_in_state(place: FactPlace, owner: str) -> bool:
    """Test whether an object's state has been evaluated: alone, or in a list with a name."""
    state = f"{owner}.state"
    if state in place.evaluated:
        return True
    if place.function is None:
        return False
    reaching = scope_of(place.function.module, place.function).reaching
    lists = (
        binding.value
        for name in islice(place.evaluated.done, _MOST_LISTS)
        for binding in reaching.before(place.statement, name) or ()
        if isinstance(binding.value, (cst.List, cst.Tuple))
    )
    return any(dotted(element.value) == state for held in lists for element in held.elements)


def _viewed(node: cst.CSTNode) -> cst.CSTNode | None:
    """The array that an expression is a part or a view of."""
    if isinstance(node, cst.Subscript):
        return node.value
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return node.func.value if node.func.attr.value in _VIEWS else None
    return None
