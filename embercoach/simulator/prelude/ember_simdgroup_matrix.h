// metal_simdgroup_matrix: matrices of 8 x 8 elements, two of them in each lane.
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
}  // namespace ember

namespace metal {
template <class T, int Cols, int Rows = Cols>
class simdgroup_matrix {
  static_assert(Cols == 8 && Rows == 8, "Metal has simdgroup_matrix of 8 x 8 elements alone");
  static_assert(is_same_v<T, float> || is_same_v<T, half> || is_same_v<T, bfloat>,
                "Metal has simdgroup_matrix of float, half and bfloat alone");
  vec<T, 2> elements_;

 public:
  using storage_type = vec<T, 2>;
  using value_type = T;
  simdgroup_matrix() = default;
  explicit EMBER_FN simdgroup_matrix(T diagonal) {
    ember::place at = ember::own_place();
    elements_ = vec<T, 2>(at.row == at.column ? diagonal : T(0),
                          at.row == at.column + 1 ? diagonal : T(0));
  }
  EMBER_FN vec<T, 2>& thread_elements() { return elements_; }
  EMBER_FN const vec<T, 2>& thread_elements() const { return elements_; }
};

using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat, 8, 8>;

template <class T, int Cols, int Rows = Cols>
EMBER_FN simdgroup_matrix<T, Cols, Rows> make_filled_simdgroup_matrix(type_identity_t<T> value) {
  simdgroup_matrix<T, Cols, Rows> m;
  m.thread_elements() = vec<T, 2>(value, value);
  return m;
}

#define EMBER_LOADS(space)                                                                     \
  template <class T>                                                                           \
  EMBER_FN void simdgroup_load(simdgroup_matrix<T, 8, 8>& m, const space T* source,            \
                               ulong elements_per_row = 8, ulong2 origin = ulong2(0),          \
                               bool transpose_matrix = false) {                                \
    ember::whole_simdgroup("simdgroup_load");                                                  \
    ember::place at = ember::own_place();                                                      \
    const space T* corner = source + origin.y * elements_per_row + origin.x;                   \
    if (transpose_matrix) {                                                                    \
      m.thread_elements() = vec<T, 2>(corner[at.column * elements_per_row + at.row],           \
                                      corner[(at.column + 1) * elements_per_row + at.row]);    \
    } else {                                                                                   \
      m.thread_elements() =                                                                    \
          EMBER_PAIR_AT(T, space, corner + at.row * elements_per_row + at.column);             \
    }                                                                                          \
  }
#define EMBER_STORES(space)                                                                    \
  template <class T>                                                                           \
  EMBER_FN void simdgroup_store(simdgroup_matrix<T, 8, 8> m, space T* target,                  \
                                ulong elements_per_row = 8, ulong2 origin = ulong2(0),         \
                                bool transpose_matrix = false) {                               \
    ember::whole_simdgroup("simdgroup_store");                                                 \
    ember::place at = ember::own_place();                                                      \
    space T* corner = target + origin.y * elements_per_row + origin.x;                         \
    if (transpose_matrix) {                                                                    \
      corner[at.column * elements_per_row + at.row] = m.thread_elements().x;                   \
      corner[(at.column + 1) * elements_per_row + at.row] = m.thread_elements().y;             \
    } else {                                                                                   \
      EMBER_PUT_PAIR(T, space, corner + at.row * elements_per_row + at.column,                 \
                     m.thread_elements());                                                     \
    }                                                                                          \
  }
EMBER_LOADS(device)
EMBER_LOADS(constant)
EMBER_LOADS(threadgroup)
EMBER_STORES(device)
EMBER_STORES(threadgroup)
#undef EMBER_LOADS
#undef EMBER_PAIR_AT
#undef EMBER_PUT_PAIR
#undef EMBER_STORES

template <class D, class A, class B, class C>
EMBER_FN void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d,
                                            simdgroup_matrix<A, 8, 8> a,
                                            simdgroup_matrix<B, 8, 8> b,
                                            simdgroup_matrix<C, 8, 8> c) {
  ember::factors<A, B> mine = {a.thread_elements(), b.thread_elements()};
  uint active = 0;
  const uchar* lanes =
      ember_exchange_in_simdgroup("simdgroup_multiply_accumulate", &mine, sizeof(mine), &active);
  ember::expect_whole("simdgroup_multiply_accumulate", active);
  vec<float, 2> sum(c.thread_elements());
  d.thread_elements() = vec<D, 2>(ember::product<A, B>(lanes, ember::own_lane(), sum));
}
template <class D, class A, class B>
EMBER_FN void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                 simdgroup_matrix<B, 8, 8> b) {
  ember::factors<A, B> mine = {a.thread_elements(), b.thread_elements()};
  uint active = 0;
  const uchar* lanes = ember_exchange_in_simdgroup("simdgroup_multiply", &mine, sizeof(mine), &active);
  ember::expect_whole("simdgroup_multiply", active);
  vec<float, 2> sum(0.0f);
  d.thread_elements() = vec<D, 2>(ember::product<A, B>(lanes, ember::own_lane(), sum));
}
template <class T>
EMBER_FN simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a,
                                             simdgroup_matrix<T, 8, 8> b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}
}  // namespace metal
