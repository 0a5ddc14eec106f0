// What lanes of a simdgroup do together: exchanges and barriers, and what becomes of those that some
// lanes do not reach.
#include <string.h>

#include "schedule.h"

namespace {
u32 line_of(u64 pc) {
  static u64 known_pc[256];
  static u32 known_line[256];
  static const ember_launch* known_launch;
  if (known_launch != launch) {
    known_launch = launch;
    memset(known_pc, 0, sizeof known_pc);
  }
  u32 i = (u32)(pc * 0x9E3779B1u >> 7) % 256;
  if (known_pc[i] != pc) {
    known_line[i] = launch->line_of ? launch->line_of(pc) : 0;
    known_pc[i] = pc;
  }
  return known_line[i];
}
}  // namespace

// The compiler may have copied a call: equal lines show that it is one.
bool same_place(u64 a, u64 b) {
  return a == b || (line_of(a) != 0 && line_of(a) == line_of(b));
}

bool before(u64 a, u64 b) {
  u32 line_a = line_of(a), line_b = line_of(b);
  return line_a != line_b && line_a && line_b ? line_a < line_b : a < b;
}

bool is_later(u64 a, u64 b) {
  u32 line_a = line_of(a), line_b = line_of(b);
  return line_b >= launch->body[0] && line_a < launch->body[1] && line_a > line_b;
}

namespace {
bool same_operation(const Thread& a, const Thread& b) {
  if (a.state != b.state || !same_place(a.place, b.place)) return false;
  if (a.state != AT_SIMD && a.state != AT_QUAD) return true;
  return a.operation == b.operation || strcmp(a.operation, b.operation) == 0;
}

void exchange(Simd& simd, u32 group, u8 (*out)[EMBER_SLOT], const u8* result, u32 active) {
  u32 base = (&simd - simds) * EMBER_LANES;
  for (u32 left = group; left; left &= left - 1) {
    u32 lane = __builtin_ctz(left);
    Thread& thread = threads[base + lane];
    if (thread.size <= 16)
      __builtin_memcpy(out[lane], thread.staged, 16);
    else
      memcpy(out[lane], thread.staged, EMBER_SLOT);
    thread.result = result;
    thread.active = active;
  }
}

void perform(Simd& simd, u32 group, const Thread& leader) {
  simd.stamp = next_stamp();
  if (leader.state == AT_SIMD) {
    u32 parity = simd.parity ^= 1;
    exchange(simd, group, simd.exchanged[parity], simd.exchanged[parity][0], group);
  } else if (leader.state == AT_QUAD) {
    u32 quad = __builtin_ctz(group) / 4;
    u32 parity = simd.quad_parity[quad] ^= 1;
    exchange(simd, group, simd.quads[parity], simd.quads[parity][quad * 4],
             (group >> quad * 4) & 15);
  } else if (leader.state == AT_SIMD_BARRIER) {
    simd.barrier_start = simd.stamp;
    simd.barrier_place = leader.place;
    if (leader.flags & EMBER_MEM_DEVICE) simd.memory_start[IN_DEVICE] = simd.stamp;
    if (leader.flags & EMBER_MEM_THREADGROUP) simd.memory_start[IN_THREADGROUP] = simd.stamp;
  }
  release(simd, group);
}

bool is_about_activity(const Thread& thread) {
  static const char* const names[] = {"simd_active_threads_mask", "simd_is_first",
                                      "simd_is_helper_thread", "quad_active_threads_mask",
                                      "quad_is_first"};
  for (const char* name : names)
    if (strcmp(thread.operation, name) == 0) return true;
  return false;
}

void tell_divergence(const Thread& leader, u32 there, const Thread& missing, u32 absent) {
  Kind kind = leader.state == AT_SIMD_BARRIER ? DIVERGENT_BARRIER : DIVERGENT_SIMD;
  if (!launch->checked) return;
  if (leader.state == AT_STEP || (kind == DIVERGENT_SIMD && is_about_activity(leader))) return;
  u64 elsewhere = missing.state == DONE ? 0 : missing.place;
  ember_finding* finding = report(kind, leader.place, elsewhere, -1,
                                  kind == DIVERGENT_SIMD ? BECAUSE_ELSEWHERE : BECAUSE_SIMD_BARRIER);
  if (finding->count > 1) return;
  finding->detail[0] = there;
  finding->detail[1] = absent;
  if (kind == DIVERGENT_SIMD)
    strncpy(finding->text, leader.operation, sizeof finding->text - 1);
  blame(finding, leader);
  blame_other(finding, missing);
}

bool is_simd_wait(State state) {
  return state == AT_SIMD || state == AT_SIMD_BARRIER || state == AT_STEP;
}

u32 like(const Simd& simd, u32 among, const Thread& leader) {
  u32 group = 0, base = (&simd - simds) * EMBER_LANES;
  for (u32 left = among; left; left &= left - 1) {
    u32 lane = __builtin_ctz(left);
    if (same_operation(threads[base + lane], leader)) group |= 1u << lane;
  }
  return group;
}

// Of a barrier, unlike of an operation, all lanes must take part that began.
u32 exited_lanes(const Simd& simd) {
  u32 exited = 0, base = (&simd - simds) * EMBER_LANES;
  for (u32 left = simd.lanes & ~simd.live; left; left &= left - 1) {
    u32 lane = __builtin_ctz(left);
    if (threads[base + lane].state == DONE) exited |= 1u << lane;
  }
  return exited;
}

// The lanes that wait furthest up go first, and the rest, as hardware would mask them, later.
bool perform_first(Simd& simd, u32 among) {
  u32 base = (&simd - simds) * EMBER_LANES;
  const Thread* leader = nullptr;
  bool yielded = false;
  for (u32 left = among; left; left &= left - 1) {
    const Thread& thread = threads[base + __builtin_ctz(left)];
    yielded |= thread.state == YIELDED;
    bool waits = is_simd_wait(thread.state) || thread.state == AT_QUAD;
    if (waits && (!leader || before(thread.place, leader->place))) leader = &thread;
  }
  // Lanes that spin may yet come.
  if (!leader || (yielded && leader->state != AT_STEP)) return false;
  u32 span = leader->state == AT_QUAD ? 15u << (leader->index % EMBER_LANES / 4 * 4) : ~0u;
  u32 expected = among & span, group = like(simd, expected, *leader);
  if (leader->state == AT_SIMD_BARRIER) expected |= exited_lanes(simd);
  if (group != expected) {
    const Thread& missing = threads[base + __builtin_ctz(expected & ~group)];
    tell_divergence(*leader, (u32)__builtin_popcount(group), missing,
                    (u32)__builtin_popcount(expected & ~group));
  }
  perform(simd, group, *leader);
  return true;
}

bool perform_quads(Simd& simd) {
  bool any = false;
  u32 base = (&simd - simds) * EMBER_LANES;
  for (u32 quad = 0; quad < EMBER_LANES / 4; quad++) {
    u32 lanes = simd.live & (15u << quad * 4);
    if (!lanes) continue;
    const Thread& leader = threads[base + __builtin_ctz(lanes)];
    if (leader.state != AT_QUAD || like(simd, lanes, leader) != lanes) continue;
    perform(simd, lanes, leader);
    any = true;
  }
  return any;
}

// Whether a lane can go on, once none is ready.
bool resolve(Simd& simd) {
  if (!simd.live) return false;
  if (release_held(simd)) return true;
  const Thread& leader = threads[(&simd - simds) * EMBER_LANES + __builtin_ctz(simd.live)];
  bool all = leader.state != AT_SIMD_BARRIER || simd.live == simd.lanes;
  if (all && is_simd_wait(leader.state) && like(simd, simd.live, leader) == simd.live) {
    perform(simd, simd.live, leader);
    return true;
  }
  return perform_quads(simd) || perform_first(simd, simd.live);
}
}  // namespace

// Returns whether some lanes can go on: the other simdgroups come first, as simdgroups of a GPU
// advance side by side.
bool run_simd(Simd& simd) {
  if (EMBER_UNLIKELY(profiling)) start_profiled_segment();
  run_lanes(simd);
  return !is_over() && resolve(simd);
}

extern "C" {
static const u8* hand_over(State state, const char* operation, const void* value, u32 size,
                           u32* active, u64 place) {
  Thread* self = current;
  self->operation = operation;
  self->size = size;
  if (size == 4)
    __builtin_memcpy(self->staged, value, 4);
  else
    memcpy(self->staged, value, size <= EMBER_SLOT ? size : EMBER_SLOT);
  wait_at(state, place, 0);
  *active = self->active;
  return self->result;
}

EMBER_EXPORT const u8* ember_simd_exchange(const char* operation, const void* value, u32 size,
                                           u32* active) {
  return hand_over(AT_SIMD, operation, value, size, active, CALLER());
}

EMBER_EXPORT const u8* ember_quad_exchange(const char* operation, const void* value, u32 size,
                                           u32* active) {
  return hand_over(AT_QUAD, operation, value, size, active, CALLER());
}

static void tell_undefined(const char* operation, Reason reason, i64 detail, u64 pc) {
  if (!launch->checked) return;
  settle_pending();
  ember_finding* finding = report(DIVERGENT_SIMD, pc, 0, -1, reason);
  if (finding->count > 1) return;
  blame_current(finding);
  finding->detail[0] = detail;
  strncpy(finding->text, operation, sizeof finding->text - 1);
}

EMBER_EXPORT void ember_inactive_lane(const char* operation, u32 lane) {
  tell_undefined(operation, BECAUSE_INACTIVE_LANE, lane, CALLER());
}

EMBER_EXPORT void ember_partial_simdgroup(const char* operation, u32 active) {
  tell_undefined(operation, BECAUSE_PARTIAL, __builtin_popcount(active), CALLER());
}
}
