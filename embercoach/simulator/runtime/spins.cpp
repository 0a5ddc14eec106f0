// Loops that wait for an atomic, which the rewriter marks. Lanes of a simdgroup share one program
// counter: while some of them wait in such a loop, those that have left it, or have yet to reach
// what follows, may not run. So they are held here, until it is certain that nothing but they can
// end the wait. If one of them then does, a GPU may never have come to it.
#include <string.h>

#include "schedule.h"

namespace {
struct Spin {
  u64 loop;           // pc of the innermost marked loop's start, 0 outside of one
  u64 polled;         // the last address that it accessed atomically there
  u64 polled_pc;
  u64 writer_pc;      // of the held lane that changed it, 0 if none did
  const Thread* writer;
};

Spin spins[MAX_THREADS];
bool is_modelled;     // until lanes had to be let go
u32 suspect;          // the simdgroup whose lanes that were
constexpr u32 NOBODY = ~0u;

u32 first_thread(const Simd& simd) { return (u32)(&simd - simds) * EMBER_LANES; }

bool is_held(State state) {
  return state == AT_SPIN_BEGIN || state == AT_SPIN_END || state == AT_TURN;
}

// Lanes that wait in a marked loop.
u32 spinning_lanes(const Simd& simd, u64* loop) {
  u32 found = 0, base = first_thread(simd);
  for (u32 left = simd.live; left; left &= left - 1) {
    u32 lane = __builtin_ctz(left);
    if (threads[base + lane].state != YIELDED || !spins[base + lane].loop) continue;
    if (!found) *loop = spins[base + lane].loop;
    found |= 1u << lane;
  }
  return found;
}

// Those that have left a loop in which no lane waits any more.
u32 joined_lanes(const Simd& simd) {
  u32 found = 0, base = first_thread(simd);
  for (u32 left = simd.live; left; left &= left - 1) {
    u32 lane = __builtin_ctz(left);
    if (threads[base + lane].state != AT_SPIN_END) continue;
    bool awaited = false;
    for (u32 others = simd.live; others; others &= others - 1) {
      u32 other = base + __builtin_ctz(others);
      awaited |= threads[other].state == YIELDED &&
                 same_place(spins[other].loop, spins[base + lane].loop);
    }
    if (!awaited) found |= 1u << lane;
  }
  return found;
}

bool has_passed(const Thread& thread, u64 place) {
  u32 count = thread.change_count < KEPT_CHANGES ? thread.change_count : (u32)KEPT_CHANGES;
  for (u32 i = 0; i < count; i++)
    if (same_place(thread.changes[i], place)) return true;
  return false;
}

// Whether a lane is to change an atomic where one that waits in a loop, or in front of it, has not
// been: further down. Of functions that the body calls, their places say nothing.
bool comes_after(const Thread& turn, const Thread& waiting, u64 loop) {
  return is_later(turn.place, loop) && !has_passed(waiting, turn.place);
}

bool goes_first(const Thread& a, const Thread& b) {
  if (a.state == b.state) return is_later(b.place, a.place);
  return a.state == AT_TURN ? !comes_after(a, b, b.place) : comes_after(b, a, a.place);
}

// Whether lanes that wait in a loop are further up than all that it could do.
bool is_awaiting(const Simd& simd, const Thread& held) {
  u32 base = first_thread(simd);
  u64 loop = 0;
  u32 waiting = spinning_lanes(simd, &loop);
  for (u32 left = waiting; left; left &= left - 1) {
    const Thread& thread = threads[base + __builtin_ctz(left)];
    if (!comes_after(held, thread, spins[thread.index].loop)) return false;
  }
  return waiting;
}

// Those that go first, unless others wait in a loop further up.
u32 foremost_lanes(const Simd& simd) {
  u32 base = first_thread(simd), found = 0;
  const Thread* leader = nullptr;
  for (u32 left = simd.live; left; left &= left - 1) {
    const Thread& thread = threads[base + __builtin_ctz(left)];
    if (thread.state != AT_SPIN_BEGIN && thread.state != AT_TURN) continue;
    if (!leader || goes_first(thread, *leader)) leader = &thread;
  }
  if (!leader || is_awaiting(simd, *leader)) return 0;
  for (u32 left = simd.live; left; left &= left - 1) {
    u32 lane = __builtin_ctz(left);
    const Thread& thread = threads[base + lane];
    if (thread.state == leader->state && same_place(thread.place, leader->place))
      found |= 1u << lane;
  }
  return found;
}

void tell_deadlock(const Spin& spin) {
  ember_finding* finding = report(SIMDGROUP_DEADLOCK, spin.polled_pc, spin.writer_pc, -1,
                                  BECAUSE_NOTHING);
  if (finding->count > 1) return;
  blame_current(finding);
  blame_other(finding, *spin.writer);
}

// A lane that was let go changes what others of its simdgroup wait for.
void note_rescue(u64 address, u64 pc) {
  const Simd& simd = simds[suspect];
  u32 base = first_thread(simd);
  for (u32 left = simd.live; left; left &= left - 1) {
    u32 thread = base + __builtin_ctz(left);
    Spin& spin = spins[thread];
    if (!spin.loop || spin.polled != address) continue;
    spin.writer_pc = pc;
    spin.writer = current;
  }
}
}  // namespace

void forget_spins() {
  is_modelled = launch->checked && !launch->lockstep;
  suspect = NOBODY;
}

void start_spins() {
  for (Simd& simd : simds) simd.spins = false;
  suspect = NOBODY;
}

bool is_spinning(u32 thread) {
  return simds[thread / EMBER_LANES].spins && spins[thread].loop;
}

void note_spin(u64 address, u32 access, u64 pc) {
  Simd& simd = simds[current->index / EMBER_LANES];
  Spin& mine = spins[current->index];
  if (mine.loop) {
    mine.polled = address;
    mine.polled_pc = pc;
  } else if (access & EMBER_WRITE) {
    u64 loop;
    bool is_awaited = false;
    u32 base = first_thread(simd);
    for (u32 left = simd.live; left && is_modelled; left &= left - 1)
      is_awaited |= threads[base + __builtin_ctz(left)].state == AT_SPIN_BEGIN;
    if (is_modelled && (is_awaited || spinning_lanes(simd, &loop))) wait_at(AT_TURN, pc, 0);
    if (suspect == current->index / EMBER_LANES) note_rescue(address, pc);
  }
}

bool release_held(Simd& simd) {
  if (!simd.spins) return false;
  u32 mask = joined_lanes(simd);
  if (!mask) mask = foremost_lanes(simd);
  release(simd, mask);
  return mask;
}

bool release_stuck(Simd& simd) {
  u64 loop;
  if (!simd.spins || !spinning_lanes(simd, &loop)) return false;
  u32 mask = 0, base = first_thread(simd);
  for (u32 left = simd.live; left; left &= left - 1) {
    u32 lane = __builtin_ctz(left);
    if (is_held(threads[base + lane].state)) mask |= 1u << lane;
  }
  if (!mask) return false;
  is_modelled = false;
  suspect = (u32)(&simd - simds);
  release(simd, mask);
  return true;
}

extern "C" {
EMBER_EXPORT ember_u64 ember_begin_spin() {
  u64 place = CALLER();
  if (!current || !launch->checked) return 0;
  Simd& simd = simds[current->index / EMBER_LANES];
  Spin& mine = spins[current->index];
  if (!simd.spins) memset(&spins[first_thread(simd)], 0, EMBER_LANES * sizeof(Spin));
  simd.spins = true;
  u64 outer = mine.loop;
  if (is_modelled && !outer) wait_at(AT_SPIN_BEGIN, place, 0);
  mine.loop = place;
  mine.writer_pc = 0;
  return outer;
}

EMBER_EXPORT void ember_end_spin(ember_u64 outer) {
  u64 place = CALLER();
  if (!current || !launch->checked) return;
  Spin& mine = spins[current->index];
  if (mine.writer_pc) {
    settle_pending();
    tell_deadlock(mine);
  }
  if (is_modelled && !outer) wait_at(AT_SPIN_END, place, 0);
  mine.loop = outer;
  mine.writer_pc = 0;
}
}
