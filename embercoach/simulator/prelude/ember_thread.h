// What a GPU thread knows of itself: Metal's thread attributes under their own names, three
// components where Metal gives three.
#pragma once

struct ember_thread {
  unsigned thread_position_in_grid[3];
  unsigned thread_position_in_threadgroup[3];
  unsigned threadgroup_position_in_grid[3];
  unsigned threads_per_threadgroup[3];  // of this threadgroup, smaller at the grid's edge
  unsigned dispatch_threads_per_threadgroup[3];
  unsigned threads_per_grid[3];
  unsigned threadgroups_per_grid[3];
  unsigned grid_origin[3];
  unsigned grid_size[3];
  unsigned thread_index_in_threadgroup;
  unsigned thread_index_in_simdgroup;
  unsigned simdgroup_index_in_threadgroup;
  unsigned simdgroups_per_threadgroup;
  unsigned dispatch_simdgroups_per_threadgroup;
  unsigned threads_per_simdgroup;
  unsigned thread_execution_width;
  unsigned thread_index_in_quadgroup;
  unsigned quadgroup_index_in_threadgroup;
  unsigned quadgroups_per_threadgroup;
  unsigned dispatch_quadgroups_per_threadgroup;
};
