// Barriers and exchanges between lanes, by the simulator's runtime.
#pragma once

#include "ember_group.h"
#include "interface.h"

// interface.h's exchanges under another name, which promises that they keep no pointer: so the values
// that are handed over count as registers, and the checks pass them by.
#define EMBER_TEXT(x) #x
#define EMBER_SYMBOL_OF(prefix, name) EMBER_TEXT(prefix) #name
#define EMBER_SYMBOL(name) __asm__(EMBER_SYMBOL_OF(__USER_LABEL_PREFIX__, name))
extern "C" {
const uchar* ember_exchange_in_simdgroup(const char* operation,
                                         const void* value __attribute__((noescape)), uint size,
                                         uint* active __attribute__((noescape)))
    EMBER_SYMBOL(ember_simd_exchange);
const uchar* ember_exchange_in_quadgroup(const char* operation,
                                         const void* value __attribute__((noescape)), uint size,
                                         uint* active __attribute__((noescape)))
    EMBER_SYMBOL(ember_quad_exchange);
// ember_self(), which gives the same from one exchange or barrier to the next.
__attribute__((pure)) const ember_thread* ember_self_until_switched(void) EMBER_SYMBOL(ember_self);
}
#undef EMBER_SYMBOL
#undef EMBER_SYMBOL_OF
#undef EMBER_TEXT

namespace metal {
static_assert(uint(mem_flags::mem_device) == EMBER_MEM_DEVICE &&
                  uint(mem_flags::mem_threadgroup) == EMBER_MEM_THREADGROUP &&
                  uint(mem_flags::mem_texture) == EMBER_MEM_TEXTURE,
              "the runtime knows Metal's flags");
EMBER_FN void threadgroup_barrier(mem_flags flags) { ember_threadgroup_barrier(ember_u32(flags)); }
EMBER_FN void simdgroup_barrier(mem_flags flags) { ember_simdgroup_barrier(ember_u32(flags)); }
}  // namespace metal

namespace ember {
template <class T>
EMBER_FN T lane_value(const uchar* lanes, uint lane) {
  T value;
  __builtin_memcpy(&value, lanes + lane * EMBER_SLOT, sizeof(T));
  return value;
}

// A butterfly: lane i with i ^ 1, then i ^ 2, 4, 8, 16. Every lane gets the same bits. Lanes that take
// no part are left out.
template <class Op, int Count, class T>
EMBER_OWN T reduced(const uchar* lanes, uint active) {
  using S = summed_t<T>;
  S at[Count];
  for (int i = 0; i < Count; ++i) {
    if (active >> i & 1) at[i] = S(lane_value<T>(lanes, i));
  }
  ulong present = active;
  for (int step = 1; step < Count; step *= 2) {
    for (int i = 0; i < Count; i += 2 * step) {
      bool here = present >> i & 1, there = present >> (i + step) & 1;
      if (here && there) at[i] = Op::template of<S>(at[i], at[i + step]);
      if (!here && there) at[i] = at[i + step];
      if (there) present |= 1UL << i;
    }
  }
  return T(at[0]);
}

// Over the active lanes up to this one, or before it.
template <class Op, class T>
EMBER_OWN T prefixed(const uchar* lanes, uint active, uint lane, T first, bool inclusive) {
  using S = summed_t<T>;
  S sum = S(first);
  for (uint i = 0; i < lane + (inclusive ? 1 : 0); ++i) {
    if (active >> i & 1) sum = Op::template of<S>(sum, S(lane_value<T>(lanes, i)));
  }
  return T(sum);
}

// What a lane handed over; without the checks.
template <class T>
EMBER_OWN T taken(const uchar* lanes, uint lane) {
  return lane_value<T>(lanes, lane);
}

EMBER_OWN inline uint own_lane() { return ember_self()->thread_index_in_simdgroup; }
EMBER_OWN inline uint own_quad_lane() { return ember_self()->thread_index_in_quadgroup; }

struct simdgroup {
  static constexpr int size = EMBER_LANES;
  static EMBER_FN const uchar* exchange(const char* operation, const void* value, uint bytes,
                                        uint* active) {
    return ember_exchange_in_simdgroup(operation, value, bytes, active);
  }
  static EMBER_FN uint lane() { return own_lane(); }
};
struct quadgroup {
  static constexpr int size = 4;
  static EMBER_FN const uchar* exchange(const char* operation, const void* value, uint bytes,
                                        uint* active) {
    return ember_exchange_in_quadgroup(operation, value, bytes, active);
  }
  static EMBER_FN uint lane() { return own_quad_lane(); }
};

template <class Group, class Op, class T>
EMBER_FN T reduce(const char* operation, T value) {
  uint active = 0;
  const uchar* lanes = Group::exchange(operation, &value, sizeof(T), &active);
  return reduced<Op, Group::size, T>(lanes, active);
}
template <class Group, class Op, class T>
EMBER_FN T prefix(const char* operation, T value, T first, bool inclusive) {
  uint active = 0;
  const uchar* lanes = Group::exchange(operation, &value, sizeof(T), &active);
  return prefixed<Op, T>(lanes, active, Group::lane(), first, inclusive);
}
// The byte that values which are undefined consist of, so that what is made of them differs between the
// two patterns' runs: in half of the threads far below and far above most numbers, which max() or
// min() of floats shows; in the others zero and NaN, which min() without a sign or a product with 0
// shows. The halves follow no stride.
EMBER_OWN inline uchar undefined_byte() {
  bool is_first = ember_fill() & 0x80;
  if (__builtin_parity(ember_self_until_switched()->thread_index_in_threadgroup)) {
    return is_first ? 0x00 : 0xFF;
  }
  return is_first ? 0xDF : 0x5A;
}
// What a lane that takes no part gives: in a checked run what differs from that in another.
template <class T>
EMBER_FN T undefined(T own) {
#if __has_feature(thread_sanitizer) && !defined(EMBER_COUNTED)
  __builtin_memset((void*)&own, undefined_byte(), sizeof(T));
#endif
  return own;
}
// The value of an inactive lane is undefined; the runtime records it.
template <class Group, class T>
EMBER_FN T take(const char* operation, const uchar* lanes, uint active, uint from, T own) {
  if (from >= uint(Group::size) || !(active >> from & 1)) {
    ember_inactive_lane(operation, from);
    return undefined(own);
  }
  return taken<T>(lanes, from);
}
template <class Group, class T>
EMBER_FN T shuffle(const char* operation, T value, uint from) {
  uint active = 0;
  const uchar* lanes = Group::exchange(operation, &value, sizeof(T), &active);
  return take<Group, T>(operation, lanes, active, from, value);
}
// As shuffle, where lanes whose source is out of the group keep their own value.
template <class Group, class T>
EMBER_FN T shift(const char* operation, T value, int from) {
  uint active = 0;
  const uchar* lanes = Group::exchange(operation, &value, sizeof(T), &active);
  if (from < 0 || from >= Group::size) return value;
  return take<Group, T>(operation, lanes, active, uint(from), value);
}
template <class T>
struct filled {
  T value, filling;
};
// Shifts in parts of `modulo` lanes; what comes in from outside a part is the filling.
template <class Group, class T>
EMBER_FN T shift_and_fill(const char* operation, T value, T filling, int by, int modulo) {
  filled<T> both = {value, filling};
  uint active = 0;
  const uchar* lanes = Group::exchange(operation, &both, sizeof(both), &active);
  int lane = int(Group::lane()), start = lane / modulo * modulo, from = lane - start + by;
  bool inside = from >= 0 && from < modulo;
  int wrapped = start + ((from % modulo) + modulo) % modulo;
  filled<T> there = take<Group, filled<T>>(operation, lanes, active, uint(wrapped), both);
  return inside ? there.value : there.filling;
}

// Of the first lane that takes part.
template <class Group, class T>
EMBER_FN T first(const char* operation, T value) {
  uint active = 0;
  const uchar* lanes = Group::exchange(operation, &value, sizeof(T), &active);
  return taken<T>(lanes, uint(__builtin_ctz(active)));
}

EMBER_OWN inline uint votes(const uchar* lanes, uint active, uint count) {
  uint bits = 0;
  for (uint i = 0; i < count; ++i) {
    if (active >> i & 1 && lane_value<uchar>(lanes, i)) bits |= 1u << i;
  }
  return bits;
}
template <class Group>
EMBER_FN uint vote(const char* operation, bool predicate, uint* active) {
  uchar mine = predicate ? 1 : 0;
  const uchar* lanes = Group::exchange(operation, &mine, 1, active);
  return votes(lanes, *active, Group::size);
}
}  // namespace ember
