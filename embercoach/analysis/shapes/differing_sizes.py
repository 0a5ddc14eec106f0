"""Whether two sizes that have to be equal are meant to differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from embercoach.analysis.shapes.integers import (
    Comparison,
    Integer,
    SizeExpr,
    SizeSymbol,
    without_common_factors,
)
from embercoach.analysis.shapes.objects import ObjectReference, Place

if TYPE_CHECKING:
    from embercoach.analysis.shapes.machine import Machine, ShapeEvent


def unmeant(event: ShapeEvent, machine: Machine) -> str | None:
    """The condition under which a call doesn't raise, if it is one that nobody means.

    ``unless S equals T``; None where the sizes may well be equal.
    """
    condition = event.condition
    if condition is None:
        return None
    if condition.comparison is Comparison.DEGENERATE:
        names = sorted({s.name for n in (condition.left, condition.right) for s in _symbols(n)})
        if not names:
            return None
        return f"unless {' or '.join(names)} is {'1 or 0' if condition.allows_one else '0'}"
    left, right = reduced(condition.left, condition.right)
    if not isinstance(left, SizeExpr) or not isinstance(right, SizeExpr):
        return None
    a, b = left.symbol, right.symbol
    if a is None or b is None or not _are_apart(a, b, event, machine):
        return None
    return f"unless {left} equals {right}"


def reduced(left: Integer, right: Integer) -> tuple[Integer, Integer]:
    """Two sizes without the factors that they have in common: B * T and B * S are T and S."""
    if not isinstance(left, SizeExpr) or not isinstance(right, SizeExpr):
        return left, right
    for one, other in ((left, right), (right, left)):
        if len(one.terms) == 1:
            parts = without_common_factors(other, one)
            return (parts[1], parts[0]) if one is left else parts
    return left, right


def _symbols(number: Integer) -> frozenset[SizeSymbol]:
    return number.symbols if isinstance(number, SizeExpr) else frozenset()


def _are_apart(a: SizeSymbol, b: SizeSymbol, event: ShapeEvent, machine: Machine) -> bool:
    """Return whether two symbols stand for different things, as their names say.

    They are two parameters, or two elements of one shape. Fields of a configuration are often
    equal by convention, and sizes of two arrays because the arrays belong together.
    """
    if not (a.is_named and b.is_named) or a.name == b.name or a.is_joined or b.is_joined:
        return False
    if a.place is None or b.place is None:
        return False
    if a.place is not b.place and not event.operation.endswith("reshape"):
        return False
    if isinstance(a.place, (Place, ObjectReference)) or isinstance(b.place, (Place, ObjectReference)):
        return False
    if frozenset((a, b)) in machine.heap.compared:
        return False
    default = machine.defaults.get(a)
    assert event.condition is not None
    return default is None or default != machine.defaults.get(b) or event.condition.adds_axes
