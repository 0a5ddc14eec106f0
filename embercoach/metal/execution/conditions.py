"""Conditions that are not known: what they narrow, and which of them can hold together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

from embercoach.metal.execution.arithmetic import negate, truth
from embercoach.metal.execution.values import LANE, SIMD, Pool, Reach, Symbol, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

Comparison = Literal["<", ">=", "==", "!=", "?"]
_NEGATED: dict[tuple[str, bool], Comparison] = {
    ("<", True): "<",
    ("<", False): ">=",
    ("==", True): "==",
    ("==", False): "!=",
}
#: Larger than any number that stands in a kernel.
_FAR = 1 << 80


@dataclass(frozen=True, slots=True)
class Condition:
    """An unknown condition, and whether it holds.

    Attributes:
        symbol: the condition; the same symbol is the same condition.
        holds: whether it must be true.
    """

    symbol: Symbol
    holds: bool

    @property
    def reach(self) -> Reach:
        """For which threads it is the same."""
        return self.symbol.reach

    @property
    def varies(self) -> bool:
        """Whether threads of one threadgroup may differ in it."""
        return bool(self.symbol.bits & (LANE | SIMD))

    @property
    def operator(self) -> Comparison:
        """How ``left`` compares with ``right``; ``?`` for what is no comparison."""
        return _NEGATED.get((self.symbol.operation, self.holds), "?")

    @property
    def sides(self) -> tuple[Value, Value] | None:
        """Left and right, for a comparison."""
        operands = self.symbol.operands
        if self.operator == "?" or len(operands) != 2:
            return None
        left, right = operands
        return (left, right) if isinstance(left, Value) and isinstance(right, Value) else None


Conditions: TypeAlias = tuple[Condition, ...]


@lru_cache(maxsize=4096)
def threads_of(lanes: int) -> tuple[int, ...]:
    """The threads of a mask."""
    return tuple(thread for thread in range(lanes.bit_length()) if lanes >> thread & 1)


def lanes_where(value: Value, lanes: int) -> int:
    """Those of the lanes for which a known value is not 0."""
    known = value.offsets
    if isinstance(known, int):
        return lanes if known else 0
    return lanes & _packed(known)


@lru_cache(maxsize=4096)
def _packed(flags: tuple[int, ...]) -> int:
    return sum(1 << thread for thread, flag in enumerate(flags) if flag)


def narrow(
    pool: Pool, lanes: int, conditions: Conditions, value: Value, *, holds: bool
) -> tuple[int, Conditions]:
    """Lanes and conditions that are left when a condition holds, or does not; lanes 0 for none."""
    value = truth(pool, value if holds else negate(pool, truth(pool, value)))
    pool.steps += 1
    if value.exact:
        return lanes_where(value, lanes), conditions
    symbol = value.symbol
    if symbol is None:
        return lanes, conditions
    parts = [part for part in symbol.operands if isinstance(part, Value)]
    if symbol.operation == "&&":
        for part in parts:
            lanes, conditions = narrow(pool, lanes, conditions, part, holds=True)
        return lanes, conditions
    if symbol.operation == "!":
        inner = parts[0].symbol
        if inner is not None and inner.operation == "||":
            for either in inner.operands:
                if isinstance(either, Value):
                    lanes, conditions = narrow(pool, lanes, conditions, either, holds=False)
            return lanes, conditions
        if inner is not None:
            return _with(lanes, conditions, Condition(inner, holds=False))
    return _with(lanes, conditions, Condition(symbol, holds=True))


def _with(lanes: int, conditions: Conditions, new: Condition) -> tuple[int, Conditions]:
    """Add a condition unless it follows from the others; none is left if it contradicts them."""
    if not lanes or new in conditions:
        return lanes, conditions
    opposite = Condition(new.symbol, not new.holds)
    if opposite in conditions:
        return 0, conditions
    if not new.varies:
        uniform = [(c, 0) for c in conditions if not c.varies]
        if not possible([*uniform, (new, 0)]):
            return 0, conditions
        if new.sides is not None and not possible([*uniform, (opposite, 0)]):
            return lanes, conditions
    return lanes, (*conditions, new)


def common(left: Conditions, right: Conditions) -> Conditions:
    """The conditions that both begin with."""
    count = 0
    for one, other in zip(left, right):  # noqa: B905 the longer one's rest is what differs
        if one != other:
            break
        count += 1
    return left[:count]


def possible(told: Iterable[tuple[Condition, int]]) -> bool:
    """Whether conditions can hold together, each for its thread of the same threadgroup.

    Only what certainly contradicts is found: a condition and its opposite, and bounds on the same
    unknown that leave no number between them.
    """
    truths: dict[tuple[Symbol, int | None], bool] = {}
    bounds: dict[tuple[tuple[Symbol, int], ...], tuple[int, int]] = {}
    excluded: dict[tuple[tuple[Symbol, int], ...], set[int]] = {}
    for condition, thread in told:
        key = (condition.symbol, thread if condition.varies else None)
        if truths.setdefault(key, condition.holds) != condition.holds:
            return False
        bound = _bound(condition, thread)
        if bound is None:
            continue
        terms, low, high, sharp = bound
        if sharp is not None:
            excluded.setdefault(terms, set()).add(sharp)
        old_low, old_high = bounds.get(terms, (-_FAR, _FAR))
        bounds[terms] = (max(low, old_low), min(high, old_high))
    return not any(
        low > high or (low == high and low in excluded.get(terms, ()))
        for terms, (low, high) in bounds.items()
    )


def _bound(
    condition: Condition, thread: int
) -> tuple[tuple[tuple[Symbol, int], ...], int, int, int | None] | None:
    """What a comparison says of the unknown that both sides' difference holds: low, high, not."""
    sides = condition.sides
    if sides is None:
        return None
    left, right = sides
    factors = dict(left.terms)
    for symbol, factor in right.terms:
        factors[symbol] = factors.get(symbol, 0) - factor
    terms = tuple(sorted(((s, f) for s, f in factors.items() if f), key=lambda t: t[0].number))
    if not terms or any(symbol.bits & (LANE | SIMD) for symbol, _ in terms):
        return None
    # terms + known (operator) 0
    known = left.offset(thread) - right.offset(thread)
    sign = 1 if terms[0][1] > 0 else -1
    if sign < 0:
        terms = tuple((symbol, -factor) for symbol, factor in terms)
    low, high, sharp = -_FAR, _FAR, None
    if condition.operator == "<":
        low, high = (low, -known - 1) if sign > 0 else (known + 1, high)
    elif condition.operator == ">=":
        low, high = (-known, high) if sign > 0 else (low, known)
    elif condition.operator == "==":
        low = high = -known * sign
    else:
        sharp = -known * sign
    return terms, low, high, sharp
