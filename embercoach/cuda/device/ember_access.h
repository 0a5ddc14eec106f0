// Atomic accesses, relaxed as Metal's are, among all threads of the device.
#pragma once

#include "ember_atomic.h"

namespace ember {
// Numbers are exchanged as the words that they are.
template <class T>
EMBER_FN device bits_of<T>* words(device T* at) {
  return (device bits_of<T>*)at;
}
template <class T>
EMBER_FN threadgroup bits_of<T>* words(threadgroup T* at) {
  return (threadgroup bits_of<T>*)at;
}
template <class T, class P>
EMBER_FN void store(P at, T value) {
  __scoped_atomic_store_n(words(at), as_type<bits_of<T>>(value), __ATOMIC_RELAXED,
                          __MEMORY_SCOPE_DEVICE);
}
template <class T, class P>
EMBER_FN T load(P at) {
  return as_type<T>(__scoped_atomic_load_n(words(at), __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE));
}
template <class T, class P>
EMBER_FN bool exchange_if(P at, T* expected, T desired) {
  bits_of<T> found = as_type<bits_of<T>>(*expected);
  bool same = __scoped_atomic_compare_exchange_n(words(at), &found, as_type<bits_of<T>>(desired),
                                                 false, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                                 __MEMORY_SCOPE_DEVICE);
  *expected = as_type<T>(found);
  return same;
}
#define EMBER_FETCH(name) \
  __scoped_atomic_##name(at, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)
template <class Op, class T, class P>
EMBER_FN T change(P at, T value) {
  if constexpr (__is_same(Op, replace)) {
    return as_type<T>(__scoped_atomic_exchange_n(words(at), as_type<bits_of<T>>(value),
                                                 __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE));
  } else if constexpr (__is_same(Op, add)) {
    return EMBER_FETCH(fetch_add);
  } else if constexpr (__is_same(Op, subtract)) {
    return EMBER_FETCH(fetch_sub);
  } else if constexpr (__is_same(Op, conjoin)) {
    return EMBER_FETCH(fetch_and);
  } else if constexpr (__is_same(Op, disjoin)) {
    return EMBER_FETCH(fetch_or);
  } else if constexpr (__is_same(Op, differ)) {
    return EMBER_FETCH(fetch_xor);
  } else if constexpr (__is_same(Op, greater)) {
    return EMBER_FETCH(fetch_max);
  } else {
    return EMBER_FETCH(fetch_min);
  }
}
#undef EMBER_FETCH
EMBER_FN void fence(metal::mem_flags, metal::memory_order, metal::thread_scope scope) {
  if (scope == metal::thread_scope_device) {
    __nvvm_membar_gl();
  } else {
    __nvvm_membar_cta();
  }
}
}  // namespace ember
