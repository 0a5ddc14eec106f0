// metal_integer, and the integer overloads of metal_common.
#pragma once

#include "ember_math.h"

namespace ember {
template <class V>
inline constexpr bool integers = false;
template <class T, int N>
inline constexpr bool integers<vec<T, N>> = __is_integral(T) && !__is_same(T, bool);
template <class... A>
using integer_vector_of_t = enable_if_t<integers<vector_of_t<A...>>, vector_of_t<A...>>;
typedef __int128 wide;

template <class T>
EMBER_CFN T held(wide value) {
  constexpr wide low = metal::numeric_limits<T>::min(), high = metal::numeric_limits<T>::max();
  return T(value < low ? low : value > high ? high : value);
}
template <class T>
EMBER_CFN T reversed(T value) {
  T r = 0;
  for (uint i = 0; i < sizeof(T) * 8; ++i) {
    r = T(r | T(T(value >> i & T(1)) << (sizeof(T) * 8 - 1 - i)));
  }
  return r;
}
template <class T>
EMBER_CFN ulong field(uint offset, uint bits) {
  ulong ones = bits >= 64 ? ~0UL : (1UL << bits) - 1;
  return offset >= sizeof(T) * 8 ? 0 : ones << offset;
}
}  // namespace ember

#define EMBER_INTEGER(T)                                                                       \
  EMBER_CFN T abs(T x) { return x < T(0) ? T(ulong(0) - ulong(x)) : x; }                       \
  EMBER_CFN __make_unsigned(T) absdiff(T x, T y) {                                             \
    return (__make_unsigned(T))(x > y ? ember::wide(x) - y : ember::wide(y) - x);              \
  }                                                                                            \
  EMBER_CFN T addsat(T x, T y) { return ember::held<T>(ember::wide(x) + y); }                  \
  EMBER_CFN T subsat(T x, T y) { return ember::held<T>(ember::wide(x) - y); }                  \
  EMBER_CFN T clamp(T x, T low, T high) { return x < low ? low : x > high ? high : x; }        \
  EMBER_CFN T clz(T x) {                                                                       \
    __make_unsigned(T) u = (__make_unsigned(T))(x);                                            \
    return T(u ? __builtin_clzl(u) - int(64 - sizeof(T) * 8) : int(sizeof(T) * 8));            \
  }                                                                                            \
  EMBER_CFN T ctz(T x) { return T(x ? __builtin_ctzl(ulong(x)) : int(sizeof(T) * 8)); }        \
  EMBER_CFN T popcount(T x) { return T(__builtin_popcountl((__make_unsigned(T))(x))); }        \
  EMBER_CFN T extract_bits(T x, uint offset, uint bits) {                                      \
    if (bits == 0 || offset >= sizeof(T) * 8) return T(0);                                     \
    if (bits > sizeof(T) * 8 - offset) bits = uint(sizeof(T) * 8 - offset);                    \
    ulong cut = ((ulong(x) & ember::field<T>(offset, bits)) >> offset) << (64 - bits);         \
    return T(-1) < T(0) ? T(long(cut) >> (64 - bits)) : T(cut >> (64 - bits));                 \
  }                                                                                            \
  EMBER_CFN T insert_bits(T base, T insert, uint offset, uint bits) {                          \
    ulong where = ember::field<T>(offset, bits);                                               \
    if (where == 0) return base;                                                               \
    return T((ulong(base) & ~where) | (ulong(insert) << offset & where));                      \
  }                                                                                            \
  EMBER_CFN T hadd(T x, T y) { return T((ember::wide(x) + y) >> 1); }                          \
  EMBER_CFN T rhadd(T x, T y) { return T((ember::wide(x) + y + 1) >> 1); }                     \
  EMBER_CFN T mulhi(T x, T y) {                                                                \
    return T(sizeof(T) < 8 || T(-1) < T(0)                                                     \
                 ? ember::wide(x) * y >> (sizeof(T) * 8)                                       \
                 : ember::wide((unsigned __int128)(x) * (unsigned __int128)(y) >> 64));        \
  }                                                                                            \
  EMBER_CFN T madhi(T a, T b, T c) { return T((__make_unsigned(T))(mulhi(a, b)) + c); }        \
  EMBER_CFN T madsat(T a, T b, T c) {                                                          \
    if (sizeof(T) == 8 && T(-1) > T(0) && (unsigned __int128)(a) * (unsigned __int128)(b) >> 64) \
      return T(-1);                                                                            \
    return ember::held<T>(ember::wide(a) * b + c);                                             \
  }                                                                                            \
  EMBER_CFN T max(T x, T y) { return x > y ? x : y; }                                          \
  EMBER_CFN T min(T x, T y) { return x < y ? x : y; }                                          \
  EMBER_CFN T max3(T x, T y, T z) { return max(x, max(y, z)); }                                \
  EMBER_CFN T min3(T x, T y, T z) { return min(x, min(y, z)); }                                \
  EMBER_CFN T median3(T x, T y, T z) { return max(min(x, y), min(max(x, y), z)); }             \
  EMBER_CFN T reverse_bits(T x) { return T(ember::reversed((__make_unsigned(T))(x))); }        \
  EMBER_CFN T rotate(T x, T by) {                                                              \
    using U = __make_unsigned(T);                                                              \
    uint n = uint(by) & (sizeof(T) * 8 - 1);                                                   \
    return n ? T(U(U(x) << n) | U(U(x) >> (sizeof(T) * 8 - n))) : x;                           \
  }

#define EMBER_INTEGERS1(name) EMBER_LIFT1(name, integer_vector_of_t)
#define EMBER_INTEGERS2(name) EMBER_LIFT2(name, integer_vector_of_t)
#define EMBER_INTEGERS3(name) EMBER_LIFT3(name, integer_vector_of_t)

namespace metal {
EMBER_EACH_INTEGER(EMBER_INTEGER)
#undef EMBER_INTEGER

EMBER_CFN int mul24(int x, int y) { return int(uint(x << 8 >> 8) * uint(y << 8 >> 8)); }
EMBER_CFN uint mul24(uint x, uint y) { return (x & 0xffffffu) * (y & 0xffffffu); }
EMBER_CFN int mad24(int x, int y, int z) { return int(uint(mul24(x, y)) + uint(z)); }
EMBER_CFN uint mad24(uint x, uint y, uint z) { return mul24(x, y) + z; }

EMBER_INTEGERS2(addsat)
EMBER_INTEGERS2(subsat)
EMBER_INTEGERS3(clamp)
EMBER_INTEGERS1(clz)
EMBER_INTEGERS1(ctz)
EMBER_INTEGERS1(popcount)
EMBER_INTEGERS2(hadd)
EMBER_INTEGERS2(rhadd)
EMBER_INTEGERS2(mulhi)
EMBER_INTEGERS3(madhi)
EMBER_INTEGERS3(madsat)
EMBER_INTEGERS2(max)
EMBER_INTEGERS2(min)
EMBER_INTEGERS3(max3)
EMBER_INTEGERS3(min3)
EMBER_INTEGERS3(median3)
EMBER_INTEGERS1(reverse_bits)
EMBER_INTEGERS2(rotate)
EMBER_INTEGERS2(mul24)
EMBER_INTEGERS3(mad24)

template <class T, int N, ember::enable_if_t<__is_integral(T), int> = 0>
EMBER_FN vec<T, N> abs(vec<T, N> v) {
  using V = vec<T, N>;
  EMBER_MAP1(V, abs, v)
}
template <class T, int N, ember::enable_if_t<__is_integral(T), int> = 0>
EMBER_FN vec<__make_unsigned(T), N> absdiff(vec<T, N> a, vec<T, N> b) {
  using V = vec<__make_unsigned(T), N>;
  EMBER_MAP2(V, absdiff, a, b)
}
template <class T, int N>
EMBER_FN vec<T, N> extract_bits(vec<T, N> v, uint offset, uint bits) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = extract_bits(v[i], offset, bits);
  return r;
}
template <class T, int N>
EMBER_FN vec<T, N> insert_bits(vec<T, N> base, vec<T, N> insert, uint offset, uint bits) {
  vec<T, N> r;
  for (int i = 0; i < N; ++i) r[i] = insert_bits(base[i], insert[i], offset, bits);
  return r;
}
}  // namespace metal
