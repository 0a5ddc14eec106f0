// The prefix of every rewritten kernel: the Metal library, and the words that the
// rewriter puts in.
#pragma once

#include "ember_prelude.h"

#if defined(__APPLE__)
#define EMBER_SECTION "__DATA,msltg"
#define EMBER_UNNAMED "L"
#else
#define EMBER_SECTION "msltg"
#define EMBER_UNNAMED ".L"
#endif
#define EMBER_TEXT(x) #x
#define EMBER_LABEL(x) EMBER_UNNAMED "ember_gap_" EMBER_TEXT(x)

// Of the runtime; clang calls it for an access that leaves its variable.
extern "C" EMBER_PLACE void __ubsan_handle_local_out_of_bounds();

namespace ember {

// Raw bytes, so that no constructor runs in an address space that has none.
template <class T>
struct storage {
  alignas(T) unsigned char bytes[sizeof(T)];
};

// A function, so that messages show the type as it was written.
template <class T>
EMBER_FN threadgroup T& placed(storage<T>* where) {
  return *(threadgroup T*)where;
}

// Not for types with constructors: they have their values.
template <class T>
EMBER_FN void fill(T& variable) {
  if constexpr (__is_trivially_constructible(T))
    __builtin_memset((void*)&variable, undefined_byte(), sizeof(T));
}

// The rewriter puts pointers in here that come from a cast, where they are dereferenced. Whole: without
// an index. Clang checks loads and stores of variables, not copies of objects.
template <bool Whole, class T>
EMBER_CFN void check_pointer(const T&) {}
#if __has_feature(thread_sanitizer) && !defined(EMBER_COUNTED)
template <bool Whole, class T>
EMBER_CFN void check_pointer(T* const& pointer) {
  if (__builtin_is_constant_evaluated()) return;
  if ((unsigned long)pointer % alignof(T)) ember_misaligned((const void*)pointer, alignof(T));
  if (Whole && __builtin_dynamic_object_size((const void*)pointer, 0) < sizeof(T))
    __ubsan_handle_local_out_of_bounds();
}
#endif
template <bool Whole, class T>
EMBER_CFN T&& pointed(T&& value) {
  check_pointer<Whole>(value);
  return static_cast<T&&>(value);
}

// The rewriter puts indices in here. Clang checks them, but of objects it takes the array's end for
// an address that may be taken.
template <class A, class I>
EMBER_CFN I element(I index, const char* array) {
#if __has_feature(thread_sanitizer) && !defined(EMBER_COUNTED)
  using Array = __remove_reference_t(A);
  if constexpr (__is_bounded_array(Array) && __is_class(__remove_all_extents(Array))) {
    constexpr ulong extent = __array_extent(Array, 0);
    if (!__builtin_is_constant_evaluated() && ulong(index) == extent) {
      ember_array_end(array, extent);
    }
  }
#endif
  return index;
}

// The rewriter puts one in front of a loop that waits for an atomic.
struct spin {
  unsigned long long outer;
  EMBER_FN spin() : outer(ember_begin_spin()) {}
  EMBER_FN ~spin() { ember_end_spin(outer); }
};

}  // namespace ember

#if __has_feature(thread_sanitizer) && !defined(EMBER_COUNTED)
#define EMBER_SPIN ember::spin ember_spin;
#else
#define EMBER_SPIN
#endif

// A local variable that was declared without a value holds what differs from run to run.
#if __has_feature(thread_sanitizer) && !defined(EMBER_COUNTED)
#define EMBER_FILL(name) ember::fill(name);
#else
#define EMBER_FILL(name)
#endif

// A threadgroup variable: one for all threads of the threadgroup. `used` keeps the optimizer from
// assuming that it sees every access. The inner variable has the same name, for messages. After
// it is a stretch without a variable or a symbol, where an index out of bounds leads.
#define EMBER_STORAGE(name, attributes, ...)                            \
  threadgroup auto& name = ember::placed(__extension__({                \
    attributes static __attribute__((section(EMBER_SECTION), used))     \
        ember::storage<__typeof__(__VA_ARGS__)> name;                   \
    static __attribute__((section(EMBER_SECTION), used))                \
        unsigned char ember_gap[128] __asm__(EMBER_LABEL(__COUNTER__)); \
    &name;                                                              \
  }));

// In SYCL's device mode, code that no such function reaches is left out.
#define EMBER_ENTRY \
  [[clang::sycl_external]] __attribute__((visibility("default"), no_sanitize("thread")))
