"""Arithmetic on values: exact where threads' numbers are known, symbols elsewhere."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

from embercoach.metal.execution.values import GROUP_AXES, ONE, ZERO, LaneValue, SymbolPool, value_of
from embercoach.metal.program.types import INTEGERS, SIZES
from embercoach.metal.tokens import BITWISE, COMPARISONS

#: No shift of a 64-bit number goes further, and larger powers would only eat memory.
_MAX_SHIFT = 63
_LARGEST = 1 << 64
#: A sum of more unknowns is not an index but a total over a loop: it becomes an unknown itself.
MAX_TERMS = 12


def each(
    pool: SymbolPool, function: Callable[[int, int], int], left: LaneValue, right: LaneValue
) -> int | tuple[int, ...]:
    """Return the function of both known parts, for each thread."""
    a, b = left.offsets, right.offsets
    if isinstance(a, int):
        if isinstance(b, int):
            pool.steps += 1
            return function(a, b)
        pool.steps += pool.lanes
        return tuple([function(a, y) for y in b])
    pool.steps += pool.lanes
    if isinstance(b, int):
        return tuple([function(x, b) for x in a])
    return tuple(map(function, a, b))


def add(pool: SymbolPool, left: LaneValue, right: LaneValue, sign: int = 1) -> LaneValue:
    """``left + right``, or ``left - right`` for a sign of -1."""
    if len(left.terms) + len(right.terms) > MAX_TERMS:
        return pool.symbol("+" if sign == 1 else "-", (left, right))
    offsets = each(pool, operator.add if sign == 1 else operator.sub, left, right)
    if not right.terms:
        return value_of(offsets, left.terms)
    factors = dict(left.terms)
    for symbol, factor in right.terms:
        factors[symbol] = factors.get(symbol, 0) + sign * factor
    terms = sorted(((s, f) for s, f in factors.items() if f), key=lambda term: term[0].number)
    return value_of(offsets, tuple(terms))


def multiply(pool: SymbolPool, left: LaneValue, right: LaneValue) -> LaneValue:
    """``left * right``: of an unknown only by a known constant."""
    if left.exact and right.exact:
        return value_of(each(pool, operator.mul, left, right))
    if left.exact:
        left, right = right, left
    factor = right.constant
    if factor is not None:
        if factor == 0:
            return ZERO
        terms = tuple((symbol, known * factor) for symbol, known in left.terms)
        return value_of(each(pool, operator.mul, LaneValue(left.offsets), right), terms)
    return pool.symbol("*", (left, right))


def _quotient(a: int, b: int) -> int:
    if b == 0:
        return 0
    found = abs(a) // abs(b)
    return found if (a < 0) == (b < 0) else -found


def _remainder(a: int, b: int) -> int:
    return a - b * _quotient(a, b) if b else 0


def divide(
    pool: SymbolPool, left: LaneValue, right: LaneValue, *, remainder: bool = False
) -> LaneValue:
    """``left / right`` of integers, or ``left % right``.

    An unknown part that the divisor divides is taken out of it, as positions are not negative.
    """
    sign = "%" if remainder else "/"
    if right.exact and _has(right, 0):
        return pool.symbol(sign, (left, right))
    function = _remainder if remainder else _quotient
    if left.exact and right.exact:
        return value_of(each(pool, function, left, right))
    by = right.constant
    if by is not None and by > 0 and all(factor % by == 0 for _, factor in left.terms):
        terms = () if remainder else tuple((s, f // by) for s, f in left.terms)
        if not _below(left, 0):
            return value_of(each(pool, function, LaneValue(left.offsets), right), terms)
    return pool.symbol(sign, (left, right))


def _numbers(value: LaneValue) -> tuple[int, ...]:
    return (value.offsets,) if isinstance(value.offsets, int) else value.offsets


def _has(value: LaneValue, number: int) -> bool:
    return number in _numbers(value)


def _below(value: LaneValue, bound: int) -> bool:
    return min(_numbers(value)) < bound


def shift(pool: SymbolPool, left: LaneValue, right: LaneValue, sign: str) -> LaneValue:
    """``left << right`` or ``left >> right``."""
    if right.exact and min(_numbers(right)) >= 0 and max(_numbers(right)) <= _MAX_SHIFT:
        powers = value_of(each(pool, operator.lshift, ONE, right))
        if sign == "<<":
            return multiply(pool, left, powers)
        if left.exact:
            return value_of(each(pool, operator.rshift, left, right))
        return divide(pool, left, powers)
    return pool.symbol(sign, (left, right))


def bitwise(pool: SymbolPool, left: LaneValue, right: LaneValue, sign: str) -> LaneValue:
    """``&``, ``|`` or ``^``."""
    if left.exact and right.exact:
        return value_of(each(pool, BITWISE[sign], left, right))
    if left.exact:
        left, right = right, left
    mask = right.constant
    if mask == 0:
        return ZERO if sign == "&" else left
    if sign == "&" and mask is not None and mask > 0 and mask & (mask + 1) == 0:
        return divide(pool, left, LaneValue(mask + 1), remainder=True)
    return pool.symbol(sign, (left, right))


def extreme(pool: SymbolPool, name: str, left: LaneValue, right: LaneValue) -> LaneValue:
    """``min`` or ``max``."""
    if left == right:
        return left
    if left.terms == right.terms:
        function = min if name == "min" else max
        return value_of(each(pool, function, left, right), left.terms)
    return pool.symbol(name, (left, right))


def compare(pool: SymbolPool, sign: str, left: LaneValue, right: LaneValue) -> LaneValue:
    """Return a comparison: 0 or 1 for each thread, or a symbol.

    Opposite comparisons give a symbol and its ``!``: so a condition's opposite is recognized.
    """
    if left.terms == right.terms:
        function = COMPARISONS[sign]
        if left == right and left.exact:
            return LaneValue(int(function(0, 0)))
        found = each(pool, function, left, right)
        return value_of(int(found) if isinstance(found, int) else tuple(map(int, found)))
    left, right = _without_position(left, right)
    if sign in (">", "<="):
        left, right = right, left
    if sign not in ("==", "!="):
        left, right = _without_remainder(left, right)
    if sign in ("==", "!=") and _order(right) < _order(left):
        left, right = right, left
    made = pool.symbol("==" if sign in ("==", "!=") else "<", (left, right))
    return negate(pool, made) if sign in ("!=", "<=", ">=") else made


def _without_position(left: LaneValue, right: LaneValue) -> tuple[LaneValue, LaneValue]:
    """Both sides less what each thread adds to both, as in ``start + tid < end + tid``."""
    if isinstance(left.offsets, int) or isinstance(right.offsets, int):
        return left, right
    apart = {a - b for a, b in zip(left.offsets, right.offsets, strict=True)}
    if len(apart) > 1:
        return left, right
    return value_of(apart.pop(), left.terms), value_of(0, right.terms)


def _without_remainder(left: LaneValue, right: LaneValue) -> tuple[LaneValue, LaneValue]:
    """Return the sides of ``left < right``, without a remainder that decides for no thread.

    So ``32 * group + thread < 64`` is ``32 * group < 64`` for each of 32 threads. Of unknowns
    positions of threadgroups alone are certainly integers.
    """
    left_offsets, right_offsets = _numbers(left), _numbers(right)
    if len(left_offsets) == len(right_offsets) == 1:
        return left, right
    terms = (*left.terms, *right.terms)
    size = math.gcd(*(factor for _, factor in terms))
    if size < 2 or not all(s.operation in GROUP_AXES for s, _ in terms):
        return left, right
    count = max(len(left_offsets), len(right_offsets))
    bounds = {-((left.offset(t) - right.offset(t)) // size) for t in range(count)}
    if len(bounds) > 1:
        return left, right
    return value_of(0, left.terms), value_of(bounds.pop() * size, right.terms)


def _order(value: LaneValue) -> tuple[int, ...]:
    return tuple(symbol.number for symbol, _ in value.terms)


def negate(pool: SymbolPool, value: LaneValue) -> LaneValue:
    """``!value``."""
    if value.exact:
        found = each(pool, operator.eq, value, ZERO)
        return value_of(int(found) if isinstance(found, int) else tuple(map(int, found)))
    symbol = value.symbol
    if symbol is not None and symbol.operation == "!":
        operand = symbol.operands[0]
        if isinstance(operand, LaneValue):
            return operand
    return pool.symbol("!", (value,))


def truth(pool: SymbolPool, value: LaneValue) -> LaneValue:
    """``value != 0``, as 0 or 1."""
    symbol = value.symbol
    if symbol is not None and symbol.operation in ("<", "==", "!", "&&", "||"):
        return value
    return compare(pool, "!=", value, ZERO)


def both(pool: SymbolPool, sign: str, left: LaneValue, right: LaneValue) -> LaneValue:
    """``left && right`` or ``left || right`` of what ``truth`` gave."""
    absorbing, neutral = (0, 1) if sign == "&&" else (1, 0)
    for one, other in ((left, right), (right, left)):
        if one.constant == absorbing:
            return LaneValue(absorbing)
        if one.constant == neutral:
            return other
    if left.exact and right.exact:
        return bitwise(pool, left, right, "&" if sign == "&&" else "|")
    return left if left == right else pool.symbol(sign, (left, right))


def choose(
    pool: SymbolPool, condition: LaneValue, then: LaneValue, otherwise: LaneValue
) -> LaneValue:
    """``condition ? then : otherwise``."""
    if then == otherwise:
        return then
    known = condition.offsets
    if not condition.exact:
        return pool.symbol("?:", (condition, then, otherwise))
    if isinstance(known, int):
        return then if known else otherwise
    if then.terms == otherwise.terms:
        pool.steps += pool.lanes
        threads = range(pool.lanes)
        offsets = tuple([(then if known[t] else otherwise).offset(t) for t in threads])
        return value_of(offsets, then.terms)
    return pool.symbol("?:", (condition, then, otherwise))


def wrap(pool: SymbolPool, value: LaneValue, scalar: str | None) -> LaneValue:
    """The value in a type: integers wrap around where they are known, others stay as they are."""
    if scalar is None or scalar not in INTEGERS:
        return value
    if scalar == "bool":
        return truth(pool, value)
    bits, (_, signed) = 8 * SIZES[scalar], INTEGERS[scalar]
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    numbers = _numbers(value)
    # An unknown part may bring a negative known one back into the range.
    if value.terms or (low <= min(numbers) and max(numbers) <= high):
        return value
    size = 1 << bits
    wrapped = tuple([(n - low) % size + low for n in numbers])
    return value_of(wrapped[0] if isinstance(value.offsets, int) else wrapped)


def whole(number: float) -> int | None:
    """Return the number as an integer, where it is one."""
    if isinstance(number, int):
        return number if abs(number) <= _LARGEST else None
    return int(number) if number == number // 1 and abs(number) < _LARGEST else None


def binary(
    pool: SymbolPool, sign: str, left: LaneValue, right: LaneValue, scalar: str | None
) -> LaneValue:
    """Return an arithmetic operator, its result in the type."""
    if sign in COMPARISONS:
        return compare(pool, sign, left, right)
    if sign in ("+", "-"):
        found = add(pool, left, right, 1 if sign == "+" else -1)
    elif sign == "*":
        found = multiply(pool, left, right)
    elif sign in ("/", "%"):
        if scalar not in INTEGERS:
            return left if right == ONE else pool.symbol(sign, (left, right))
        found = divide(pool, left, right, remainder=sign == "%")
    elif sign in ("<<", ">>"):
        found = shift(pool, left, right, sign)
    elif sign in BITWISE:
        found = bitwise(pool, left, right, sign)
    else:
        return pool.symbol(sign, (left, right))
    if max(map(abs, _numbers(found))) > _LARGEST:
        return wrap(pool, found, scalar) if scalar in INTEGERS else pool.symbol(sign, (left, right))
    return wrap(pool, found, scalar)
