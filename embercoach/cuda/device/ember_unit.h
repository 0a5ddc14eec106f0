// The prefix of every rewritten kernel on an NVIDIA GPU: the Metal library, and the words that the
// rewriter puts in.
#pragma once

#include "ember_prelude.h"
#include "ember_thread.h"

namespace ember {
// Raw bytes, so that no constructor runs; aligned for the widest access.
template <class T>
struct storage {
  alignas(16) alignas(T) unsigned char bytes[sizeof(T)];
};
template <class T>
EMBER_FN threadgroup T& placed(threadgroup storage<T>* where) {
  return *(threadgroup T*)where;
}

template <bool Whole, class T>
EMBER_CFN T&& pointed(T&& value) {
  return static_cast<T&&>(value);
}
template <class A, class I>
EMBER_CFN I element(I index, const char*) {
  return index;
}

// Facts of an input, as MLX passes them.
struct shape {
  int at[10];
};
struct strides {
  long at[10];
};
struct ndim {
  int at[1];
};

using thread_attributes = ember_thread;

// Splits an index into three, x first.
EMBER_FN void split_index(uint index, const uint (&extents)[3], uint (&parts)[3]) {
  parts[0] = index % extents[0];
  parts[1] = index / extents[0] % extents[1];
  parts[2] = index / extents[0] / extents[1];
}

// The launched thread as one of Metal's grid; false for a thread that is beyond it.
//
// Whole: each threadgroup has all of its threads. Else those at the edge are smaller, and their
// simdgroups are made of the threads that they have. Flat: the blocks and their threads are in one
// dimension, as CUDA bounds the others. Most: no threadgroup has more threads.
// The geometry is the grid and the threadgroup; without one they are the launch's.
template <bool Whole, bool Flat, uint Most>
EMBER_FN bool find_thread(const device uint* geometry, thread_attributes& t) {
  uint block[3] = {__nvvm_read_ptx_sreg_ctaid_x(), __nvvm_read_ptx_sreg_ctaid_y(),
                   __nvvm_read_ptx_sreg_ctaid_z()};
  uint at[3] = {__nvvm_read_ptx_sreg_tid_x(), __nvvm_read_ptx_sreg_tid_y(),
                __nvvm_read_ptx_sreg_tid_z()};
  uint group[3] = {__nvvm_read_ptx_sreg_ntid_x(), __nvvm_read_ptx_sreg_ntid_y(),
                   __nvvm_read_ptx_sreg_ntid_z()};
  uint grid[3] = {__nvvm_read_ptx_sreg_nctaid_x() * group[0],
                  __nvvm_read_ptx_sreg_nctaid_y() * group[1],
                  __nvvm_read_ptx_sreg_nctaid_z() * group[2]};
  if (geometry) {
    for (int i = 0; i < 3; ++i) {
      grid[i] = geometry[i];
      group[i] = geometry[3 + i];
    }
  }
  uint groups[3];
  for (int i = 0; i < 3; ++i) groups[i] = (grid[i] + group[i] - 1) / group[i];
  if (Flat) split_index(block[0], groups, block);
  uint index = Flat ? at[0] : at[0] + group[0] * (at[1] + group[1] * at[2]);
  uint size[3], count = 1;
  for (int i = 0; i < 3; ++i) {
    uint rest = grid[i] - block[i] * group[i];
    size[i] = Whole || rest > group[i] ? group[i] : rest;
    count *= size[i];
  }
  if (!Whole && index >= count) return false;
  if (Flat || (!Whole && count != group[0] * group[1] * group[2])) split_index(index, size, at);
  // So that loops over what a threadgroup shares are unrolled.
  __builtin_assume(index < Most);
  __builtin_assume(at[0] < Most);
  for (int i = 0; i < 3; ++i) {
    t.thread_position_in_grid[i] = block[i] * group[i] + at[i];
    t.thread_position_in_threadgroup[i] = at[i];
    t.threadgroup_position_in_grid[i] = block[i];
    t.threads_per_threadgroup[i] = size[i];
    t.dispatch_threads_per_threadgroup[i] = group[i];
    t.threads_per_grid[i] = t.grid_size[i] = grid[i];
    t.threadgroups_per_grid[i] = groups[i];
    t.grid_origin[i] = 0;
  }
  uint whole = group[0] * group[1] * group[2];
  t.thread_index_in_threadgroup = index;
  t.thread_index_in_simdgroup = own_lane();
  t.simdgroup_index_in_threadgroup = index / 32;
  t.simdgroups_per_threadgroup = (count + 31) / 32;
  t.dispatch_simdgroups_per_threadgroup = (whole + 31) / 32;
  t.threads_per_simdgroup = t.thread_execution_width = 32;
  t.thread_index_in_quadgroup = index % 4;
  t.quadgroup_index_in_threadgroup = index / 4;
  t.quadgroups_per_threadgroup = (count + 3) / 4;
  t.dispatch_quadgroups_per_threadgroup = (whole + 3) / 4;
  return true;
}
}  // namespace ember

#define EMBER_ENTRY \
  [[clang::sycl_external]] __attribute__((nvptx_kernel, visibility("default")))

#define EMBER_SPIN
#define EMBER_FILL(name)

// A threadgroup variable: one for all threads of the threadgroup.
#define EMBER_STORAGE(name, attributes, ...)                                         \
  threadgroup auto& name = ember::placed(__extension__({                             \
    attributes static threadgroup __attribute__((loader_uninitialized))              \
        ember::storage<__typeof__(__VA_ARGS__)> name;                                \
    &name;                                                                           \
  }));
