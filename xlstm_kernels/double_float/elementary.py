"""Exponential function and logarithm of double-float numbers, in MLX operations.

Both sum a series whose late terms need only the digits of a float32. `metal.ELEMENTARY` is the same
in Metal, with the same constants.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING

import mlx.core as mx
import numpy as np

from xlstm_kernels.double_float import pairs
from xlstm_kernels.double_float.pairs import Pair

if TYPE_CHECKING:
    from collections.abc import Sequence


def split(number: Fraction) -> tuple[float, float, float]:
    """Three float32 whose sum is `number`, to 72 bits."""
    parts = []
    for _ in range(3):
        part = float(np.float32(float(number)))
        parts.append(part)
        number -= Fraction(part)
    return parts[0], parts[1], parts[2]


LOG_2 = split(Fraction("0.693147180559945309417232121458176568"))
#: 1/n! up to 1/13!: exp(r) for |r| <= log(2) / 2. The ones from `EXP_SINGLE` on as float32.
EXP_SERIES = [split(Fraction(1, math.factorial(n))) for n in range(14)]
EXP_SINGLE = 7
#: 1/(2 j + 1): atanh(s) / s in s^2, for |s| <= 0.172.
LOG_SERIES = [split(Fraction(1, 2 * j + 1)) for j in range(11)]
LOG_SINGLE = 5
#: Beyond it, exp is zero or infinite in float32. Powers of two are applied in two steps.
EXP_LIMIT = 150.0
SMALLEST_NORMAL = 2.0**-126
ROOT_2 = float(np.float32(math.sqrt(2)))


def exp(a: Pair) -> Pair:
    """The exponential function, of a = n log 2 + r as 2^n times that of r."""
    limit = _float(EXP_LIMIT)
    inside = mx.abs(a.high) <= limit
    zero = mx.zeros_like(a.low)
    limited = Pair(
        mx.where(inside, a.high, mx.clip(a.high, mx.negative(limit), limit)),
        mx.where(inside, a.low, zero),
    )
    limited = pairs.where(mx.isnan(a.high), Pair(zero, zero), limited)
    power = mx.round(limited.high / _float(LOG_2[0]))
    rest = pairs.accurate_add(limited, pairs.product(mx.negative(power), _float(LOG_2[0])))
    rest = pairs.accurate_add(rest, pairs.product(mx.negative(power), _float(LOG_2[1])))
    rest = pairs.two_sum(rest.high, rest.low - power * _float(LOG_2[2]))
    value = _series(rest, EXP_SERIES, EXP_SINGLE)
    value = _scaled(value, power)
    low = mx.where(mx.isfinite(value.high), value.low, zero)
    return pairs.where(mx.isnan(a.high), Pair(a.high, zero), Pair(value.high, low))


def log(a: Pair) -> Pair:
    """The logarithm, of a = 2^k m by 2 atanh((m - 1) / (m + 1)); of a subnormal as of zero."""
    zero, one = mx.zeros_like(a.high), mx.ones_like(a.high)
    normal = mx.logical_and(a.high >= _float(SMALLEST_NORMAL), mx.isfinite(a.high))
    given = Pair(mx.where(normal, a.high, one), mx.where(normal, a.low, zero))
    bits = mx.right_shift(
        mx.stop_gradient(given.high).view(mx.uint32), mx.array(23, dtype=mx.uint32)
    )
    power = bits.astype(mx.float32) - _float(127.0)
    mantissa = _scaled(given, mx.negative(power))
    above = mantissa.high > _float(ROOT_2)
    half = mx.where(above, _float(0.5), one)
    power = mx.where(above, power + one, power)
    mantissa = Pair(mantissa.high * half, mantissa.low * half)
    ratio = pairs.divide(
        pairs.accurate_add(mantissa, Pair(mx.negative(one), zero)),
        pairs.accurate_add(mantissa, Pair(one, zero)),
    )
    series = _series(pairs.multiply(ratio, ratio), LOG_SERIES, LOG_SINGLE)
    doubled = Pair(ratio.high + ratio.high, ratio.low + ratio.low)
    whole = pairs.multiply(Pair(power, zero), Pair(_float(LOG_2[0]), _float(LOG_2[1])))
    value = pairs.accurate_add(whole, pairs.multiply(doubled, series))
    # log of a float32 has the values at zero, below it, at infinity and NaN.
    special = mx.log(mx.where(mx.abs(a.high) < _float(SMALLEST_NORMAL), zero, a.high))
    return pairs.where(normal, value, Pair(special, zero))


def _series(x: Pair, coefficients: Sequence[tuple[float, ...]], single: int) -> Pair:
    """Horner's scheme, in float32 down to the coefficient `single`."""
    tail = mx.broadcast_to(_float(coefficients[-1][0]), x.high.shape)
    for coefficient in reversed(coefficients[single:-1]):
        tail = tail * x.high + _float(coefficient[0])
    total = pairs.pair(tail)
    for coefficient in reversed(coefficients[:single]):
        term = Pair(_float(coefficient[0]), _float(coefficient[1]))
        total = pairs.accurate_add(pairs.multiply(total, x), term)
    return total


def _scaled(a: Pair, power: mx.array) -> Pair:
    """The product of `a` and 2^power, in two steps, as 2^power may be beyond the limits."""
    half = mx.floor(power * _float(0.5))
    first, second = pairs.power_of_two(half), pairs.power_of_two(power - half)
    return Pair(a.high * first * second, a.low * first * second)


def _float(number: float) -> mx.array:
    return mx.array(number, dtype=mx.float32)
