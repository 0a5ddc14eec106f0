// The functions of one float that the rest is built from, by their names in Metal, on an NVIDIA GPU:
// within 2 units in the last place, pow within 1. Clang has no library of them for this machine.
#pragma once

#include "ember_limits.h"

namespace ember {
EMBER_FN float sqrt(float x) { return __nvvm_sqrt_rn_f(x); }
EMBER_FN float ceil(float x) { return __builtin_ceilf(x); }
EMBER_FN float floor(float x) { return __builtin_floorf(x); }
EMBER_FN float rint(float x) { return __builtin_rintf(x); }
EMBER_FN float trunc(float x) { return __builtin_truncf(x); }
EMBER_CFN float fabs(float x) { return __builtin_fabsf(x); }
EMBER_CFN float copysign(float x, float y) { return __builtin_copysignf(x, y); }
EMBER_CFN float divide(float x, float y) { return x / y; }
EMBER_FN float fmax(float x, float y) { return __builtin_fmaxf(x, y); }
EMBER_FN float fmin(float x, float y) { return __builtin_fminf(x, y); }
EMBER_FN float fma(float x, float y, float z) { return __nvvm_fma_rn_f(x, y, z); }
EMBER_FN float rsqrt(float x) { return 1.0f / sqrt(x); }
EMBER_FN float round(float x) {
  float cut = trunc(x);
  return copysign(cut + (fabs(x - cut) >= 0.5f ? copysign(1.0f, x) : 0.0f), x);
}
EMBER_FN float fdim(float x, float y) { return x <= y ? 0.0f : x - y; }

EMBER_FN float nan() { return as_type<float>(0x7fc00000u); }
EMBER_FN float infinity() { return as_type<float>(0x7f800000u); }
EMBER_FN bool is_finite(float x) { return fabs(x) < infinity(); }

// Exponents and fractions.
EMBER_FN ember_double power_of_two(int n) { return as_type<ember_double>(ulong(n + 1023) << 52); }
EMBER_FN float ldexp(float x, int n) {
  return float(ember_double(x) * power_of_two(n < -400 ? -400 : n > 400 ? 400 : n));
}
EMBER_FN int ilogb(float x) {
  if (x == 0.0f || x != x) return FP_ILOGB0;
  if (!is_finite(x)) return INT_MAX;
  return int(as_type<ulong>(ember_double(x)) >> 52 & 0x7ff) - 1023;
}
EMBER_FN float frexp(float x, int* exponent) {
  bool whole = x != 0.0f && is_finite(x);
  *exponent = whole ? ilogb(x) + 1 : 0;
  return whole ? float(ember_double(x) * power_of_two(-*exponent)) : x;
}
EMBER_FN float nextafter(float x, float y) {
  if (x != x || y != y) return x + y;
  if (x == y) return y;
  if (x == 0.0f) return copysign(FLT_TRUE_MIN, y);
  return as_type<float>(as_type<uint>(x) + ((y > x) == (x > 0.0f) ? 1u : ~0u));
}
// Exact: each step takes a multiple off that has at most 23 bits.
EMBER_FN float fmod(float x, float y) {
  float a = fabs(x), b = fabs(y);
  if (!(b > 0.0f) || !is_finite(x)) return nan();
  while (b < infinity() && a >= b) {
    int n = ilogb(a) - ilogb(b) - 22;
    float step = ldexp(b, n > 0 ? n : 0);
    a = fma(-trunc(a / step), step, a);
    if (a < 0.0f) a += step;
  }
  return copysign(a, x);
}

// Exponentials and logarithms.
EMBER_FN float exp2(float x) { return __nvvm_ex2_approx_f(x); }
// 2^(n + f): n, of magnitude 126 at most, is in the last bits of a number near 1.5 * 2^23, as
// exponent of a float. The product rounds where the result lies beyond normal floats.
EMBER_FN float exp(float x) {
  float share = __nvvm_saturate_f(fma(x, 0x1.715476p+0f / 252.0f, 0.5f));
  float n = fma(share, 252.0f, 0x1.8p23f + 1.0f);
  float f = fma(x, 0x1.4ae0cp-26f, fma(x, 0x1.715476p+0f, 0x1.8p23f + 127.0f - n));
  return __nvvm_ex2_approx_ftz_f(f) * as_type<float>(as_type<uint>(n) << 23);
}
// log(x) as exponent * log(2) and the log of a number between sqrt(1/2) and sqrt(2).
struct logarithm {
  float exponent, rest;
};
EMBER_FN logarithm split_log(float x) {
  bool tiny = x < FLT_MIN;
  uint bits = as_type<uint>(tiny ? x * 0x1p23f : x);
  int exponent = int(bits - 0x3f3504f3u) >> 23;
  float f = as_type<float>(bits - (uint(exponent) << 23)) - 1.0f;
  float p = fma(f, -0.0785737634f, 0.128809869f);
  p = fma(f, p, -0.131292239f);
  p = fma(f, p, 0.141813055f);
  p = fma(f, p, -0.166245222f);
  p = fma(f, p, 0.200022802f);
  p = fma(f, p, -0.250008106f);
  p = fma(f, p, 0.333333164f);
  return {float(exponent - (tiny ? 23 : 0)), fma(f * f, fma(f, p, -0.5f), f)};
}
EMBER_FN bool has_log(float x) { return x > 0.0f && x < infinity(); }
EMBER_FN float no_log(float x) { return x == 0.0f ? -infinity() : x < 0.0f ? nan() : x; }
EMBER_FN float log(float x) {
  logarithm l = split_log(x);
  float sum = fma(l.exponent, 0x1.62e400p-1f, fma(l.exponent, 0x1.7f7d1cp-20f, l.rest));
  return has_log(x) ? sum : no_log(x);
}
EMBER_FN float log2(float x) {
  logarithm l = split_log(x);
  float sum = fma(l.rest, 0x1.715476p+0f, fma(l.rest, 0x1.4ae0cp-26f, l.exponent));
  return has_log(x) ? sum : no_log(x);
}
EMBER_FN float log10(float x) {
  logarithm l = split_log(x);
  float sum = fma(l.exponent, 0x1.344136p-2f, fma(l.rest, 0x1.bcb7b2p-2f, l.exponent * -0x1.ec10c0p-27f));
  return has_log(x) ? sum : no_log(x);
}

// In double, for functions whose errors would add up: of a positive number, and of any.
EMBER_FN ember_double wide_log(ember_double x) {
  ulong bits = as_type<ulong>(x) - 0x3fe6a09e667f3bcdUL;
  ember_double m = as_type<ember_double>((bits & 0xfffffffffffffUL) + 0x3fe6a09e667f3bcdUL);
  ember_double s = (m - 1.0L) / (m + 1.0L), z = s * s, sum = 0;
#pragma clang loop unroll(full)
  for (int k = 19; k > 0; k -= 2) sum = sum * z + 1.0L / ember_double(k);
  return ember_double(long(bits) >> 52) * 0.69314718055994530942L + 2.0L * s * sum;
}
EMBER_FN ember_double wide_exp(ember_double x) {
  x = x > 200.0L ? 200.0L : x < -200.0L ? -200.0L : x;
  ember_double n = __builtin_rint(x * 1.44269504088896340736L);
  ember_double r = x - n * 0.69314718055994530942L, sum = 1;
#pragma clang loop unroll(full)
  for (int k = 12; k > 0; --k) sum = sum * (r * (1.0L / ember_double(k))) + 1.0L;
  return sum * power_of_two(int(n));
}
EMBER_FN float exp10(float x) {
  return float(x != x ? ember_double(x) : wide_exp(ember_double(x) * 2.30258509299404568402L));
}
EMBER_FN float pow(float x, float y) {
  float a = fabs(x);
  bool whole = rint(y) == y, odd = whole && fabs(y) < 0x1p24f && (int(y) & 1);
  if (x == 1.0f || y == 0.0f) return 1.0f;
  if (x != x || y != y) return x + y;
  float value;
  if (a == 1.0f) {
    value = 1.0f;
  } else if (a == 0.0f || a == infinity() || fabs(y) == infinity()) {
    value = (a > 1.0f) == (y > 0.0f) ? infinity() : 0.0f;
  } else {
    value = float(wide_exp(ember_double(y) * wide_log(ember_double(a))));
  }
  if (odd) return copysign(value, x);
  return x < 0.0f && !whole && is_finite(x) ? nan() : value;
}
EMBER_FN float powr(float x, float y) { return x < 0.0f ? nan() : pow(x, y); }

// Hyperbolic functions.
EMBER_FN float tanh(float x) {
  float a = fabs(x), z = x * x;
  float p = fma(z, -0.00628179172f, 0.0210773069f);
  p = fma(z, fma(z, fma(z, p, -0.0538537577f), 0.133326009f), -0.333333194f);
  float far = 1.0f - 2.0f / (exp(2.0f * a) + 1.0f);
  return a < 0.55f ? fma(x * z, p, x) : copysign(far, x);
}
EMBER_FN float sinh(float x) {
  if (!(fabs(x) > 0x1p-10f)) return fma(x * x, x * 0.166666667f, x);
  ember_double e = wide_exp(ember_double(x));
  return float((e - 1.0L / e) * 0.5L);
}
EMBER_FN float cosh(float x) {
  ember_double e = wide_exp(ember_double(x));
  return x != x ? x : float((e + 1.0L / e) * 0.5L);
}
EMBER_FN ember_double wide_sqrt(ember_double x) { return __nvvm_sqrt_rn_d(x); }
EMBER_FN float asinh(float x) {
  ember_double a = ember_double(fabs(x));
  if (!is_finite(x)) return x;
  if (a <= 0x1p-10L) return fma(x * x, x * -0.166666667f, x);
  return copysign(float(wide_log(a + wide_sqrt(a * a + 1.0L))), x);
}
EMBER_FN float acosh(float x) {
  ember_double a = ember_double(x);
  if (!(x >= 1.0f) || !is_finite(x)) return x > 1.0f ? x : nan();
  return float(wide_log(a + wide_sqrt((a - 1.0L) * (a + 1.0L))));
}
EMBER_FN float atanh(float x) {
  float a = fabs(x);
  if (!(a > 0x1p-10f)) return fma(x * x, x * 0.333333333f, x);
  if (!(a < 1.0f)) return a == 1.0f ? copysign(infinity(), x) : nan();
  ember_double d = ember_double(x);
  return float(0.5L * wide_log((1.0L + d) / (1.0L - d)));
}

// Trigonometric functions: x less a multiple of pi / 2, and which.
struct quarters {
  float rest;
  int count;
};
// The bits of 2 / pi, of which those count that x does not turn into whole circles.
__attribute__((noinline)) inline quarters far_quarters(float x) {
  const uint digits[] = {0u,          0u,          0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u,
                         0xF534DDC0u, 0xDB629599u, 0x3C439041u, 0xFE5163ABu};
  uint bits = as_type<uint>(fabs(x));
  uint shift = (bits >> 23) - 150 + 64 - 2;
  uint word = shift >> 5, by = shift & 31;
  uint window[3];
  for (uint i = 0; i < 3; ++i) {
    ulong two = ulong(digits[word + i]) << 32 | digits[word + i + 1];
    window[i] = uint(two >> (32 - by));
  }
  ulong m = (bits & 0x7fffffu) | 0x800000u;
  // The product's bits from the circle's quarters on: two, and a fraction of 62.
  ulong low = m * window[2] >> 32, middle = m * window[1] + low;
  ulong turns = ((m * window[0] & 0xffffffffu) << 32) + middle;
  int count = int(turns >> 62) + int(turns >> 61 & 1);
  ember_double part = ember_double(long(turns << 2)) * 0x1p-64L;
  float rest = float(part * 1.57079632679489661923L);
  return x < 0.0f ? quarters{-rest, -count} : quarters{rest, count};
}
EMBER_FN quarters split_quarters(float x) {
  if (!(fabs(x) < 65536.0f)) return is_finite(x) ? far_quarters(x) : quarters{nan(), 0};
  float n = rint(x * 0x1.45f306p-1f);
  float rest = fma(n, -0x1.921fb4p+0f, x);
  rest = fma(n, -0x1.4442d0p-24f, rest);
  return {fma(n, -0x1.846988p-48f, rest), int(n)};
}
EMBER_FN float turned(quarters q) {
  float z = q.rest * q.rest;
  float s = fma(z, fma(z, fma(z, 2.71830254e-06f, -0.000198393333f), 0.00833332911f), -0.166666672f);
  float c = fma(z, fma(z, fma(z, -2.72101545e-07f, 2.47995195e-05f), -0.00138888834f), 0.0416666679f);
  float sine = fma(q.rest * z, s, q.rest), cosine = fma(z * z, c, fma(z, -0.5f, 1.0f));
  float value = q.count & 1 ? cosine : sine;
  return q.count & 2 ? -value : value;
}
EMBER_FN float sin(float x) { return turned(split_quarters(x)); }
EMBER_FN float cos(float x) {
  quarters q = split_quarters(x);
  return turned({q.rest, q.count + 1});
}
EMBER_FN float tan(float x) {
  quarters q = split_quarters(x);
  return turned(q) / turned({q.rest, q.count + 1});
}
EMBER_FN quarters half_turns(float x) {
  if (fabs(x) >= 0x1p24f) return {0.0f, 0};
  float n = rint(x * 2.0f);
  return {float(ember_double(fma(n, -0.5f, x)) * 3.14159265358979323846L), int(n)};
}
EMBER_FN float sinpi(float x) { return is_finite(x) ? turned(half_turns(x)) : nan(); }
EMBER_FN float cospi(float x) {
  quarters q = half_turns(x);
  return is_finite(x) ? turned({q.rest, q.count + 1}) : nan();
}

// The inverse ones. atan of a number in [0, 1].
EMBER_FN float near_atan(float x) {
  float z = x * x;
  float p = fma(z, -0.00182721158f, 0.0110644354f);
  p = fma(z, fma(z, fma(z, p, -0.0314556919f), 0.0582345426f), -0.0841945857f);
  p = fma(z, fma(z, fma(z, fma(z, p, 0.109575763f), -0.142652452f), 0.199986383f), -0.333333015f);
  return fma(x * z, p, x);
}
EMBER_FN float atan2(float y, float x) {
  if (x != x || y != y) return x + y;
  float a = fabs(x), b = fabs(y);
  float small = fmin(a, b), large = fmax(a, b);
  float part = large == 0.0f ? 0.0f : small == large ? 1.0f : small / large;
  float angle = near_atan(part);
  if (b > a) angle = 0x1.921fb6p+0f - (angle - -0x1.777a5cp-25f);
  if (as_type<uint>(x) >> 31) angle = 0x1.921fb6p+1f - (angle - -0x1.777a5cp-24f);
  return copysign(angle, y);
}
EMBER_FN float atan(float x) { return atan2(x, 1.0f); }
// asin of a number up to 1/2, from its square.
EMBER_FN float near_asin(float x, float z) {
  float p = fma(z, fma(z, 0.0422185659f, 0.0241476018f), 0.0454770997f);
  return fma(x * z, fma(z, fma(z, p, 0.0749524161f), 0.166667536f), x);
}
EMBER_FN float asin(float x) {
  float a = fabs(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a;
  float s = a > 0.5f ? sqrt(z) : a, angle = near_asin(s, z);
  if (a > 0.5f) angle = 0x1.921fb6p+0f - (2.0f * angle - -0x1.777a5cp-25f);
  return copysign(angle, x);
}
EMBER_FN float acos(float x) {
  float a = fabs(x), z = a > 0.5f ? 0.5f - 0.5f * a : a * a;
  float s = a > 0.5f ? sqrt(z) : a, angle = near_asin(s, z);
  if (a > 0.5f) return x > 0.0f ? 2.0f * angle : 0x1.921fb6p+1f - (2.0f * angle - -0x1.777a5cp-24f);
  return 0x1.921fb6p+0f - (copysign(angle, x) - -0x1.777a5cp-25f);
}

// metal::fast: the machine's own instructions.
namespace quick {
using namespace ember;
EMBER_FN float exp(float x) { return __nvvm_ex2_approx_f(x * 0x1.715476p+0f); }
EMBER_FN float exp10(float x) { return __nvvm_ex2_approx_f(x * 0x1.a934f0p+1f); }
EMBER_FN float log2(float x) { return __nvvm_lg2_approx_f(x); }
EMBER_FN float log(float x) { return __nvvm_lg2_approx_f(x) * 0x1.62e430p-1f; }
EMBER_FN float log10(float x) { return __nvvm_lg2_approx_f(x) * 0x1.344136p-2f; }
EMBER_FN float sin(float x) { return __nvvm_sin_approx_f(x); }
EMBER_FN float cos(float x) { return __nvvm_cos_approx_f(x); }
EMBER_FN float tan(float x) { return sin(x) / cos(x); }
EMBER_FN float rsqrt(float x) { return __nvvm_rsqrt_approx_f(x); }
EMBER_FN float divide(float x, float y) { return __nvvm_div_approx_f(x, y); }
EMBER_FN float powr(float x, float y) { return __nvvm_ex2_approx_f(y * __nvvm_lg2_approx_f(x)); }
EMBER_FN float tanh(float x) {
  float e = exp(-2.0f * fabs(x));
  return fabs(x) < 0.55f ? ember::tanh(x) : copysign(divide(1.0f - e, 1.0f + e), x);
}
}  // namespace quick
}  // namespace ember
