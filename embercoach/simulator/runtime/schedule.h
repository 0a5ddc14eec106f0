// What runs threads: fibers, lanes and threadgroups.
#pragma once
#include "state.h"

// Of one run.
struct Run {
  bool stopped;                 // by a finding that ends it
  volatile u32 stop_requested;  // where a signal interrupts the scheduler itself
  u32 cut_off;                  // threads that did not end by themselves
  u64 progress;                 // waits and ends of threads so far, but for those that spin
  u64 seq;                      // synchronisations so far
  void* buffers[MAX_SLOTS];
};
extern EMBER_HIDDEN Run run;

static inline bool is_over() { return run.stopped || run.stop_requested; }

// -- fibers.cpp
EMBER_HIDDEN void start_fibers();
EMBER_HIDDEN void run_lanes(const Simd& simd);  // until all wait
EMBER_HIDDEN void wait_at(State state, u64 place, u32 flags);
EMBER_HIDDEN void release(Simd& simd, u32 mask);
// -- spins.cpp
EMBER_HIDDEN void forget_spins();  // of the launch before
EMBER_HIDDEN void start_spins();   // of a threadgroup
EMBER_HIDDEN bool is_spinning(u32 thread);
EMBER_HIDDEN bool release_held(Simd& simd);   // whether a lane can go on now
EMBER_HIDDEN bool release_stuck(Simd& simd);  // the same, where nothing else goes on
// -- lanes.cpp
EMBER_HIDDEN bool run_simd(Simd& simd);
EMBER_HIDDEN bool same_place(u64 a, u64 b);
EMBER_HIDDEN bool before(u64 a, u64 b);
EMBER_HIDDEN bool is_later(u64 a, u64 b);  // certainly: of the kernel's body, and further down
// -- groups.cpp
EMBER_HIDDEN u64 next_stamp();
EMBER_HIDDEN u64 group_of(u32 seq);  // in the order that they ran
EMBER_HIDDEN u64 group_total();
EMBER_HIDDEN u32 threads_of_full_group();
