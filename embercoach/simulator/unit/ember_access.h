// Atomic accesses, by the simulator's runtime: it gets each, and the access itself is hidden from the
// checks, and whole, as threads give up control in calls of the runtime alone.
#pragma once

#include "ember_atomic.h"
#include "interface.h"

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

enum { EMBER_BOTH = EMBER_READ | EMBER_WRITE };

template <class T>
EMBER_FN void store(T* at, T value) {
  ember_atomic(at, sizeof(T), EMBER_WRITE);
  write_whole<T>(at, value);
}
template <class T>
EMBER_FN T load(const T* at) {
  ember_atomic(at, sizeof(T), EMBER_READ);
  return read_whole<T>(at);
}
template <class Op, class T>
EMBER_FN T change(T* at, T value) {
  ember_atomic(at, sizeof(T), EMBER_BOTH);
  note_sum<Op, T>(at, value);
  return change_whole<Op, T>(at, value);
}
template <class T>
EMBER_FN bool exchange_if(T* at, T* expected, T desired) {
  ember_atomic(at, sizeof(T), EMBER_BOTH);
  T found = read_whole<T>(at);
  bool same = as_type<bits_of<T>>(found) == as_type<bits_of<T>>(T(*expected));
  if (same) note_exchange<T>(at, found, desired);
  if (same) write_whole<T>(at, desired);
  if (!same) *expected = found;
  return same;
}
// Between lanes of one simdgroup it takes a simdgroup_barrier all the same.
EMBER_FN void fence(metal::mem_flags flags, metal::memory_order order, metal::thread_scope scope) {
  uint effect = scope == metal::thread_scope_device ? EMBER_ON_DEVICE : 0;
  if (order != metal::memory_order_acquire) effect |= EMBER_HANDS_ON;
  if (order != metal::memory_order_release) effect |= EMBER_TAKES_OVER;
  ember_fence(uint(flags), effect);
}
}  // namespace ember
