// The stacks of fibers: 256 KB each, with an inaccessible stretch below that is wide enough for
// large frames not to step over.
#include <string.h>
#include <sys/mman.h>

#include "stacks.h"
#include "state.h"

namespace {
constexpr u64 STRIDE = 1ull << 20, USABLE = 256ull << 10;
constexpr u64 BELOW = 256ull << 20;  // so far a frame may reach below the lowest stack
u64 base;
int unused[MAX_THREADS], unused_count, opened;
}  // namespace

bool reserve_stacks() {
  if (!base) {
    u64 lowest = reserve_space(BELOW + MAX_THREADS * STRIDE, STRIDE);
    if (!lowest) return false;
    hot.stacks_base = base = lowest + BELOW;
  }
  unused_count = 0;
  for (int i = opened; i-- > 0;) unused[unused_count++] = i;
  return true;
}

int take_stack() {
  if (unused_count) return unused[--unused_count];
  int stack = opened++;
  mprotect((void*)(base + (stack + 1) * STRIDE - USABLE), USABLE, PROT_READ | PROT_WRITE);
  return stack;
}

void give_stack_back(int stack) { unused[unused_count++] = stack; }

void* stack_top(int stack) { return (void*)(base + (stack + 1) * STRIDE); }

u64 stacks_bytes() { return MAX_THREADS * STRIDE; }

bool on_stacks(u64 address) {
  return base && address - base < MAX_THREADS * STRIDE &&
         (address - base) % STRIDE >= STRIDE - USABLE;
}

bool on_guard(u64 address) {
  if (!base) return false;
  return address - (base - BELOW) < BELOW ||
         (address - base < MAX_THREADS * STRIDE && (address - base) % STRIDE < STRIDE - USABLE);
}

// So that a local that is read before it is written shows the run's pattern, not what a thread
// before left. Both functions mean the stack from so far below their caller's frame that their own
// has space there; the kernel is called from a frame of that size.
__attribute__((noinline)) void soil_stack(u32 pattern, u64 bytes) {
  u8* top = (u8*)__builtin_frame_address(0) - CLEARANCE;
  memset(top - bytes, (int)pattern, bytes);
}

// How much of what was soiled has been used, rounded up.
__attribute__((noinline)) u64 used_stack(u32 pattern, u64 bytes) {
  const u64 whole = 0x0101010101010101ull * (u8)pattern;
  auto* top = (const u64*)(((u64)__builtin_frame_address(0) - CLEARANCE) & ~7ull);
  const u64* lowest = top - bytes / 8 + 1;
  while (lowest < top && *lowest == whole) lowest++;
  u64 used = ((u64)(top - lowest) * 8 + 511) / 256 * 256;
  return used < bytes ? used : bytes;
}
