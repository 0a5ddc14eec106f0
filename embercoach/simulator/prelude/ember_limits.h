// metal_limits and the constants of metal_math, as macros and as numeric_limits.
#pragma once

#include "ember_traits.h"

#define CHAR_BIT 8
#define SCHAR_MAX 127
#define SCHAR_MIN (-128)
#define UCHAR_MAX 255
#define CHAR_MAX SCHAR_MAX
#define CHAR_MIN SCHAR_MIN
#define USHRT_MAX 65535
#define SHRT_MAX 32767
#define SHRT_MIN (-32768)
#define UINT_MAX 0xffffffffu
#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define ULONG_MAX 0xffffffffffffffffUL
#define LONG_MAX 0x7fffffffffffffffL
#define LONG_MIN (-LONG_MAX - 1L)
#define LLONG_MAX LONG_MAX
#define LLONG_MIN LONG_MIN
#define ULLONG_MAX ULONG_MAX
#define SIZE_MAX ULONG_MAX
#define PTRDIFF_MAX LONG_MAX
#define PTRDIFF_MIN LONG_MIN
#define FP_ILOGB0 INT_MIN
#define FP_ILOGBNAN INT_MIN

#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define MAXFLOAT 0x1.fffffep127f
#define MAXHALF half(65504)
#define MAXBFLOAT bfloat(0x1.fep127f)
#define HUGE_VALF __builtin_inff()
#define HUGE_VALH half(__builtin_inff())
#define HUGE_VALBF bfloat(__builtin_inff())
#define HUGE_VAL HUGE_VALF

#define FLT_DIG 6
#define FLT_DECIMAL_DIG 9
#define FLT_MANT_DIG 24
#define FLT_MAX_10_EXP 38
#define FLT_MAX_EXP 128
#define FLT_MIN_10_EXP (-37)
#define FLT_MIN_EXP (-125)
#define FLT_RADIX 2
#define FLT_MAX 0x1.fffffep127f
#define FLT_MIN 0x1.0p-126f
#define FLT_EPSILON 0x1.0p-23f
#define FLT_TRUE_MIN 0x1.0p-149f
#define HALF_DIG 3
#define HALF_DECIMAL_DIG 5
#define HALF_MANT_DIG 11
#define HALF_MAX_10_EXP 4
#define HALF_MAX_EXP 16
#define HALF_MIN_10_EXP (-4)
#define HALF_MIN_EXP (-13)
#define HALF_RADIX 2
#define HALF_MAX half(0x1.ffcp15f)
#define HALF_MIN half(0x1.0p-14f)
#define HALF_EPSILON half(0x1.0p-10f)
#define HALF_TRUE_MIN half(0x1.0p-24f)
#define BFLT_DIG 2
#define BFLT_DECIMAL_DIG 4
#define BFLT_MANT_DIG 8
#define BFLT_MAX_10_EXP 38
#define BFLT_MAX_EXP 128
#define BFLT_MIN_10_EXP (-37)
#define BFLT_MIN_EXP (-125)
#define BFLT_RADIX 2
#define BFLT_MAX bfloat(0x1.fep127f)
#define BFLT_MIN bfloat(0x1.0p-126f)
#define BFLT_EPSILON bfloat(0x1.0p-7f)
#define BFLT_TRUE_MIN bfloat(0x1.0p-133f)

#define M_E_F 2.71828182845904523536f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.434294481903251827651f
#define M_LN2_F 0.693147180559945309417f
#define M_LN10_F 2.30258509299404568402f
#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.785398163397448309616f
#define M_1_PI_F 0.318309886183790671538f
#define M_2_PI_F 0.636619772367581343076f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.707106781186547524401f
#define M_E_H half(M_E_F)
#define M_LOG2E_H half(M_LOG2E_F)
#define M_LOG10E_H half(M_LOG10E_F)
#define M_LN2_H half(M_LN2_F)
#define M_LN10_H half(M_LN10_F)
#define M_PI_H half(M_PI_F)
#define M_PI_2_H half(M_PI_2_F)
#define M_PI_4_H half(M_PI_4_F)
#define M_1_PI_H half(M_1_PI_F)
#define M_2_PI_H half(M_2_PI_F)
#define M_2_SQRTPI_H half(M_2_SQRTPI_F)
#define M_SQRT2_H half(M_SQRT2_F)
#define M_SQRT1_2_H half(M_SQRT1_2_F)
#define M_E_BF bfloat(M_E_F)
#define M_LOG2E_BF bfloat(M_LOG2E_F)
#define M_LOG10E_BF bfloat(M_LOG10E_F)
#define M_LN2_BF bfloat(M_LN2_F)
#define M_LN10_BF bfloat(M_LN10_F)
#define M_PI_BF bfloat(M_PI_F)
#define M_PI_2_BF bfloat(M_PI_2_F)
#define M_PI_4_BF bfloat(M_PI_4_F)
#define M_1_PI_BF bfloat(M_1_PI_F)
#define M_2_PI_BF bfloat(M_2_PI_F)
#define M_2_SQRTPI_BF bfloat(M_2_SQRTPI_F)
#define M_SQRT2_BF bfloat(M_SQRT2_F)
#define M_SQRT1_2_BF bfloat(M_SQRT1_2_F)

namespace metal {
enum float_round_style {
  round_indeterminate = -1,
  round_toward_zero = 0,
  round_to_nearest = 1,
  round_toward_infinity = 2,
  round_toward_neg_infinity = 3
};

template <class T>
struct numeric_limits {
  static constexpr bool is_specialized = false;
};

#define EMBER_INTEGER_LIMITS(T)                                        \
  template <>                                                          \
  struct numeric_limits<T> {                                           \
    static constexpr bool is_specialized = true;                       \
    static constexpr bool is_signed = T(-1) < T(0);                    \
    static constexpr bool is_integer = true;                           \
    static constexpr bool is_exact = true;                             \
    static constexpr bool has_infinity = false;                        \
    static constexpr bool has_quiet_NaN = false;                       \
    static constexpr bool is_bounded = true;                           \
    static constexpr bool is_modulo = !is_signed;                      \
    static constexpr int radix = 2;                                    \
    static constexpr int digits =                                      \
        __is_same(T, bool) ? 1 : int(sizeof(T) * 8) - is_signed;       \
    static constexpr int digits10 = digits * 643 / 2136;               \
    static EMBER_CFN T min() { return T(is_signed ? ~max() : 0); }     \
    static EMBER_CFN T max() { return T(ULONG_MAX >> (64 - digits)); } \
    static EMBER_CFN T lowest() { return min(); }                      \
    static EMBER_CFN T epsilon() { return T(0); }                      \
    static EMBER_CFN T round_error() { return T(0); }                  \
    static EMBER_CFN T infinity() { return T(0); }                     \
    static EMBER_CFN T quiet_NaN() { return T(0); }                    \
    static EMBER_CFN T signaling_NaN() { return T(0); }                \
    static EMBER_CFN T denorm_min() { return T(0); }                   \
  };
// Types of C++ that Metal's names never give; still distinguished here.
typedef signed char ember_signed_char;
typedef long long ember_long_long;
typedef unsigned long long ember_ulong_long;
EMBER_INTEGER_LIMITS(bool)
EMBER_EACH_INTEGER(EMBER_INTEGER_LIMITS)
EMBER_INTEGER_LIMITS(ember_signed_char)
EMBER_INTEGER_LIMITS(ember_long_long)
EMBER_INTEGER_LIMITS(ember_ulong_long)
#undef EMBER_INTEGER_LIMITS

#define EMBER_FLOAT_LIMITS(T, P, quiet, signaling)                                 \
  template <>                                                                      \
  struct numeric_limits<T> {                                                       \
    static constexpr bool is_specialized = true;                                   \
    static constexpr bool is_signed = true;                                        \
    static constexpr bool is_integer = false;                                      \
    static constexpr bool is_exact = false;                                        \
    static constexpr bool has_infinity = true;                                     \
    static constexpr bool has_quiet_NaN = true;                                    \
    static constexpr bool has_signaling_NaN = true;                                \
    static constexpr bool is_iec559 = true;                                        \
    static constexpr bool is_bounded = true;                                       \
    static constexpr bool is_modulo = false;                                       \
    static constexpr int radix = 2;                                                \
    static constexpr int digits = P##_MANT_DIG;                                    \
    static constexpr int digits10 = P##_DIG;                                       \
    static constexpr int max_digits10 = P##_DECIMAL_DIG;                           \
    static constexpr int min_exponent = P##_MIN_EXP;                               \
    static constexpr int min_exponent10 = P##_MIN_10_EXP;                          \
    static constexpr int max_exponent = P##_MAX_EXP;                               \
    static constexpr int max_exponent10 = P##_MAX_10_EXP;                          \
    static constexpr float_round_style round_style = round_to_nearest;             \
    static EMBER_CFN T min() { return P##_MIN; }                                   \
    static EMBER_CFN T max() { return P##_MAX; }                                   \
    static EMBER_CFN T lowest() { return -P##_MAX; }                               \
    static EMBER_CFN T epsilon() { return P##_EPSILON; }                           \
    static EMBER_CFN T round_error() { return T(0.5f); }                           \
    static EMBER_CFN T infinity() { return T(__builtin_inff()); }                  \
    static EMBER_CFN T quiet_NaN() { return __builtin_bit_cast(T, quiet); }        \
    static EMBER_CFN T signaling_NaN() { return __builtin_bit_cast(T, signaling); } \
    static EMBER_CFN T denorm_min() { return P##_TRUE_MIN; }                       \
  };
EMBER_FLOAT_LIMITS(float, FLT, 0x7fc00000u, 0x7fa00000u)
EMBER_FLOAT_LIMITS(half, HALF, ushort(0x7e00), ushort(0x7d00))
EMBER_FLOAT_LIMITS(bfloat, BFLT, ushort(0x7fc0), ushort(0x7fa0))
#undef EMBER_FLOAT_LIMITS

template <class T>
struct numeric_limits<const T> : numeric_limits<T> {};
}  // namespace metal
