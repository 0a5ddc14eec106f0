// Our own version of what MLX's utils.h offers to a custom kernel, by its interface.
#pragma once

#include "ember_complex.h"
#include "ember_matrix.h"
#include "ember_simd.h"

typedef bfloat bfloat16_t;
typedef half float16_t;

inline uint16_t bfloat16_to_uint16(const bfloat16_t value) { return as_type<uint16_t>(value); }
inline bfloat16_t uint16_to_bfloat16(const uint16_t bits) { return as_type<bfloat16_t>(bits); }

#define MTL_CONST constant
#define MLX_MTL_PRAGMA_UNROLL _Pragma("clang loop unroll(full)")
#define instantiate_kernel(name, func, ...)
static MTL_CONST constexpr int MAX_REDUCE_SPECIALIZED_DIMS = 4;
static MTL_CONST constexpr int REDUCE_N_READS = 4;
static MTL_CONST constexpr int REDUCE_N_WRITES = 4;
static MTL_CONST constexpr int SOFTMAX_N_READS = 4;
static MTL_CONST constexpr int RMS_N_READS = 4;
static MTL_CONST constexpr int RMS_LOOPED_LIMIT = 4096;
static MTL_CONST constexpr int CROSS_ENTROPY_N_READS = 4;

template <typename U>
struct WorkPerThread {
  static_assert(sizeof(U) <= 8, "a type of at most 8 bytes");
  static constexpr int constant n = 8 / sizeof(U);
};

template <typename U>
struct Limits {
  static constexpr bool unbounded = metal::is_floating_point_v<U>;
  static constexpr constant U finite_max = metal::numeric_limits<U>::max();
  static constexpr constant U finite_min = metal::numeric_limits<U>::lowest();
  static constexpr constant U max = unbounded ? metal::numeric_limits<U>::infinity() : finite_max;
  static constexpr constant U min = unbounded ? U(-metal::numeric_limits<U>::infinity()) : finite_min;
};
template <>
struct Limits<bool> {
  static constexpr constant bool max = true;
  static constexpr constant bool min = false;
};
template <typename T>
struct Limits<complex_t<T>> {
  inline static constexpr constant complex_t<T> max = complex_t<T>(Limits<T>::max, Limits<T>::max);
  inline static constexpr constant complex_t<T> min = complex_t<T>(Limits<T>::min, Limits<T>::min);
};

// Where the element that is the n-th in row-major order lies, in elements.
template <typename IdxT = int64_t>
METAL_FUNC IdxT elem_to_loc(IdxT elem, constant const int* shape, constant const int64_t* strides,
                            int ndim) {
  IdxT at = 0;
  for (int axis = ndim - 1; axis >= 0 && elem > 0; --axis) {
    at += (elem % shape[axis]) * IdxT(strides[axis]);
    elem /= shape[axis];
  }
  return at;
}
// The same for a place in a grid: x and y along the last two axes, z over the others.
template <typename IdxT = int64_t>
METAL_FUNC IdxT elem_to_loc(uint3 elem, constant const int* shape,
                            constant const int64_t* strides, int ndim) {
  IdxT at = elem.x * IdxT(strides[ndim - 1]) + elem.y * IdxT(strides[ndim - 2]);
  for (int axis = ndim - 3; axis >= 0; --axis) {
    at += (elem.z % shape[axis]) * IdxT(strides[axis]);
    elem.z /= shape[axis];
  }
  return at;
}
template <typename IdxT = int64_t>
METAL_FUNC IdxT elem_to_loc_1(uint elem, constant const int64_t& stride) {
  return elem * IdxT(stride);
}
template <typename IdxT = int64_t>
METAL_FUNC IdxT elem_to_loc_2(uint2 elem, constant const int64_t* strides) {
  return elem.x * IdxT(strides[1]) + elem.y * IdxT(strides[0]);
}
template <typename IdxT = int64_t>
METAL_FUNC IdxT elem_to_loc_3(uint3 elem, constant const int64_t* strides) {
  return elem.x * IdxT(strides[2]) + elem.y * IdxT(strides[1]) + elem.z * IdxT(strides[0]);
}
template <typename IdxT = int64_t>
METAL_FUNC vec<IdxT, 2> elem_to_loc_2_nd(uint3 elem, constant const int* shape,
                                         constant const int64_t* a_strides,
                                         constant const int64_t* b_strides, int ndim) {
  return vec<IdxT, 2>(elem_to_loc<IdxT>(elem, shape, a_strides, ndim),
                      elem_to_loc<IdxT>(elem, shape, b_strides, ndim));
}
template <typename IdxT = int64_t>
METAL_FUNC vec<IdxT, 3> elem_to_loc_3_nd(uint3 elem, constant const int* shape,
                                         constant const int64_t* a_strides,
                                         constant const int64_t* b_strides,
                                         constant const int64_t* c_strides, int ndim) {
  return vec<IdxT, 3>(elem_to_loc<IdxT>(elem, shape, a_strides, ndim),
                      elem_to_loc<IdxT>(elem, shape, b_strides, ndim),
                      elem_to_loc<IdxT>(elem, shape, c_strides, ndim));
}

template <typename T, typename U>
inline T ceildiv(T N, U M) {
  return (N + M - 1) / M;
}
inline float log1p(float x) { return __builtin_log1pf(x); }
inline bfloat16_t log1p(bfloat16_t x) { return bfloat16_t(__builtin_log1pf(float(x))); }
inline float hypot(float x, float y) { return __builtin_hypotf(x, y); }

// The shuffles that Metal lacks: 64 bits as two words, bool, and complex numbers in parts.
#define EMBER_MLX_SHUFFLE(name, by)                                                        \
  inline uint64_t name(uint64_t data, uint16_t by) {                                       \
    return as_type<uint64_t>(metal::name(as_type<uint2>(data), by));                       \
  }                                                                                        \
  inline int64_t name(int64_t data, uint16_t by) {                                         \
    return as_type<int64_t>(metal::name(as_type<uint2>(data), by));                        \
  }                                                                                        \
  inline bool name(bool data, uint16_t by) { return metal::name(uint32_t(data), by); }     \
  inline complex64_t name(complex64_t data, uint16_t by) {                                 \
    return complex64_t(metal::name(data.real, by), metal::name(data.imag, by));            \
  }
EMBER_MLX_SHUFFLE(simd_shuffle_down, delta)
EMBER_MLX_SHUFFLE(simd_shuffle_up, delta)
EMBER_MLX_SHUFFLE(simd_shuffle, lane)
#undef EMBER_MLX_SHUFFLE
inline uint64_t simd_shuffle_and_fill_up(uint64_t data, uint64_t filling, uint16_t delta) {
  return as_type<uint64_t>(
      metal::simd_shuffle_and_fill_up(as_type<uint2>(data), as_type<uint2>(filling), delta));
}
inline int64_t simd_shuffle_and_fill_up(int64_t data, int64_t filling, uint16_t delta) {
  return as_type<int64_t>(
      metal::simd_shuffle_and_fill_up(as_type<uint2>(data), as_type<uint2>(filling), delta));
}
inline bool simd_shuffle_and_fill_up(bool data, bool filling, uint16_t delta) {
  return metal::simd_shuffle_and_fill_up(uint32_t(data), uint32_t(filling), delta);
}
inline complex64_t simd_shuffle_and_fill_up(complex64_t data, complex64_t filling,
                                            uint16_t delta) {
  return complex64_t(metal::simd_shuffle_and_fill_up(data.real, filling.real, delta),
                     metal::simd_shuffle_and_fill_up(data.imag, filling.imag, delta));
}

template <bool condition, typename T, typename U>
struct ConditionalType : metal::conditional<condition, T, U> {};

template <typename U, typename T>
inline U cast_to(T val) {
  return static_cast<U>(val);
}
