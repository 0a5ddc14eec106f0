"""Loops that count: their counters, and how often they run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from embercoach.metal.program.folding import fold_int
from embercoach.metal.program.nodes import Assign, Binary, Declare, Evaluate, Name
from embercoach.metal.program.walk import below, changed

if TYPE_CHECKING:
    from embercoach.metal.program.nodes import Expression, Loop, Variable
    from embercoach.metal.program.walk import Values

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "!=": "!="}
#: Steps that are followed of a counter that is halved or doubled.
_MAX_STEPS = 64


@dataclass(frozen=True, slots=True)
class Counter:
    """The variable that a loop counts with.

    Attributes:
        start: its first value as written.
        trips: how often the body runs, None when that is not known.
    """

    variable: Variable
    start: Expression
    trips: int | None


def counter_of(loop: Loop, values: Values) -> Counter | None:
    """The counter of a ``for`` loop that only its step changes, None for other loops.

    Args:
        loop: any loop.
        values: the numbers that variables are known to hold.
    """
    started = _started(loop)
    step = loop.step
    if started is None or not isinstance(step, Assign) or not isinstance(step.target, Name):
        return None
    variable, start = started
    if step.target.variable is not variable or variable in changed(loop.body):
        return None
    return Counter(variable, start, _trips(loop, step, variable, start, values))


def _started(loop: Loop) -> tuple[Variable, Expression] | None:
    if len(loop.start) != 1:
        return None
    first = loop.start[0]
    if isinstance(first, Declare) and first.initial is not None:
        return first.variable, first.initial
    if isinstance(first, Evaluate) and isinstance(first.expression, Assign):
        given = first.expression
        if given.operator == "=" and isinstance(given.target, Name):
            return given.target.variable, given.value
    return None


def _trips(
    loop: Loop, step: Assign, variable: Variable, start: Expression, values: Values
) -> int | None:
    first, by = fold_int(start, values), fold_int(step.value, values)
    bound = _bound(loop.condition, variable, values)
    if first is None or by is None or bound is None:
        return None
    operator, last = bound
    if step.operator in ("+=", "-="):
        return _by_sums(first, by if step.operator == "+=" else -by, operator, last)
    return _by_factors(first, by, step.operator, operator, last)


def _bound(
    condition: Expression | None, variable: Variable, values: Values
) -> tuple[str, int] | None:
    """The comparison that keeps a loop going, with the counter on its left."""
    if not isinstance(condition, Binary) or condition.operator not in _FLIPPED:
        return None
    for side, other, operator in (
        (condition.left, condition.right, condition.operator),
        (condition.right, condition.left, _FLIPPED[condition.operator]),
    ):
        if isinstance(side, Name) and side.variable is variable:
            last = fold_int(other, values)
            return None if last is None else (operator, last)
    return None


def _by_sums(first: int, by: int, operator: str, last: int) -> int | None:
    if by == 0:
        return None
    if operator == "!=":
        return (
            (last - first) // by if (last - first) % by == 0 and (last - first) // by >= 0 else None
        )
    if (by > 0) != (operator in ("<", "<=")):
        return None
    distance = (last - first) * (1 if by > 0 else -1) + (operator in ("<=", ">="))
    return max(0, -(-distance // abs(by)))


def _by_factors(first: int, by: int, change: str, operator: str, last: int) -> int | None:
    value = first
    for trips in range(_MAX_STEPS):
        if not _goes_on(value, operator, last):
            return trips
        if change == "*=":
            value *= by
        elif change == "/=" and by:
            value //= by
        elif change == ">>=" and by >= 0:
            value >>= by
        elif change == "<<=" and 0 <= by < _MAX_STEPS:
            value <<= by
        else:
            return None
    return None


def _goes_on(value: int, operator: str, last: int) -> bool:
    if operator == "!=":
        return value != last
    if operator in ("<", "<="):
        return value < last + (operator == "<=")
    return value > last - (operator == ">=")


def has_loops(loop: Loop) -> bool:
    """Return whether other loops are in a loop."""
    return any(node is not loop and type(node) is type(loop) for node in below(loop))
