"""Marks of values that depend on the arguments that a function is differentiated for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from embercoach.analysis.values.lattice import (
    UNKNOWN,
    Array,
    Pulls,
    Tree,
    Union,
    Value,
    join_all,
    pulls_of,
    with_parts,
    with_pulls,
)

if TYPE_CHECKING:
    import libcst as cst


class GradientMark(NamedTuple):
    """A mark of values where the gradient of a function is followed.

    Without more, the value depends on the arguments that the function is differentiated for.

    detached_at: the pull that has detached the value.
    zero_by: the operation through which the value depends on the arguments, with a gradient of 0.
    layer: the call of a layer that the value depends on, where a run distinguishes them.
    """

    detached_at: cst.CSTNode | None = None
    zero_by: str = ""
    layer: cst.Call | None = None


GRADIENT = GradientMark()
LIVE: Pulls = frozenset((GRADIENT,))

#: Functions and methods whose gradient is zero everywhere.
_COMPARISONS = ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal", "isclose")
_TESTS = ("isnan", "isinf", "isfinite", "isposinf", "isneginf", "all", "any", "array_equal")
_LOGIC = ("allclose", "logical_not", "logical_and", "logical_or", "zeros_like", "ones_like")
_STEPS = ("floor", "ceil", "round", "sign", "floor_divide", "categorical", "bernoulli")
_PLACES = ("argmax", "argmin", "argsort", "argpartition", "stop_gradient")
#: Those that choose or round: what is computed from their results was meant to be learnt from.
DISCRETE = frozenset(("argmax", "argmin", "round"))
ZERO_GRADIENT = frozenset((*_COMPARISONS, *_TESTS, *_LOGIC, *_STEPS, *_PLACES))


def after_pull(pulls: Pulls, node: cst.CSTNode) -> Pulls:
    """Return the pulls of a host value that ``node`` reads from an array with these pulls."""
    if GRADIENT in pulls:
        return (pulls - LIVE) | {node, GradientMark(node)}
    return pulls | {node}


def with_zero_gradient(pulls: Pulls, operation: str) -> Pulls:
    """Return the pulls of the result of an operation whose gradient is zero."""
    if not pulls or not any(isinstance(pull, GradientMark) for pull in pulls):
        return pulls
    # The nearest code is looked up with a stopped gradient too.
    kinds = ("", "stop_gradient") if operation == "argmin" else ("",)
    marks = [p for p in pulls if isinstance(p, GradientMark) and p.zero_by in kinds]
    zeros = (m._replace(zero_by=operation) for m in marks if m.zero_by or m.layer or m == GRADIENT)
    return pulls.difference(marks).union(zeros)


def zero_by(value: Value) -> str | None:
    """Get the operation that alone makes a value depend on the arguments; None if others do too."""
    pulls = pulls_of(value)
    if GRADIENT in pulls or detached_at(value):
        return None
    names = sorted(p.zero_by for p in pulls if isinstance(p, GradientMark) and p.zero_by)
    return names[0] if names else None


def unreached_layers(value: Value) -> dict[cst.Call, str]:
    """The calls of layers that a value depends on through operations without gradients alone."""
    marks = [p for p in pulls_of(value) if isinstance(p, GradientMark) and p.layer is not None]
    live = {mark.layer for mark in marks if not mark.zero_by}
    marks.sort(key=lambda mark: mark.zero_by in DISCRETE)  # the last one counts
    return {m.layer: m.zero_by for m in marks if m.layer is not None and m.layer not in live}


def detached_at(value: Value) -> frozenset[cst.CSTNode]:
    """Return the pulls that detached parts of a value from the gradient."""
    marks = (mark for mark in pulls_of(value) if isinstance(mark, GradientMark))
    return frozenset(mark.detached_at for mark in marks if mark.detached_at is not None)


def marks_of(value: Value) -> Pulls:
    """Return the marks of gradients among a value's pulls."""
    return frozenset(mark for mark in pulls_of(value) if isinstance(mark, GradientMark))


def differentiated(value: Value) -> Value:
    """Return an argument that a function is differentiated for: an array, or a tree of arrays."""
    if value is UNKNOWN or type(value) is Tree:
        return Array(traced=True, pulls=LIVE)
    if type(value) is Array:
        return with_pulls(value, LIVE)
    return with_parts(value, differentiated)


def marked(value: Value, marks: Pulls) -> Value:
    """Return a value with more marks, each alternative of it too."""
    if not marks:
        return value
    if type(value) is Union:
        return join_all(with_pulls(o, marks) for o in value.options)
    return with_pulls(value, marks)
