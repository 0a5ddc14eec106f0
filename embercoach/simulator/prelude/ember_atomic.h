// metal_atomic.
#pragma once

#include "ember_group.h"

namespace metal {
enum memory_order {
  memory_order_relaxed,
  memory_order_acquire,
  memory_order_release,
  memory_order_acq_rel,
  memory_order_seq_cst,
};
enum thread_scope {
  thread_scope_thread,
  thread_scope_simdgroup,
  thread_scope_threadgroup,
  thread_scope_device,
};

template <class T>
struct atomic {
  static_assert(is_same_v<T, int> || is_same_v<T, uint> || is_same_v<T, bool> ||
                    is_same_v<T, float> || is_same_v<T, long> || is_same_v<T, ulong>,
                "Metal has atomics of int, uint, bool, ulong and float alone");
  T ember_value;
  atomic() = default;
  EMBER_CFN atomic(T value) : ember_value(value) {}
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;
};
using atomic_int = atomic<int>;
using atomic_uint = atomic<uint>;
using atomic_bool = atomic<bool>;
using atomic_float = atomic<float>;
using atomic_long = atomic<long>;
using atomic_ulong = atomic<ulong>;

}  // namespace metal

namespace ember {
template <class T>
using bits_of = metal::conditional_t<
    sizeof(T) == 1, uchar, metal::conditional_t<sizeof(T) == 4, uint, ulong>>;

// Sums that wrap around, as the GPU's do.
template <>
EMBER_FN int add::of<int>(int a, int b) { return int(uint(a) + uint(b)); }
template <>
EMBER_FN int subtract::of<int>(int a, int b) { return int(uint(a) - uint(b)); }

template <class T>
inline constexpr bool counts = __is_same(T, int) || __is_same(T, uint);
template <class T>
inline constexpr bool adds = counts<T> || __is_same(T, float);
}  // namespace ember

#include "ember_access.h"

namespace metal {
EMBER_FN void atomic_thread_fence(mem_flags flags, memory_order order,
                                  thread_scope scope = thread_scope_device) {
  if (order == memory_order_relaxed || scope < thread_scope_threadgroup) return;
  ember::fence(flags, order, scope);
}
}  // namespace metal

// T is one of the object's type alone, so that a value of another converts.
#define EMBER_CHANGES(space, name, Op, condition)                                               \
  template <class T, ember::enable_if_t<condition, int> = 0>                                    \
  EMBER_FN T name(volatile space atomic<T>* object, type_identity_t<T> value, memory_order) {   \
    return ember::change<ember::Op, T>((space T*)&object->ember_value, value);                  \
  }

#define EMBER_CHANGES_ULONG(space, name, Op)                                                    \
  template <class T, ember::enable_if_t<__is_same(T, ulong), int> = 0>                          \
  EMBER_FN void name(volatile space atomic<T>* object, ulong value, memory_order) {             \
    ember::change<ember::Op, ulong>((space ulong*)&object->ember_value, value);                 \
  }
#define EMBER_ATOMICS(space)                                                                    \
  template <class T>                                                                            \
  EMBER_FN void atomic_store_explicit(volatile space atomic<T>* object,                         \
                                      type_identity_t<T> value, memory_order) {                 \
    ember::store<T>((space T*)&object->ember_value, value);                                     \
  }                                                                                             \
  template <class T>                                                                            \
  EMBER_FN T atomic_load_explicit(const volatile space atomic<T>* object, memory_order) {       \
    return ember::load<T>((space T*)&object->ember_value);                                      \
  }                                                                                             \
  template <class T>                                                                            \
  EMBER_FN bool atomic_compare_exchange_weak_explicit(                                          \
      volatile space atomic<T>* object, T* expected, type_identity_t<T> desired, memory_order,  \
      memory_order) {                                                                           \
    return ember::exchange_if<T>((space T*)&object->ember_value, expected, desired);            \
  }                                                                                             \
  EMBER_CHANGES(space, atomic_exchange_explicit, replace, true)                                 \
  EMBER_CHANGES(space, atomic_fetch_add_explicit, add, ember::adds<T>)                          \
  EMBER_CHANGES(space, atomic_fetch_sub_explicit, subtract, ember::adds<T>)                     \
  EMBER_CHANGES(space, atomic_fetch_and_explicit, conjoin, ember::counts<T>)                    \
  EMBER_CHANGES(space, atomic_fetch_or_explicit, disjoin, ember::counts<T>)                     \
  EMBER_CHANGES(space, atomic_fetch_xor_explicit, differ, ember::counts<T>)                     \
  EMBER_CHANGES(space, atomic_fetch_max_explicit, greater, ember::counts<T>)                    \
  EMBER_CHANGES(space, atomic_fetch_min_explicit, lesser, ember::counts<T>)                     \
  EMBER_CHANGES_ULONG(space, atomic_max_explicit, greater)                                      \
  EMBER_CHANGES_ULONG(space, atomic_min_explicit, lesser)

namespace metal {
EMBER_ATOMICS(device)
EMBER_ATOMICS(threadgroup)
}  // namespace metal
#undef EMBER_ATOMICS
#undef EMBER_CHANGES
#undef EMBER_CHANGES_ULONG
