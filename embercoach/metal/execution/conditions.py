"""Conditions that are not known: what they narrow, and which of them can hold together."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

from embercoach.metal.execution.arithmetic import negate, truth
from embercoach.metal.execution.events import LostError
from embercoach.metal.execution.values import (
    GROUP_AXES,
    WITHIN,
    LaneValue,
    SymbolPool,
    UnknownNumber,
)

Comparison = Literal["<", ">=", "==", "!=", "?"]
_NEGATED: dict[tuple[str, bool], Comparison] = {
    ("<", True): "<",
    ("<", False): ">=",
    ("==", True): "==",
    ("==", False): "!=",
}
#: Larger than any number that is in a kernel.
_FAR = 1 << 80
#: Conditions of a path; with more of them it is not followed any further.
MAX_CONDITIONS = 128
#: Steps that each condition takes where one more is compared with them, if there are many.
_CONDITION, _FEW = 8, 16


class Condition(NamedTuple):
    """An unknown condition, and whether it holds.

    Attributes:
        symbol: the condition; the same symbol is the same condition.
        holds: whether it must be true.
    """

    symbol: UnknownNumber
    holds: bool

    @property
    def varies(self) -> bool:
        """Return whether threads of one threadgroup may differ in it."""
        return bool(self.symbol.bits & WITHIN)

    @property
    def operator(self) -> Comparison:
        """The comparison of ``left`` with ``right``; ``?`` for other operations."""
        return _NEGATED.get((self.symbol.operation, self.holds), "?")

    @property
    def sides(self) -> tuple[LaneValue, LaneValue] | None:
        """Left and right, for a comparison."""
        operands = self.symbol.operands
        if self.operator == "?" or len(operands) != 2:
            return None
        left, right = operands
        return (
            (left, right) if isinstance(left, LaneValue) and isinstance(right, LaneValue) else None
        )


Conditions: TypeAlias = tuple[Condition, ...]
_Terms: TypeAlias = tuple[tuple[UnknownNumber, int], ...]


@lru_cache(maxsize=4096)
def threads_of(lanes: int) -> tuple[int, ...]:
    """Return the threads of a mask."""
    return tuple(thread for thread in range(lanes.bit_length()) if lanes >> thread & 1)


def lanes_where(value: LaneValue, lanes: int) -> int:
    """Return those of the lanes for which a known value is not 0."""
    known = value.offsets
    if isinstance(known, int):
        return lanes if known else 0
    return lanes & _packed(known)


@lru_cache(maxsize=4096)
def _packed(flags: tuple[int, ...]) -> int:
    return sum(1 << thread for thread, flag in enumerate(flags) if flag)


def narrow(
    pool: SymbolPool, lanes: int, conditions: Conditions, value: LaneValue, *, holds: bool
) -> tuple[int, Conditions]:
    """Lanes and conditions that are left when a condition holds, or does not; lanes 0 for none."""
    value = truth(pool, value if holds else negate(pool, truth(pool, value)))
    pool.steps += 1 + _CONDITION * max(0, len(conditions) - _FEW)
    if value.exact:
        return lanes_where(value, lanes), conditions
    symbol = value.symbol
    if symbol is None:
        return lanes, conditions
    parts = [part for part in symbol.operands if isinstance(part, LaneValue)]
    if symbol.operation == "&&":
        for part in parts:
            lanes, conditions = narrow(pool, lanes, conditions, part, holds=True)
        return lanes, conditions
    if symbol.operation == "!":
        inner = parts[0].symbol
        if inner is not None and inner.operation == "||":
            for either in inner.operands:
                if isinstance(either, LaneValue):
                    lanes, conditions = narrow(pool, lanes, conditions, either, holds=False)
            return lanes, conditions
        if inner is not None:
            return _with(lanes, conditions, Condition(inner, holds=False))
    return _with(lanes, conditions, Condition(symbol, holds=True))


def _with(lanes: int, conditions: Conditions, new: Condition) -> tuple[int, Conditions]:
    """Add a condition unless it follows from the others; none is left if it contradicts them."""
    if not lanes:
        return lanes, conditions
    extended = _extended(conditions, new)
    return (0, conditions) if extended is None else (lanes, extended)


@lru_cache(maxsize=2048)
def _extended(conditions: Conditions, new: Condition) -> Conditions | None:
    """Conditions with one more, unless it follows from them; None if it contradicts them.

    Raises:
        LostError: there are too many.
    """
    if new in conditions:
        return conditions
    if len(conditions) == MAX_CONDITIONS:
        raise LostError
    opposite = Condition(new.symbol, not new.holds)
    if opposite in conditions:
        return None
    bound = None if new.varies else _bound(new, 0)
    if bound is not None:
        # They were consistent so far: only those that bound the same can contradict it.
        alike = [(c, 0) for c in conditions if _bounds(c, bound[0])]
        if not possible([*alike, (new, 0)]):
            return None
        if not possible([*alike, (opposite, 0)]):
            return conditions
    return (*conditions, new)


def _bounds(condition: Condition, terms: _Terms) -> bool:
    """Return whether a condition bounds the same as others do, or a multiple of it."""
    bound = None if condition.varies else _bound(condition, 0)
    if bound is None:
        return False
    own = bound[0]
    return own == terms or (len(own) == len(terms) == 1 and own[0][0] is terms[0][0])


def common(left: Conditions, right: Conditions) -> Conditions:
    """Return the conditions that both begin with."""
    count = 0
    for one, other in zip(left, right):  # noqa: B905 the longer one's rest is what differs
        if one is not other and one != other:
            break
        count += 1
    return left[:count]


class Elsewhere(Struct, frozen=True):
    """The conditions that must hold in another threadgroup.

    Attributes:
        required: conditions with their threads.
        position: the unknown position of the threadgroup.
        by: what the position is more there than here.
        count: of threadgroups, None where unknown.
        here: the position here, where it is known.
    """

    required: tuple[tuple[Condition, int], ...]
    position: UnknownNumber | None
    by: int
    count: int | None
    here: int | None = None


def possible(required: Iterable[tuple[Condition, int]], elsewhere: Elsewhere | None = None) -> bool:
    """Return whether conditions can hold together, each for its thread of the same threadgroup.

    Only what certainly contradicts is found: a condition and its opposite, and bounds on the same
    unknown that leave no number between them.
    """
    ranges = _Ranges()
    truths: dict[object, bool] = {}
    entries = [(condition, thread, False) for condition, thread in required]
    if elsewhere is not None:
        entries += [(condition, thread, True) for condition, thread in elsewhere.required]
        if elsewhere.position is not None:
            by, count = elsewhere.by, elsewhere.count
            most = _FAR if count is None else count - 1
            ranges.add(((elsewhere.position, 1),), max(0, -by), most - max(0, by), None)
            if elsewhere.here is not None:
                ranges.add(((elsewhere.position, 1),), elsewhere.here, elsewhere.here, None)
    for condition, thread, away in entries:
        apart = away and condition.symbol.origin.axes != 0
        key = (condition.symbol, thread if condition.varies else None, apart)
        if truths.setdefault(key, condition.holds) != condition.holds:
            return False
        bound = _bound(condition, thread)
        if bound is None:
            continue
        terms, low, high, sharp = bound
        if apart and elsewhere is not None:
            factors = [factor for symbol, factor in terms if symbol is elsewhere.position]
            shift = elsewhere.by * sum(factors)
            low, high = low - shift, high - shift
            sharp = None if sharp is None else sharp - shift
        ranges.add(terms, low, high, sharp)
    return ranges.open()


class _Ranges(Struct):
    """Bounds of unknowns, and numbers that they are not."""

    bounds: dict[_Terms, tuple[int, int]] = field(default_factory=dict)
    excluded: dict[_Terms, set[int]] = field(default_factory=dict)

    def add(self, terms: _Terms, low: int, high: int, sharp: int | None) -> None:
        """Bound a sum of unknowns; of a multiple of one the unknown itself."""
        if len(terms) == 1:
            symbol, factor = terms[0]
            terms, low, high = ((symbol, 1),), -(-low // factor), high // factor
            if sharp is not None:
                sharp = sharp // factor if sharp % factor == 0 else None
            if symbol.operation in GROUP_AXES:
                low = max(low, 0)
        if sharp is not None:
            self.excluded.setdefault(terms, set()).add(sharp)
        old_low, old_high = self.bounds.get(terms, (-_FAR, _FAR))
        self.bounds[terms] = (max(low, old_low), min(high, old_high))

    def open(self) -> bool:
        """Return whether some number is left for each of them."""
        return not any(
            low > high or (low == high and low in self.excluded.get(terms, ()))
            for terms, (low, high) in self.bounds.items()
        )


@lru_cache(maxsize=8192)
def _bound(condition: Condition, thread: int) -> tuple[_Terms, int, int, int | None] | None:
    """The bounds that a comparison sets on the unknown in the sides' difference: low, high, not."""
    sides = condition.sides
    if sides is None:
        return None
    left, right = sides
    factors = dict(left.terms)
    for symbol, factor in right.terms:
        factors[symbol] = factors.get(symbol, 0) - factor
    terms = tuple(sorted(((s, f) for s, f in factors.items() if f), key=lambda t: t[0].number))
    if not terms or any(symbol.bits & WITHIN for symbol, _ in terms):
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
