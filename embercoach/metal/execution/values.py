"""Values as a followed kernel knows them: offsets known for each thread, plus unknown symbols."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from embercoach.metal.execution.events import Reach


@dataclass(frozen=True, slots=True)
class Symbol:
    """An unknown number: equal symbols are equal numbers, within their reach.

    Attributes:
        key: what tells it from others.
        reach: for which threads it is the same.
    """

    key: object
    reach: Reach


@dataclass(frozen=True, slots=True)
class Value:
    """An integer: what is known of it for each thread, plus multiples of unknowns.

    Attributes:
        offsets: the known part: one number for all threads, or one for each thread of the group.
        terms: unknowns with their factors, in a fixed order.
        known: False for a value that nothing is known of; the rest is then empty.
        reach: of the whole value.
    """

    offsets: int | tuple[int, ...] = 0
    terms: tuple[tuple[Symbol, int], ...] = ()
    known: bool = True
    reach: Reach = "grid"


@dataclass(frozen=True, slots=True)
class Condition:
    """An unknown condition that an event stands under.

    Attributes:
        operator: a comparison of ``left`` with ``right`` that must hold, already negated where the
            event stands in the ``else``; ``?`` for a condition that is no comparison of integers.
        key: equal keys are the same condition, for ``?``.
        holds: for ``?``, whether it must be true.
        reach: for which threads it is the same.
    """

    operator: Literal["<", "<=", ">", ">=", "==", "!=", "?"]
    left: Value | None
    right: Value | None
    key: object
    holds: bool
    reach: Reach
