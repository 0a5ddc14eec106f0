// metal_matrix, and metal::array.
#pragma once

#include "ember_geometric.h"

namespace metal {
template <class T, int C, int R>
struct matrix {
  static_assert(is_floating_point_v<T>, "a matrix of half or float");
  vec<T, R> columns[C];

  matrix() = default;
  explicit EMBER_FN matrix(T diagonal) {
    for (int c = 0; c < C; ++c) {
      for (int r = 0; r < R; ++r) columns[c][r] = c == r ? diagonal : T(0);
    }
  }
  template <class... V, ember::enable_if_t<sizeof...(V) == C && (__is_same(V, vec<T, R>) && ...), int> = 0>
  EMBER_CFN matrix(V... given) : columns{given...} {}
  template <class... S, ember::enable_if_t<sizeof...(S) == C * R && (is_arithmetic_v<S> && ...), int> = 0>
  EMBER_CFN matrix(S... given) : matrix(ember::flat<T, C * R>(given...)) {}
  template <class U, ember::enable_if_t<!__is_same(U, T), int> = 0>
  explicit EMBER_FN matrix(matrix<U, C, R> m) {
    for (int c = 0; c < C; ++c) columns[c] = vec<T, R>(m.columns[c]);
  }
  explicit EMBER_CFN matrix(ember::flat<T, C * R> given) {
    for (int c = 0; c < C; ++c) {
      for (int r = 0; r < R; ++r) (&columns[c].x)[r] = given.at[c * R + r];
    }
  }
  EMBER_CFN vec<T, R>& operator[](int c) { return columns[c]; }
  EMBER_CFN const vec<T, R>& operator[](int c) const { return columns[c]; }

  EMBER_FN matrix& operator+=(const matrix& b) { return *this = *this + b; }
  EMBER_FN matrix& operator-=(const matrix& b) { return *this = *this - b; }
  EMBER_FN matrix& operator*=(T s) { return *this = *this * s; }
};

#define EMBER_BY_COLUMN(op)                                                                \
  template <class T, int C, int R>                                                         \
  EMBER_FN matrix<T, C, R> operator op(const matrix<T, C, R>& a, const matrix<T, C, R>& b) { \
    matrix<T, C, R> m;                                                                     \
    for (int c = 0; c < C; ++c) m.columns[c] = a.columns[c] op b.columns[c];               \
    return m;                                                                              \
  }
EMBER_BY_COLUMN(+)
EMBER_BY_COLUMN(-)
#undef EMBER_BY_COLUMN
template <class T, int C, int R>
EMBER_FN matrix<T, C, R> operator-(const matrix<T, C, R>& a) {
  matrix<T, C, R> m;
  for (int c = 0; c < C; ++c) m.columns[c] = -a.columns[c];
  return m;
}
template <class T, int C, int R>
EMBER_FN matrix<T, C, R> operator*(const matrix<T, C, R>& a, type_identity_t<T> s) {
  matrix<T, C, R> m;
  for (int c = 0; c < C; ++c) m.columns[c] = a.columns[c] * s;
  return m;
}
template <class T, int C, int R>
EMBER_FN matrix<T, C, R> operator*(type_identity_t<T> s, const matrix<T, C, R>& a) {
  return a * s;
}
template <class T, int C, int R>
EMBER_FN vec<T, R> operator*(const matrix<T, C, R>& a, vec<T, C> v) {
  vec<T, R> r = a.columns[0] * v.x;
  for (int c = 1; c < C; ++c) r += a.columns[c] * v[c];
  return r;
}
template <class T, int C, int R>
EMBER_FN vec<T, C> operator*(vec<T, R> v, const matrix<T, C, R>& a) {
  vec<T, C> r;
  for (int c = 0; c < C; ++c) r[c] = dot(v, a.columns[c]);
  return r;
}
template <class T, int C, int R>
EMBER_FN bool operator==(const matrix<T, C, R>& a, const matrix<T, C, R>& b) {
  for (int c = 0; c < C; ++c) {
    if (!all(a.columns[c] == b.columns[c])) return false;
  }
  return true;
}
template <class T, int C, int R>
EMBER_FN bool operator!=(const matrix<T, C, R>& a, const matrix<T, C, R>& b) {
  return !(a == b);
}
template <class T, int C, int R, int K>
EMBER_FN matrix<T, K, R> operator*(const matrix<T, C, R>& a, const matrix<T, K, C>& b) {
  matrix<T, K, R> m;
  for (int k = 0; k < K; ++k) m.columns[k] = a * b.columns[k];
  return m;
}
template <class T, int C, int R>
EMBER_FN matrix<T, R, C> transpose(const matrix<T, C, R>& a) {
  matrix<T, R, C> m;
  for (int c = 0; c < C; ++c) {
    for (int r = 0; r < R; ++r) m.columns[r][c] = a.columns[c][r];
  }
  return m;
}
template <class T>
EMBER_FN T determinant(const matrix<T, 2, 2>& m) {
  return m[0].x * m[1].y - m[1].x * m[0].y;
}
template <class T>
EMBER_FN T determinant(const matrix<T, 3, 3>& m) {
  return dot(m[0], cross(m[1], m[2]));
}
template <class T>
EMBER_FN T determinant(const matrix<T, 4, 4>& m) {
  T sum = T(0);
  for (int c = 0; c < 4; ++c) {
    matrix<T, 3, 3> rest;
    for (int k = 0, to = 0; k < 4; ++k) {
      if (k != c) rest[to++] = vec<T, 3>(m[k].y, m[k].z, m[k].w);
    }
    T part = T(m[c].x * determinant(rest));
    sum = T(c & 1 ? sum - part : sum + part);
  }
  return sum;
}

#define EMBER_MATRICES(T)             \
  using T##2x2 = matrix<T, 2, 2>;     \
  using T##2x3 = matrix<T, 2, 3>;     \
  using T##2x4 = matrix<T, 2, 4>;     \
  using T##3x2 = matrix<T, 3, 2>;     \
  using T##3x3 = matrix<T, 3, 3>;     \
  using T##3x4 = matrix<T, 3, 4>;     \
  using T##4x2 = matrix<T, 4, 2>;     \
  using T##4x3 = matrix<T, 4, 3>;     \
  using T##4x4 = matrix<T, 4, 4>;
EMBER_MATRICES(float)
EMBER_MATRICES(half)
#undef EMBER_MATRICES

template <class T>
struct is_matrix : false_type {};
template <class T, int C, int R>
struct is_matrix<matrix<T, C, R>> : true_type {};
template <class T>
inline constexpr bool is_matrix_v = is_matrix<__remove_cv(T)>::value;

template <class T, size_t N>
struct array {
  using value_type = T;
  T __elements[N];
  EMBER_CFN size_t size() const { return N; }
  EMBER_CFN size_t max_size() const { return N; }
  EMBER_CFN bool empty() const { return N == 0; }
  EMBER_CFN T& operator[](size_t i) { return __elements[i]; }
  EMBER_CFN const T& operator[](size_t i) const { return __elements[i]; }
  EMBER_CFN T& front() { return __elements[0]; }
  EMBER_CFN const T& front() const { return __elements[0]; }
  EMBER_CFN T& back() { return __elements[N - 1]; }
  EMBER_CFN const T& back() const { return __elements[N - 1]; }
  EMBER_CFN T* data() { return __elements; }
  EMBER_CFN const T* data() const { return __elements; }
  EMBER_CFN T* begin() { return __elements; }
  EMBER_CFN const T* begin() const { return __elements; }
  EMBER_CFN T* end() { return __elements + N; }
  EMBER_CFN const T* end() const { return __elements + N; }
  EMBER_FN void fill(const T& value) {
    for (size_t i = 0; i < N; ++i) __elements[i] = value;
  }
};
}  // namespace metal
