// What the parts of the runtime share. One launch runs at a time, in one process thread.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "interface.h"

#define EMBER_HIDDEN __attribute__((visibility("hidden")))
#define EMBER_EXPORT __attribute__((visibility("default")))
#define EMBER_LIKELY(x) __builtin_expect(!!(x), 1)
#define EMBER_UNLIKELY(x) __builtin_expect(!!(x), 0)

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t i64;

enum {
  MAX_THREADS = 1024,  // of a threadgroup, as Apple GPUs have it
  MAX_SIMDS = MAX_THREADS / EMBER_LANES,
  MAX_SLOTS = 32,  // Metal has 31 buffer indices
  MAX_VALUE = 16,
  KEPT_CHANGES = 8,
};

constexpr u64 SLOT_SHIFT = 36;  // 64 GB of address space a buffer
constexpr u64 SLOT_BYTES = 1ull << SLOT_SHIFT;

// -- Records: who touched a place last -------------------------------------------------------------
// seq:30 | thread:10 | atomic:1 | several lanes:1 | several simdgroups:1 | pc:21, so that "at or after
// a point in time" is one comparison of 64-bit numbers. seq counts synchronisations of any scope in
// the launch, pc from the start of the kernel object. 0 is "nobody".
constexpr u64 PC_BITS = 21, PC_MASK = (1ull << PC_BITS) - 1;
constexpr u64 SEVERAL_SIMDS = 1ull << 21, SEVERAL_LANES = 1ull << 22, ATOMIC = 1ull << 23;
constexpr u64 SEVERAL = SEVERAL_SIMDS | SEVERAL_LANES;
constexpr u64 THREAD_SHIFT = 24, SEQ_SHIFT = 34;
constexpr u64 LAST_SEQ = (1ull << 30) - 2;

static inline u32 thread_of(u64 record) { return (record >> THREAD_SHIFT) & (MAX_THREADS - 1); }
static inline u32 seq_of(u64 record) { return (u32)(record >> SEQ_SHIFT); }

// -- Input from Python -----------------------------------------------------------------------------
enum Role { ROLE_INPUT = 0, ROLE_OUTPUT = 1, ROLE_INFO = 2 };

struct ember_array {  // a threadgroup array, by its address
  u64 start, size;
};

struct ember_launch {
  void (*kernel)(const ember_thread*, void* const*);
  u64 image_start, image_end;      // where the kernel object lies
  u64 text_start, text_end;        // its code
  u64 writable_start, writable_end;  // its data, which threads reach through threadgroup arrays only
  u64 arrays_start, arrays_end;    // section msltg
  const ember_array* arrays;
  u32 array_count;
  u32 checked, reverse, pattern, lockstep, profiled;
  u32 grid[3], threadgroup[3];
  u32 body[2];  // the lines of the kernel's body: the first, and that after the last
  double seconds;
  // The line of a pc, 0 if unknown. Called between fibers only, to distinguish places.
  u32 (*line_of)(u64 pc);
};

struct ember_buffer {
  u32 slot, role, initialized, itemsize;
  u64 size, offset;
  void* data;  // the parent's bytes; null for an output without content
};

// -- Output to Python ------------------------------------------------------------------------------
enum Kind {
  OUT_OF_BOUNDS, WRITE_TO_INPUT, THREADGROUP_RACE, DEVICE_RACE, UNINITIALIZED_READ, UNWRITTEN_OUTPUT,
  DIVERGENT_BARRIER, DIVERGENT_SIMD, WRONG_MEM_FLAGS, ORDER_DEPENDENT, TIMEOUT, CRASH,
  SAME_VALUE_WRITE, LANE_SYNCHRONOUS, UNDEFINED_ARITHMETIC,
  MISALIGNED_ACCESS, SIMDGROUP_DEADLOCK,
};

// How the reported access, and the one before it, touched memory.
enum { PLAIN_READ = 1, PLAIN_WRITE = 2, ATOMICALLY = 4 };

// Why, where the kind alone doesn't say.
enum Reason {
  BECAUSE_NOTHING, BECAUSE_EXITED, BECAUSE_ELSEWHERE, BECAUSE_INACTIVE_LANE, BECAUSE_PARTIAL,
  BECAUSE_FLAG_DEVICE, BECAUSE_FLAG_THREADGROUP, BECAUSE_INDEX, BECAUSE_WILD, BECAUSE_SIGNAL,
  BECAUSE_STACK, BECAUSE_SCRATCH, BECAUSE_SIMD_BARRIER, BECAUSE_OTHER_THREADGROUP, BECAUSE_VARIABLE,
  BECAUSE_SHIFT, BECAUSE_RANGE, BECAUSE_DIVISION, BECAUSE_ELEMENT,
};

struct ember_finding {
  u32 kind, reason;
  u64 pc, other_pc;       // 0 if unknown; inside the instruction that called
  u64 barrier_pc;         // of the barrier that lacks a flag
  u64 address;            // what was accessed, 0 if nothing
  i64 place;              // buffer's slot, or 64 + the index of the threadgroup array, or -1
  i64 offset;             // in bytes from the buffer's element 0, or the array's start
  u32 size, access, other_access;
  u32 has_thread, has_other;
  u32 thread[3], threadgroup[3], other_thread[3], other_threadgroup[3];
  u32 value_size;         // of the bytes below
  u32 line, column;       // where the compiler has them, else 0
  u8 value[MAX_VALUE], other_value[MAX_VALUE];
  i64 detail[2];          // by reason: counts, lane, index, signal
  char text[96];          // by reason: operation or type
  u64 count;
};

// The accesses of one instruction in a profiled run, as MemoryCounts of Python describes them.
struct ember_site {
  u64 pc;
  i64 place;      // as that of a finding
  u32 width, access;
  u64 issued, lanes, sectors, lines64, lines128, bank_cycles, contention;
  u64 first;  // of the first access, from the start of its place
};

// The executions of a block of instructions.
struct ember_block {
  u64 issued, lanes;
};

// -- Threads ---------------------------------------------------------------------------------------
enum State : u32 {
  FRESH, READY, DONE, CUT_OFF, AT_BARRIER, AT_SIMD_BARRIER, AT_SIMD, AT_QUAD, AT_STEP, YIELDED,
  AT_SPIN_BEGIN, AT_SPIN_END, AT_TURN,  // held by spins.cpp
};

struct Thread {
  ember_thread self;  // first: ember_self() is the thread
  State state;
  u32 index;
  void* context;          // where a fiber that gave up control goes on
  int stack;
  u64 place;              // pc of what it waits at
  const char* operation;
  u32 size, flags;
  u32 active;
  const u8* result;
  u32 spins;
  u64 own_stamp;          // of its last fence
  u64 changes[KEPT_CHANGES];  // where it last changed atomics
  u32 change_count;
  alignas(16) u8 staged[EMBER_SLOT];
};

struct Simd {
  u32 lanes, ready, live;  // masks
  u64 stamp;               // seq << SEQ_SHIFT of the last synchronisation that its lanes share
  u64 barrier_start;       // of its last simdgroup barrier
  u64 barrier_place;       // pc of that
  u64 memory_start[2];     // of its last simdgroup barrier with flags for device, threadgroup
  bool spins;              // a lane has begun a loop that waits for an atomic
  u32 parity, quad_parity[EMBER_LANES / 4];
  alignas(16) u8 exchanged[2][EMBER_LANES][EMBER_SLOT];
  alignas(16) u8 quads[2][EMBER_LANES][EMBER_SLOT];
};

// -- Memory ----------------------------------------------------------------------------------------
// What atomics added to a float.
struct Sum {
  double magnitude;  // of all amounts
  u64 count;
};

struct Slot {
  u64 start;      // of the buffer's bytes
  u64 last[5];    // an access of 1 << k bytes may start below this many bytes from there
  u64 *writers, *readers;  // one record a granule
  u32 shift;      // of the granule
  bool readonly, initialized, was_read, used;
  u64 size, offset;
  u32 itemsize, role;
  u64 bytes_read, bytes_written;  // by all threads of this run
  u64 records_bytes;  // reserved after each of writers and readers
  u64 recorded;       // bytes of the buffer that they were last for
  u64 mapped;         // bytes mapped at start
  bool scratched;     // the fault handler put pages in
  Sum* sums;          // of each float, null where no atomic added to one
  u64 sums_bytes;
};

enum Space { IN_DEVICE = 0, IN_THREADGROUP = 1 };

// What every checked access reads, together.
struct Hot {
  u64 slots_base, slots_span;    // spans are 0 while a write's value is awaited
  u64 arrays_base, arrays_span;
  u64 stacks_base, stacks_span;
  u64 me;                        // record of the running thread, without pc
  u64 first;                     // all times are seq << SEQ_SHIFT; of the threadgroup's start
  u64 start[2];                  // of the last barrier with flags for device, threadgroup
  u64 barrier_start;             // of the last threadgroup barrier
  u64 barrier_place;             // pc of that
  bool diverged;                 // some threads of this threadgroup have missed a barrier
  u64 text;                      // pcs count from here
  u64 *array_writers, *array_readers;
  u32 array_shift;
  u64 accesses;
  Slot slots[MAX_SLOTS];
};

extern EMBER_HIDDEN Hot hot;
extern EMBER_HIDDEN Thread threads[MAX_THREADS];
extern EMBER_HIDDEN Simd simds[MAX_SIMDS];
extern EMBER_HIDDEN Thread* current;  // null outside of fibers
extern EMBER_HIDDEN const ember_launch* launch;

static inline u64 pc_bits(u64 pc) {
  u64 offset = pc - hot.text;
  return offset <= PC_MASK ? offset : 0;
}
static inline u64 pc_of(u64 record) {
  u64 offset = record & PC_MASK;
  return offset ? hot.text + offset : 0;
}
#define CALLER() ((u64)(uintptr_t)__builtin_return_address(0) - 1)

// -- schedule.cpp
EMBER_HIDDEN void abandon_run() __attribute__((noreturn));  // back to the scheduler, for good
EMBER_HIDDEN void end_thread() __attribute__((noreturn));  // what it would do next harms others
EMBER_HIDDEN void locate(u32 seq, u32 thread, u32 position[3], u32 threadgroup[3]);
EMBER_HIDDEN void step_together(u64 pc);
EMBER_HIDDEN void wait_for_others();
// -- fences.cpp
EMBER_HIDDEN bool is_fenced(u64 record, Space space);
EMBER_HIDDEN void note_atomic_read();
EMBER_HIDDEN void note_atomic_write();
EMBER_HIDDEN void forget_fences();  // of the launch before
EMBER_HIDDEN void start_fences();   // of a threadgroup
// -- report.cpp
EMBER_HIDDEN ember_finding* report(Kind kind, u64 pc, u64 other_pc, i64 place, u32 reason);
EMBER_HIDDEN void blame(ember_finding* finding, const Thread& thread);
EMBER_HIDDEN void blame_current(ember_finding* finding);
EMBER_HIDDEN void blame_other(ember_finding* finding, const Thread& other);
EMBER_HIDDEN void blame_other(ember_finding* finding, u64 record);
EMBER_HIDDEN void clear_findings();
// -- shadow.cpp, conflict.cpp
EMBER_HIDDEN void settle_pending();
EMBER_HIDDEN void start_shadow();
EMBER_HIDDEN bool was_outside(u64 address);
EMBER_HIDDEN void check(u64 address, u64 size, u32 access, u64 pc);
// -- memory.cpp
EMBER_HIDDEN bool map_scratch(u64 address);
EMBER_HIDDEN bool reserve_memory();
EMBER_HIDDEN Slot* slot_of(u64 address);
EMBER_HIDDEN bool ensure_records(Slot& slot);
EMBER_HIDDEN u64 page_bytes();
EMBER_HIDDEN u8* reserve(u64 bytes);
EMBER_HIDDEN u64 reserve_space(u64 bytes, u64 alignment);  // of addresses; 0 if there is none
// -- spins.cpp
EMBER_HIDDEN void note_spin(u64 address, u32 access, u64 pc);
// -- sums.cpp
EMBER_HIDDEN void forget_sums(Slot& slot);
EMBER_HIDDEN bool is_rounding(const Slot& slot, u64 offset, const u8* before, const u8* now);
// -- faults.cpp
EMBER_HIDDEN bool catch_faults();
EMBER_HIDDEN void start_clock(double seconds);
EMBER_HIDDEN void stop_clock();
// -- stacks in schedule.cpp
EMBER_HIDDEN bool on_guard(u64 address);
EMBER_HIDDEN bool on_stacks(u64 address);
EMBER_HIDDEN u64 stacks_bytes();

// -- profile.cpp
extern EMBER_HIDDEN bool profiling;
EMBER_HIDDEN void start_profile();
EMBER_HIDDEN void start_profiled_group(u32 simd_count);
EMBER_HIDDEN void start_profiled_segment();  // of a simdgroup, up to its next synchronisation
EMBER_HIDDEN void end_profile();
EMBER_HIDDEN void profile_access(u64 address, u32 width, u32 access, u64 pc);
