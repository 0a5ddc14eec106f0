// Matrices of 8 x 8 elements in a warp, two neighbours of a row in each lane, and their products on
// tensor cores.
//
// Lane l holds row l / 4 and columns 2 (l % 4) and the next, as the instructions want it. Where a
// kernel asks for its thread's elements, EMBER_APPLE_TILES is defined, unless the kernel tests that it
// is, and it gets them in the layout of Apple's GPUs:
//   row = (l / 4 & 4) + l / 2 % 4,  column = (l / 4 & 2) * 2 + l % 2 * 2.
#pragma once

#include "ember_simd.h"

namespace ember {
struct place {
  uint row, column;
};
#if defined(EMBER_APPLE_TILES)
EMBER_FN place own_place() {
  uint lane = own_lane();
  return {(lane / 4 & 4) + lane / 2 % 4, (lane / 4 & 2) * 2 + lane % 2 * 2};
}
// From the kernel's layout to that of the instructions, and back.
template <class V>
EMBER_FN V arranged(V pair) {
  uint row = own_lane() / 4, column = own_lane() % 4 * 2;
  return moved(~0u, pair, (row & 4) * 4 + (column & 4) * 2 + (row & 3) * 2 + (column >> 1 & 1));
}
template <class V>
EMBER_FN V returned(V pair) {
  return moved(~0u, pair, own_place().row * 4 + own_place().column / 2);
}
#else
EMBER_FN place own_place() { return {own_lane() / 4, own_lane() % 4 * 2}; }
template <class V>
EMBER_FN V arranged(V pair) {
  return pair;
}
template <class V>
EMBER_FN V returned(V pair) {
  return pair;
}
#endif

EMBER_FN void whole_simdgroup(const char*) {}
// Two neighbours at once, where the address allows it.
template <class P>
EMBER_FN bool is_aligned(P place) {
  return ((ulong)place & (2 * sizeof(*place) - 1)) == 0;
}
#define EMBER_PAIR_AT(T, space, place)                             \
  (ember::is_aligned(place) ? vec<T, 2>(*(const space vec<T, 2>*)(place)) \
                            : vec<T, 2>((place)[0], (place)[1]))
#define EMBER_PUT_PAIR(T, space, place, pair)                      \
  if (ember::is_aligned(place)) {                                  \
    *(space vec<T, 2>*)(place) = (pair);                           \
  } else {                                                         \
    (place)[0] = (pair).x, (place)[1] = (pair).y;                  \
  }

// The instructions take a second factor of 16 bits by columns. These are kept with the rows, as
// memory may have them; what nobody uses of both is never made. EMBER_THREAD_ELEMENTS is defined
// where a kernel may change the rows itself.
#if defined(EMBER_THREAD_ELEMENTS) || EMBER_ARCHITECTURE < 80
template <class T>
constexpr bool has_columns = false;
#else
template <class T>
constexpr bool has_columns = sizeof(T) == 2;
#endif
template <class T>
EMBER_FN vec<T, 2> transposed(vec<T, 2> pair) {
  uint bits = as_type<uint>(pair);
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %0;" : "+r"(bits));
  return as_type<vec<T, 2>>(bits);
}
template <class T, bool = has_columns<T>>
struct tile_columns {
  static constexpr bool kept = false;
  static EMBER_FN tile_columns of(vec<T, 2>) { return {}; }
};
template <class T>
struct tile_columns<T, true> {
  static constexpr bool kept = true;
  vec<T, 2> pair;
  static EMBER_FN tile_columns of(vec<T, 2> rows) { return {transposed(rows)}; }
};

// The instructions have 16 rows, of which nobody reads the last eight: sums keep them, lest they are
// cleared each time.
struct tile_rest {
  float x, y;
};

#if EMBER_ARCHITECTURE >= 80
// Products of half or bfloat are exact, and the sums those of the machine, in float.
#define EMBER_TILE_PRODUCT(T, name)                                                             \
  EMBER_FN vec<float, 2> column_product(vec<T, 2> a, vec<T, 2> columns, vec<float, 2> sum,      \
                                        tile_rest& rest) {                                      \
    uint left = as_type<uint>(a), right = as_type<uint>(columns), unread;                       \
    asm("mma.sync.aligned.m16n8k8.row.col.f32." name "." name ".f32 "                           \
        "{%0, %1, %2, %3}, {%4, %6}, {%5}, {%0, %1, %2, %3};"                                   \
        : "+f"(sum.x), "+f"(sum.y), "+f"(rest.x), "+f"(rest.y)                                  \
        : "r"(left), "r"(right), "r"(unread));                                                  \
    return sum;                                                                                 \
  }                                                                                             \
  EMBER_FN vec<float, 2> product(vec<T, 2> a, vec<T, 2> b, vec<float, 2> sum, tile_rest& rest) { \
    return column_product(a, transposed(b), sum, rest);                                         \
  }
EMBER_TILE_PRODUCT(half, "f16")
EMBER_TILE_PRODUCT(bfloat, "bf16")
#undef EMBER_TILE_PRODUCT

// A float as two numbers of 11 bits: together they are it, but for 2^-22 of it.
struct halves {
  uint high, low;
};
EMBER_FN halves split(float value) {
  uint high, low;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high) : "f"(value));
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(low) : "f"(value - as_type<float>(high)));
  return {high, low};
}
EMBER_FN void add_product(vec<float, 2>& sum, tile_rest& rest, uint a, uint a2, uint b, uint b2) {
  uint unread;
  asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %8, %5, %8}, {%6, %7}, {%0, %1, %2, %3};"
      : "+f"(sum.x), "+f"(sum.y), "+f"(rest.x), "+f"(rest.y)
      : "r"(a), "r"(a2), "r"(b), "r"(b2), "r"(unread));
}
// The small parts first, and the sum so far last, as the machine cuts its sums off.
template <class A, class B>
EMBER_FN vec<float, 2> product(vec<A, 2> a, vec<B, 2> b, vec<float, 2> c, tile_rest& rest) {
  // Column l % 4 of the instruction is 2 (l % 4) here, and 4 + l % 4 the next.
  uint from = own_lane() % 4 * 8 + own_lane() / 8;
  vec<float, 2> first = moved(~0u, vec<float, 2>(b), from);
  vec<float, 2> second = moved(~0u, vec<float, 2>(b), from + 4);
  bool odd = own_lane() / 4 & 1;
  halves l = split(float(a.x)), l2 = split(float(a.y));
  halves r = split(odd ? first.y : first.x), r2 = split(odd ? second.y : second.x);
  vec<float, 2> sum(0.0f);
  add_product(sum, rest, l.low, l2.low, r.high, r2.high);
  add_product(sum, rest, l.high, l2.high, r.low, r2.low);
  add_product(sum, rest, l.high, l2.high, r.high, r2.high);
  return c + sum;
}
#else
template <class A, class B>
EMBER_FN vec<float, 2> product(vec<A, 2> a, vec<B, 2> b, vec<float, 2> sum, tile_rest&) {
  for (uint k = 0; k < 8; ++k) {
    vec<A, 2> left = moved(~0u, a, (own_lane() & ~3u) + k / 2);
    vec<B, 2> right = moved(~0u, b, k * 4 + own_lane() % 4);
    float factor = float(k & 1 ? left.y : left.x);
    sum.x = fma(factor, float(right.x), sum.x);
    sum.y = fma(factor, float(right.y), sum.y);
  }
  return sum;
}
#endif

template <class A, class B>
EMBER_FN vec<float, 2> tile_product(const char*, vec<A, 2> a, vec<B, 2> b, tile_columns<B> columns,
                                    vec<float, 2> sum, tile_rest& rest) {
  if constexpr (__is_same(A, B) && tile_columns<B>::kept) {
    return column_product(a, columns.pair, sum, rest);
  } else {
    return returned(product(arranged(a), arranged(b), arranged(sum), rest));
  }
}
}  // namespace ember
