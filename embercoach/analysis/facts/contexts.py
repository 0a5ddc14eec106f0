"""The context of a finding: it fails there, it costs time repeatedly, or once."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import libcst as cst

from embercoach.analysis.facts.construction import runs_once
from embercoach.analysis.facts.hot_functions import is_forward, is_hot
from embercoach.analysis.facts.layout import LEAVING, layout_of
from embercoach.analysis.facts.scopes import scope_of
from embercoach.analysis.syntax.trees import dotted, keyed_path, walk
from embercoach.analysis.values.joins import any_item, as_array, options
from embercoach.analysis.values.lattice import Sequence

if TYPE_CHECKING:
    from embercoach.analysis.facts.facts import FactPlace
    from embercoach.analysis.project.module import Module
    from embercoach.analysis.values.lattice import Value

#: The end of the message about a read of an array by the host, in contexts of errors.
EFFECTS = {
    "compiled": "raises inside mx.compile or mx.vmap",
    "differentiated": "detaches the gradient",
}


def context_of(place: FactPlace, module: Module, *, by_calls: bool = False) -> str:
    """The context of a finding about cost: one of ``embercoach.severity_policy.CONTEXTS``.

    Args:
        place: of the finding.
        module: its module.
        by_calls: each call of a function costs as much as an iteration.
    """
    if module.purpose is not None:
        return module.purpose
    if recurrence_of(place, module) is not None:
        return "avoidable"
    function = place.function
    if not by_calls or function is None or place.periodic or runs_once(place, function):
        return "minor"
    return "minor" if function.name == "main" and function.outer is None else "avoidable"


def error_of(place: FactPlace, value: Value | None, pull: cst.CSTNode | None = None) -> str | None:
    """The context in which reading an array raises, or detaches a gradient; None elsewhere.

    Args:
        place: of the read.
        value: the array; only one that depends on the function's arguments is traced.
        pull: the node that reads it, to be followed into a differentiated result.
    """
    function = place.function
    if function is None:
        return None
    if (function.compiled or function.vmapped) and (value is None or is_traced(value)):
        return "compiled"
    if pull is not None and pull in function.module.detaching:
        return "differentiated"
    return None


def recurrence_of(place: FactPlace, module: Module) -> str | None:
    """What runs a place again and again, in words; None for what runs once."""
    function = place.function
    if place.periodic or (function is not None and runs_once(place, function)):
        return None
    if place.loops:
        return "iteration" if _goes_on(place, module) else None
    if is_forward(function):
        return "forward pass"
    return "iteration" if function is not None and is_hot(function) else None


def _goes_on(place: FactPlace, module: Module) -> bool:
    """Test whether a loop goes on after a statement: no ``return`` or ``break`` must follow it."""
    loops, left = 0, isinstance(place.statement, cst.Return)
    for level in layout_of(module, place.function).outward(place.statement):
        rest = level.statements[level.position + 1 :]
        last = rest[-1] if rest else None
        if isinstance(last, LEAVING) and not any(
            isinstance(node, cst.Continue) for statement in rest for node in walk(statement)
        ):
            left = True
            if not isinstance(last, cst.Break):
                return False
        if isinstance(level.owner, (cst.For, cst.While)) and level.arm == "body":
            if not left:
                return True
            loops += 1
            left = isinstance(place.statement, cst.Return)
    return place.loops > loops  # in a comprehension


def is_traced(value: Value) -> bool:
    """Return whether a value depends on the arguments of its function."""
    array = as_array(value)
    if array is not None:
        return array.traced
    if isinstance(value, Sequence):
        return any(map(is_traced, value.items if value.items is not None else (any_item(value),)))
    return any(getattr(o, "traced", False) for o in options(value))


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
