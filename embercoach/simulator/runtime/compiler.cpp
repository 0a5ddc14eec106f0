// Handlers of the undefined behavior that the compiler itself detects, and of pointers that the
// rewriter has checked.
#include <string.h>

#include "state.h"

extern "C" {
// -fsanitize=array-bounds: the compiler knows the array, the index and the place.
struct ember_source_location {
  const char* file;
  u32 line, column;
};
struct ember_type {
  unsigned short kind, info;
  char name[1];
};
struct ember_out_of_bounds {
  ember_source_location at;
  const ember_type *array, *index;
};

EMBER_EXPORT void __ubsan_handle_out_of_bounds(ember_out_of_bounds* data, u64 index) {
  u64 pc = CALLER();
  if (!current || !launch->checked) return;
  settle_pending();
  ember_finding* finding = report(OUT_OF_BOUNDS, pc, 0, -1, BECAUSE_INDEX);
  if (finding->count > 1) end_thread();
  blame_current(finding);
  finding->line = data->at.line;
  finding->column = data->at.column;
  // Signed types have the lowest bit set, their width is 2 to the power of the rest.
  u32 width = 1u << (data->index->info >> 1);
  bool is_signed = data->index->info & 1;
  finding->detail[0] = is_signed && width < 64 ? (i64)(index << (64 - width)) >> (64 - width)
                                                : (i64)index;
  strncpy(finding->text, data->array->name, sizeof finding->text - 1);
  end_thread();  // a local array's neighbours are the frame that the thread would return by
}

// -fsanitize=local-bounds: the compiler knows no more than that an access leaves its variable.
static void tell_outside_variable(u64 pc) {
  if (!current || !launch->checked) return;
  settle_pending();
  ember_finding* finding = report(OUT_OF_BOUNDS, pc, 0, -1, BECAUSE_VARIABLE);
  if (finding->count == 1) blame_current(finding);
  end_thread();
}

EMBER_EXPORT void __ubsan_handle_local_out_of_bounds() { tell_outside_variable(CALLER()); }
EMBER_EXPORT void __ubsan_handle_local_out_of_bounds_abort() { tell_outside_variable(CALLER()); }

EMBER_EXPORT void ember_array_end(const char* array, ember_u64 extent) {
  if (!current || !launch->checked) return;
  settle_pending();
  ember_finding* finding = report(OUT_OF_BOUNDS, CALLER(), 0, -1, BECAUSE_ELEMENT);
  if (finding->count > 1) end_thread();
  blame_current(finding);
  finding->detail[0] = finding->detail[1] = (i64)extent;
  strncpy(finding->text, array, sizeof finding->text - 1);
  end_thread();
}

// -fsanitize=shift-exponent,float-cast-overflow: the program goes
// on. The library's own code is compiled alike; what the kernel passes to it is not known there.
struct ember_operands {
  ember_source_location at;
  const ember_type *left, *right;
};

static ember_finding* undefined(const ember_source_location& at, Kind kind, Reason reason, u64 pc) {
  if (!current || !launch->checked || !at.file || strcmp(at.file, "kernel.metal")) return nullptr;
  settle_pending();
  ember_finding* finding = report(kind, pc, 0, -1, reason);
  if (finding->count > 1) return nullptr;
  blame_current(finding);
  finding->line = at.line;
  return finding;
}

EMBER_EXPORT void __ubsan_handle_shift_out_of_bounds(ember_operands* data, u64, u64 by) {
  u64 pc = CALLER();
  ember_finding* finding = undefined(data->at, UNDEFINED_ARITHMETIC, BECAUSE_SHIFT, pc);
  if (!finding) return;
  u32 width = 1u << (data->right->info >> 1);
  bool is_signed = data->right->info & 1;
  finding->detail[0] =
      is_signed && width < 64 ? (i64)(by << (64 - width)) >> (64 - width) : (i64)by;
  strncpy(finding->text, data->left->name, sizeof finding->text - 1);
}

EMBER_EXPORT void __ubsan_handle_float_cast_overflow(ember_operands* data, u64) {
  u64 pc = CALLER();
  ember_finding* finding = undefined(data->at, UNDEFINED_ARITHMETIC, BECAUSE_RANGE, pc);
  if (finding) strncpy(finding->text, data->right->name, sizeof finding->text - 1);
}

// Of a threadgroup array, its start counts as aligned, and so does a private one: where they lie is
// the compiler's choice.
EMBER_EXPORT void ember_misaligned(const volatile void* at, u32 alignment) {
  u64 pc = CALLER(), address = (u64)at;
  if (!current || !launch->checked) return;
  settle_pending();
  Slot* slot = slot_of(address);
  i64 place = slot && slot->used ? slot - hot.slots : -1;
  u64 start = place >= 0 ? slot->start + slot->offset : 0;
  for (u32 i = 0; i < launch->array_count && place < 0; i++) {
    const ember_array& array = launch->arrays[i];
    if (address - array.start >= array.size) continue;
    if ((address - array.start) % alignment == 0) return;
    place = MAX_SLOTS * 2 + i;
    start = array.start;
  }
  if (place < 0) return;
  ember_finding* finding = report(MISALIGNED_ACCESS, pc, 0, place, BECAUSE_NOTHING);
  if (finding->count > 1) return;
  blame_current(finding);
  finding->address = address;
  finding->offset = (i64)(address - start);
  finding->detail[0] = alignment;
}
}
