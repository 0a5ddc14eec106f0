// Barriers and exchanges between lanes: a simdgroup is a warp.
//
// A function of a simdgroup works on the lanes that are active at its call, as Metal defines it. The
// assembler lets lanes of different branches wait for each other where the branches end.
#pragma once

#include "ember_group.h"

namespace metal {
// Barriers order all memory among the threads that they hold back.
EMBER_FN void threadgroup_barrier(mem_flags) { __syncthreads(); }
EMBER_FN void simdgroup_barrier(mem_flags) { __nvvm_bar_warp_sync(__nvvm_activemask()); }
}  // namespace metal

namespace ember {
EMBER_FN uint own_lane() { return __nvvm_read_ptx_sreg_laneid(); }

template <int Size>
struct lanes {
  static constexpr int size = Size;
  static EMBER_FN uint lane() { return own_lane() % Size; }
  static EMBER_FN uint base() { return own_lane() - lane(); }
};
struct simdgroup : lanes<32> {};
struct quadgroup : lanes<4> {};

// The lanes of the warp that take part, and those of them that are in the own group.
EMBER_FN uint taking_part() { return __nvvm_activemask(); }
template <class Group>
EMBER_FN uint members(uint active) {
  return Group::size == 32 ? active : active >> Group::base() & ((1u << Group::size % 32) - 1);
}

// The value of a lane of the warp, or of the lane whose index differs in some bits; in words.
template <bool Differs = false, class T>
EMBER_FN T moved(uint active, T value, uint lane) {
  constexpr int count = (sizeof(T) + 3) / 4;
  int words[count] = {}, from = int(lane);
  __builtin_memcpy(words, &value, sizeof(T));
  for (int i = 0; i < count; ++i) {
    words[i] = Differs ? __nvvm_shfl_sync_bfly_i32(active, words[i], from, 31)
                       : __nvvm_shfl_sync_idx_i32(active, words[i], from, 31);
  }
  __builtin_memcpy(&value, words, sizeof(T));
  return value;
}

// A butterfly in the simulator's order: each lane's part of the group with its neighbour's, which a
// lane is asked for that takes part. All lanes get the same bits.
template <class Group, class Op, class T>
EMBER_FN T reduce(const char*, T value) {
  uint active = taking_part();
  summed_t<T> sum(value);
  if (active == ~0u) {
#pragma clang loop unroll(full)
    for (uint step = 1; step < uint(Group::size); step *= 2)
      sum = Op::template of<summed_t<T>>(sum, moved<true>(active, sum, step));
    return T(sum);
  }
#pragma clang loop unroll(disable)
  for (uint step = 1; step < uint(Group::size); step *= 2) {
    uint neighbour = ((1u << step) - 1) << ((own_lane() & ~(step - 1)) ^ step);
    uint there = active & neighbour;
    summed_t<T> other = moved(active, sum, there ? uint(__builtin_ctz(there)) : own_lane());
    if (there) sum = Op::template of<summed_t<T>>(sum, other);
  }
  return T(sum);
}
template <class Group, class Op, class T>
EMBER_FN T prefix(const char*, T value, T first, bool inclusive) {
  uint active = taking_part();
  summed_t<T> own(value), sum(first);
  if (active == ~0u) {
    sum = own;
#pragma clang loop unroll(full)
    for (uint step = 1; step < uint(Group::size); step *= 2) {
      summed_t<T> before = moved(active, sum, own_lane() - step);
      if (Group::lane() >= step) sum = Op::template of<summed_t<T>>(before, sum);
    }
    if (inclusive) return T(sum);
    summed_t<T> before = moved(active, sum, own_lane() - 1);
    return Group::lane() == 0 ? first : T(before);
  }
  for (uint left = active; left; left &= left - 1) {
    uint from = uint(__builtin_ctz(left));
    summed_t<T> other = moved(active, own, from);
    bool before = inclusive ? from <= own_lane() : from < own_lane();
    if (from >= Group::base() && before) sum = Op::template of<summed_t<T>>(sum, other);
  }
  return T(sum);
}

// From a lane of the group; that of an inactive one is undefined.
template <class Group, class T>
EMBER_FN T shuffle(const char*, T value, uint from) {
  return moved(taking_part(), value, Group::base() + from);
}
// Lanes whose source is out of the group keep their own value.
template <class Group, class T>
EMBER_FN T shift(const char*, T value, int from) {
  T there = moved(taking_part(), value, Group::base() + uint(from));
  return from < 0 || from >= Group::size ? value : there;
}
// Shifts in parts of `modulo` lanes; what comes in from outside a part is the filling.
template <class Group, class T>
EMBER_FN T shift_and_fill(const char*, T value, T filling, int by, int modulo) {
  int lane = int(Group::lane()), start = lane / modulo * modulo, from = lane - start + by;
  uint wrapped = Group::base() + uint(start + ((from % modulo) + modulo) % modulo);
  uint active = taking_part();
  T inside = moved(active, value, wrapped), outside = moved(active, filling, wrapped);
  return from >= 0 && from < modulo ? inside : outside;
}
// Of the first lane that takes part.
template <class Group, class T>
EMBER_FN T first(const char*, T value) {
  uint active = taking_part();
  return moved(active, value, Group::base() + uint(__builtin_ctz(members<Group>(active))));
}
template <class Group>
EMBER_FN uint vote(const char*, bool predicate, uint* active) {
  uint all = taking_part();
  *active = members<Group>(all);
  return members<Group>(__nvvm_vote_ballot_sync(all, predicate));
}
}  // namespace ember
