"""Double-float arithmetic in Metal.

Source: Joldes, Muller and Popescu, "Tight and rigorous error bounds for basic building blocks of
double-word arithmetic", 2017; the square root of Karp and Markstein. Exponential function and
logarithm sum a series whose late terms need only the digits of a float32.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from xlstm_kernels.msl import PAIRS

DOUBLE = (
    PAIRS
    + """
    // The product of two floats without an error. As fma(a, b, 0), no compiler contracts it with a
    // sum that reads it, which would then no longer be of the rounded product.
    inline float2 xlstm_product(float a, float b) {
        const float high = metal::fma(a, b, 0.0f);
        const float low = metal::fma(a, b, -high);
        return float2(high, metal::isfinite(low) ? low : 0.0f);
    }
    // The sum of a and b, or the float `otherwise` where that is not finite.
    inline float2 xlstm_finite_pair(float a, float b, float otherwise) {
        const float2 sum = xlstm_pair(a, b);
        return metal::isfinite(sum.x) ? sum : float2(otherwise, 0.0f);
    }
    inline float2 xlstm_double_add(float2 a, float2 b) {
        const float2 high = xlstm_pair(a.x, b.x);
        const float2 low = xlstm_pair(a.y, b.y);
        const float2 sum = xlstm_pair(high.x, high.y + low.x);
        return xlstm_pair(sum.x, sum.y + low.y);
    }
    inline float2 xlstm_double_multiply(float2 a, float2 b) {
        const float2 high = xlstm_product(a.x, b.x);
        const float low = high.y + (a.x * b.y + a.y * b.x);
        return xlstm_finite_pair(high.x, low, high.x);
    }
    inline float2 xlstm_double_divide(float2 a, float2 b) {
        const float quotient = a.x / b.x;
        const float2 product = xlstm_double_multiply(b, float2(quotient, 0.0f));
        const float2 rest = xlstm_double_add(a, float2(-product.x, -product.y));
        return xlstm_finite_pair(quotient, rest.x / b.x, quotient);
    }
    inline float2 xlstm_double_sqrt(float2 a) {
        const float root = metal::precise::sqrt(a.x);
        const float2 square = xlstm_product(root, root);
        const float2 rest = xlstm_double_add(a, float2(-square.x, -square.y));
        return xlstm_finite_pair(root, rest.x / (root + root), root);
    }
"""
)


def _array(name: str, numbers: Sequence[float]) -> str:
    return f"constant float {name}[] = {{{', '.join(f'{number!r}f' for number in numbers)}}};"


def _series(name: str, coefficients: Sequence[tuple[float, ...]], single: int) -> str:
    """A function of a power series: Horner's scheme, in floats down to `single`."""
    return f"""
    {_array(f"{name}_high", [c[0] for c in coefficients])}
    {_array(f"{name}_low", [c[1] for c in coefficients])}
    inline float2 {name}(float2 x) {{
        float tail = {name}_high[{len(coefficients) - 1}];
        for (int n = {len(coefficients) - 2}; n >= {single}; --n) {{
            tail = tail * x.x + {name}_high[n];
        }}
        float2 total = float2(tail, 0.0f);
        for (int n = {single - 1}; n >= 0; --n) {{
            total = xlstm_double_add(
                xlstm_double_multiply(total, x), float2({name}_high[n], {name}_low[n]));
        }}
        return total;
    }}
"""


def _split(number: Fraction) -> tuple[float, float, float]:
    """Three float32 whose sum is `number`, to 72 bits."""
    high = float(np.float32(float(number)))
    middle = float(np.float32(float(number - Fraction(high))))
    return high, middle, float(np.float32(float(number - Fraction(high) - Fraction(middle))))


SMALLEST_NORMAL = 2.0**-126
_LOG_2 = [f"{part!r}f" for part in _split(Fraction("0.693147180559945309417232121458176568"))]
_ROOT_2 = float(np.float32(math.sqrt(2)))
_EXP_LIMIT = 150.0  # Beyond it, exp is zero or infinite in float32.

# 1/n!: exp(r) for |r| <= log(2) / 2. 1/(2 j + 1): atanh(s) / s in s^2, for |s| <= 0.172.
ELEMENTARY = (
    _series("xlstm_exp_series", [_split(Fraction(1, math.factorial(n))) for n in range(14)], 7)
    + _series("xlstm_log_series", [_split(Fraction(1, 2 * j + 1)) for j in range(11)], 5)
    + f"""
    // The product with 2^power, in two steps, as 2^power may be beyond the limits.
    inline float2 xlstm_double_scale(float2 a, float power) {{
        const float half_power = metal::floor(power * 0.5f);
        const float first = as_type<float>((static_cast<int>(half_power) + 127) << 23);
        const float second = as_type<float>((static_cast<int>(power - half_power) + 127) << 23);
        return float2(a.x * first * second, a.y * first * second);
    }}
    // a = n log 2 + r, exp(a) = 2^n exp(r).
    inline float2 xlstm_double_exp(float2 a) {{
        if (metal::isnan(a.x)) {{
            return float2(a.x, 0.0f);
        }}
        const float limit = {_EXP_LIMIT!r}f;
        if (metal::abs(a.x) > limit) {{
            a = float2(metal::copysign(limit, a.x), 0.0f);
        }}
        const float power = metal::rint(a.x / {_LOG_2[0]});
        float2 rest = xlstm_double_add(a, xlstm_product(-power, {_LOG_2[0]}));
        rest = xlstm_double_add(rest, xlstm_product(-power, {_LOG_2[1]}));
        rest = xlstm_pair(rest.x, rest.y - power * {_LOG_2[2]});
        const float2 value = xlstm_double_scale(xlstm_exp_series(rest), power);
        return float2(value.x, metal::isfinite(value.x) ? value.y : 0.0f);
    }}
    // a = 2^k m, log(m) = 2 atanh((m - 1) / (m + 1)). A subnormal number counts as zero.
    inline float2 xlstm_double_log(float2 a) {{
        if (!(a.x >= {SMALLEST_NORMAL!r}f) || !metal::isfinite(a.x)) {{
            const bool zero = metal::abs(a.x) < {SMALLEST_NORMAL!r}f;
            const float below = a.x < 0.0f ? NAN : a.x;
            return float2(zero ? -INFINITY : below, 0.0f);
        }}
        float power = static_cast<float>(static_cast<int>(as_type<uint>(a.x) >> 23) - 127);
        float2 mantissa = xlstm_double_scale(a, -power);
        if (mantissa.x > {_ROOT_2!r}f) {{
            mantissa = float2(mantissa.x * 0.5f, mantissa.y * 0.5f);
            power += 1.0f;
        }}
        const float2 ratio = xlstm_double_divide(
            xlstm_double_add(mantissa, float2(-1.0f, 0.0f)),
            xlstm_double_add(mantissa, float2(1.0f, 0.0f)));
        const float2 series = xlstm_log_series(xlstm_double_multiply(ratio, ratio));
        const float2 whole = xlstm_double_multiply(
            float2(power, 0.0f), float2({_LOG_2[0]}, {_LOG_2[1]}));
        return xlstm_double_add(
            whole, xlstm_double_multiply(float2(ratio.x + ratio.x, ratio.y + ratio.y), series));
    }}
"""
)
