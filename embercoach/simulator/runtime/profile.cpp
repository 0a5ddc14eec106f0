// Counts of a profiled run: how often simdgroups executed each block, and how their accesses fall
// on lines of memory and on banks.
//
// The lanes of a simdgroup run one after another until they synchronize. The k-th execution of an
// instruction by a lane since then belongs with the k-th of the other lanes: an approximation where
// lanes take different ways through a loop.
#include <string.h>
#include <sys/mman.h>

#include "schedule.h"

namespace {
constexpr u32 MOST_SITES = 1 << 14, MOST_INSTANCES = 1 << 15, NONE = ~0u;
constexpr u32 SECTOR_SHIFT = 5, BANKS = 32, MOST_STRETCHES = 160;

// The accesses of lanes that belong together.
struct Instance {
  u32 lanes, next;
  u64 at[EMBER_LANES];
};

struct Site {
  ember_site counts;
  u32 first, cursor;  // instances of this segment
  u32 lane;           // that the cursor is of
  u64 matched;        // lanes in instances that were counted
};

struct Guard {
  u64 segment;
  u32 lane, count, most;
};

Site sites[MOST_SITES];
u32 site_count, touched_count;
u32 touched[MOST_SITES];       // sites of this segment
u32 table[2 * MOST_SITES];     // of sites by their keys, one more than the number
Instance* instances;
u32 instance_count;
Guard* guards;
ember_block* blocks;
u64 guard_capacity, guard_count;
u64 segment, group, simds_run;

// Of each 32 bytes of a buffer, the last threadgroup that read or wrote them.
struct Stamps {
  u32* last[2];
  u64 sectors, counted[4];  // read and written at all, then by threadgroups
};
Stamps stamps[MAX_SLOTS];

// Distinct numbers, of which most come in ascending order.
struct Distinct {
  u64 numbers[MOST_STRETCHES];
  u32 count = 0;
  bool add(u64 number) {
    if (count && number <= numbers[count - 1])
      for (u32 i = count; i-- > 0;)
        if (numbers[i] == number) return false;
    if (count < MOST_STRETCHES) {
      numbers[count++] = number;
      // The largest stays last, so that ascending numbers need no search.
      if (count > 1 && numbers[count - 2] > number) {
        numbers[count - 1] = numbers[count - 2];
        numbers[count - 2] = number;
      }
    }
    return true;
  }
};

void stamp(Stamps& of, u64 sector, bool is_write) {
  if (sector >= of.sectors || !of.last[is_write]) return;
  u32& last = of.last[is_write][sector];
  if (last == (u32)group) return;
  of.counted[is_write] += last == 0;
  of.counted[2 + is_write]++;
  last = (u32)group;
}

// The bytes that all lanes access, where these are neighbours or the same: most are.
bool is_run(const Instance& instance, u32 width, u64* start, u64* end) {
  if (instance.lanes != ~0u) return false;
  u64 first = instance.at[0], stride = instance.at[1] - first, other = 0;
  if (stride != width && stride != 0) return false;
  for (u32 lane = 0; lane < EMBER_LANES; lane++)
    other |= instance.at[lane] - first - lane * stride;
  *start = first;
  *end = instance.at[EMBER_LANES - 1] + width - 1;
  return other == 0;
}

void stamp_sector(const ember_site& counts, u64 sector, const Slot& slot) {
  u64 first = slot.start >> SECTOR_SHIFT;
  if (counts.access != EMBER_WRITE) stamp(stamps[counts.place], sector - first, false);
  if (counts.access != EMBER_READ) stamp(stamps[counts.place], sector - first, true);
}

void count_device(ember_site& counts, const Instance& instance, Slot& slot) {
  u64 begin, last;
  if (is_run(instance, counts.width, &begin, &last)) {
    for (u64 sector = begin >> 5; sector <= last >> 5; sector++) stamp_sector(counts, sector, slot);
    counts.sectors += (last >> 5) - (begin >> 5) + 1;
    counts.lines64 += (last >> 6) - (begin >> 6) + 1;
    counts.lines128 += (last >> 7) - (begin >> 7) + 1;
    return;
  }
  Distinct sectors, lines64, lines128;
  for (u32 left = instance.lanes; left; left &= left - 1) {
    u64 start = instance.at[__builtin_ctz(left)], end = start + counts.width - 1;
    for (u64 sector = start >> 5; sector <= end >> 5; sector++) {
      if (!sectors.add(sector)) continue;
      lines64.add(sector >> 1);
      lines128.add(sector >> 2);
      stamp_sector(counts, sector, slot);
    }
  }
  counts.sectors += sectors.count;
  counts.lines64 += lines64.count;
  counts.lines128 += lines128.count;
}

void count_banks(ember_site& counts, const Instance& instance) {
  u64 begin, last;
  if (is_run(instance, counts.width, &begin, &last)) {
    counts.bank_cycles += ((last >> 2) - (begin >> 2) + BANKS) / BANKS;
    return;
  }
  Distinct words;
  u32 in_bank[BANKS] = {}, most = 0;
  for (u32 left = instance.lanes; left; left &= left - 1) {
    u64 start = instance.at[__builtin_ctz(left)], end = start + counts.width - 1;
    for (u64 word = start >> 2; word <= end >> 2; word++) {
      if (!words.add(word)) continue;
      u32 here = ++in_bank[word % BANKS];
      if (here > most) most = here;
    }
  }
  counts.bank_cycles += most;
}

u32 most_at_one_address(const Instance& instance) {
  u32 most = 0;
  for (u32 left = instance.lanes; left; left &= left - 1) {
    u32 same = 0;
    for (u32 others = left; others; others &= others - 1)
      same += instance.at[__builtin_ctz(others)] == instance.at[__builtin_ctz(left)];
    if (same > most) most = same;
  }
  return most;
}

void count_instance(Site& site, const Instance& instance) {
  ember_site& counts = site.counts;
  counts.issued++;
  site.matched += (u32)__builtin_popcount(instance.lanes);
  if (counts.place < MAX_SLOTS)
    count_device(counts, instance, hot.slots[counts.place]);
  else
    count_banks(counts, instance);
  if (counts.access == (EMBER_READ | EMBER_WRITE)) counts.contention += most_at_one_address(instance);
}

void count_segment() {
  for (u32 i = 0; i < touched_count; i++) {
    Site& site = sites[touched[i]];
    for (u32 at = site.first; at != NONE; at = instances[at].next)
      count_instance(site, instances[at]);
    site.first = NONE;
  }
  touched_count = instance_count = 0;
}

i64 place_of(u64 address) {
  if (Slot* slot = slot_of(address)) return slot->used ? slot - hot.slots : -1;
  for (u32 i = 0; i < launch->array_count; i++) {
    const ember_array& array = launch->arrays[i];
    if (address - array.start < array.size) return MAX_SLOTS * 2 + i;
  }
  return -1;
}

u64 start_of(i64 place) {
  return place < MAX_SLOTS ? hot.slots[place].start : launch->arrays[place - MAX_SLOTS * 2].start;
}

Site* site_of(u64 pc, u32 width, u32 access, u64 address) {
  u64 key = pc << 2 | access;
  u32 at = (u32)(key * 0x9E3779B97F4A7C15u >> 40) % (2 * MOST_SITES);
  for (; table[at]; at = (at + 1) % (2 * MOST_SITES)) {
    Site& site = sites[table[at] - 1];
    if (site.counts.pc == pc && site.counts.access == access) return &site;
  }
  if (site_count == MOST_SITES) return nullptr;
  i64 place = place_of(address);
  if (place < 0) return nullptr;
  Site& site = sites[site_count++];
  site = Site{};
  site.counts.pc = pc;
  site.counts.place = place;
  site.counts.width = width;
  site.counts.access = access;
  site.counts.first = address - start_of(place);
  site.first = NONE;
  table[at] = site_count;
  return &site;
}

// The instance of the running lane's next execution, null where too many are kept already.
Instance* next_instance(Site& site, u32 lane) {
  bool is_first = site.first == NONE;
  bool begins = is_first || site.lane != lane;
  u32 next = begins ? site.first : site.cursor == NONE ? NONE : instances[site.cursor].next;
  site.lane = lane;
  if (next == NONE) {
    if (instance_count == MOST_INSTANCES || (!begins && site.cursor == NONE)) {
      site.cursor = NONE;
      return nullptr;
    }
    next = instance_count++;
    instances[next].lanes = 0;
    instances[next].next = NONE;
    if (is_first) {
      site.first = next;
      touched[touched_count++] = (u32)(&site - sites);
    } else {
      instances[site.cursor].next = next;
    }
  }
  site.cursor = next;
  return &instances[next];
}

void end_block(Guard& guard, ember_block& block) {
  block.issued += guard.most > guard.count ? guard.most : guard.count;
  guard.most = guard.count = 0;
}

void have_stamps() {
  for (u32 i = 0; i < MAX_SLOTS; i++) {
    Stamps& of = stamps[i];
    for (u32* last : of.last)
      if (last) munmap(last, of.sectors * sizeof(u32));
    of = Stamps{};
    if (!hot.slots[i].used) continue;
    of.sectors = (hot.slots[i].size >> SECTOR_SHIFT) + 2;
    for (u32*& last : of.last) last = (u32*)reserve(of.sectors * sizeof(u32));
  }
}
}  // namespace

bool profiling;

void start_profile() {
  profiling = launch->profiled;
  if (!profiling) return;
  if (!instances) instances = (Instance*)reserve(MOST_INSTANCES * sizeof(Instance));
  if (!instances) profiling = false;
  memset(table, 0, sizeof table);
  site_count = touched_count = instance_count = 0;
  segment = group = simds_run = 0;
  if (guards) memset(guards, 0, guard_count * sizeof *guards);
  if (blocks) memset(blocks, 0, guard_count * sizeof *blocks);
  have_stamps();
}

void start_profiled_group(u32 simd_count) {
  count_segment();
  group++;
  simds_run += simd_count;
}

void start_profiled_segment() {
  count_segment();
  segment++;
}

// Ends the last segment, and counts what was not kept in proportion.
void end_profile() {
  if (!profiling) return;
  profiling = false;
  count_segment();
  for (u64 i = 0; i < guard_count; i++) end_block(guards[i], blocks[i]);
  for (u32 i = 0; i < site_count; i++) {
    ember_site& counts = sites[i].counts;
    u64 matched = sites[i].matched;
    if (!matched || matched == counts.lanes) continue;
    u64* numbers[] = {&counts.issued,   &counts.sectors,     &counts.lines64,
                      &counts.lines128, &counts.bank_cycles, &counts.contention};
    for (u64* number : numbers)
      *number = (u64)((double)*number * (double)counts.lanes / (double)matched);
  }
}

void profile_access(u64 address, u32 width, u32 access, u64 pc) {
  if (!current || !width) return;
  Site* site = site_of(pc, width, access, address);
  if (!site) return;
  u32 lane = current->index % EMBER_LANES;
  site->counts.lanes++;
  Instance* instance = next_instance(*site, lane);
  if (!instance) return;
  instance->lanes |= 1u << lane;
  instance->at[lane] = address;
}

extern "C" {
EMBER_EXPORT void __sanitizer_cov_trace_pc_guard_init(u32* start, u32* stop) {
  u64 count = (u64)(stop - start);
  if (start == stop || *start) return;
  for (u64 i = 0; i < count; i++) start[i] = (u32)i + 1;
  if (count <= guard_capacity) return;
  if (guards) munmap(guards, guard_capacity * sizeof *guards);
  if (blocks) munmap(blocks, guard_capacity * sizeof *blocks);
  guards = (Guard*)reserve(count * sizeof *guards);
  blocks = (ember_block*)reserve(count * sizeof *blocks);
  guard_capacity = guard_count = guards && blocks ? count : 0;
}

EMBER_EXPORT void __sanitizer_cov_trace_pc_guard(u32* number) {
  if (EMBER_LIKELY(!profiling) || !current || *number == 0 || *number > guard_count) return;
  Guard& guard = guards[*number - 1];
  ember_block& block = blocks[*number - 1];
  u32 lane = current->index % EMBER_LANES;
  if (guard.segment != segment) {
    end_block(guard, block);
    guard.segment = segment;
  } else if (guard.lane != lane) {
    if (guard.count > guard.most) guard.most = guard.count;
    guard.count = 0;
  }
  guard.lane = lane;
  guard.count++;
  block.lanes++;
}

EMBER_EXPORT const ember_site* ember_profile_site(u32 index) {
  return index < site_count ? &sites[index].counts : nullptr;
}

EMBER_EXPORT const ember_block* ember_profile_blocks(u64* count) {
  *count = guard_count;
  return blocks;
}

// Bytes of a buffer read, written, and the sums of those of each threadgroup.
EMBER_EXPORT u64 ember_profile_buffer(u32 slot, u64 bytes[4]) {
  for (u32 i = 0; i < 4; i++) bytes[i] = stamps[slot].counted[i] << SECTOR_SHIFT;
  return simds_run;
}
}
