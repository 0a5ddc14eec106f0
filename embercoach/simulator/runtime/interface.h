// What compiled kernels and the runtime know of each other.
//
// A kernel object calls these; the runtime, loaded before it, defines them. In turn the object
// defines `ember_kernel`, which the rewriter emits. GPU threads are fibers of one process thread: a
// fiber gives up control in these calls alone, so that everything between them is atomic.
#pragma once

#include "../prelude/ember_thread.h"

typedef unsigned int ember_u32;
typedef unsigned long long ember_u64;

enum { EMBER_LANES = 32, EMBER_SLOT = 64 };

// Flags of barriers, as Metal's mem_flags.
enum { EMBER_MEM_NONE = 0, EMBER_MEM_DEVICE = 1, EMBER_MEM_THREADGROUP = 2, EMBER_MEM_TEXTURE = 4 };

// Kinds of access.
enum { EMBER_READ = 1, EMBER_WRITE = 2 };

// What a fence does, and whether threads of other threadgroups may rely on it.
enum { EMBER_HANDS_ON = 1, EMBER_TAKES_OVER = 2, EMBER_ON_DEVICE = 4 };

extern "C" {
// The GPU thread that is running.
const struct ember_thread* ember_self(void);

// The return address of a call is its place, so that two calls must not become one, and none a jump.
#define EMBER_PLACE __attribute__((nomerge, convergent, not_tail_called))

// Wait for all threads of the threadgroup (or simdgroup). The return address is the barrier's place.
EMBER_PLACE void ember_threadgroup_barrier(ember_u32 flags);
EMBER_PLACE void ember_simdgroup_barrier(ember_u32 flags);

// Hand `size` (at most EMBER_SLOT) bytes to the lanes of the simdgroup (or quadgroup) that take part
// in the same operation, and get theirs: lane i's bytes are at the result + i * EMBER_SLOT (i from 0
// to 3 in a quadgroup), valid until this thread's next exchange. `active` gets a bit for each lane
// that took part. `operation` names it in messages ("simd_sum"); lanes must agree on place and name.
EMBER_PLACE const unsigned char* ember_simd_exchange(
    const char* operation, const void* value, ember_u32 size, ember_u32* active);
EMBER_PLACE const unsigned char* ember_quad_exchange(
    const char* operation, const void* value, ember_u32 size, ember_u32* active);

// A shuffle or broadcast read a lane that took no part in it: its value is undefined.
EMBER_PLACE void ember_inactive_lane(const char* operation, ember_u32 lane);

// An operation on the whole simdgroup (simdgroup_matrix) that only some lanes reach is undefined.
EMBER_PLACE void ember_partial_simdgroup(const char* operation, ember_u32 active);

// A loop that waits for an atomic begins, and has ended. Gives the loop around it, for its end.
EMBER_PLACE ember_u64 ember_begin_spin(void);
EMBER_PLACE void ember_end_spin(ember_u64 outer);

// A pointer that is not aligned as its type demands is about to be dereferenced.
EMBER_PLACE void ember_misaligned(const volatile void* address, ember_u32 alignment);

// The element at the end of an array, which is part of another or of a struct, is about to be accessed.
EMBER_PLACE void ember_array_end(const char* array, ember_u64 extent);

// An atomic access is about to happen; the caller does it, as no other thread can come between.
void ember_atomic(const volatile void* address, ember_u32 size, ember_u32 access);

// An atomic added `amount` to the float there.
void ember_sum(const volatile void* address, double amount);

// An atomic_thread_fence for the memory that flags name.
void ember_fence(ember_u32 flags, ember_u32 effect);

// The byte that memory without a value consists of in this run.
__attribute__((const)) unsigned char ember_fill(void);

// The object's own: runs one GPU thread to its end. buffers[i] is the address of [[buffer(i)]].
void ember_kernel(const struct ember_thread* self, void* const* buffers);
}
