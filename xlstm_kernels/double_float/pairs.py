"""Float32 numbers in twice their digits, as unevaluated sums of two, in MLX operations.

The exponents of the gates are kept so: the last bit of an exponent of 100 is 7.6e-6, and an error
in an exponent is a relative error of what it scales. Source: Knuth, "The Art of Computer
Programming", volume 2, section 4.2.2, theorem B. The same in Metal is `xlstm_kernels.msl.PAIRS`.

Infinite numbers are welcome, as gates may be minus infinity. Gradients flow as if a pair were the
real number that it stands for.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx

# log 2 in two parts: the product of the first, of 15 bits, with a number of 9 bits is exact.
_LOG_2_HIGH = 45426 / 2**16
_LOG_2_LOW = math.log(2) - _LOG_2_HIGH
_LIMIT = 200  # Beyond it exp has nothing but zero and infinity in float32.


class Pair(NamedTuple):
    """The number high + low: |low| is at most half of high's last bit, zero if high is infinite."""

    high: mx.array
    low: mx.array


def pair(x: mx.array) -> Pair:
    """`x`, which is float32, as a pair."""
    return Pair(x, mx.zeros_like(x))


def two_sum(a: mx.array, b: mx.array) -> Pair:
    """The sum of two float32 without an error."""
    total = a + b
    other = total - a
    error = (a - (total - other)) + (b - other)
    # A rounding error has no slope; and next to infinities its formula gives NaN, or infinity.
    finite = mx.abs(error) < mx.array(math.inf)
    return Pair(total, mx.stop_gradient(mx.where(finite, error, mx.zeros_like(error))))


def add(a: Pair, b: Pair) -> Pair:
    """The sum, to twice the digits of a float32."""
    total = two_sum(a.high, b.high)
    return two_sum(total.high, total.low + (a.low + b.low))


def difference(a: Pair, b: Pair) -> mx.array:
    """The difference a - b, rounded once; minus infinity where `a` is that, whatever `b` is."""
    nothing = mx.isneginf(a.high)
    # Where both are minus infinity neither the difference nor its slope must be formed.
    subtracted = mx.where(nothing, mx.zeros_like(b.high), b.high)
    total = two_sum(a.high, mx.negative(subtracted))
    return total.high + mx.where(nothing, mx.zeros_like(total.low), total.low + (a.low - b.low))


def negative(a: Pair) -> Pair:
    """The number -a, exactly."""
    return Pair(mx.negative(a.high), mx.negative(a.low))


def less(a: Pair, b: Pair) -> mx.array:
    """Where a < b."""
    # Not by operators: under mx.vmap, MLX 0.32.4's lose the batch of the right operand.
    equal_but_low = mx.logical_and(a.high == b.high, a.low < b.low)
    return mx.logical_or(a.high < b.high, equal_but_low)


def maximum(a: Pair, b: Pair) -> Pair:
    """The greater one; `a` where they are equal."""
    return where(less(a, b), b, a)


def where(condition: mx.array, a: Pair, b: Pair) -> Pair:
    """`a` where the condition holds, `b` elsewhere."""
    return Pair(mx.where(condition, a.high, b.high), mx.where(condition, a.low, b.low))


def exp(a: Pair) -> mx.array:
    """The exponential function of a pair, to the digits of a float32.

    MLX rounds x / log 2 before it splits off the power of two, at the cost of up to |x| / 2 last
    bits (on the CPU, 0.32). Here the split is exact: a = n log 2 + r, and exp(a) = 2^n exp(r).
    """
    limit = mx.array(_LIMIT, dtype=a.high.dtype)
    high = mx.clip(a.high, mx.negative(limit), limit)
    power = mx.stop_gradient(mx.round(high / mx.array(math.log(2), dtype=high.dtype)))
    rest = high - power * mx.array(_LOG_2_HIGH, dtype=power.dtype)
    rest = rest - power * mx.array(_LOG_2_LOW, dtype=power.dtype)
    # In two steps, as 2^n may be beyond the limits where its product is not.
    half = mx.floor(power / mx.array(2, dtype=power.dtype))
    return mx.exp(rest + a.low) * power_of_two(half) * power_of_two(power - half)


def power_of_two(exponent: mx.array) -> mx.array:
    """2 to the power of a whole number, exactly, by its bits; of NaN any power."""
    least, greatest = mx.array(-126, dtype=mx.int32), mx.array(127, dtype=mx.int32)
    # Stopped before the view, of which MLX has no jvp.
    exponent = mx.clip(mx.stop_gradient(exponent).astype(mx.int32), least, greatest)
    bits = mx.left_shift(exponent + greatest, mx.array(23, dtype=mx.int32))
    return bits.view(mx.float32)


def log_sigmoid(x: mx.array) -> Pair:
    """log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|)) of a float32: exact in both tails."""
    below = x < mx.zeros_like(x)
    # Not abs and minimum: at zero their slopes would not add up to a half.
    distance = mx.where(below, x, mx.negative(x))
    return two_sum(mx.where(below, x, mx.zeros_like(x)), mx.negative(mx.log1p(mx.exp(distance))))
