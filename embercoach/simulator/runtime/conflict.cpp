// What an access is worth that the quick paths of shadow.cpp could not settle.
#include <string.h>

#include "state.h"


namespace {
constexpr u64 NEAR = 16ull << 30;  // so far from a threadgroup array an index still meant it

enum Verdict { FINE, RACES, LACKS_FLAG, IN_LOCKSTEP };

struct Touch {
  u64 address, size;
  u32 access;
  u64 pc;
  Space space;
  i64 place;   // of the finding
  i64 offset;  // of the access, in bytes from element 0
  bool initialized;
};

// A write whose value must be compared with the one that another thread wrote there before.
struct Pending {
  bool awaited;
  Kind kind;
  Touch touch;
  u64 record;
  u64 address, size;
  u8 old[MAX_VALUE];
} pending;

u64 arrays_bytes;
u64 last_outside;  // already reported, so the fault handler needn't

bool is_write(u32 access) { return access & PLAIN_WRITE; }
bool is_atomic(u32 access) { return access & ATOMICALLY; }

// Whether the recorded access of another thread conflicts with one of the running thread now.
Verdict judge(u64 record, Space space, u64 pc) {
  if (!record) return FINE;
  if (record < hot.first)
    return space == IN_THREADGROUP || is_fenced(record, space) ? FINE : RACES;
  if (record < hot.start[space] || is_fenced(record, space)) return FINE;
  u32 me = current->index, other = thread_of(record);
  if (other == me && !(record & SEVERAL)) return FINE;
  if (other / EMBER_LANES != me / EMBER_LANES || record & SEVERAL_SIMDS)
    return record < hot.barrier_start ? LACKS_FLAG : RACES;
  const Simd& simd = simds[me / EMBER_LANES];
  if (record < simd.memory_start[space]) return FINE;
  if (record < hot.barrier_start || record < simd.barrier_start) return LACKS_FLAG;
  bool same_step = launch->lockstep || pc_bits(pc) == (record & PC_MASK);
  return record >= simd.stamp && same_step ? RACES : IN_LOCKSTEP;
}

Kind kind_of(Verdict verdict, Space space) {
  if (verdict == LACKS_FLAG) return WRONG_MEM_FLAGS;
  if (verdict == IN_LOCKSTEP) return LANE_SYNCHRONOUS;
  return space == IN_DEVICE ? DEVICE_RACE : THREADGROUP_RACE;
}

u32 reason_of(Verdict verdict, u64 record, Space space) {
  if (verdict == LACKS_FLAG)
    return space == IN_DEVICE ? BECAUSE_FLAG_DEVICE : BECAUSE_FLAG_THREADGROUP;
  return record < hot.first ? BECAUSE_OTHER_THREADGROUP : BECAUSE_NOTHING;
}

// The last barrier between a record and now; there is one.
u64 barrier_since(u64 record) {
  const Simd& simd = simds[current->index / EMBER_LANES];
  bool by_simd = record < simd.barrier_start && simd.barrier_start > hot.barrier_start &&
                 thread_of(record) / EMBER_LANES == current->index / EMBER_LANES;
  return by_simd ? simd.barrier_place : hot.barrier_place;
}

void show_value(ember_finding* finding, u64 address, u64 size) {
  finding->value_size = size < MAX_VALUE ? (u32)size : MAX_VALUE;
  memcpy(finding->value, (const void*)address, finding->value_size);
}

ember_finding* tell(Kind kind, const Touch& touch, u64 record, u32 reason) {
  ember_finding* finding = report(kind, touch.pc, pc_of(record), touch.place, reason);
  if (finding->count > 1) return finding;
  finding->address = touch.address;
  finding->offset = touch.offset;
  finding->size = (u32)touch.size;
  finding->access = touch.access;
  blame_current(finding);
  blame_other(finding, record);
  return finding;
}

void tell_conflict(Verdict verdict, const Touch& touch, u64 record, bool with_write, u64 address,
                   u64 size) {
  Kind kind = kind_of(verdict, touch.space);
  // Plain writes of the same value are benign: wait and see.
  bool by_value = with_write && touch.access == PLAIN_WRITE && !(record & ATOMIC) &&
                  verdict != LACKS_FLAG && size <= MAX_VALUE;
  if (by_value && !pending.awaited) {
    pending = Pending{true, kind, touch, record, address, size, {}};
    memcpy(pending.old, (const void*)address, size);
    hot.slots_span = hot.arrays_span = hot.stacks_span = 0;
    return;
  }
  ember_finding* finding = tell(kind, touch, record, reason_of(verdict, record, touch.space));
  if (finding->count > 1) return;
  if (verdict == LACKS_FLAG) finding->barrier_pc = barrier_since(record);
  finding->other_access = (with_write ? PLAIN_WRITE : PLAIN_READ) | (record & ATOMIC ? ATOMICALLY : 0);
  show_value(finding, touch.address, touch.size);
}

void tell_uninitialized(const Touch& touch) {
  ember_finding* finding = tell(UNINITIALIZED_READ, touch, 0, BECAUSE_NOTHING);
  if (finding->count == 1) show_value(finding, touch.address, touch.size);
}

void tell_outside(const Touch& touch) {
  last_outside = touch.address;
  tell(OUT_OF_BOUNDS, touch, 0, BECAUSE_NOTHING);
}

u64 read_record(u64 reader, const Touch& touch) {
  u64 mine = hot.me | pc_bits(touch.pc) | (is_atomic(touch.access) ? ATOMIC : 0);
  if (!reader) return mine;
  // A threadgroup before this one read it: any write from now on conflicts with that.
  if (reader < hot.first) return touch.space == IN_DEVICE ? reader : mine;
  if (reader < hot.start[touch.space]) return mine;
  if (!(reader & ATOMIC) && mine & ATOMIC) return reader;
  if (reader & ATOMIC && !(mine & ATOMIC)) return mine;
  u32 me = current->index, other = thread_of(reader);
  if (other / EMBER_LANES != me / EMBER_LANES) return reader | SEVERAL_SIMDS;
  if (reader & SEVERAL_SIMDS) return reader;
  const Simd& simd = simds[me / EMBER_LANES];
  if (reader >= simd.stamp) return other == me ? reader : reader | SEVERAL_LANES;
  if (reader >= simd.barrier_start && (other != me || reader & SEVERAL_LANES))
    mine |= SEVERAL_LANES;
  return mine;
}

u64 write_record(u64 writer, const Touch& touch) {
  u64 mine = hot.me | pc_bits(touch.pc);
  if (!is_atomic(touch.access)) return mine;
  mine |= ATOMIC;
  if (!(writer & ATOMIC)) return mine;
  if (writer < hot.first) return touch.space == IN_DEVICE ? writer : mine;
  if (writer < hot.start[touch.space]) return mine;
  mine |= writer & SEVERAL;
  u32 me = current->index, other = thread_of(writer);
  if (other == me) return mine;
  return mine | (other / EMBER_LANES == me / EMBER_LANES ? SEVERAL_LANES : SEVERAL_SIMDS);
}

// Judges one granule and records the access. Reports at most one conflict an access.
void visit(u64* writer_at, u64* reader_at, const Touch& touch, u64 address, u64 size, bool* told) {
  u64 writer = *writer_at, reader = *reader_at;
  bool atomic = is_atomic(touch.access);
  bool uninitialized =
      touch.space == IN_DEVICE ? !writer && !touch.initialized : writer < hot.first;
  if (!*told && uninitialized && touch.access & PLAIN_READ) {
    *told = true;
    tell_uninitialized(touch);
  }
  if (!*told && !(atomic && writer & ATOMIC)) {
    Verdict verdict = judge(writer, touch.space, touch.pc);
    if (verdict != FINE) {
      *told = true;
      tell_conflict(verdict, touch, writer, true, address, size);
    }
  }
  if (is_write(touch.access)) {
    if (!*told && !(atomic && reader & ATOMIC)) {
      Verdict verdict = judge(reader, touch.space, touch.pc);
      if (verdict != FINE) {
        *told = true;
        tell_conflict(verdict, touch, reader, false, address, size);
      }
    }
    *writer_at = write_record(writer, touch);
  } else {
    *reader_at = read_record(reader, touch);
  }
}

// Of each granule of a buffer or of the threadgroup arrays; no readers where nobody has read.
struct Records {
  u64 *writers, *readers;
  u32* shift;
};

void spread(u64* records, u64 count, u64 parts) {
  for (u64 i = count; i-- > 0;) {
    u64 record = records[i];
    for (u64 k = 0; k < parts; k++)
      if (records[i * parts + k] != record) records[i * parts + k] = record;
  }
}

// Makes granules so small that an access touches whole ones.
void split_granules(const Records& records, u64 bytes, u64 offset, u64 size) {
  u32 shift = *records.shift;
  while (shift && (offset | size) & ((1ull << shift) - 1)) shift--;
  if (shift == *records.shift) return;
  u64 count = (bytes + (1ull << *records.shift) - 1) >> *records.shift;
  u64 parts = 1ull << (*records.shift - shift);
  spread(records.writers, count, parts);
  if (records.readers) spread(records.readers, count, parts);
  *records.shift = shift;
}

void visit_granules(const Records& records, u64 offset, const Touch& touch) {
  bool told = false;
  u64 nobody = 0, granule = 1ull << *records.shift;
  for (u64 at = 0; at < touch.size; at += granule) {
    u64 i = (offset + at) >> *records.shift;
    visit(&records.writers[i], records.readers ? &records.readers[i] : &nobody, touch,
          touch.address + at, touch.size > MAX_VALUE ? granule : touch.size - at, &told);
  }
}

void check_buffer(Slot& slot, Touch& touch) {
  u64 offset = touch.address - slot.start;
  touch.space = IN_DEVICE;
  touch.place = slot.used ? &slot - hot.slots : -1;
  touch.offset = (i64)(offset - slot.offset);
  touch.initialized = slot.initialized;
  if (!slot.used || offset >= slot.size || touch.size > slot.size - offset) {
    tell_outside(touch);
    return;
  }
  if (touch.access & PLAIN_READ) slot.bytes_read += touch.size;
  if (is_write(touch.access)) slot.bytes_written += touch.size;
  if (slot.readonly) {
    if (is_write(touch.access)) tell(WRITE_TO_INPUT, touch, 0, BECAUSE_NOTHING);
    return;
  }
  split_granules({slot.writers, slot.was_read ? slot.readers : nullptr, &slot.shift}, slot.size,
                 offset, touch.size);
  if (touch.access & PLAIN_READ) slot.was_read = true;
  visit_granules({slot.writers, slot.was_read ? slot.readers : nullptr, &slot.shift}, offset, touch);
}

u32 nearest_array(u64 address) {
  u32 best = 0;
  u64 best_distance = ~0ull;
  for (u32 i = 0; i < launch->array_count; i++) {
    const ember_array& array = launch->arrays[i];
    u64 end = array.start + array.size;
    u64 distance = address < array.start ? array.start - address
                   : address >= end      ? address - end + 1
                                         : 0;
    // An index too high is likelier than one too low.
    if (address < array.start) distance += array.size;
    if (distance < best_distance) best = i, best_distance = distance;
  }
  return best;
}

void blame_array(Touch& touch) {
  u32 array = nearest_array(touch.address);
  touch.place = MAX_SLOTS * 2 + array;
  touch.offset = (i64)(touch.address - launch->arrays[array].start);
}

void check_arrays(Touch& touch) {
  u64 offset = touch.address - hot.arrays_base;
  touch.space = IN_THREADGROUP;
  touch.initialized = false;
  blame_array(touch);
  const ember_array& array = launch->arrays[touch.place - MAX_SLOTS * 2];
  if (touch.offset < 0 || (u64)touch.offset + touch.size > array.size) {
    tell_outside(touch);
    return;
  }
  Records records{hot.array_writers, hot.array_readers, &hot.array_shift};
  split_granules(records, launch->arrays_end - hot.arrays_base, offset, touch.size);
  visit_granules(records, offset, touch);
}

bool is_runtime_memory(u64 address) {
  return address - (u64)threads < sizeof threads || address - (u64)simds < sizeof simds;
}

// Neither a buffer nor a threadgroup array: a local, a table of constants, or astray.
void check_elsewhere(Touch& touch) {
  u64 address = touch.address;
  if (on_stacks(address) || is_runtime_memory(address)) return;
  bool in_image = address - launch->image_start < launch->image_end - launch->image_start;
  bool in_data =
      address - launch->writable_start < launch->writable_end - launch->writable_start;
  if (in_image && !(in_data && launch->array_count)) return;
  if (launch->array_count && address - launch->arrays_start + NEAR < 2 * NEAR) {
    blame_array(touch);
    tell_outside(touch);
    // The owner of the memory is unknown.
    if (!in_image || is_write(touch.access)) end_thread();
    return;
  }
  tell(CRASH, touch, 0, BECAUSE_WILD);
  abandon_run();
}
}  // namespace

bool was_outside(u64 address) { return address - last_outside < EMBER_SLOT; }

// While a write's value is awaited, and in lockstep, every access comes to check().
static void open_quick_paths() {
  hot.slots_span = launch->lockstep ? 0 : MAX_SLOTS * SLOT_BYTES;
  hot.arrays_span = launch->lockstep ? 0 : arrays_bytes;
  hot.stacks_span = stacks_bytes();
}

void settle_pending() {
  if (!pending.awaited) return;
  pending.awaited = false;
  open_quick_paths();
  bool same = memcmp(pending.old, (const void*)pending.address, pending.size) == 0;
  Kind kind = same ? SAME_VALUE_WRITE : pending.kind;
  u32 reason = pending.record < hot.first ? BECAUSE_OTHER_THREADGROUP : BECAUSE_NOTHING;
  ember_finding* finding = tell(kind, pending.touch, pending.record, reason);
  if (finding->count > 1) return;
  finding->other_access = PLAIN_WRITE;
  finding->offset += (i64)(pending.address - pending.touch.address);
  show_value(finding, pending.address, pending.size);
  memcpy(finding->other_value, pending.old, pending.size);
}

void check(u64 address, u64 size, u32 access, u64 pc) {
  settle_pending();
  if (!size) return;
  Touch touch{address, size, access, pc, IN_DEVICE, -1, 0, false};
  Slot* slot = slot_of(address);
  if (launch->lockstep && (slot ? !slot->readonly : address - hot.arrays_base < arrays_bytes))
    step_together(pc);
  if (slot)
    check_buffer(*slot, touch);
  else if (address - hot.arrays_base < arrays_bytes)
    check_arrays(touch);
  else
    check_elsewhere(touch);
}

// Granules as large as all arrays allow; memory between arrays has no owner.
void start_shadow() {
  pending.awaited = false;
  last_outside = 0;
  hot.text = launch->image_start;
  hot.accesses = 0;
  hot.arrays_base = launch->arrays_start & ~15ull;
  u64 bytes = launch->array_count ? launch->arrays_end - hot.arrays_base : 0;
  arrays_bytes = bytes;
  open_quick_paths();
  static u64 capacity;
  if (bytes > capacity) {
    capacity = bytes + (64 << 10);
    hot.array_writers = (u64*)reserve(capacity * sizeof(u64));
    hot.array_readers = (u64*)reserve(capacity * sizeof(u64));
  }
  if (!bytes) return;
  u64 bits = 4;
  for (u32 i = 0; i < launch->array_count; i++)
    bits |= (launch->arrays[i].start - hot.arrays_base) | launch->arrays[i].size;
  hot.array_shift = (u32)__builtin_ctzll(bits);
  u64 count = (bytes + (1ull << hot.array_shift) - 1) >> hot.array_shift;
  memset(hot.array_writers, 0xff, count * sizeof(u64));
  memset(hot.array_readers, 0, count * sizeof(u64));
  for (u32 i = 0; i < launch->array_count; i++) {
    const ember_array& array = launch->arrays[i];
    memset(hot.array_writers + ((array.start - hot.arrays_base) >> hot.array_shift), 0,
           (array.size >> hot.array_shift) * sizeof(u64));
  }
}
