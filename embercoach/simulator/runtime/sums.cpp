// Sums of floats by atomics: each order of the additions rounds differently. How much is added to
// each float says whether two runs differ by rounding alone.
#include <string.h>
#include <sys/mman.h>

#include "state.h"

namespace {
constexpr double HALF_ULP = 1.0 / (1 << 24);
// Errors of many additions are of both signs: a bound that grows with their count would excuse
// incorrect sums.
constexpr u64 MOST_COUNTED = 8192;

bool have_sums(Slot& slot) {
  if (slot.sums) return true;
  slot.sums_bytes = slot.size / sizeof(float) * sizeof(Sum);
  slot.sums = (Sum*)reserve(slot.sums_bytes);
  return slot.sums;
}
}  // namespace

void forget_sums(Slot& slot) {
  if (slot.sums) munmap(slot.sums, slot.sums_bytes);
  slot.sums = nullptr;
}

// Whether the float at an offset differs from that of the run before by no more than the orders of
// its additions explain. Each rounds to half an ulp of at most the sum of all magnitudes.
bool is_rounding(const Slot& slot, u64 offset, const u8* before, const u8* now) {
  if (!slot.sums || slot.itemsize != sizeof(float) || offset % sizeof(float)) return false;
  const Sum& sum = slot.sums[offset / sizeof(float)];
  u64 count = sum.count < MOST_COUNTED ? sum.count : MOST_COUNTED;
  float a, b;
  memcpy(&a, before, sizeof a);
  memcpy(&b, now, sizeof b);
  double difference = __builtin_fabs((double)a - (double)b);
  double both_runs = 2 * HALF_ULP * (double)count * (sum.magnitude + __builtin_fabs((double)b));
  return difference <= both_runs && __builtin_isfinite(both_runs);
}

extern "C" EMBER_EXPORT void ember_sum(const volatile void* address, double amount) {
  if (!current || !launch->checked) return;
  Slot* slot = slot_of((u64)address);
  if (!slot || !slot->used || slot->readonly) return;
  u64 offset = (u64)address - slot->start;
  if (offset % sizeof(float) || offset + sizeof(float) > slot->size || !have_sums(*slot)) return;
  Sum& sum = slot->sums[offset / sizeof(float)];
  sum.magnitude += __builtin_fabs(amount);
  sum.count++;
}
