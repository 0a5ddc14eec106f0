// Findings of a run, one for each kind, pair of places and buffer, with a count.
#include <string.h>

#include "state.h"

namespace {
enum { CAPACITY = 1024, BUCKETS = 4096 };
ember_finding findings[CAPACITY];
u32 finding_count;
u32 buckets[BUCKETS];  // index of a finding + 1
ember_finding overflow;

u32 hash_of(u32 kind, u64 pc, u64 other_pc, i64 place) {
  u64 hash = (pc * 0x9E3779B97F4A7C15ull) ^ (other_pc * 0xC2B2AE3D27D4EB4Full) ^
             ((u64)place * 0x165667B19E3779F9ull) ^ (kind * 0x27D4EB2Full);
  return (u32)(hash >> 32) % BUCKETS;
}

// Whether it may follow from a barrier that some threads of the threadgroup have missed.
bool may_follow(Kind kind, i64 place, u32 reason) {
  switch (kind) {
    case UNINITIALIZED_READ:
      return place >= 2 * MAX_SLOTS;
    case THREADGROUP_RACE: case DEVICE_RACE: case SAME_VALUE_WRITE: case LANE_SYNCHRONOUS:
      return reason != BECAUSE_OTHER_THREADGROUP;
    default:
      return kind == DIVERGENT_BARRIER || kind == WRONG_MEM_FLAGS;
  }
}
}  // namespace

// One that has been reported before, or follows from another, has a count of more than one.
ember_finding* report(Kind kind, u64 pc, u64 other_pc, i64 place, u32 reason) {
  if (hot.diverged && may_follow(kind, place, reason)) {
    overflow.count = 2;
    return &overflow;
  }
  u32 bucket = hash_of(kind, pc, other_pc, place);
  for (; buckets[bucket]; bucket = (bucket + 1) % BUCKETS) {
    ember_finding& known = findings[buckets[bucket] - 1];
    if (known.kind == (u32)kind && known.pc == pc && known.other_pc == other_pc &&
        known.place == place && known.reason == reason) {
      known.count++;
      return &known;
    }
  }
  ember_finding* finding = &overflow;
  if (finding_count < CAPACITY) {
    finding = &findings[finding_count++];
    buckets[bucket] = finding_count;
  }
  memset(finding, 0, sizeof *finding);
  finding->kind = kind;
  finding->pc = pc;
  finding->other_pc = other_pc;
  finding->place = place;
  finding->reason = reason;
  finding->count = 1;
  return finding;
}

void blame(ember_finding* finding, const Thread& thread) {
  finding->has_thread = 1;
  memcpy(finding->thread, thread.self.thread_position_in_grid, sizeof finding->thread);
  memcpy(finding->threadgroup, thread.self.threadgroup_position_in_grid,
         sizeof finding->threadgroup);
}

void blame_current(ember_finding* finding) {
  if (current) blame(finding, *current);
}

void blame_other(ember_finding* finding, const Thread& other) {
  finding->has_other = 1;
  memcpy(finding->other_thread, other.self.thread_position_in_grid, sizeof finding->other_thread);
  memcpy(finding->other_threadgroup, other.self.threadgroup_position_in_grid,
         sizeof finding->other_threadgroup);
}

void blame_other(ember_finding* finding, u64 record) {
  if (!record) return;
  finding->other_access = record & ATOMIC ? PLAIN_WRITE | ATOMICALLY : PLAIN_WRITE;
  // Where several threads did it, the record names the first, which may be the accuser itself.
  if (record & SEVERAL && current && thread_of(record) == current->index && record >= hot.first)
    return;
  finding->has_other = 1;
  locate(seq_of(record), thread_of(record), finding->other_thread, finding->other_threadgroup);
}

void clear_findings() {
  finding_count = 0;
  memset(buckets, 0, sizeof buckets);
}

extern "C" EMBER_EXPORT const ember_finding* ember_findings(u32* count) {
  *count = finding_count;
  return findings;
}
