// metal_math: floating-point functions in metal, metal::precise and metal::fast.
//
// Overloads for each scalar type are plain functions, so that a call with mixed types is ambiguous
// where Metal's is. metal's half functions give half; those of precise and fast know float alone, to
// which half converts. bfloat has the overloads that MLX adds.
#pragma once

#include "ember_float.h"
#include "ember_vector.h"

namespace ember {
// bfloat converts to float by itself, and nothing converts to bfloat: a call with both means float.
template <class A>
inline constexpr bool is_narrow = __is_same(A, half) || __is_same(A, bfloat) || __is_same(A, float);
template <class... A>
inline constexpr bool mixes_bfloat =
    (is_narrow<A> && ...) && (__is_same(A, bfloat) || ...) && !(__is_same(A, bfloat) && ...);
template <class... A>
using mixed_t = enable_if_t<mixes_bfloat<A...>, float>;

EMBER_FN float fract(float x) {
  float part = x - floor(x);
  return part < 1.0f ? part : 0x1.fffffep-1f;
}
EMBER_FN float tanpi(float x) { return sinpi(x) / cospi(x); }
EMBER_FN float fmax3(float x, float y, float z) { return fmax(x, fmax(y, z)); }
EMBER_FN float fmin3(float x, float y, float z) { return fmin(x, fmin(y, z)); }
EMBER_FN float fmedian3(float x, float y, float z) {
  return fmax(fmin(x, y), fmin(fmax(x, y), z));
}

// The next number of a type that has 16 bits.
template <class T>
EMBER_FN T next_narrow(T x, T y) {
  if (x != x) return x;
  if (y != y) return y;
  if (x == y) return y;
  ushort bits = as_type<ushort>(x);
  if ((bits & 0x7fff) == 0) return as_type<T>(ushort(y > x ? 1 : 0x8001));
  return as_type<T>(ushort((y > x) == (x > T(0)) ? bits + 1 : bits - 1));
}
}  // namespace ember

#define EMBER_VECTORS1(name) EMBER_LIFT1(name, float_vector_of_t)
#define EMBER_VECTORS2(name)                                       \
  EMBER_LIFT2(name, float_vector_of_t)                             \
  template <class A, class B>                                      \
  EMBER_FN ember::mixed_t<A, B> name(A a, B b) {                   \
    return name(float(a), float(b));                               \
  }
#define EMBER_VECTORS3(name)                                       \
  EMBER_LIFT3(name, float_vector_of_t)                             \
  template <class A, class B, class C>                             \
  EMBER_FN ember::mixed_t<A, B, C> name(A a, B b, C c) {           \
    return name(float(a), float(b), float(c));                     \
  }

#define EMBER_FLOATS1(T, R, name, from) \
  EMBER_FN R name(T x) { return R(EMBER_BASE::from(float(x))); }
#define EMBER_FLOATS2(T, R, name, from) \
  EMBER_FN R name(T x, T y) { return R(EMBER_BASE::from(float(x), float(y))); }
#define EMBER_FLOATS3(T, R, name, from) \
  EMBER_FN R name(T x, T y, T z) { return R(EMBER_BASE::from(float(x), float(y), float(z))); }
#define EMBER_DEFINE(arity, Half, name, from)      \
  EMBER_FLOATS##arity(float, float, name, from)    \
  EMBER_FLOATS##arity(half, Half, name, from)      \
  EMBER_FLOATS##arity(bfloat, bfloat, name, from)  \
  EMBER_VECTORS##arity(name)

// Functions that need no more than ember_float.h's: number of arguments, name, name there.
#define EMBER_EACH_FUNCTION(M, H)                                                             \
  M(1, H, abs, fabs) M(1, H, acos, acos) M(1, H, acosh, acosh) M(1, H, asin, asin)            \
  M(1, H, asinh, asinh) M(1, H, atan, atan) M(1, H, atanh, atanh) M(1, H, ceil, ceil)         \
  M(1, H, cos, cos) M(1, H, cosh, cosh) M(1, H, cospi, cospi) M(1, H, exp, exp)               \
  M(1, H, exp2, exp2) M(1, H, exp10, exp10) M(1, H, fabs, fabs) M(1, H, floor, floor)         \
  M(1, H, fract, fract) M(1, H, log, log) M(1, H, log2, log2) M(1, H, log10, log10)           \
  M(1, H, rint, rint) M(1, H, round, round) M(1, H, rsqrt, rsqrt) M(1, H, sin, sin)           \
  M(1, H, sinh, sinh) M(1, H, sinpi, sinpi) M(1, H, sqrt, sqrt) M(1, H, tan, tan)             \
  M(1, H, tanh, tanh) M(1, H, tanpi, tanpi) M(1, H, trunc, trunc)                             \
  M(2, H, atan2, atan2) M(2, H, copysign, copysign) M(2, H, divide, divide)                   \
  M(2, H, fdim, fdim) M(2, H, fmax, fmax) M(2, H, fmin, fmin) M(2, H, fmod, fmod)             \
  M(2, H, max, fmax) M(2, H, min, fmin) M(2, H, pow, pow) M(2, H, powr, powr)                 \
  M(3, H, fmax3, fmax3) M(3, H, fmin3, fmin3) M(3, H, fmedian3, fmedian3)                     \
  M(3, H, max3, fmax3) M(3, H, min3, fmin3) M(3, H, median3, fmedian3)

// Those whose half and bfloat are not those of a float rounded, and those that write to a reference.
#define EMBER_DEFINE_SPECIAL(H)                                                               \
  EMBER_FN float fma(float x, float y, float z) { return ember::fma(x, y, z); }               \
  EMBER_FN H fma(half x, half y, half z) {                                                    \
    return H(half(ember_double(x) * ember_double(y) + ember_double(z)));                      \
  }                                                                                           \
  EMBER_FN bfloat fma(bfloat x, bfloat y, bfloat z) {                                         \
    return bfloat(ember::fma(float(x), float(y), float(z)));                                  \
  }                                                                                           \
  EMBER_VECTORS3(fma)                                                                         \
  EMBER_FN float nextafter(float x, float y) { return ember::nextafter(x, y); }               \
  EMBER_FN half nextafter(half x, half y) { return ember::next_narrow(x, y); }                \
  EMBER_FN bfloat nextafter(bfloat x, bfloat y) { return ember::next_narrow(x, y); }          \
  EMBER_VECTORS2(nextafter)                                                                   \
  EMBER_DEFINE_WRITERS(float, float)                                                          \
  EMBER_DEFINE_WRITERS(half, H)                                                               \
  EMBER_DEFINE_WRITERS(bfloat, bfloat)                                                        \
  template <class T, int N>                                                                   \
  EMBER_FN vec<int, N> ilogb(vec<T, N> x) {                                                   \
    vec<int, N> r;                                                                            \
    for (int i = 0; i < N; ++i) r[i] = ilogb(x[i]);                                           \
    return r;                                                                                 \
  }                                                                                           \
  template <class T, int N>                                                                   \
  EMBER_FN vec<T, N> ldexp(vec<T, N> x, vec<int, N> k) {                                      \
    vec<T, N> r;                                                                              \
    for (int i = 0; i < N; ++i) r[i] = T(ldexp(x[i], k[i]));                                  \
    return r;                                                                                 \
  }                                                                                           \
  template <class T, int N>                                                                   \
  EMBER_FN vec<T, N> ldexp(vec<T, N> x, int k) {                                              \
    return ldexp(x, vec<int, N>(k));                                                          \
  }                                                                                           \
  EMBER_VECTORS_WRITE(frexp, int)                                                             \
  EMBER_VECTORS_WRITE(modf, T)                                                                \
  EMBER_VECTORS_WRITE(sincos, T)
#define EMBER_VECTORS_WRITE(name, W)                                                          \
  template <class T, int N>                                                                   \
  EMBER_FN vec<T, N> name(vec<T, N> x, vec<W, N>& written) {                                  \
    vec<T, N> r;                                                                              \
    for (int i = 0; i < N; ++i) r[i] = T(name(x[i], written[i]));                             \
    return r;                                                                                 \
  }
#define EMBER_DEFINE_WRITERS(T, R)                                                            \
  EMBER_FN int ilogb(T x) { return ember::ilogb(float(x)); }                              \
  EMBER_FN R ldexp(T x, int k) { return R(ember::ldexp(float(x), k)); }                   \
  EMBER_FN R frexp(T x, int& exponent) {                                                      \
    int found = 0;                                                                            \
    float part = ember::frexp(float(x), &found);                                          \
    exponent = found;                                                                         \
    return R(part);                                                                           \
  }                                                                                           \
  EMBER_FN R modf(T x, T& whole) {                                                            \
    float value = float(x), cut = __builtin_truncf(value);                                    \
    whole = T(cut);                                                                           \
    return R(__builtin_copysignf(__builtin_isinf(value) ? 0.0f : value - cut, value));        \
  }                                                                                           \
  EMBER_FN R sincos(T x, T& cosine) {                                                         \
    cosine = T(EMBER_BASE::cos(float(x)));                                                    \
    return R(EMBER_BASE::sin(float(x)));                                                      \
  }

#define EMBER_DEFINE_COMMON(T)                                                                \
  EMBER_FN T clamp(T x, T low, T high) { return T(fmin(T(fmax(x, low)), high)); }              \
  EMBER_FN T mix(T x, T y, T a) { return T(x + T(y - x) * a); }                               \
  EMBER_FN T saturate(T x) { return clamp(x, T(0.0f), T(1.0f)); }                             \
  EMBER_FN T sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == x ? x : T(0); }     \
  EMBER_FN T smoothstep(T low, T high, T x) {                                                 \
    T t = saturate(T(T(x - low) / T(high - low)));                                            \
    return T(t * t * (T(3) - T(2) * t));                                                      \
  }                                                                                           \
  EMBER_FN T step(T edge, T x) { return x < edge ? T(0) : T(1); }
#define EMBER_DEFINE_COMMONS             \
  EMBER_EACH_FLOAT(EMBER_DEFINE_COMMON)  \
  EMBER_VECTORS3(clamp)                  \
  EMBER_VECTORS3(mix)                    \
  EMBER_VECTORS1(saturate)               \
  EMBER_VECTORS1(sign)                   \
  EMBER_VECTORS3(smoothstep)             \
  EMBER_VECTORS2(step)

namespace metal {
#if defined(__FAST_MATH__)
#define EMBER_BASE ember::quick
#else
#define EMBER_BASE ember
#endif
EMBER_EACH_FUNCTION(EMBER_DEFINE, half)
EMBER_DEFINE_SPECIAL(half)
EMBER_DEFINE_COMMONS
#undef EMBER_BASE
#define EMBER_BASE ember
namespace precise {
EMBER_EACH_FUNCTION(EMBER_DEFINE, float)
EMBER_DEFINE_SPECIAL(float)
EMBER_DEFINE_COMMONS
}  // namespace precise
#undef EMBER_BASE
#define EMBER_BASE ember::quick
namespace fast {
EMBER_EACH_FUNCTION(EMBER_DEFINE, float)
EMBER_DEFINE_SPECIAL(float)
EMBER_DEFINE_COMMONS
}  // namespace fast
}  // namespace metal
