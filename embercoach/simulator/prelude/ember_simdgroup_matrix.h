// metal_simdgroup_matrix: matrices of 8 x 8 elements, two of them in each lane.
#pragma once

#include "ember_tiles.h"

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
    ember_set(vec<T, 2>(at.row == at.column ? diagonal : T(0),
                        at.row == at.column + 1 ? diagonal : T(0)));
  }
  EMBER_FN vec<T, 2>& thread_elements() { return elements_; }
  EMBER_FN const vec<T, 2>& thread_elements() const { return elements_; }
  // What the machine needs besides.
  [[no_unique_address]] ember::tile_rest ember_rest;
  [[no_unique_address]] ember::tile_columns<T> ember_columns;
  EMBER_FN void ember_set(vec<T, 2> elements) {
    elements_ = elements;
    ember_columns = ember::tile_columns<T>::of(elements);
  }
};

using simdgroup_float8x8 = simdgroup_matrix<float, 8, 8>;
using simdgroup_half8x8 = simdgroup_matrix<half, 8, 8>;
using simdgroup_bfloat8x8 = simdgroup_matrix<bfloat, 8, 8>;

template <class T, int Cols, int Rows = Cols>
EMBER_FN simdgroup_matrix<T, Cols, Rows> make_filled_simdgroup_matrix(type_identity_t<T> value) {
  simdgroup_matrix<T, Cols, Rows> m;
  m.ember_set(vec<T, 2>(value, value));
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
    const space T* own = corner + at.row * elements_per_row + at.column;                       \
    if (!transpose_matrix) {                                                                   \
      m.ember_set(EMBER_PAIR_AT(T, space, own));                                               \
    } else if constexpr (ember::tile_columns<T>::kept) {                                       \
      m.ember_columns.pair = EMBER_PAIR_AT(T, space, own);                                     \
      m.thread_elements() = ember::tile_columns<T>::of(m.ember_columns.pair).pair;             \
    } else {                                                                                   \
      m.thread_elements() = vec<T, 2>(corner[at.column * elements_per_row + at.row],           \
                                      corner[(at.column + 1) * elements_per_row + at.row]);    \
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
#undef EMBER_STORES

template <class D, class A, class B, class C>
EMBER_FN void simdgroup_multiply_accumulate(simdgroup_matrix<D, 8, 8>& d,
                                            simdgroup_matrix<A, 8, 8> a,
                                            simdgroup_matrix<B, 8, 8> b,
                                            simdgroup_matrix<C, 8, 8> c) {
  d.ember_rest = c.ember_rest;
  d.ember_set(vec<D, 2>(ember::tile_product(
      "simdgroup_multiply_accumulate", a.thread_elements(), b.thread_elements(), b.ember_columns,
      vec<float, 2>(c.thread_elements()), d.ember_rest)));
}
template <class D, class A, class B>
EMBER_FN void simdgroup_multiply(simdgroup_matrix<D, 8, 8>& d, simdgroup_matrix<A, 8, 8> a,
                                 simdgroup_matrix<B, 8, 8> b) {
  d.ember_set(vec<D, 2>(ember::tile_product("simdgroup_multiply", a.thread_elements(),
                                            b.thread_elements(), b.ember_columns,
                                            vec<float, 2>(0.0f), d.ember_rest)));
}
template <class T>
EMBER_FN simdgroup_matrix<T, 8, 8> operator*(simdgroup_matrix<T, 8, 8> a,
                                             simdgroup_matrix<T, 8, 8> b) {
  simdgroup_matrix<T, 8, 8> d;
  simdgroup_multiply(d, a, b);
  return d;
}
}  // namespace metal
