// metal_simdgroup and metal_quadgroup: functions over the lanes of a simdgroup or quadgroup.
#pragma once

#include "ember_group.h"

namespace metal {
template <class Group>
class ember_vote {
 public:
  using vote_t = conditional_t<Group::size == 32, ulong, uint>;
  explicit EMBER_CFN ember_vote(vote_t bits = 0) : bits_(bits) {}
  explicit EMBER_CFN operator vote_t() const { return bits_; }
  // Of all lanes, not only those that took part: a lane that did not has no bit.
  EMBER_CFN bool all() const { return bits_ == (vote_t(1) << Group::size) - 1; }
  EMBER_CFN bool any() const { return bits_ != 0; }

 private:
  vote_t bits_;
};
class simd_vote : public ember_vote<ember::simdgroup> {
 public:
  using ember_vote<ember::simdgroup>::ember_vote;
};
class quad_vote : public ember_vote<ember::quadgroup> {
 public:
  using ember_vote<ember::quadgroup>::ember_vote;
};
}  // namespace metal

#define EMBER_REDUCTION(group, Group, name, Op, Kind)          \
  template <class A, class T = ember::Kind<A>>                 \
  EMBER_FN T group##_##name(A value) {                         \
    return ember::reduce<Group, ember::Op, T>(#group "_" #name, T(value)); \
  }
#define EMBER_PREFIX(group, Group, which, name, Op, first, inclusive)                       \
  template <class A, class T = ember::handed_t<A>>                                          \
  EMBER_FN T group##_prefix_##which##_##name(A value) {                                     \
    return ember::prefix<Group, ember::Op, T>(#group "_prefix_" #which "_" #name, T(value), \
                                              T(first), inclusive);                         \
  }
#define EMBER_SHUFFLE(group, Group, name, argument, make, source)                   \
  template <class A, class T = ember::handed_t<A>>                                  \
  EMBER_FN T group##_##name(A value, ushort argument) {                             \
    return ember::make<Group, T>(#group "_" #name, T(value), source);               \
  }
#define EMBER_FILL(group, Group, name, by)                                                   \
  template <class A, class T = ember::handed_t<A>>                                           \
  EMBER_FN T group##_##name(A value, type_identity_t<A> filling, ushort delta,               \
                            ushort modulo = Group::size) {                                   \
    return ember::shift_and_fill<Group, T>(#group "_" #name, T(value), T(filling), by, modulo); \
  }

#define EMBER_GROUP(group, Group)                                                            \
  EMBER_REDUCTION(group, Group, sum, add, handed_t)                                          \
  EMBER_REDUCTION(group, Group, product, multiply, handed_t)                                 \
  EMBER_REDUCTION(group, Group, max, greater, handed_t)                                      \
  EMBER_REDUCTION(group, Group, min, lesser, handed_t)                                       \
  EMBER_REDUCTION(group, Group, and, conjoin, handed_integer_t)                              \
  EMBER_REDUCTION(group, Group, or, disjoin, handed_integer_t)                               \
  EMBER_REDUCTION(group, Group, xor, differ, handed_integer_t)                               \
  EMBER_PREFIX(group, Group, inclusive, sum, add, 0, true)                                   \
  EMBER_PREFIX(group, Group, exclusive, sum, add, 0, false)                                  \
  EMBER_PREFIX(group, Group, inclusive, product, multiply, 1, true)                          \
  EMBER_PREFIX(group, Group, exclusive, product, multiply, 1, false)                         \
  EMBER_SHUFFLE(group, Group, shuffle, lane, shuffle, lane)                                  \
  EMBER_SHUFFLE(group, Group, broadcast, lane, shuffle, lane)                                \
  EMBER_SHUFFLE(group, Group, shuffle_xor, mask, shuffle, Group::lane() ^ mask)              \
  EMBER_SHUFFLE(group, Group, shuffle_up, delta, shift, int(Group::lane()) - delta)          \
  EMBER_SHUFFLE(group, Group, shuffle_down, delta, shift, int(Group::lane()) + delta)        \
  EMBER_SHUFFLE(group, Group, shuffle_rotate_up, delta, shuffle,                             \
                (Group::lane() - delta) & uint(Group::size - 1))                             \
  EMBER_SHUFFLE(group, Group, shuffle_rotate_down, delta, shuffle,                           \
                (Group::lane() + delta) & uint(Group::size - 1))                             \
  EMBER_FILL(group, Group, shuffle_and_fill_up, -int(delta))                                 \
  EMBER_FILL(group, Group, shuffle_and_fill_down, int(delta))                                \
  template <class A, class T = ember::handed_t<A>>                                           \
  EMBER_FN T group##_broadcast_first(A given) {                                              \
    return ember::first<Group, T>(#group "_broadcast_first", T(given));                      \
  }                                                                                          \
  EMBER_FN group##_vote group##_ballot(bool predicate) {                                     \
    uint active = 0;                                                                         \
    return group##_vote(ember::vote<Group>(#group "_ballot", predicate, &active));           \
  }                                                                                          \
  EMBER_FN group##_vote group##_active_threads_mask() {                                      \
    uint active = 0;                                                                         \
    return group##_vote(ember::vote<Group>(#group "_active_threads_mask", true, &active));   \
  }                                                                                          \
  EMBER_FN bool group##_all(bool predicate) {                                                \
    uint active = 0;                                                                         \
    uint bits = ember::vote<Group>(#group "_all", predicate, &active);                       \
    return bits == active;                                                                   \
  }                                                                                          \
  EMBER_FN bool group##_any(bool predicate) {                                                \
    uint active = 0;                                                                         \
    return ember::vote<Group>(#group "_any", predicate, &active) != 0;                       \
  }                                                                                          \
  EMBER_FN bool group##_is_first() {                                                         \
    uint active = 0;                                                                         \
    ember::vote<Group>(#group "_is_first", true, &active);                                   \
    return uint(__builtin_ctz(active)) == Group::lane();                                     \
  }                                                                                          \
  EMBER_FN bool group##_is_helper_thread() { return false; }

// `and`, `or` and `xor` are operators' names in C++, and whole tokens only once they are pasted.
namespace metal {
EMBER_GROUP(simd, ember::simdgroup)
EMBER_GROUP(quad, ember::quadgroup)
}  // namespace metal
#undef EMBER_GROUP
#undef EMBER_FILL
#undef EMBER_SHUFFLE
#undef EMBER_PREFIX
#undef EMBER_REDUCTION
