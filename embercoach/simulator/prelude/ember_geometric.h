// metal_geometric and metal_pack.
#pragma once

#include "ember_relational.h"

namespace metal {
template <class A, class B, class V = ember::float_vector_of_t<A, B>>
EMBER_FN typename V::value_type dot(A a, B b) {
  using T = typename V::value_type;
  V p = V(a) * V(b);
  T sum = p.x + p.y;
  if constexpr (V::ember_size > 2) sum = T(sum + p.z);
  if constexpr (V::ember_size > 3) sum = T(sum + p.w);
  return sum;
}
template <class T>
EMBER_FN vec<T, 3> cross(vec<T, 3> a, vec<T, 3> b) {
  // By component: clang does not find operators of swizzles in a template of a precompiled header.
  return vec<T, 3>(T(T(a.y * b.z) - T(a.z * b.y)), T(T(a.z * b.x) - T(a.x * b.z)),
                   T(T(a.x * b.y) - T(a.y * b.x)));
}
template <class T, int N>
EMBER_FN T length_squared(vec<T, N> v) {
  return dot(v, v);
}
template <class T, int N>
EMBER_FN T length(vec<T, N> v) {
  return sqrt(dot(v, v));
}
template <class T, int N>
EMBER_FN T norm(vec<T, N> v) {
  return length(v);
}
template <class T, int N>
EMBER_FN T distance(vec<T, N> a, vec<T, N> b) {
  return length(a - b);
}
template <class T, int N>
EMBER_FN T distance_squared(vec<T, N> a, vec<T, N> b) {
  return length_squared(a - b);
}
template <class T, int N>
EMBER_FN vec<T, N> normalize(vec<T, N> v) {
  return v * rsqrt(dot(v, v));
}
template <class T, int N>
EMBER_FN vec<T, N> faceforward(vec<T, N> n, vec<T, N> i, vec<T, N> nref) {
  return dot(nref, i) < T(0) ? n : -n;
}
template <class T, int N>
EMBER_FN vec<T, N> reflect(vec<T, N> i, vec<T, N> n) {
  return i - n * T(T(2) * dot(n, i));
}
template <class T, int N>
EMBER_FN vec<T, N> refract(vec<T, N> i, vec<T, N> n, T eta) {
  T d = dot(n, i);
  T k = T(T(1) - T(eta * eta) * T(T(1) - T(d * d)));
  if (k < T(0)) return vec<T, N>(T(0));
  return i * eta - n * T(T(eta * d) + sqrt(k));
}
}  // namespace metal

namespace ember {
EMBER_FN uint packed_part(float x, float low, float steps, uint bits) {
  float held = x == x ? fmin(fmax(x, low), 1.0f) : 0.0f;
  return uint(int(__builtin_rintf(held * steps))) & ((1u << bits) - 1);
}
EMBER_FN float unsigned_part(uint word, uint at, uint bits) {
  uint most = (1u << bits) - 1;
  return float(word >> at & most) / float(most);
}
EMBER_FN float signed_part(uint word, uint at, uint bits) {
  int value = int(word << (32 - bits - at)) >> (32 - bits);
  return fmax(float(value) / float((1 << (bits - 1)) - 1), -1.0f);
}
EMBER_FN float to_srgb(float x) {
  return x <= 0.0031308f ? 12.92f * x : 1.055f * __builtin_powf(x, 1.0f / 2.4f) - 0.055f;
}
EMBER_FN float from_srgb(float x) {
  return x <= 0.04045f ? x / 12.92f : __builtin_powf((x + 0.055f) / 1.055f, 2.4f);
}
}  // namespace ember

namespace metal {
#define EMBER_PACK_PARTS(F, norm, low, most8, most16, part)                                        \
  EMBER_FN uint pack_##F##_to_##norm##4x8(vec<F, 4> v) {                                           \
    return ember::packed_part(v.x, low, most8, 8) | ember::packed_part(v.y, low, most8, 8) << 8 |  \
           ember::packed_part(v.z, low, most8, 8) << 16 |                                          \
           ember::packed_part(v.w, low, most8, 8) << 24;                                           \
  }                                                                                                \
  EMBER_FN vec<F, 4> unpack_##norm##4x8_to_##F(uint w) {                                           \
    return vec<F, 4>(ember::part(w, 0, 8), ember::part(w, 8, 8), ember::part(w, 16, 8),            \
                     ember::part(w, 24, 8));                                                       \
  }                                                                                                \
  EMBER_FN uint pack_##F##_to_##norm##2x16(vec<F, 2> v) {                                          \
    return ember::packed_part(v.x, low, most16, 16) |                                              \
           ember::packed_part(v.y, low, most16, 16) << 16;                                         \
  }                                                                                                \
  EMBER_FN vec<F, 2> unpack_##norm##2x16_to_##F(uint w) {                                          \
    return vec<F, 2>(ember::part(w, 0, 16), ember::part(w, 16, 16));                               \
  }
#define EMBER_PACK(F)                                                                              \
  EMBER_PACK_PARTS(F, unorm, 0, 255, 65535, unsigned_part)                                         \
  EMBER_PACK_PARTS(F, snorm, -1, 127, 32767, signed_part)                                          \
  EMBER_FN uint pack_##F##_to_unorm10a2(vec<F, 4> v) {                                             \
    return ember::packed_part(v.x, 0, 1023, 10) | ember::packed_part(v.y, 0, 1023, 10) << 10 |     \
           ember::packed_part(v.z, 0, 1023, 10) << 20 | ember::packed_part(v.w, 0, 3, 2) << 30;    \
  }                                                                                                \
  EMBER_FN uint pack_##F##_to_srgb_unorm4x8(vec<F, 4> v) {                                         \
    return pack_float_to_unorm4x8(vec<float, 4>(ember::to_srgb(v.x), ember::to_srgb(v.y),          \
                                                ember::to_srgb(v.z), float(v.w)));                 \
  }                                                                                                \
  EMBER_FN vec<F, 4> unpack_unorm10a2_to_##F(uint w) {                                             \
    return vec<F, 4>(ember::unsigned_part(w, 0, 10), ember::unsigned_part(w, 10, 10),              \
                     ember::unsigned_part(w, 20, 10), ember::unsigned_part(w, 30, 2));             \
  }                                                                                                \
  EMBER_FN vec<F, 4> unpack_unorm4x8_srgb_to_##F(uint w) {                                         \
    vec<float, 4> v = unpack_unorm4x8_to_float(w);                                                 \
    return vec<F, 4>(ember::from_srgb(v.x), ember::from_srgb(v.y), ember::from_srgb(v.z), v.w);    \
  }
EMBER_PACK(float)
EMBER_PACK(half)
#undef EMBER_PACK
#undef EMBER_PACK_PARTS
}  // namespace metal
