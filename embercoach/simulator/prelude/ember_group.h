// Flags of barriers, and what lanes may hand to each other and combine.
#pragma once

#include "ember_integer.h"

namespace metal {
enum class mem_flags : uint {
  mem_none = 0,
  mem_device = 1,
  mem_threadgroup = 2,
  mem_texture = 4,
  mem_threadgroup_imageblock = 8,
  mem_object_data = 16,
};
EMBER_CFN mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(uint(a) | uint(b)); }
EMBER_CFN mem_flags operator&(mem_flags a, mem_flags b) { return mem_flags(uint(a) & uint(b)); }
}  // namespace metal

namespace ember {
// What lanes may hand to each other: numbers of at most 32 bits, bool as int, and vectors of them.
template <class T>
inline constexpr bool is_handed = metal::is_arithmetic_v<T> && sizeof(T) <= 4;
template <class T>
struct handed
    : vector_if<is_handed<T>, metal::conditional_t<__is_same(T, bool), int, T>> {};
template <class T, int N>
struct handed<vec<T, N>> : vector_if<is_handed<T>, vec<T, N>> {};
template <class T>
using handed_t = typename handed<T>::type;

template <class T>
struct integral_only : vector_if<__is_integral(T), T> {};
template <class T, int N>
struct integral_only<vec<T, N>> : vector_if<__is_integral(T), vec<T, N>> {};
template <class T>
using handed_integer_t = typename integral_only<handed_t<T>>::type;

// MLX computes reductions of bfloat in float.
template <class T>
struct summed {
  using type = T;
};
template <>
struct summed<bfloat> {
  using type = float;
};
template <int N>
struct summed<vec<bfloat, N>> {
  using type = vec<float, N>;
};
template <class T>
using summed_t = typename summed<T>::type;

// How reductions and atomics combine two values.
#define EMBER_OPERATION(name, expression)                 \
  struct name {                                           \
    template <class T>                                    \
    static EMBER_FN T of(T a, T b) { return expression; } \
  };
EMBER_OPERATION(add, T(a + b))
EMBER_OPERATION(subtract, T(a - b))
EMBER_OPERATION(multiply, T(a * b))
EMBER_OPERATION(greater, metal::max(a, b))
EMBER_OPERATION(lesser, metal::min(a, b))
EMBER_OPERATION(conjoin, T(a & b))
EMBER_OPERATION(disjoin, T(a | b))
EMBER_OPERATION(differ, T(a ^ b))
EMBER_OPERATION(replace, b)
#undef EMBER_OPERATION
}  // namespace ember

#include "ember_lanes.h"
