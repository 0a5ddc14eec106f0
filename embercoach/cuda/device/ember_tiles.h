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
EMBER_FN place own_place() {
  uint lane = own_lane();
  return {(lane / 4 & 4) + lane / 2 % 4, (lane / 4 & 2) * 2 + lane % 2 * 2};
}
EMBER_FN uint lane_of(uint row, uint column) {
  return (row & 4) * 4 + (column & 4) * 2 + (row & 3) * 2 + (column >> 1 & 1);
}
EMBER_FN void whole_simdgroup(const char*) {}
#define EMBER_PAIR_AT(T, space, place) vec<T, 2>((place)[0], (place)[1])
#define EMBER_PUT_PAIR(T, space, place, pair) ((place)[0] = (pair).x, (place)[1] = (pair).y)

template <class A, class B>
EMBER_FN vec<float, 2> tile_product(const char*, vec<A, 2> a, vec<B, 2> b, vec<float, 2> sum) {
  place at = own_place();
#pragma clang loop unroll(full)
  for (uint k = 0; k < 8; k += 2) {
    vec<A, 2> left = moved(~0u, a, lane_of(at.row, k));
#pragma clang loop unroll(full)
    for (uint i = 0; i < 2; ++i) {
      vec<B, 2> right = moved(~0u, b, lane_of(k + i, at.column));
      float factor = float(i ? left.y : left.x);
      sum.x = fma(factor, float(right.x), sum.x);
      sum.y = fma(factor, float(right.y), sum.y);
    }
  }
  return sum;
}
}  // namespace ember
