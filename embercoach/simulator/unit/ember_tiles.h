// How lanes share matrices of 8 x 8 elements, two of them in each.
//
// Lane l holds the elements (row, column) and (row, column + 1) with
//   row = (l / 4 & 4) + l / 2 % 4,  column = (l / 4 & 2) * 2 + l % 2 * 2,
// the layout of Apple's GPUs that MLX's steel kernels rely on.
#pragma once

#include "ember_simd.h"

namespace ember {
struct place {
  uint row, column;
};
EMBER_CFN place place_of(uint lane) {
  return {(lane / 4 & 4) + lane / 2 % 4, (lane / 4 & 2) * 2 + lane % 2 * 2};
}
// Computed once on a GPU, so that its instructions do not count at each use.
EMBER_OWN inline place own_place() { return place_of(own_lane()); }
EMBER_CFN uint lane_of(uint row, uint column) {
  return (row & 4) * 4 + (column & 4) * 2 + (row & 3) * 2 + (column >> 1 & 1);
}

// What the checks do for themselves is not counted in a profile.
EMBER_FN void expect_whole(const char* operation, uint active) {
#ifndef EMBER_COUNTED
  if (active != 0xffffffffu) ember_partial_simdgroup(operation, active);
#endif
}

// All lanes have to come here; the caller's own memory access follows.
EMBER_FN void whole_simdgroup(const char* operation) {
  uchar nothing = 0;
  uint active = 0;
  ember_exchange_in_simdgroup(operation, &nothing, 1, &active);
  expect_whole(operation, active);
}

// A lane's two elements, which are neighbours unless the matrix is transposed. A GPU moves neighbours
// at once, so a profiled run counts one access; a checked run has one for each element.
#ifdef EMBER_COUNTED
template <class T>
struct pair_bits {
  typedef uint __attribute__((may_alias, aligned(sizeof(half)))) type;
};
template <>
struct pair_bits<float> {
  typedef ulong __attribute__((may_alias, aligned(sizeof(float)))) type;
};
#define EMBER_PAIR_AT(T, space, place) \
  __builtin_bit_cast(vec<T, 2>, *(const space typename ember::pair_bits<T>::type*)(place))
#define EMBER_PUT_PAIR(T, space, place, pair)            \
  (*(space typename ember::pair_bits<T>::type*)(place) = \
       __builtin_bit_cast(typename ember::pair_bits<T>::type, pair))
#else
#define EMBER_PAIR_AT(T, space, place) vec<T, 2>((place)[0], (place)[1])
#define EMBER_PUT_PAIR(T, space, place, pair) ((place)[0] = (pair).x, (place)[1] = (pair).y)
#endif

struct tile_rest {};
template <class T>
struct tile_columns {
  static constexpr bool kept = false;
  static EMBER_FN tile_columns of(vec<T, 2>) { return {}; }
};
template <class A, class B>
struct factors {
  vec<A, 2> a;
  vec<B, 2> b;
};
// Two elements of the sum: float throughout, as the GPU accumulates, rounded at the end.
template <class A, class B>
EMBER_OWN vec<float, 2> product(const uchar* lanes, uint lane, vec<float, 2> sum) {
  place at = place_of(lane);
  for (uint k = 0; k < 8; ++k) {
    vec<A, 2> left = lane_value<factors<A, B>>(lanes, lane_of(at.row, k)).a;
    vec<B, 2> right = lane_value<factors<A, B>>(lanes, lane_of(k, at.column)).b;
    float factor = float(k & 1 ? left.y : left.x);
    sum.x = __builtin_fmaf(factor, float(right.x), sum.x);
    sum.y = __builtin_fmaf(factor, float(right.y), sum.y);
  }
  return sum;
}
template <class A, class B>
EMBER_FN vec<float, 2> tile_product(const char* operation, vec<A, 2> a, vec<B, 2> b,
                                    tile_columns<B>, vec<float, 2> sum, tile_rest) {
  factors<A, B> mine = {a, b};
  uint active = 0;
  const uchar* lanes = ember_exchange_in_simdgroup(operation, &mine, sizeof(mine), &active);
  expect_whole(operation, active);
  return product<A, B>(lanes, own_lane(), sum);
}
}  // namespace ember
