// atomic_thread_fence: what a thread did before a fence is handed on by the atomic that it writes
// after it, to threads that read an atomic and fence after that. Which atomic handed it on is not
// followed: rather a race missed than one that is none.
#include <string.h>
#include <sys/mman.h>

#include "schedule.h"

namespace {
struct Fenced {
  u64 asked;        // hot.first of the threadgroup in which it last read an atomic
  u64 waiting[2];   // its last fence that hands on, by space, until an atomic does it
  u64 by_simd[2], by_group[2];  // at that fence, what its simdgroup and threadgroup did before
  bool to_device;
  u64 released[2];  // its last fence whose atomic was written
  u64 acquired[2];  // its last one that takes over
};

Fenced fenced[MAX_THREADS];
u64 released_by_simd[MAX_SIMDS][2];  // what lanes did before this, one of them has handed on
u64 acquired_by_simd[MAX_SIMDS][2], acquired_by_group[2];
bool used, any_waiting;  // in this threadgroup

// For each threadgroup that ran: what was handed on to others, as a seq, by the threads together
// before a barrier, then by each.
u32* handed_on;
u64 row_length, handed_on_bytes;

bool have_rows() {
  if (handed_on) return true;
  row_length = 1 + (u64)threads_of_full_group();
  handed_on_bytes = group_total() * row_length * sizeof(u32);
  handed_on = (u32*)reserve(handed_on_bytes);
  return handed_on;
}

void raise(u32& at, u64 stamp) {
  if (at < seq_of(stamp)) at = seq_of(stamp);
}

void hand_on(u32 thread, Space space) {
  Fenced& it = fenced[thread];
  u32 simd = thread / EMBER_LANES;
  u64 stamp = it.released[space] = it.waiting[space];
  it.waiting[space] = 0;
  if (released_by_simd[simd][space] < it.by_simd[space])
    released_by_simd[simd][space] = it.by_simd[space];
  if (space != IN_DEVICE || !it.to_device || !have_rows()) return;
  u32* row = handed_on + group_of(seq_of(hot.first)) * row_length;
  raise(row[0], it.by_group[space]);
  raise(row[1 + thread], stamp);
  u64 end = (simd + 1) * EMBER_LANES + 1;
  for (u64 at = simd * EMBER_LANES + 1; at < end && at < row_length; at++)
    raise(row[at], it.by_simd[space]);
}

void take_over(Space space, u64 stamp) {
  u32 me = current->index;
  fenced[me].acquired[space] = stamp;
  acquired_by_simd[me / EMBER_LANES][space] = acquired_by_group[space] = stamp;
}

bool was_handed_on(u64 record, Space space) {
  u32 other = thread_of(record);
  if (record >= hot.first)
    return record < fenced[other].released[space] ||
           record < released_by_simd[other / EMBER_LANES][space];
  if (!handed_on) return false;
  const u32* row = handed_on + group_of(seq_of(record)) * row_length;
  return seq_of(record) < row[0] || seq_of(record) < row[1 + other];
}

// By the running thread, or by one that was at a barrier with it since.
bool was_taken_over(u64 record, Space space) {
  u32 me = current->index, simd = me / EMBER_LANES;
  u64 by_simd = acquired_by_simd[simd][space], by_group = acquired_by_group[space];
  return record < fenced[me].acquired[space] ||
         (record < by_simd && by_simd < simds[simd].barrier_start) ||
         (record < by_group && by_group < hot.barrier_start);
}
}  // namespace

bool is_fenced(u64 record, Space space) {
  return used && was_handed_on(record, space) && was_taken_over(record, space);
}

// Threads that fenced before a barrier may leave the atomic to one of them.
void note_atomic_write() {
  if (!any_waiting) return;
  any_waiting = false;
  for (u32 thread = 0; thread < MAX_THREADS; thread++)
    for (int i = 0; i < 2; i++) {
      u64 stamp = fenced[thread].waiting[i];
      if (!stamp) continue;
      if (thread == current->index || stamp < hot.barrier_start)
        hand_on(thread, Space(i));
      else
        any_waiting = true;
    }
}

void note_atomic_read() { fenced[current->index].asked = hot.first; }

void forget_fences() {
  if (handed_on) munmap(handed_on, handed_on_bytes);
  handed_on = nullptr;
  memset(fenced, 0, sizeof fenced);
  used = true;
  start_fences();
}

void start_fences() {
  if (!used) return;
  used = any_waiting = false;
  memset(fenced, 0, sizeof fenced);
  memset(released_by_simd, 0, sizeof released_by_simd);
  memset(acquired_by_simd, 0, sizeof acquired_by_simd);
  memset(acquired_by_group, 0, sizeof acquired_by_group);
}

extern "C" EMBER_EXPORT void ember_fence(u32 flags, u32 effect) {
  if (!current || !launch->checked) return;
  settle_pending();
  used = true;
  // What the thread does from here on must not look like what it did before.
  u64 stamp = current->own_stamp = next_stamp();
  hot.me = stamp | (u64)current->index << THREAD_SHIFT;
  for (int i = 0; i < 2; i++) {
    Space space = Space(i);
    if (!(flags & (space == IN_DEVICE ? EMBER_MEM_DEVICE : EMBER_MEM_THREADGROUP))) continue;
    Fenced& mine = fenced[current->index];
    if (effect & EMBER_HANDS_ON) {
      any_waiting = true;
      mine.waiting[space] = stamp;
      mine.by_simd[space] = simds[current->index / EMBER_LANES].memory_start[space];
      mine.by_group[space] = hot.start[space];
      mine.to_device = effect & EMBER_ON_DEVICE;
    }
    if (effect & EMBER_TAKES_OVER && mine.asked == hot.first) take_over(space, stamp);
  }
}
