// Runs the threads of a launch: threadgroups one after another, their simdgroups in turn.
#include <string.h>
#include <time.h>

#include "schedule.h"
#include "stacks.h"

const ember_launch* launch;

namespace {
u32 thread_count, simd_count;
u32* group_seqs;  // the first seq of each threadgroup, in the order they ran
u64 group_capacity, groups_run;
u32 group_counts[3];
u32 nominal[3];  // a full threadgroup

void group_at(u64 ordinal, u32 group[3]) {
  u64 total = group_total();
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

void tell_barrier(const Thread& leader, const Thread& missing, u32 there, u32 absent,
                  Reason reason) {
  u64 elsewhere = reason == BECAUSE_EXITED ? 0 : missing.place;
  ember_finding* finding = report(DIVERGENT_BARRIER, leader.place, elsewhere, -1, reason);
  if (finding->count > 1) return;
  finding->detail[0] = there;
  finding->detail[1] = absent;
  blame(finding, leader);
  blame_other(finding, missing);
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
  hot.diverged |= exited || elsewhere;
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

// Lanes that wait for an atomic wait for those of their simdgroup that spins.cpp holds.
bool release_any_stuck() {
  for (u32 s = 0; s < simd_count; s++)
    if (release_stuck(simds[s])) return true;
  return false;
}

void run_group() {
  u64 progress = 0;
  u32 rounds = 0;  // without progress
  for (;;) {
    bool goes_on = false;
    for (u32 i = 0; i < simd_count; i++) {
      goes_on |= run_simd(simds[launch->reverse ? simd_count - 1 - i : i]);
      if (is_over()) return;
    }
    if (run.progress != progress) rounds = 0;
    progress = run.progress;
    if (!goes_on && ++rounds > 2 && release_any_stuck()) continue;
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
    thread.own_stamp = 0;
    thread.change_count = 0;
    for (int axis = 0; axis < 3; axis++) {
      thread.self.thread_position_in_grid[axis] =
          group[axis] * nominal[axis] + thread.self.thread_position_in_threadgroup[axis];
      thread.self.threadgroup_position_in_grid[axis] = group[axis];
    }
  }
  u64 stamp = next_stamp();
  group_seqs[ordinal] = (u32)run.seq;
  groups_run = ordinal + 1;
  hot.diverged = false;
  start_fences();
  start_spins();
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
  if (EMBER_UNLIKELY(profiling)) start_profiled_group(simd_count);
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

u64 next_stamp() {
  if (run.seq >= LAST_SEQ)
    run.stop_requested = 1;  // after hours
  else
    run.seq++;
  return run.seq << SEQ_SHIFT;
}

u64 group_total() { return (u64)group_counts[0] * group_counts[1] * group_counts[2]; }

u32 threads_of_full_group() { return nominal[0] * nominal[1] * nominal[2]; }

u64 group_of(u32 at) {
  u64 low = 0, high = groups_run;
  while (high - low > 1) {
    u64 middle = (low + high) / 2;
    (group_seqs[middle] <= at ? low : high) = middle;
  }
  return low;
}

void locate(u32 at, u32 thread, u32 position[3], u32 group[3]) {
  u32 size[3];
  group_at(group_of(at), group);
  group_size(group, size);
  position[0] = group[0] * nominal[0] + thread % size[0];
  position[1] = group[1] * nominal[1] + thread / size[0] % size[1];
  position[2] = group[2] * nominal[2] + thread / size[0] / size[1];
}

extern "C" {
// Runs all threads once; buffers were placed before. Null, or why it could not. `*seconds` and
// `*accesses` counts those of the run, `*ended` is whether all threads ended, `*cut` how many
// were ended before theirs.
EMBER_EXPORT const char* ember_run(const ember_launch* what, double* seconds, u64* accesses,
                                   u32* ended, u32* cut) {
  launch = what;
  *ended = 0;
  if (!reserve_stacks() || !catch_faults()) return "no memory for the threads' stacks";
  if (!plan_groups()) return "no memory for the threadgroups' records";
  clear_findings();
  start_shadow();
  forget_fences();
  forget_spins();
  start_fibers();
  start_profile();
  groups_run = 0;
  u64 total = group_total();
  double started = now();
  start_clock(what->seconds);
  for (u64 i = 0; i < total && !is_over(); i++) {
    start_group(i);
    run_group();
  }
  stop_clock();
  end_profile();
  *seconds = now() - started;
  *accesses = hot.accesses;
  if (run.stop_requested && !run.stopped) report(TIMEOUT, 0, 0, -1, BECAUSE_NOTHING);
  *cut = run.cut_off;
  *ended = !is_over();
  current = nullptr;
  launch = nullptr;
  return nullptr;
}
}
