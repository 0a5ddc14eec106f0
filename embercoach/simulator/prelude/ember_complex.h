// complex_t as MLX's kernels know it.
#pragma once

#include "ember_vector.h"

template <typename T>
struct complex_t;

template <typename T>
static constexpr constant bool is_complex_v = false;
template <typename T>
static constexpr constant bool is_complex_v<complex_t<T>> = true;

// bfloat can be made of a float, though a float does not become one by itself.
template <typename From, typename To>
static constexpr constant bool is_lane_convertible_v = metal::is_convertible_v<From, To>;

namespace ember {
template <class U, class T>
using scalar_for_t = enable_if_t<!is_complex_v<U> && metal::is_arithmetic_v<U> && metal::is_arithmetic_v<T>, int>;
}

template <typename T>
struct complex_t {
  using value_type = T;
  T real;
  T imag;

  EMBER_CFN complex_t() : real(0), imag(0) {}
  EMBER_CFN complex_t(T re, T im) : real(re), imag(im) {}
  template <class U, ember::scalar_for_t<U, T> = 0>
  EMBER_CFN complex_t(U re) : real(T(re)), imag(T(0)) {}
  template <class U, ember::enable_if_t<!__is_same(U, T), int> = 0>
  EMBER_CFN complex_t(complex_t<U> z) : real(T(z.real)), imag(T(z.imag)) {}
  EMBER_CFN complex_t(metal::vec<T, 2> v) : real(v.x), imag(v.y) {}

  EMBER_CFN operator metal::vec<T, 2>() const { return metal::vec<T, 2>(real, imag); }
  template <class U, ember::scalar_for_t<U, T> = 0>
  EMBER_CFN operator U() const {
    return U(real);
  }
};

using complex32_t = complex_t<half>;
using complex64_t = complex_t<float>;

template <class T>
EMBER_CFN complex_t<T> operator-(complex_t<T> z) {
  return complex_t<T>(-z.real, -z.imag);
}

#define EMBER_COMPLEX_COMPARE(op, condition)                    \
  template <class T>                                            \
  EMBER_CFN bool operator op(complex_t<T> a, complex_t<T> b) {  \
    return condition;                                           \
  }
// In the order of the real parts, then the imaginary ones.
EMBER_COMPLEX_COMPARE(<, a.real != b.real ? a.real < b.real : a.imag < b.imag)
EMBER_COMPLEX_COMPARE(>, b < a)
EMBER_COMPLEX_COMPARE(==, a.real == b.real && a.imag == b.imag)
EMBER_COMPLEX_COMPARE(!=, !(a == b))
EMBER_COMPLEX_COMPARE(<=, a < b || a == b)
EMBER_COMPLEX_COMPARE(>=, b < a || a == b)
#undef EMBER_COMPLEX_COMPARE

template <class T>
EMBER_CFN complex_t<T> operator+(complex_t<T> a, complex_t<T> b) {
  return complex_t<T>(a.real + b.real, a.imag + b.imag);
}
template <class T>
EMBER_CFN complex_t<T> operator-(complex_t<T> a, complex_t<T> b) {
  return complex_t<T>(a.real - b.real, a.imag - b.imag);
}
template <class T>
EMBER_CFN complex_t<T> operator*(complex_t<T> a, complex_t<T> b) {
  return complex_t<T>(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real);
}
// Smith's method: scaled by the larger part of the divisor, in float.
template <class T>
EMBER_CFN complex_t<T> operator/(complex_t<T> a, complex_t<T> b) {
  float p = float(a.real), q = float(a.imag), x = float(b.real), y = float(b.imag);
  bool wide = __builtin_fabsf(x) >= __builtin_fabsf(y);
  float scale = wide ? y / x : x / y;
  float length = wide ? x + y * scale : y + x * scale;
  float re = wide ? p + q * scale : p * scale + q;
  float im = wide ? q - p * scale : q * scale - p;
  return complex_t<T>(T(re / length), T(im / length));
}
// Python's remainder in each part.
template <class T>
EMBER_CFN complex_t<T> operator%(complex_t<T> a, complex_t<T> b) {
  T re = a.real - b.real * int64_t(a.real / b.real);
  T im = a.imag - b.imag * int64_t(a.imag / b.imag);
  if (re != T(0) && (re < T(0)) != (b.real < T(0))) re = re + b.real;
  if (im != T(0) && (im < T(0)) != (b.imag < T(0))) im = im + b.imag;
  return complex_t<T>(re, im);
}

#define EMBER_COMPLEX_MIXED(op)                                                   \
  template <class T, class U, ember::scalar_for_t<U, T> = 0>                      \
  EMBER_CFN complex_t<T> operator op(complex_t<T> a, U b) {                       \
    return a op complex_t<T>(b);                                                  \
  }                                                                               \
  template <class T, class U, ember::scalar_for_t<U, T> = 0>                      \
  EMBER_CFN complex_t<T> operator op(U a, complex_t<T> b) {                       \
    return complex_t<T>(a) op b;                                                  \
  }
EMBER_COMPLEX_MIXED(+)
EMBER_COMPLEX_MIXED(-)
EMBER_COMPLEX_MIXED(/)
#undef EMBER_COMPLEX_MIXED

template <class T>
EMBER_CFN complex_t<T>& operator+=(complex_t<T>& a, complex_t<T> b) {
  return a = a + b;
}
