// Scalar types, the literals of half and bfloat, and what clang needs of namespace std.
#pragma once

#include "ember_spaces.h"

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long int64_t;
typedef unsigned long uint64_t;
typedef unsigned long size_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
typedef _Float16 half;
typedef __bf16 bfloat;
typedef double ember_double;  // Metal has no double; `double` is taken away at the prelude's end

static_assert(sizeof(long) == 8, "the simulator needs a machine with a 64-bit long");
static_assert(char(-1) < 0, "the simulator needs -fsigned-char");

#define NULL nullptr

// Applies a macro to each type.
#define EMBER_EACH_INTEGER(M) M(char) M(uchar) M(short) M(ushort) M(int) M(uint) M(long) M(ulong)
#define EMBER_EACH_FLOAT(M) M(half) M(bfloat) M(float)
#define EMBER_EACH_SCALAR(M) M(bool) EMBER_EACH_INTEGER(M) EMBER_EACH_FLOAT(M)

namespace metal {
using ::bfloat;
using ::half;
using ::int16_t;
using ::int32_t;
using ::int64_t;
using ::int8_t;
using ::intptr_t;
using ::ptrdiff_t;
using ::size_t;
using ::uchar;
using ::uint;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::uint8_t;
using ::uintptr_t;
using ::ulong;
using ::ushort;
using nullptr_t = decltype(nullptr);

template <class To, class From>
EMBER_CFN To as_type(From value) {
  static_assert(sizeof(To) == sizeof(From), "as_type needs types of the same size");
  if constexpr (__is_trivially_copyable(To) && __is_trivially_copyable(From)) {
    return __builtin_bit_cast(To, value);
  } else {
    To to;
    __builtin_memcpy((void*)&to, (const void*)&value, sizeof(To));
    return to;
  }
}
}  // namespace metal

using metal::as_type;

// clang builds these for braces.
namespace std {
template <class E>
class initializer_list {
  const E* first_;
  size_t size_;

 public:
  constexpr size_t size() const { return size_; }
  constexpr const E* begin() const { return first_; }
  constexpr const E* end() const { return first_ + size_; }
};
}  // namespace std

// Metal's literals: clang takes the suffix h as it is; the rewriter makes _h of H and _bf of bf and BF,
// which clang does not take.
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wuser-defined-literals"
EMBER_CFN half operator""h(long double value) { return half(value); }
EMBER_CFN half operator""h(unsigned long long value) { return half(value); }
#pragma clang diagnostic pop
EMBER_CFN half operator""_h(long double value) { return half(value); }
EMBER_CFN half operator""_h(unsigned long long value) { return half(value); }
EMBER_CFN bfloat operator""_bf(long double value) { return bfloat(value); }
EMBER_CFN bfloat operator""_bf(unsigned long long value) { return bfloat(value); }

namespace ember {
// Clang casts neither half to bfloat nor back; the rewriter puts the operand in here. Others pass.
EMBER_CFN float widened(_Float16 value) { return value; }
EMBER_CFN float widened(__bf16 value) { return value; }
template <class T>
EMBER_CFN T&& widened(T&& value) {
  return static_cast<T&&>(value);
}
}  // namespace ember

#if !defined(__NVPTX__)
// What the compiler calls for conversions that the processor lacks; in every object, since no library
// of the process is sure to have them. Rounds to nearest, ties to even.
namespace ember {
template <int Bits, int Fraction>
EMBER_CFN ushort narrowed(ember_double value) {
  // Bits: of the exponent. Rounding the double's fraction at the place where the type's ends.
  ulong bits = __builtin_bit_cast(ulong, value);
  ushort sign = ushort(bits >> 63 << 15);
  constexpr int bias = (1 << (Bits - 1)) - 1;
  constexpr ushort infinity = ushort(((1 << Bits) - 1) << Fraction);
  int exponent = int(bits >> 52 & 0x7ff) - 1023;
  ulong fraction = bits & 0xfffffffffffffUL;
  if (exponent == 1024) {
    return ushort(sign | infinity |
                  (fraction ? (1 << (Fraction - 1)) | int(fraction >> (52 - Fraction)) : 0));
  }
  if (exponent == -1023) return sign;  // a double's subnormals are far below either type's
  fraction |= 1UL << 52;
  int drop = 52 - Fraction;
  if (exponent < 1 - bias) drop += 1 - bias - exponent;
  if (drop > 54) return sign;
  ulong kept = fraction >> drop;
  ulong rest = fraction & ((1UL << drop) - 1);
  ulong middle = 1UL << (drop - 1);
  if (rest > middle || (rest == middle && (kept & 1))) ++kept;
  // A carry out of the fraction moves the exponent up by itself.
  ulong whole = exponent < 1 - bias ? kept : kept + (ulong(exponent + bias - 1) << Fraction);
  return ushort(sign | (whole >= infinity ? infinity : ushort(whole)));
}

EMBER_CFN float value_of_half(ushort bits) {
  uint sign = uint(bits >> 15) << 31;
  uint exponent = bits >> 10 & 31;
  uint fraction = bits & 1023;
  if (exponent == 31) {
    uint quiet = fraction ? 1u << 22 : 0u;
    return __builtin_bit_cast(float, sign | 0x7f800000u | fraction << 13 | quiet);
  }
  if (exponent == 0) {
    float tiny = float(int(fraction)) * 0x1p-24f;
    return __builtin_bit_cast(float, __builtin_bit_cast(uint, tiny) | sign);
  }
  return __builtin_bit_cast(float, sign | (exponent + 112) << 23 | fraction << 13);
}
}  // namespace ember

#if !defined(__aarch64__)
extern "C" {
#define EMBER_LIBCALL                                                                \
  [[clang::sycl_external]] __attribute__((visibility("hidden"), nodebug, used)) \
  EMBER_HIDDEN_FROM_COUNTS
EMBER_LIBCALL inline half __truncsfhf2(float value) {
  return __builtin_bit_cast(half, ember::narrowed<5, 10>(value));
}
EMBER_LIBCALL inline half __truncdfhf2(ember_double value) {
  return __builtin_bit_cast(half, ember::narrowed<5, 10>(value));
}
EMBER_LIBCALL inline float __extendhfsf2(half value) {
  return ember::value_of_half(__builtin_bit_cast(ushort, value));
}
EMBER_LIBCALL inline bfloat __truncsfbf2(float value) {
  return __builtin_bit_cast(bfloat, ember::narrowed<8, 7>(value));
}
EMBER_LIBCALL inline bfloat __truncdfbf2(ember_double value) {
  return __builtin_bit_cast(bfloat, ember::narrowed<8, 7>(value));
}
#undef EMBER_LIBCALL
}
#endif
#endif
