// What instrumented code calls before each access. The common cases are settled here in a few
// instructions; the rest goes to conflict.cpp. Whoever settles an access of a buffer counts its bytes.
#include "state.h"

#define INLINE static inline __attribute__((always_inline))

namespace {
// Of the running thread since the last synchronisation, plainly and alone.
INLINE bool is_mine(u64 record, u64 me) { return (record ^ me) >> 21 == 0; }

// Of the running thread in this threadgroup, plainly and alone.
INLINE bool is_own(u64 record, u64 me) {
  return (((record ^ me) >> 21) & 0x1fff) == 0 && record >= hot.first;
}

// Of this threadgroup, before the last barrier that orders this memory.
INLINE bool is_past(u64 record, u64 start) { return record - hot.first < start - hot.first; }

// Of no one whom an access could still race with. What threadgroups before left in threadgroup
// memory is gone, what they left in device memory is not.
template <Space SPACE>
INLINE bool is_settled(u64 record, u64 start) {
  return SPACE == IN_THREADGROUP ? record < start : record == 0 || is_past(record, start);
}

template <Space SPACE>
INLINE bool quick_read(u64 writer, u64* reader_at, u64 start, u64 pc, bool initialized) {
  u64 me = hot.me, reader = *reader_at;
  bool fine = is_past(writer, start) || is_mine(writer, me) || is_own(writer, me);
  if (!fine && !(writer == 0 && initialized)) return false;
  if ((reader ^ me) >> THREAD_SHIFT == 0) return true;
  if (is_settled<SPACE>(reader, start)) {
    *reader_at = me | pc_bits(pc);
    return true;
  }
  if (reader < start) return false;
  if (reader & SEVERAL_SIMDS && !(reader & ATOMIC)) return true;
  if ((reader ^ me) >> (THREAD_SHIFT + 5) == 0 && !(reader & ATOMIC)) {
    if (!(reader & SEVERAL_LANES)) *reader_at = reader | SEVERAL_LANES;
    return true;
  }
  return false;
}

template <Space SPACE>
INLINE bool quick_write(u64* writer_at, u64 reader, u64 start, u64 pc) {
  u64 me = hot.me, writer = *writer_at;
  if (!is_settled<SPACE>(reader, start) && !is_mine(reader, me) && !is_own(reader, me)) return false;
  if (!is_mine(writer, me) && !is_settled<SPACE>(writer, start) && !is_own(writer, me)) return false;
  *writer_at = me | pc_bits(pc);
  return true;
}

// A thread's own variable, whose address something else has seen.
INLINE bool is_local(u64 address) { return address - hot.stacks_base < hot.stacks_span; }

// The access of several granules, or of one in a rarer state.
template <u32 LOG, bool WRITE>
__attribute__((noinline)) void visit_granules(u64 address, u64 pc) {
  constexpr u64 BYTES = 1ull << LOG;
  u64 distance = address - hot.slots_base;
  if (distance < hot.slots_span) {
    Slot& slot = hot.slots[distance >> SLOT_SHIFT];
    u64 offset = address - slot.start;
    if (offset < slot.last[LOG] && !slot.readonly && slot.shift <= LOG) {
      u64 start = hot.start[IN_DEVICE], first = offset >> slot.shift;
      u64 end = first + (BYTES >> slot.shift);
      if (WRITE) {
        while (first < end &&
               quick_write<IN_DEVICE>(&slot.writers[first],
                                      slot.was_read ? slot.readers[first] : 0, start, pc))
          first++;
      } else if (slot.was_read) {
        while (first < end && quick_read<IN_DEVICE>(slot.writers[first], &slot.readers[first],
                                                    start, pc, slot.initialized))
          first++;
      }
      if (first == end) {
        (WRITE ? slot.bytes_written : slot.bytes_read) += BYTES;
        return;
      }
    }
  } else if ((distance = address - hot.arrays_base) < hot.arrays_span &&
             hot.array_shift <= LOG) {
    u64 start = hot.start[IN_THREADGROUP], first = distance >> hot.array_shift;
    u64 end = first + (BYTES >> hot.array_shift);
    if (WRITE) {
      while (first < end && quick_write<IN_THREADGROUP>(&hot.array_writers[first],
                                                        hot.array_readers[first], start, pc))
        first++;
    } else {
      while (first < end &&
             quick_read<IN_THREADGROUP>(hot.array_writers[first], &hot.array_readers[first],
                                        start, pc, false))
        first++;
    }
    if (first == end) return;
  }
  check(address, BYTES, WRITE ? PLAIN_WRITE : PLAIN_READ, pc);
}

// The commonest cases, in so few registers that none needs saving: an input within its bounds, an
// output that none or only this thread has touched, and one granule of a threadgroup array.
template <u32 LOG>
INLINE void read(u64 address, u64 pc) {
  hot.accesses++;
  u64 distance = address - hot.slots_base;
  if (EMBER_LIKELY(distance < hot.slots_span)) {
    Slot& slot = hot.slots[distance >> SLOT_SHIFT];
    u64 offset = address - slot.start;
    if (EMBER_LIKELY(offset < slot.last[LOG])) {
      u64 me = hot.me, at = offset >> LOG;
      if (EMBER_LIKELY(slot.readonly) ||
          (slot.shift == LOG && slot.was_read && is_mine(slot.writers[at], me) &&
           is_mine(slot.readers[at], me))) {
        slot.bytes_read += 1ull << LOG;
        return;
      }
    }
  } else if (is_local(address)) {
    return;
  } else {
    distance = address - hot.arrays_base;
    if (distance < hot.arrays_span && hot.array_shift == LOG) {
      u64 at = distance >> LOG;
      if (quick_read<IN_THREADGROUP>(hot.array_writers[at], &hot.array_readers[at],
                                     hot.start[IN_THREADGROUP], pc, false))
        return;
    }
  }
  return visit_granules<LOG, false>(address, pc);
}

template <u32 LOG>
INLINE void write(u64 address, u64 pc) {
  hot.accesses++;
  u64 distance = address - hot.slots_base;
  if (EMBER_LIKELY(distance < hot.slots_span)) {
    Slot& slot = hot.slots[distance >> SLOT_SHIFT];
    u64 offset = address - slot.start;
    if (EMBER_LIKELY(offset < slot.last[LOG] && slot.shift == LOG && !slot.readonly)) {
      u64 me = hot.me;
      u64* at = slot.writers + (offset >> LOG);
      bool is_mine_or_fresh = slot.was_read ? is_mine(*at, me) && is_mine(slot.readers[offset >> LOG], me)
                                            : *at == 0 || is_mine(*at, me);
      if (EMBER_LIKELY(is_mine_or_fresh)) {
        *at = me | pc_bits(pc);
        slot.bytes_written += 1ull << LOG;
        return;
      }
    }
  } else if (is_local(address)) {
    return;
  } else {
    distance = address - hot.arrays_base;
    if (distance < hot.arrays_span && hot.array_shift == LOG) {
      u64 at = distance >> LOG;
      if (quick_write<IN_THREADGROUP>(&hot.array_writers[at], hot.array_readers[at],
                                      hot.start[IN_THREADGROUP], pc))
        return;
    }
  }
  return visit_granules<LOG, true>(address, pc);
}
}  // namespace

extern "C" {
EMBER_EXPORT void __tsan_init() {}
EMBER_EXPORT void __tsan_func_entry(void*) {}
EMBER_EXPORT void __tsan_func_exit() {}
EMBER_EXPORT void __tsan_ignore_thread_begin() {}
EMBER_EXPORT void __tsan_ignore_thread_end() {}

// Code that is profiled is not checked.
#define COUNTED(p, bytes, access) \
  if (EMBER_UNLIKELY(profiling)) return profile_access((u64)(p), (u32)(bytes), access, CALLER())

#define ACCESS(name, bytes, log)                         \
  EMBER_EXPORT void __tsan_##name##read##bytes(void* p) { \
    COUNTED(p, bytes, EMBER_READ);                       \
    read<log>((u64)p, CALLER());                         \
  }                                                      \
  EMBER_EXPORT void __tsan_##name##write##bytes(void* p) { \
    COUNTED(p, bytes, EMBER_WRITE);                      \
    write<log>((u64)p, CALLER());                        \
  }
#define ACCESSES(bytes, log)                               \
  ACCESS(, bytes, log)                                     \
  ACCESS(volatile_, bytes, log)                            \
  EMBER_EXPORT void __tsan_read_write##bytes(void* p) {    \
    if (EMBER_UNLIKELY(profiling))                         \
      profile_access((u64)p, bytes, EMBER_READ, CALLER()); \
    COUNTED(p, bytes, EMBER_WRITE);                        \
    read<log>((u64)p, CALLER());                           \
    write<log>((u64)p, CALLER());                          \
  }
ACCESSES(1, 0)
ACCESSES(2, 1)
ACCESSES(4, 2)
ACCESSES(8, 3)
ACCESSES(16, 4)

static void visit(void* p, unsigned long size, u32 kind, u64 pc) {
  if (EMBER_UNLIKELY(profiling)) return profile_access((u64)p, (u32)size, kind, pc);
  hot.accesses++;
  check((u64)p, size, kind == EMBER_READ ? PLAIN_READ : PLAIN_WRITE, pc);
}

// Addresses that are not a multiple of the size take the slow path.
#define UNALIGNED_ACCESS(name, bytes)                                   \
  EMBER_EXPORT void __tsan_unaligned_##name##read##bytes(void* p) {     \
    visit(p, bytes, EMBER_READ, CALLER());                              \
  }                                                                     \
  EMBER_EXPORT void __tsan_unaligned_##name##write##bytes(void* p) {    \
    visit(p, bytes, EMBER_WRITE, CALLER());                             \
  }
#define UNALIGNED(bytes)                                                \
  UNALIGNED_ACCESS(, bytes)                                             \
  UNALIGNED_ACCESS(volatile_, bytes)                                    \
  EMBER_EXPORT void __tsan_unaligned_read_write##bytes(void* p) {       \
    visit(p, bytes, EMBER_READ, CALLER());                              \
    visit(p, bytes, EMBER_WRITE, CALLER());                             \
  }
UNALIGNED(2)
UNALIGNED(4)
UNALIGNED(8)
UNALIGNED(16)

EMBER_EXPORT void __tsan_read_range(void* p, unsigned long size) {
  visit(p, size, EMBER_READ, CALLER());
}
EMBER_EXPORT void __tsan_write_range(void* p, unsigned long size) {
  visit(p, size, EMBER_WRITE, CALLER());
}

#define COPY(name)                                                                     \
  EMBER_EXPORT void* __tsan_##name(void* to, const void* from, unsigned long size) {   \
    visit((void*)from, size, EMBER_READ, CALLER());                                    \
    visit(to, size, EMBER_WRITE, CALLER());                                            \
    return __builtin_memmove(to, from, size);                                          \
  }
COPY(memcpy)
COPY(memmove)
EMBER_EXPORT void* __tsan_memset(void* to, int value, unsigned long size) {
  visit(to, size, EMBER_WRITE, CALLER());
  return __builtin_memset(to, value, size);
}

EMBER_EXPORT void ember_atomic(const volatile void* address, u32 size, u32 access) {
  if (!current) return;
  if (EMBER_UNLIKELY(profiling)) profile_access((u64)address, size, access, CALLER());
  if (launch->checked) {
    hot.accesses++;
    u64 pc = CALLER();
    check((u64)address, size, (access & 3) | ATOMICALLY, pc);
    if (access & EMBER_READ) note_atomic_read();
    if (access & EMBER_WRITE) note_atomic_write();
    if (access & EMBER_WRITE) current->changes[current->change_count++ % KEPT_CHANGES] = pc;
    if (simds[current->index / EMBER_LANES].spins) note_spin((u64)address, access, pc);
  }
  wait_for_others();
}
}
