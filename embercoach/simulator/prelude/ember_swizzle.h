// The swizzles of a class with members x, y, z, w: properties, which take no space.
//
// EMBER_SWIZZLES_2, _3 and _4 are written inside the class, which must be a template over T. A swizzle
// that names a component twice can be read, and not be assigned to.
#pragma once

#include "ember_spaces.h"

// c: component, s: its name as a colour, i: its number.
#define EMBER_S1(c0, s0, i0)                       \
  EMBER_CFN T get_##c0() const { return c0; }      \
  EMBER_CFN void put_##c0(T value) { c0 = value; } \
  __declspec(property(get = get_##c0, put = put_##c0)) T s0;

#define EMBER_S2(c0, s0, i0, c1, s1, i1)                                                   \
  EMBER_CFN vec<T, 2> get_##c0##c1() const { return vec<T, 2>(c0, c1); }                   \
  EMBER_CFN void put_##c0##c1(vec<T, 2> value) {                                           \
    static_assert(i0 != i1 || sizeof(T) == 0,                                              \
                  "a swizzle that is assigned to names a component twice");                \
    c0 = value.x;                                                                          \
    c1 = value.y;                                                                          \
  }                                                                                        \
  __declspec(property(get = get_##c0##c1, put = put_##c0##c1)) vec<T, 2> c0##c1;           \
  __declspec(property(get = get_##c0##c1, put = put_##c0##c1)) vec<T, 2> s0##s1;

#define EMBER_S3(c0, s0, i0, c1, s1, i1, c2, s2, i2)                                       \
  EMBER_CFN vec<T, 3> get_##c0##c1##c2() const { return vec<T, 3>(c0, c1, c2); }           \
  EMBER_CFN void put_##c0##c1##c2(vec<T, 3> value) {                                       \
    static_assert((i0 != i1 && i0 != i2 && i1 != i2) || sizeof(T) == 0,                    \
                  "a swizzle that is assigned to names a component twice");                \
    c0 = value.x;                                                                          \
    c1 = value.y;                                                                          \
    c2 = value.z;                                                                          \
  }                                                                                        \
  __declspec(property(get = get_##c0##c1##c2, put = put_##c0##c1##c2)) vec<T, 3> c0##c1##c2; \
  __declspec(property(get = get_##c0##c1##c2, put = put_##c0##c1##c2)) vec<T, 3> s0##s1##s2;

#define EMBER_S4(c0, s0, i0, c1, s1, i1, c2, s2, i2, c3, s3, i3)                           \
  EMBER_CFN vec<T, 4> get_##c0##c1##c2##c3() const { return vec<T, 4>(c0, c1, c2, c3); }   \
  EMBER_CFN void put_##c0##c1##c2##c3(vec<T, 4> value) {                                   \
    static_assert((i0 + i1 + i2 + i3 == 6 && i0 != i1 && i0 != i2 && i0 != i3 && i1 != i2 && \
                   i1 != i3 && i2 != i3) ||                                                \
                      sizeof(T) == 0,                                                      \
                  "a swizzle that is assigned to names a component twice");                \
    c0 = value.x;                                                                          \
    c1 = value.y;                                                                          \
    c2 = value.z;                                                                          \
    c3 = value.w;                                                                          \
  }                                                                                        \
  __declspec(property(get = get_##c0##c1##c2##c3, put = put_##c0##c1##c2##c3))             \
      vec<T, 4> c0##c1##c2##c3;                                                            \
  __declspec(property(get = get_##c0##c1##c2##c3, put = put_##c0##c1##c2##c3))             \
      vec<T, 4> s0##s1##s2##s3;

#define EMBER_N2_1(M) M(x, r, 0) M(y, g, 1)
#define EMBER_N3_1(M) EMBER_N2_1(M) M(z, b, 2)
#define EMBER_N4_1(M) EMBER_N3_1(M) M(w, a, 3)

// Each applies M to what it was given and one of N components more. There are several, alike, as a
// macro can't expand within itself.
#define EMBER_E2(M, ...) M(__VA_ARGS__, x, r, 0) M(__VA_ARGS__, y, g, 1)
#define EMBER_E3(M, ...) EMBER_E2(M, __VA_ARGS__) M(__VA_ARGS__, z, b, 2)
#define EMBER_E4(M, ...) EMBER_E3(M, __VA_ARGS__) M(__VA_ARGS__, w, a, 3)
#define EMBER_F2(M, ...) M(__VA_ARGS__, x, r, 0) M(__VA_ARGS__, y, g, 1)
#define EMBER_F3(M, ...) EMBER_F2(M, __VA_ARGS__) M(__VA_ARGS__, z, b, 2)
#define EMBER_F4(M, ...) EMBER_F3(M, __VA_ARGS__) M(__VA_ARGS__, w, a, 3)
#define EMBER_G2(M, ...) M(__VA_ARGS__, x, r, 0) M(__VA_ARGS__, y, g, 1)
#define EMBER_G3(M, ...) EMBER_G2(M, __VA_ARGS__) M(__VA_ARGS__, z, b, 2)
#define EMBER_G4(M, ...) EMBER_G3(M, __VA_ARGS__) M(__VA_ARGS__, w, a, 3)

#define EMBER_PAIRS2(...) EMBER_E2(EMBER_S2, __VA_ARGS__)
#define EMBER_PAIRS3(...) EMBER_E3(EMBER_S2, __VA_ARGS__)
#define EMBER_PAIRS4(...) EMBER_E4(EMBER_S2, __VA_ARGS__)
#define EMBER_LAST3_2(...) EMBER_F2(EMBER_S3, __VA_ARGS__)
#define EMBER_LAST3_3(...) EMBER_F3(EMBER_S3, __VA_ARGS__)
#define EMBER_LAST3_4(...) EMBER_F4(EMBER_S3, __VA_ARGS__)
#define EMBER_TRIPLES2(...) EMBER_E2(EMBER_LAST3_2, __VA_ARGS__)
#define EMBER_TRIPLES3(...) EMBER_E3(EMBER_LAST3_3, __VA_ARGS__)
#define EMBER_TRIPLES4(...) EMBER_E4(EMBER_LAST3_4, __VA_ARGS__)
#define EMBER_LAST4_2(...) EMBER_G2(EMBER_S4, __VA_ARGS__)
#define EMBER_LAST4_3(...) EMBER_G3(EMBER_S4, __VA_ARGS__)
#define EMBER_LAST4_4(...) EMBER_G4(EMBER_S4, __VA_ARGS__)
#define EMBER_MIDDLE4_2(...) EMBER_F2(EMBER_LAST4_2, __VA_ARGS__)
#define EMBER_MIDDLE4_3(...) EMBER_F3(EMBER_LAST4_3, __VA_ARGS__)
#define EMBER_MIDDLE4_4(...) EMBER_F4(EMBER_LAST4_4, __VA_ARGS__)
#define EMBER_FOURS2(...) EMBER_E2(EMBER_MIDDLE4_2, __VA_ARGS__)
#define EMBER_FOURS3(...) EMBER_E3(EMBER_MIDDLE4_3, __VA_ARGS__)
#define EMBER_FOURS4(...) EMBER_E4(EMBER_MIDDLE4_4, __VA_ARGS__)

#define EMBER_SWIZZLES_2 \
  EMBER_N2_1(EMBER_S1) EMBER_N2_1(EMBER_PAIRS2) EMBER_N2_1(EMBER_TRIPLES2) EMBER_N2_1(EMBER_FOURS2)
#define EMBER_SWIZZLES_3 \
  EMBER_N3_1(EMBER_S1) EMBER_N3_1(EMBER_PAIRS3) EMBER_N3_1(EMBER_TRIPLES3) EMBER_N3_1(EMBER_FOURS3)
#define EMBER_SWIZZLES_4 \
  EMBER_N4_1(EMBER_S1) EMBER_N4_1(EMBER_PAIRS4) EMBER_N4_1(EMBER_TRIPLES4) EMBER_N4_1(EMBER_FOURS4)
