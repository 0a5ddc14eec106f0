// Buffers in slots of address space, the records of who touched them, and stretches of scratch.
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state.h"

#ifndef MAP_ANONYMOUS
#define MAP_ANONYMOUS MAP_ANON
#endif
#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif

Hot hot;

namespace {
constexpr u64 SCRATCH_PAGES = 16384;
constexpr u64 KEPT_BYTES = 64ull << 20;  // larger mappings are given back after a launch
constexpr u64 SMALL_BYTES = 32ull << 20;  // cheaper to clear than to map anew
u64 scratch_left;

u64 whole_pages(u64 bytes) { return (bytes + page_bytes() - 1) / page_bytes() * page_bytes(); }

bool map_at(u64 address, u64 bytes, int protection) {
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;
  return mmap((void*)address, bytes, protection, flags, -1, 0) != MAP_FAILED;
}

u64 middle_of(u32 index) { return hot.slots_base + index * SLOT_BYTES + SLOT_BYTES / 2; }

// Makes the slot's middle hold `bytes`, with what was around it inaccessible again.
bool map_buffer(Slot& slot, u32 index, u64 bytes) {
  if (slot.scratched || slot.mapped > KEPT_BYTES) {
    if (!map_at(hot.slots_base + index * SLOT_BYTES, SLOT_BYTES, PROT_NONE)) return false;
    slot.scratched = false;
    slot.mapped = 0;
  }
  u64 pages = whole_pages(bytes);
  if (pages < slot.mapped) {
    if (!map_at(middle_of(index) + pages, slot.mapped - pages, PROT_NONE)) return false;
  } else if (pages > slot.mapped) {
    u64 more = pages - slot.mapped;
    if (!map_at(middle_of(index) + slot.mapped, more, PROT_READ | PROT_WRITE)) return false;
  }
  slot.mapped = pages;
  return true;
}

u32 granule_shift(u32 itemsize) {
  u32 shift = 0;
  while (shift < 2 && itemsize % (2u << shift) == 0) shift++;
  return shift;
}

bool clear(u64* records, u64 bytes) {
  if (bytes <= SMALL_BYTES) {
    memset(records, 0, bytes);
    return true;
  }
  return map_at((u64)records, whole_pages(bytes), PROT_READ | PROT_WRITE);
}

bool clear_records(Slot& slot) {
  u64 bytes = ((slot.recorded + (1ull << slot.shift) - 1) >> slot.shift) * sizeof(u64);
  if (bytes && !clear(slot.writers, bytes)) return false;
  if (bytes && slot.was_read && !clear(slot.readers, bytes)) return false;
  slot.was_read = false;
  slot.recorded = 0;
  return true;
}
}  // namespace

u64 page_bytes() {
  static u64 bytes = (u64)sysconf(_SC_PAGESIZE);
  return bytes;
}

u8* reserve(u64 bytes) {
  void* memory = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : (u8*)memory;
}

u64 reserve_space(u64 bytes, u64 alignment) {
  void* base = mmap(nullptr, bytes + alignment, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return base == MAP_FAILED ? 0 : ((u64)base + alignment - 1) & ~(alignment - 1);
}

bool reserve_memory() {
  if (!hot.slots_base) hot.slots_base = reserve_space(MAX_SLOTS * SLOT_BYTES, SLOT_BYTES);
  return hot.slots_base;
}

Slot* slot_of(u64 address) {
  u64 distance = address - hot.slots_base;
  return distance < MAX_SLOTS * SLOT_BYTES ? &hot.slots[distance >> SLOT_SHIFT] : nullptr;
}

// Reads go on with zeros, writes go nowhere.
bool map_scratch(u64 address) {
  Slot* slot = slot_of(address);
  if (!slot || !scratch_left) return false;
  scratch_left--;
  slot->scratched = true;
  return map_at(address & ~(page_bytes() - 1), page_bytes(), PROT_READ | PROT_WRITE);
}

// Space for a record of each byte; pages are taken only as they are touched.
bool ensure_records(Slot& slot) {
  u64 needed = whole_pages(slot.size * sizeof(u64) + 1);
  if (needed <= slot.records_bytes) return true;
  if (slot.records_bytes) {
    munmap(slot.writers, slot.records_bytes);
    munmap(slot.readers, slot.records_bytes);
    slot.records_bytes = 0;
  }
  slot.writers = (u64*)reserve(needed);
  slot.readers = (u64*)reserve(needed);
  if (!slot.writers || !slot.readers) return false;
  slot.records_bytes = needed;
  return true;
}

// Puts the buffers' first bytes in place; null, or what failed. Inputs keep theirs from the run
// before if `again`.
extern "C" EMBER_EXPORT const char* ember_place(const ember_buffer* buffers, u32 count, u32 checked,
                                                u32 pattern, u32 again) {
  if (!reserve_memory()) return "no address space for buffers (2 TB are reserved, not used)";
  scratch_left = SCRATCH_PAGES;
  for (Slot& slot : hot.slots) slot.used = false;
  for (u32 i = 0; i < count; i++) {
    const ember_buffer& buffer = buffers[i];
    Slot& slot = hot.slots[buffer.slot];
    slot.used = true;
    slot.role = buffer.role;
    slot.readonly = buffer.role != ROLE_OUTPUT;
    slot.initialized = buffer.initialized;
    slot.itemsize = buffer.itemsize ? buffer.itemsize : 1;
    slot.size = buffer.size;
    slot.offset = buffer.offset;
    slot.bytes_read = slot.bytes_written = 0;
    slot.start = middle_of(buffer.slot);
    for (u32 k = 0; k < 5; k++)
      slot.last[k] = buffer.size >= (1ull << k) ? buffer.size - (1ull << k) + 1 : 0;
    if (!(again && slot.readonly)) {
      if (!map_buffer(slot, buffer.slot, buffer.size)) return "no memory for a buffer";
      if (buffer.data)
        memcpy((void*)slot.start, buffer.data, buffer.size);
      else
        memset((void*)slot.start, (int)pattern, buffer.size);
      memset((u8*)slot.start + buffer.size, 0, slot.mapped - buffer.size);
    }
    forget_sums(slot);
    if (slot.readonly || !checked) continue;
    if (!clear_records(slot)) return "no memory for a buffer's records";
    slot.recorded = buffer.size;
    slot.shift = granule_shift(slot.itemsize);
    if (slot.size % (1ull << slot.shift)) slot.shift = 0;
    if (!ensure_records(slot)) return "no memory for a buffer's records";
  }
  return nullptr;
}

// Gives back what a large launch took.
extern "C" EMBER_EXPORT void ember_release() {
  for (u32 i = 0; i < MAX_SLOTS; i++) {
    Slot& slot = hot.slots[i];
    if (slot.mapped > KEPT_BYTES) map_buffer(slot, i, 0);
    if (slot.recorded > SMALL_BYTES) clear_records(slot);
    forget_sums(slot);
  }
}

extern "C" EMBER_EXPORT void* ember_buffer_start(u32 index) {
  return (void*)hot.slots[index].start;
}

// Bytes of it that the threads of the run before read and wrote.
extern "C" EMBER_EXPORT void ember_traffic(u32 index, u64* read, u64* written) {
  *read = hot.slots[index].bytes_read;
  *written = hot.slots[index].bytes_written;
}

struct ember_comparison {
  u64 different, first_different, unwritten, first_unwritten;
  u64 rounded;    // of the different, sums of floats that only their rounding makes so
  u64 writer_pc;  // who wrote the first that is different, last
};

// Compares an output with that of the run before, by elements. A byte that shows the
// pattern of each of the runs was written in neither. The first that differs is one whose rounding
// does not explain it, if there is any.
extern "C" EMBER_EXPORT void ember_compare(u32 index, const u8* before, u32 pattern_before,
                                           u32 pattern_now, ember_comparison* result) {
  Slot& slot = hot.slots[index];
  const u8* now = (const u8*)slot.start;
  memset(result, 0, sizeof *result);
  u64 step = slot.itemsize, stretch = step * 256;
  for (u64 start = 0; start < slot.size; start += step) {
    if (start % stretch == 0 && slot.size - start >= stretch &&
        memcmp(before + start, now + start, stretch) == 0) {
      start += stretch - step;
      continue;
    }
    u64 bytes = slot.size - start < step ? slot.size - start : step;
    if (memcmp(before + start, now + start, bytes) == 0) continue;
    bool different = false, unwritten = false;
    for (u64 i = start; i < start + bytes; i++) {
      if (before[i] == now[i]) continue;
      bool filler = !slot.initialized && before[i] == (u8)pattern_before && now[i] == (u8)pattern_now;
      if (filler && !slot.writers[i >> slot.shift])
        unwritten = true;
      else
        different = true;
    }
    bool rounded = different && is_rounding(slot, start, before + start, now + start);
    bool is_first = different && result->different == result->rounded && !rounded;
    result->rounded += rounded;
    if (different && (!result->different++ || is_first)) {
      result->first_different = start / step;
      result->writer_pc = pc_of(slot.writers[start >> slot.shift]);
    }
    if (unwritten && !result->unwritten++) result->first_unwritten = start / step;
  }
}
