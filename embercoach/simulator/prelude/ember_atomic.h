// metal_atomic. The runtime gets each access; the access itself is hidden from the checks,
// and whole, as threads give up control in calls of the runtime alone.
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

// Between lanes of one simdgroup it takes a simdgroup_barrier all the same.
EMBER_FN void atomic_thread_fence(mem_flags flags, memory_order order,
                                  thread_scope scope = thread_scope_device) {
  if (order == memory_order_relaxed || scope < thread_scope_threadgroup) return;
  uint effect = scope == thread_scope_device ? EMBER_ON_DEVICE : 0;
  if (order != memory_order_acquire) effect |= EMBER_HANDS_ON;
  if (order != memory_order_release) effect |= EMBER_TAKES_OVER;
  ember_fence(uint(flags), effect);
}
}  // namespace metal

namespace ember {
template <class T>
EMBER_OWN T read_whole(const T* at) {
  return *at;
}
template <class T>
EMBER_OWN void write_whole(T* at, T value) {
  *at = value;
}
template <class Op, class T>
EMBER_OWN T change_whole(T* at, T value) {
  T old = *at;
  *at = Op::template of<T>(old, value);
  return old;
}
struct subtract {
  template <class T>
  static EMBER_FN T of(T a, T b) { return T(a - b); }
};
struct replace {
  template <class T>
  static EMBER_FN T of(T, T b) { return b; }
};
// What a change adds to a float, whose sum depends on the order. Bits of a float may be exchanged as
// an integer.
template <class Op, class T>
EMBER_FN void note_sum(const T* at, T value) {
  if constexpr (__is_same(T, float) && (__is_same(Op, add) || __is_same(Op, subtract)))
    ember_sum(at, double(value));
}
template <class T>
EMBER_FN void note_exchange(const T* at, T old, T now) {
  if constexpr (sizeof(T) == sizeof(float))
    ember_sum(at, double(as_type<float>(now)) - double(as_type<float>(old)));
}
// Sums that wrap around, as the GPU's do.
template <>
EMBER_FN int add::of<int>(int a, int b) { return int(uint(a) + uint(b)); }
template <>
EMBER_FN int subtract::of<int>(int a, int b) { return int(uint(a) - uint(b)); }

template <class T>
inline constexpr bool counts = __is_same(T, int) || __is_same(T, uint);
template <class T>
inline constexpr bool adds = counts<T> || __is_same(T, float);
enum { EMBER_BOTH = EMBER_READ | EMBER_WRITE };
}  // namespace ember

// T is one of the object's type alone, so that a value of another converts.
#define EMBER_CHANGES(space, name, Op, condition, result)                                       \
  template <class T, ember::enable_if_t<condition, int> = 0>                                    \
  EMBER_FN T name(volatile space atomic<T>* object, type_identity_t<T> value, memory_order) {   \
    T* at = (T*)&object->ember_value;                                                           \
    ember_atomic(at, sizeof(T), ember::EMBER_BOTH);                                             \
    ember::note_sum<ember::Op, T>(at, value);                                                   \
    return ember::change_whole<ember::Op, T>(at, value);                                        \
  }

#define EMBER_ATOMICS(space)                                                                    \
  template <class T>                                                                            \
  EMBER_FN void atomic_store_explicit(volatile space atomic<T>* object,                         \
                                      type_identity_t<T> value, memory_order) {                 \
    T* at = (T*)&object->ember_value;                                                           \
    ember_atomic(at, sizeof(T), EMBER_WRITE);                                                   \
    ember::write_whole<T>(at, value);                                                           \
  }                                                                                             \
  template <class T>                                                                            \
  EMBER_FN T atomic_load_explicit(const volatile space atomic<T>* object, memory_order) {       \
    const T* at = (const T*)&object->ember_value;                                               \
    ember_atomic(at, sizeof(T), EMBER_READ);                                                    \
    return ember::read_whole<T>(at);                                                            \
  }                                                                                             \
  template <class T>                                                                            \
  EMBER_FN bool atomic_compare_exchange_weak_explicit(                                          \
      volatile space atomic<T>* object, T* expected, type_identity_t<T> desired, memory_order,  \
      memory_order) {                                                                           \
    T* at = (T*)&object->ember_value;                                                           \
    ember_atomic(at, sizeof(T), ember::EMBER_BOTH);                                             \
    T found = ember::read_whole<T>(at);                                                         \
    bool same = as_type<ember::bits_of<T>>(found) == as_type<ember::bits_of<T>>(T(*expected));  \
    if (same) ember::note_exchange<T>(at, found, desired);                                      \
    if (same) ember::write_whole<T>(at, desired);                                               \
    if (!same) *expected = found;                                                               \
    return same;                                                                                \
  }                                                                                             \
  EMBER_CHANGES(space, atomic_exchange_explicit, replace, true, T)                              \
  EMBER_CHANGES(space, atomic_fetch_add_explicit, add, ember::adds<T>, T)                       \
  EMBER_CHANGES(space, atomic_fetch_sub_explicit, subtract, ember::adds<T>, T)                  \
  EMBER_CHANGES(space, atomic_fetch_and_explicit, conjoin, ember::counts<T>, T)                 \
  EMBER_CHANGES(space, atomic_fetch_or_explicit, disjoin, ember::counts<T>, T)                  \
  EMBER_CHANGES(space, atomic_fetch_xor_explicit, differ, ember::counts<T>, T)                  \
  EMBER_CHANGES(space, atomic_fetch_max_explicit, greater, ember::counts<T>, T)                 \
  EMBER_CHANGES(space, atomic_fetch_min_explicit, lesser, ember::counts<T>, T)                  \
  template <class T, ember::enable_if_t<__is_same(T, ulong), int> = 0>                          \
  EMBER_FN void atomic_max_explicit(volatile space atomic<T>* object, ulong value,              \
                                    memory_order) {                                             \
    ulong* at = (ulong*)&object->ember_value;                                                   \
    ember_atomic(at, sizeof(T), ember::EMBER_BOTH);                                             \
    ember::change_whole<ember::greater, ulong>(at, value);                                      \
  }                                                                                             \
  template <class T, ember::enable_if_t<__is_same(T, ulong), int> = 0>                          \
  EMBER_FN void atomic_min_explicit(volatile space atomic<T>* object, ulong value,              \
                                    memory_order) {                                             \
    ulong* at = (ulong*)&object->ember_value;                                                   \
    ember_atomic(at, sizeof(T), ember::EMBER_BOTH);                                             \
    ember::change_whole<ember::lesser, ulong>(at, value);                                       \
  }

namespace ember {
template <class T>
using bits_of = metal::conditional_t<
    sizeof(T) == 1, uchar, metal::conditional_t<sizeof(T) == 4, uint, ulong>>;
}

namespace metal {
EMBER_ATOMICS(device)
EMBER_ATOMICS(threadgroup)
}  // namespace metal
#undef EMBER_ATOMICS
#undef EMBER_CHANGES
