"""The value of a constant expression."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from embercoach.metal.program.nodes import Binary, Cast, Conditional, Name, NumberLiteral, Unary
from embercoach.metal.program.types import (
    FLOATS,
    INTEGERS,
    SIZES,
    arithmetic,
    is_floating,
    is_integer,
)
from embercoach.metal.tokens import BITWISE, COMPARISONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from embercoach.metal.program.nodes import Expression, Variable
    from embercoach.metal.program.types import Type

    Value = int | float

_BINARY: dict[str, Callable[[Value, Value], Value]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    **COMPARISONS,
}
_MAX_SHIFT = 63


def fold(expression: Expression, values: Mapping[Variable, int | float]) -> int | float | None:
    """The number that an expression always is, None when it is not known.

    Args:
        expression: any expression.
        values: what is known of variables.
    """
    if isinstance(expression, NumberLiteral):
        return expression.value
    if isinstance(expression, Name):
        return values.get(expression.variable)
    if isinstance(expression, Unary):
        return _unary(expression, values)
    if isinstance(expression, Binary):
        return _binary(expression, values)
    if isinstance(expression, Conditional):
        chosen = fold(expression.condition, values)
        if chosen is None:
            return None
        return fold(expression.then if chosen else expression.otherwise, values)
    if isinstance(expression, Cast) and not expression.bits:
        return fitted(fold(expression.operand, values), expression.type)
    return None


def fold_int(expression: Expression, values: Mapping[Variable, int | float]) -> int | None:
    """``fold``, for integers."""
    found = fold(expression, values)
    return int(found) if isinstance(found, int) else None


def fitted(value: float | None, kind: Type) -> int | float | None:
    """A number converted to a type; floating-point numbers are not rounded."""
    if value is None or kind.width != 1:
        return None
    if is_floating(kind) and kind.scalar in FLOATS:
        return float(value)
    if kind.scalar == "bool" and is_integer(kind):
        return int(bool(value))
    if not is_integer(kind):
        return None
    try:
        number = int(value)
    except (OverflowError, ValueError):
        return None
    scalar = kind.scalar or ""
    bits = 8 * SIZES[scalar]
    number &= (1 << bits) - 1
    return number - (1 << bits) if INTEGERS[scalar][1] and number >> (bits - 1) else number


def _unary(expression: Unary, values: Mapping[Variable, int | float]) -> int | float | None:
    operand = fold(expression.operand, values)
    if operand is None:
        return None
    if expression.operator == "!":
        return int(not operand)
    if expression.operator == "-":
        return fitted(-operand, expression.type)
    if expression.operator == "~" and isinstance(operand, int):
        return fitted(~operand, expression.type)
    return operand if expression.operator == "+" else None


def _binary(expression: Binary, values: Mapping[Variable, int | float]) -> int | float | None:
    left = fold(expression.left, values)
    symbol = expression.operator
    if symbol in ("&&", "||") and left is not None and bool(left) == (symbol == "||"):
        return int(bool(left))
    right = fold(expression.right, values)
    if left is None or right is None:
        return None
    if symbol in ("&&", "||"):
        return int(bool(right))
    common = arithmetic(expression.left.type, expression.right.type)
    if symbol not in ("<<", ">>") and is_integer(common):
        left, right = fitted(left, common), fitted(right, common)
        if left is None or right is None:
            return None
    if symbol in _BINARY:
        found = _BINARY[symbol](left, right)
        return int(found) if isinstance(found, bool) else fitted(found, expression.type)
    if symbol == "/" and is_floating(common):
        return left / right if right else None
    if isinstance(left, int) and isinstance(right, int):
        return fitted(_integer(symbol, left, right), expression.type)
    return None


def _integer(symbol: str, left: int, right: int) -> int | None:
    if symbol in BITWISE:
        return BITWISE[symbol](left, right)
    if symbol in ("<<", ">>") and 0 <= right <= _MAX_SHIFT:
        return left << right if symbol == "<<" else left >> right
    if symbol in ("/", "%") and right:
        # C++ rounds towards zero, Python down.
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if symbol == "/" else left - quotient * right
    return None
