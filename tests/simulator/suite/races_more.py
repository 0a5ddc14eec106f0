"""Bugs: races in threadgroup memory, in the rarer forms."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_ORDER = frozenset({"order-dependent"})

_STATE = """
struct Running {
  float best;
  int at;
};
"""


BUGS = (
    Case(
        "scan_in_place_with_one_barrier_a_step",
        """
        threadgroup float sums[128];
        uint lid = thread_position_in_threadgroup.x;
        sums[lid] = x[lid];
        for (uint d = 1; d < 128; d *= 2) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          if (lid >= d) {
            sums[lid] += sums[lid - d];  // <- threadgroup-race
          }
        }
        y[lid] = sums[lid];
        """,
        {"x": Array(floats(128))},
        {"y": Out((128,))},
        (128, 1, 1),
        (128, 1, 1),
        also=_ORDER,
    ),
    Case(
        "simdgroup_barrier_for_a_whole_threadgroup",
        """
        threadgroup half tile[96];
        uint lid = thread_position_in_threadgroup.x;
        tile[lid] = x[lid];  // <- threadgroup-race
        simdgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = tile[(lid + 40) % 96];  // <- threadgroup-race
        """,
        {"x": Array(floats(96).astype(np.float16))},
        {"y": Out((96,), "float16")},
        (96, 1, 1),
        (96, 1, 1),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
    Case(
        "second_pass_reuses_the_tile",
        """
        threadgroup float tile[16][17];
        uint3 t = thread_position_in_threadgroup;
        for (uint pass = 0; pass < 2; ++pass) {
          tile[t.y][t.x] = x[(pass * 16 + t.y) * 16 + t.x];  // <- threadgroup-race
          threadgroup_barrier(mem_flags::mem_threadgroup);
          y[(pass * 16 + t.y) * 16 + t.x] = tile[t.x][t.y];  // <- threadgroup-race
        }
        """,
        {"x": Array(floats(32, 16))},
        {"y": Out((32, 16))},
        (16, 16, 1),
        (16, 16, 1),
        also=_ORDER,
    ),
    Case(
        "vector_stores_and_scalar_loads",
        """
        threadgroup float row[160];
        uint lid = thread_position_in_threadgroup.x;
        ((threadgroup float4*)row)[lid] = ((const device float4*)x)[lid];  // <- threadgroup-race
        float s = 0;
        for (uint k = 0; k < 4; ++k) {
          s += row[lid + 40 * k];  // <- threadgroup-race
        }
        y[lid] = s;
        """,
        {"x": Array(floats(160))},
        {"y": Out((40,))},
        (40, 1, 1),
        (40, 1, 1),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
    Case(
        "halo_loaded_after_the_barrier",
        """
        threadgroup float tile[72];
        uint lid = thread_position_in_threadgroup.x;
        uint base = threadgroup_position_in_grid.x * 64;
        tile[lid + 4] = x[base + lid + 4];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 4) {
          tile[lid] = x[base + lid];  // <- threadgroup-race
          tile[lid + 68] = x[base + lid + 68];  // <- threadgroup-race
        }
        float s = 0;
        for (uint k = 0; k < 9; ++k) s += tile[lid + k];  // <- threadgroup-race
        y[base + lid] = s;
        """,
        {"x": Array(floats(136))},
        {"y": Out((128,))},
        (128, 1, 1),
        (64, 1, 1),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
    Case(
        "atomic_count_read_plainly_without_a_barrier",
        """
        threadgroup atomic_int found;
        uint lid = thread_position_in_threadgroup.x;
        if (lid == 0) atomic_store_explicit(&found, 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (x[lid] > 0) {
          atomic_fetch_add_explicit(&found, 1, memory_order_relaxed);  // <- threadgroup-race
        }
        y[lid] = *(threadgroup int*)&found;  // <- threadgroup-race
        """,
        {"x": Array(floats(64))},
        {"y": Out((64,), "int32")},
        (64, 1, 1),
        (64, 1, 1),
        also=_ORDER,
    ),
    Case(
        "bins_cleared_plainly_beside_the_counting",
        """
        threadgroup uint bins[16];
        uint lid = thread_position_in_threadgroup.x;
        if (lid >= 64 && lid < 80) bins[lid - 64] = 0;  // <- threadgroup-race
        threadgroup atomic_uint* counts = (threadgroup atomic_uint*)bins;
        uint key = keys[lid] % 16;
        atomic_fetch_add_explicit(&counts[key], 1u, memory_order_relaxed);  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid < 16) y[lid] = bins[lid];
        """,
        {"keys": Array(integers(0, 1000, 96, dtype="uint32"))},
        {"y": Out((16,), "uint32")},
        (96, 1, 1),
        (96, 1, 1),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
    Case(
        "partials_summed_too_soon",
        """
        threadgroup float partial[8];
        uint lid = thread_index_in_threadgroup;
        float s = simd_sum(x[lid] * x[lid]);
        if (thread_index_in_simdgroup == 0) {
          partial[simdgroup_index_in_threadgroup] = s;  // <- threadgroup-race
        }
        if (lid == 128) {
          float total = 0;
          for (uint k = 0; k < simdgroups_per_threadgroup; ++k) {
            total += partial[k];  // <- threadgroup-race
          }
          y[0] = sqrt(total);
        }
        """,
        {"x": Array(floats(256))},
        {"y": Out((1,))},
        (256, 1, 1),
        (256, 1, 1),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
    Case(
        "argmax_keeps_state_in_one_struct",
        """
        threadgroup Running state;
        uint lid = thread_position_in_threadgroup.x;
        if (lid == 0) {
          state.best = -INFINITY;
          state.at = -1;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float v = x[lid];
        if (v > state.best) {  // <- threadgroup-race
          state.best = v;  // <- threadgroup-race
          state.at = lid;  // <- threadgroup-race
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (lid == 0) y[0] = state.at;
        """,
        {"x": Array(np.concatenate([np.arange(48), -np.arange(48)]).astype(np.float32))},
        {"y": Out((1,), "int32")},
        (96, 1, 1),
        (96, 1, 1),
        header=_STATE,
        also=_ORDER,
    ),
    Case(
        "only_negative_numbers_race",
        """
        threadgroup float sink[64];
        uint lid = thread_position_in_threadgroup.x;
        float v = x[lid];
        uint slot = v < 0 ? 5u : lid;
        sink[slot] = v;  // <- threadgroup-race
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = v < 0 ? sink[5] : sink[lid];
        """,
        {
            "x": Array(
                np.where(np.isin(np.arange(64), (7, 60)), -1.5 - np.arange(64), 1.0).astype("f4")
            )
        },
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=_ORDER,
    ),
    Case(
        "matrix_tile_handed_over_without_a_barrier",
        """
        threadgroup float tile[2][64];
        uint sg = simdgroup_index_in_threadgroup;
        uint lid = thread_index_in_threadgroup;
        simdgroup_float8x8 m;
        simdgroup_load(m, x + 64 * sg, 8);
        simdgroup_store(m, tile[sg], 8);  // <- threadgroup-race
        y[lid] = tile[0][lid] + tile[1][63 - lid];  // <- threadgroup-race
        """,
        {"x": Array(floats(2, 64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
    Case(
        "bitonic_sort_with_the_barrier_in_the_outer_loop",
        """
        threadgroup int keys[128];
        uint lid = thread_position_in_threadgroup.x;
        keys[lid] = x[lid];
        for (uint k = 2; k <= 128; k <<= 1) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint j = k >> 1; j > 0; j >>= 1) {
            uint other = lid ^ j;
            if (other > lid) {
              int a = keys[lid];  // <- threadgroup-race
              int b = keys[other];  // <- threadgroup-race
              bool up = (lid & k) == 0;
              if ((a > b) == up) {
                keys[lid] = b;  // <- threadgroup-race
                keys[other] = a;  // <- threadgroup-race
              }
            }
          }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = keys[lid];
        """,
        {"x": Array(integers(0, 1000, 128))},
        {"y": Out((128,), "int32")},
        (128, 1, 1),
        (128, 1, 1),
        also=_ORDER,
    ),
    Case(
        "double_buffer_swapped_by_pointers_too_late",
        """
        threadgroup float ping[64];
        threadgroup float pong[64];
        threadgroup float* from = ping;
        threadgroup float* into = pong;
        uint lid = thread_position_in_threadgroup.x;
        from[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int r = 0; r < ROUNDS; ++r) {
          into[lid] = max(from[lid], from[(lid + 33) % 64]);  // <- threadgroup-race
          threadgroup float* t = from;
          from = into;
          into = t;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = from[lid];
        """,
        {"x": Array(floats(64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        template=(("ROUNDS", 3),),
        also=frozenset({"order-dependent", "uninitialized-read"}),
    ),
)
