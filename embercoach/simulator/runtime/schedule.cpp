// Runs the threads of a launch: threadgroups one after another, a threadgroup's threads as fibers,
// simdgroup by simdgroup in turn, each thread until it waits.
#include "schedule.h"

#include <string.h>
#include <time.h>

#include "stacks.h"
#include "state.h"
#include "switch.h"

Thread threads[MAX_THREADS];
Simd simds[MAX_SIMDS];
Thread* current;
const ember_launch* launch;
volatile u32 stop_requested;

namespace {
void* scheduler;  // its context while a fiber runs
bool stopped;
void* buffers[MAX_SLOTS];
u64 seq;
u32 thread_count, simd_count;
u32 runs;                     // of this process
u32 soiled_in[MAX_THREADS];   // the run in which a stack was last filled whole
u64 deepest, entered;         // bytes of stack that threads use, threads looked at
u32 cut_off;  // threads that came to no end of their own

u32* group_seqs;  // the first seq of each threadgroup, in the order they ran
u64 group_capacity, groups_run;
u32 group_counts[3];
u32 nominal[3];  // a full threadgroup

u64 next_stamp() {
  if (seq >= LAST_SEQ) abandon_run();
  return ++seq << SEQ_SHIFT;
}

void group_at(u64 ordinal, u32 group[3]) {
  u64 total = (u64)group_counts[0] * group_counts[1] * group_counts[2];
  u64 linear = launch->reverse ? total - 1 - ordinal : ordinal;
  group[0] = linear % group_counts[0];
  group[1] = linear / group_counts[0] % group_counts[1];
  group[2] = linear / group_counts[0] / group_counts[1];
}

void group_size(const u32 group[3], u32 size[3]) {
  for (int i = 0; i < 3; i++) {
    u32 left = launch->grid[i] - group[i] * nominal[i];
    size[i] = left < nominal[i] ? left : nominal[i];
  }
}

u32 ceil_div(u32 a, u32 b) { return (a + b - 1) / b; }

// -- Fibers
Thread* next_ready(const Simd& simd) {
  if (!simd.ready) return nullptr;
  u32 lane = launch->reverse ? 31 - __builtin_clz(simd.ready) : __builtin_ctz(simd.ready);
  return &threads[(&simd - simds) * EMBER_LANES + lane];
}

void run_as(Thread* thread) {
  current = thread;
  hot.me = simds[thread->index / EMBER_LANES].stamp | (u64)thread->index << THREAD_SHIFT;
}

void fiber();

void prepare(Thread* thread) {
  if (thread->state != FRESH) return;
  thread->state = READY;
  thread->stack = take_stack();
  thread->context = ember_fresh_context(stack_top(thread->stack), fiber);
}

// The next ready thread of the simdgroup whose running thread has ended, if any.
Thread* retire(Thread* self, State state) {
  settle_pending();
  self->state = state;
  Simd& simd = simds[self->index / EMBER_LANES];
  u32 bit = 1u << self->index % EMBER_LANES;
  simd.ready &= ~bit;
  simd.live &= ~bit;
  return next_ready(simd);
}

__attribute__((noreturn)) void leave_fiber(Thread* self, Thread* next) {
  give_stack_back(self->stack);
  if (!next) {
    current = nullptr;
    ember_leave_to(scheduler);
  }
  prepare(next);
  run_as(next);
  ember_leave_to(next->context);
}

__attribute__((noinline)) void enter(Thread* self) {
  u8 clearance[CLEARANCE];
  asm volatile("" : : "r"(clearance) : "memory");
  launch->kernel(&self->self, buffers);
  asm volatile("" : : "r"(clearance) : "memory");
}

// Fills what the thread will use of its stack: all of it once, then as deep as the first threads
// went, which every so often is looked at again.
void run_soiled(Thread* self) {
  bool first = soiled_in[self->stack] != runs;
  soiled_in[self->stack] = runs;
  soil_stack(launch->pattern, first ? SOILED : deepest);
  enter(self);
  if (++entered > 32 && entered % 1024) return;
  u64 used = used_stack(launch->pattern, SOILED);
  if (used > deepest) deepest = used;
}

// A stack whose thread has ended goes on with the simdgroup's next, so that threads that never wait
// cost no switch.
void fiber() {
  for (;;) {
    Thread* self = current;
    if (launch->checked)
      run_soiled(self);
    else
      launch->kernel(&self->self, buffers);
    Thread* next = retire(self, DONE);
    if (!next || next->state != FRESH) leave_fiber(self, next);
    next->state = READY;
    next->stack = self->stack;
    run_as(next);
  }
}

void wait(State state) {
  Thread* self = current;
  settle_pending();
  Simd& simd = simds[self->index / EMBER_LANES];
  self->state = state;
  self->spins = 0;
  simd.ready &= ~(1u << self->index % EMBER_LANES);
  Thread* next = next_ready(simd);
  if (next) {
    prepare(next);
    run_as(next);
    ember_switch(&self->context, next->context);
  } else {
    current = nullptr;
    ember_switch(&self->context, scheduler);
  }
}

void wait_at(State state, u64 place, u32 flags) {
  current->place = place;
  current->flags = flags;
  wait(state);
}

void release(Simd& simd, u32 mask) {
  simd.ready |= mask;
  for (u32 left = mask; left; left &= left - 1)
    threads[(&simd - simds) * EMBER_LANES + __builtin_ctz(left)].state = READY;
}

// -- Places
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

// The compiler may have copied a call: the line tells that it is one.
bool same_place(u64 a, u64 b) {
  return a == b || (line_of(a) != 0 && line_of(a) == line_of(b));
}

bool before(u64 a, u64 b) {
  u32 line_a = line_of(a), line_b = line_of(b);
  return line_a != line_b && line_a && line_b ? line_a < line_b : a < b;
}

bool same_operation(const Thread& a, const Thread& b) {
  if (a.state != b.state || !same_place(a.place, b.place)) return false;
  if (a.state != AT_SIMD && a.state != AT_QUAD) return true;
  return a.operation == b.operation || strcmp(a.operation, b.operation) == 0;
}

// -- Operations of simdgroups
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
  finding->has_thread = finding->has_other = 1;
  memcpy(finding->thread, leader.self.thread_position_in_grid, sizeof finding->thread);
  memcpy(finding->threadgroup, leader.self.threadgroup_position_in_grid,
         sizeof finding->threadgroup);
  memcpy(finding->other_thread, missing.self.thread_position_in_grid,
         sizeof finding->other_thread);
  memcpy(finding->other_threadgroup, missing.self.threadgroup_position_in_grid,
         sizeof finding->other_threadgroup);
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
  const Thread& leader = threads[(&simd - simds) * EMBER_LANES + __builtin_ctz(simd.live)];
  bool all = leader.state != AT_SIMD_BARRIER || simd.live == simd.lanes;
  if (all && is_simd_wait(leader.state) && like(simd, simd.live, leader) == simd.live) {
    perform(simd, simd.live, leader);
    return true;
  }
  return perform_quads(simd) || perform_first(simd, simd.live);
}

// Runs lanes until all wait, then does what they wait for. Returns whether some can go on: the other
// simdgroups come first, as simdgroups of a GPU advance side by side.
bool run_simd(Simd& simd) {
  while (Thread* next = next_ready(simd)) {
    prepare(next);
    run_as(next);
    ember_switch(&scheduler, next->context);
    if (stopped || stop_requested) return false;
  }
  return resolve(simd);
}

// -- Threadgroups
void tell_barrier(const Thread& leader, const Thread& missing, u32 there, u32 absent,
                  Reason reason) {
  u64 elsewhere = reason == BECAUSE_EXITED ? 0 : missing.place;
  ember_finding* finding = report(DIVERGENT_BARRIER, leader.place, elsewhere, -1, reason);
  if (finding->count > 1) return;
  finding->detail[0] = there;
  finding->detail[1] = absent;
  finding->has_thread = finding->has_other = 1;
  memcpy(finding->thread, leader.self.thread_position_in_grid, sizeof finding->thread);
  memcpy(finding->other_thread, missing.self.thread_position_in_grid,
         sizeof finding->other_thread);
  memcpy(finding->threadgroup, leader.self.threadgroup_position_in_grid,
         sizeof finding->threadgroup);
  memcpy(finding->other_threadgroup, leader.self.threadgroup_position_in_grid,
         sizeof finding->other_threadgroup);
}

// All threads that live wait at barriers; it must be one barrier, and all must live.
void check_barrier() {
  const Thread *leader = nullptr, *exited = nullptr, *elsewhere = nullptr;
  u32 exits = 0, waiting = 0, others = 0;
  for (u32 i = 0; i < thread_count; i++) {
    const Thread& thread = threads[i];
    if (thread.state == CUT_OFF) continue;
    waiting += thread.state == AT_BARRIER;
    if (thread.state == DONE) {
      exits++;
      if (!exited) exited = &thread;
    } else if (!leader || (thread.place != leader->place && before(thread.place, leader->place))) {
      leader = &thread;
    }
  }
  for (u32 i = 0; i < thread_count; i++) {
    const Thread& thread = threads[i];
    if (thread.state != AT_BARRIER || same_place(thread.place, leader->place)) continue;
    others++;
    if (!elsewhere) elsewhere = &thread;
  }
  u32 there = waiting - others;
  if (exited) tell_barrier(*leader, *exited, there, exits, BECAUSE_EXITED);
  if (elsewhere) tell_barrier(*leader, *elsewhere, there, others, BECAUSE_ELSEWHERE);
}

void start_interval(u32 flags, u64 place) {
  u64 stamp = next_stamp();
  hot.barrier_start = stamp;
  hot.barrier_place = place;
  if (flags & EMBER_MEM_DEVICE) hot.start[IN_DEVICE] = stamp;
  if (flags & EMBER_MEM_THREADGROUP) hot.start[IN_THREADGROUP] = stamp;
  for (u32 s = 0; s < simd_count; s++) simds[s].stamp = stamp;
}

void pass_barrier() {
  u32 flags = ~0u;
  u64 place = 0;
  bool differ = false;
  for (u32 i = 0; i < thread_count; i++) {
    const Thread& thread = threads[i];
    if (thread.state != AT_BARRIER) {
      differ |= thread.state == DONE;
      continue;
    }
    differ |= place && thread.place != place;
    place = thread.place;
    flags &= thread.flags;
  }
  if (differ && launch->checked) check_barrier();
  start_interval(flags, place);
  for (u32 s = 0; s < simd_count; s++) release(simds[s], simds[s].live);
}

// Whether there were any.
bool wake_yielded() {
  bool any = false;
  for (u32 i = 0; i < thread_count; i++) {
    if (threads[i].state != YIELDED) continue;
    release(simds[i / EMBER_LANES], 1u << i % EMBER_LANES);
    any = true;
  }
  return any;
}

void run_group() {
  for (;;) {
    bool goes_on = false;
    for (u32 i = 0; i < simd_count; i++) {
      goes_on |= run_simd(simds[launch->reverse ? simd_count - 1 - i : i]);
      if (stopped || stop_requested) return;
    }
    if (goes_on || wake_yielded()) continue;
    bool alive = false;
    for (u32 s = 0; s < simd_count; s++) alive |= simds[s].live != 0;
    if (!alive) return;
    pass_barrier();
  }
}

void set3(u32 to[3], u32 x, u32 y, u32 z) { to[0] = x, to[1] = y, to[2] = z; }

// What doesn't change from one threadgroup to the next of the same size.
void number_threads(const u32 size[3]) {
  for (u32 i = 0; i < thread_count; i++) {
    ember_thread& self = threads[i].self;
    threads[i].index = i;
    set3(self.thread_position_in_threadgroup, i % size[0], i / size[0] % size[1],
         i / size[0] / size[1]);
    memcpy(self.threads_per_threadgroup, size, sizeof self.threads_per_threadgroup);
    memcpy(self.dispatch_threads_per_threadgroup, nominal, sizeof nominal);
    memcpy(self.threads_per_grid, launch->grid, sizeof self.threads_per_grid);
    memcpy(self.grid_size, launch->grid, sizeof self.grid_size);
    memcpy(self.threadgroups_per_grid, group_counts, sizeof group_counts);
    set3(self.grid_origin, 0, 0, 0);
    u32 most = nominal[0] * nominal[1] * nominal[2];
    self.thread_index_in_threadgroup = i;
    self.thread_index_in_simdgroup = i % EMBER_LANES;
    self.simdgroup_index_in_threadgroup = i / EMBER_LANES;
    self.simdgroups_per_threadgroup = ceil_div(thread_count, EMBER_LANES);
    self.dispatch_simdgroups_per_threadgroup = ceil_div(most, EMBER_LANES);
    self.threads_per_simdgroup = EMBER_LANES;
    self.thread_execution_width = EMBER_LANES;
    self.thread_index_in_quadgroup = i % 4;
    self.quadgroup_index_in_threadgroup = i / 4;
    self.quadgroups_per_threadgroup = ceil_div(thread_count, 4);
    self.dispatch_quadgroups_per_threadgroup = ceil_div(most, 4);
  }
}

void start_group(u64 ordinal) {
  static u32 numbered[3];
  u32 group[3], size[3];
  group_at(ordinal, group);
  group_size(group, size);
  thread_count = size[0] * size[1] * size[2];
  simd_count = ceil_div(thread_count, EMBER_LANES);
  if (!ordinal || memcmp(size, numbered, sizeof size) != 0) {
    number_threads(size);
    memcpy(numbered, size, sizeof size);
  }
  for (u32 i = 0; i < thread_count; i++) {
    Thread& thread = threads[i];
    thread.state = FRESH;
    thread.spins = 0;
    for (int axis = 0; axis < 3; axis++) {
      thread.self.thread_position_in_grid[axis] =
          group[axis] * nominal[axis] + thread.self.thread_position_in_threadgroup[axis];
      thread.self.threadgroup_position_in_grid[axis] = group[axis];
    }
  }
  u64 stamp = next_stamp();
  group_seqs[ordinal] = (u32)seq;
  groups_run = ordinal + 1;
  hot.first = hot.start[IN_DEVICE] = hot.start[IN_THREADGROUP] = hot.barrier_start = stamp;
  for (u32 s = 0; s < simd_count; s++) {
    Simd& simd = simds[s];
    u32 lanes = thread_count - s * EMBER_LANES;
    simd.lanes = simd.ready = simd.live = lanes >= EMBER_LANES ? ~0u : (1u << lanes) - 1;
    simd.stamp = stamp;
    simd.barrier_start = simd.memory_start[0] = simd.memory_start[1] = 0;
    simd.parity = 0;
    memset(simd.quad_parity, 0, sizeof simd.quad_parity);
  }
  if (!launch->checked) return;
  for (u32 i = 0; i < launch->array_count; i++)
    memset((void*)launch->arrays[i].start, (int)launch->pattern, launch->arrays[i].size);
}

bool plan_groups() {
  u64 total = 1;
  for (int i = 0; i < 3; i++) {
    nominal[i] = launch->threadgroup[i] < launch->grid[i] ? launch->threadgroup[i] : launch->grid[i];
    group_counts[i] = nominal[i] ? ceil_div(launch->grid[i], nominal[i]) : 0;
    total *= group_counts[i];
  }
  if (total > group_capacity) {
    group_capacity = total;
    group_seqs = (u32*)reserve(total * sizeof(u32));
  }
  return group_seqs || !total;
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}
}  // namespace

void abandon_run() {
  stopped = true;
  current = nullptr;
  ember_leave_to(scheduler);
}

void end_thread() {
  cut_off++;
  Thread* self = current;
  leave_fiber(self, retire(self, CUT_OFF));
}

void locate(u32 at, u32 thread, u32 position[3], u32 group[3]) {
  u64 low = 0, high = groups_run;
  while (high - low > 1) {
    u64 middle = (low + high) / 2;
    (group_seqs[middle] <= at ? low : high) = middle;
  }
  u32 size[3];
  group_at(low, group);
  group_size(group, size);
  position[0] = group[0] * nominal[0] + thread % size[0];
  position[1] = group[1] * nominal[1] + thread / size[0] % size[1];
  position[2] = group[2] * nominal[2] + thread / size[0] / size[1];
}

void step_together(u64 pc) { wait_at(AT_STEP, pc, 0); }

// Locks and flags that threads pass to each other by atomics need the others to run meanwhile.
void wait_for_others() {
  if (++current->spins < 4096) return;
  wait(YIELDED);
}

extern "C" {
EMBER_EXPORT const ember_thread* ember_self() { return current ? &current->self : nullptr; }

EMBER_EXPORT void ember_threadgroup_barrier(u32 flags) { wait_at(AT_BARRIER, CALLER(), flags); }

EMBER_EXPORT void ember_simdgroup_barrier(u32 flags) {
  wait_at(AT_SIMD_BARRIER, CALLER(), flags);
}

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

// Runs all threads once; buffers were placed before. Null, or why it could not. `*seconds` and
// `*accesses` tell of the run, `*ended` whether all threads came to an end, `*cut` how many
// were ended before theirs.
EMBER_EXPORT const char* ember_run(const ember_launch* what, double* seconds, u64* accesses,
                                   u32* ended, u32* cut) {
  launch = what;
  *ended = 0;
  if (!reserve_stacks() || !catch_faults()) return "no memory for the threads' stacks";
  if (!plan_groups()) return "no memory for the threadgroups' records";
  for (u32 i = 0; i < MAX_SLOTS; i++) buffers[i] = (void*)(hot.slots[i].start + hot.slots[i].offset);
  clear_findings();
  start_shadow();
  stopped = false;
  stop_requested = 0;
  seq = 0;
  cut_off = 0;
  runs++;
  deepest = entered = 0;
  groups_run = 0;
  u64 total = (u64)group_counts[0] * group_counts[1] * group_counts[2];
  double started = now();
  start_clock(what->seconds);
  for (u64 i = 0; i < total && !stopped && !stop_requested; i++) {
    start_group(i);
    run_group();
  }
  stop_clock();
  *seconds = now() - started;
  *accesses = hot.accesses;
  if (stop_requested && !stopped) report(TIMEOUT, 0, 0, -1, BECAUSE_NOTHING);
  *cut = cut_off;
  *ended = !stopped && !stop_requested;
  current = nullptr;
  launch = nullptr;
  return nullptr;
}
}
