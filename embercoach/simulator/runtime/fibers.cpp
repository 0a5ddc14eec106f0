// Threads as fibers: each runs until it waits or ends, then the next of its simdgroup goes on.
#include <string.h>

#include "schedule.h"
#include "stacks.h"
#include "switch.h"

Thread threads[MAX_THREADS];
Simd simds[MAX_SIMDS];
Thread* current;
Run run;

namespace {
void* scheduler;              // its context while a fiber runs
u32 runs;                     // of this process
u32 soiled_in[MAX_THREADS];   // the run in which a stack was last filled whole
u64 deepest, entered;         // bytes of stack that threads use, threads looked at

Thread* next_ready(const Simd& simd) {
  if (!simd.ready) return nullptr;
  u32 lane = launch->reverse ? 31 - __builtin_clz(simd.ready) : __builtin_ctz(simd.ready);
  return &threads[(&simd - simds) * EMBER_LANES + lane];
}

void run_as(Thread* thread) {
  current = thread;
  u64 stamp = simds[thread->index / EMBER_LANES].stamp;
  if (EMBER_UNLIKELY(thread->own_stamp > stamp)) stamp = thread->own_stamp;
  hot.me = stamp | (u64)thread->index << THREAD_SHIFT;
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
  run.progress++;
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
  launch->kernel(&self->self, run.buffers);
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
      launch->kernel(&self->self, run.buffers);
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
  if (state != YIELDED) run.progress++;
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
}  // namespace

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

void start_fibers() {
  run = Run{};
  for (u32 i = 0; i < MAX_SLOTS; i++)
    run.buffers[i] = (void*)(hot.slots[i].start + hot.slots[i].offset);
  runs++;
  deepest = entered = 0;
}

void run_lanes(const Simd& simd) {
  while (Thread* next = next_ready(simd)) {
    prepare(next);
    run_as(next);
    ember_switch(&scheduler, next->context);
    if (is_over()) return;
  }
}

void abandon_run() {
  run.stopped = true;
  current = nullptr;
  ember_leave_to(scheduler);
}

void end_thread() {
  run.cut_off++;
  Thread* self = current;
  leave_fiber(self, retire(self, CUT_OFF));
}

void step_together(u64 pc) { wait_at(AT_STEP, pc, 0); }

// Locks and flags that threads pass to each other by atomics need the others to run meanwhile.
void wait_for_others() {
  if (++current->spins < (is_spinning(current->index) ? 256 : 4096)) return;
  wait(YIELDED);
}

extern "C" {
EMBER_EXPORT const ember_thread* ember_self() { return current ? &current->self : nullptr; }

EMBER_EXPORT void ember_threadgroup_barrier(u32 flags) { wait_at(AT_BARRIER, CALLER(), flags); }

EMBER_EXPORT void ember_simdgroup_barrier(u32 flags) {
  wait_at(AT_SIMD_BARRIER, CALLER(), flags);
}

// What a local variable that was declared without a value holds.
EMBER_EXPORT unsigned char ember_fill() { return (unsigned char)launch->pattern; }
}
