// metal_relational: tests that give bool, and select.
#pragma once

#include "ember_math.h"

namespace metal {
template <int N>
EMBER_CFN bool all(vec<bool, N> v) {
  bool r = v.x && v.y;
  if constexpr (N > 2) r = r && v.z;
  if constexpr (N > 3) r = r && v.w;
  return r;
}
template <int N>
EMBER_CFN bool any(vec<bool, N> v) {
  bool r = v.x || v.y;
  if constexpr (N > 2) r = r || v.z;
  if constexpr (N > 3) r = r || v.w;
  return r;
}
EMBER_CFN bool all(bool v) { return v; }
EMBER_CFN bool any(bool v) { return v; }

#define EMBER_TEST(name, T, expression) \
  EMBER_CFN bool name(T value) {        \
    float x = float(value);             \
    return expression;                  \
  }
#define EMBER_TESTS(name, expression)                       \
  EMBER_TEST(name, float, expression)                       \
  EMBER_TEST(name, half, expression)                        \
  EMBER_TEST(name, bfloat, expression)                      \
  template <class T, int N>                                 \
  EMBER_FN vec<bool, N> name(vec<T, N> v) {                 \
    static_assert(is_floating_point_v<T>, "a test of floating-point values"); \
    using B = vec<bool, N>;                                 \
    EMBER_MAP1(B, name, v)                                  \
  }
EMBER_TESTS(isnan, __builtin_isnan(x))
EMBER_TESTS(isinf, __builtin_isinf(x) != 0)
EMBER_TESTS(isfinite, __builtin_isfinite(x) != 0)
EMBER_TESTS(signbit, (__builtin_bit_cast(uint, x) >> 31) != 0)
#undef EMBER_TESTS
#undef EMBER_TEST

EMBER_CFN bool isnormal(float x) { return __builtin_isnormal(x); }
EMBER_CFN bool isnormal(half x) {
  ushort exponent = __builtin_bit_cast(ushort, x) & 0x7c00;
  return exponent != 0 && exponent != 0x7c00;
}
EMBER_CFN bool isnormal(bfloat x) { return __builtin_isnormal(float(x)); }
template <class T, int N>
EMBER_FN vec<bool, N> isnormal(vec<T, N> v) {
  using B = vec<bool, N>;
  EMBER_MAP1(B, isnormal, v)
}

#define EMBER_ORDERED(T)                                                  \
  EMBER_CFN bool isordered(T x, T y) { return x == x && y == y; }         \
  EMBER_CFN bool isunordered(T x, T y) { return x != x || y != y; }
EMBER_EACH_FLOAT(EMBER_ORDERED)
#undef EMBER_ORDERED
template <class T, int N>
EMBER_FN vec<bool, N> isordered(vec<T, N> x, vec<T, N> y) {
  using B = vec<bool, N>;
  EMBER_MAP2(B, isordered, x, y)
}
template <class T, int N>
EMBER_FN vec<bool, N> isunordered(vec<T, N> x, vec<T, N> y) {
  using B = vec<bool, N>;
  EMBER_MAP2(B, isunordered, x, y)
}

#define EMBER_SELECT(T) \
  EMBER_CFN T select(T a, T b, bool c) { return c ? b : a; }
EMBER_EACH_SCALAR(EMBER_SELECT)
#undef EMBER_SELECT
template <class A, class B>
EMBER_CFN ember::mixed_t<A, B> select(A a, B b, bool c) {
  return c ? float(b) : float(a);
}
template <class A, class B, int N>
EMBER_FN ember::vector_of_t<A, B> select(A a, B b, vec<bool, N> c) {
  using V = ember::vector_of_t<A, B>;
  static_assert(V::ember_size == N, "select's condition has another number of components");
  V p(a), q(b);
  V r;
  for (int i = 0; i < N; ++i) (&r.x)[i] = (&c.x)[i] ? (&q.x)[i] : (&p.x)[i];
  return r;
}
template <class A, class B>
EMBER_FN ember::vector_of_t<A, B> select(A a, B b, bool c) {
  using V = ember::vector_of_t<A, B>;
  return c ? V(b) : V(a);
}
}  // namespace metal
