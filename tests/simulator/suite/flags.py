"""Bugs: barriers that order the wrong memory."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_RACES = frozenset({"order-dependent", "uninitialized-read"})


BUGS = (
    Case(
        "mem_none_between_store_and_load",
        """
        threadgroup float tile[64];
        uint lid = thread_position_in_threadgroup.x;
        tile[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lid] = tile[63 - lid];
        """,
        {"x": Array(floats(64))},
        {"y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=_RACES,
    ),
    Case(
        "device_flag_for_threadgroup_memory",
        """
        threadgroup float partial[4];
        uint lid = thread_position_in_threadgroup.x;
        float s = simd_sum(x[lid]);
        if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = s;
        threadgroup_barrier(mem_flags::mem_device);  // <- wrong-mem-flags
        y[lid] = partial[0] + partial[1] + partial[2] + partial[3];
        """,
        {"x": Array(floats(128))},
        {"y": Out((128,))},
        (128, 1, 1),
        (128, 1, 1),
        also=_RACES,
    ),
    Case(
        "threadgroup_flag_for_device_memory",
        """
        uint lid = thread_position_in_threadgroup.x;
        uint base = threadgroup_position_in_grid.x * 96;
        scratch[base + lid] = x[base + lid] * 2;
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- wrong-mem-flags
        y[base + lid] = scratch[base + (lid + 48) % 96];
        """,
        {"x": Array(floats(192))},
        {"scratch": Out((192,)), "y": Out((192,))},
        (192, 1, 1),
        (96, 1, 1),
        also=_RACES,
    ),
    Case(
        "mem_none_for_device_memory",
        """
        uint lid = thread_position_in_threadgroup.x;
        if (lid == 0) scale[0] = half(rsqrt(float(x[0]) * float(x[0]) + 1.0f));
        threadgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lid] = x[lid] * scale[0];
        """,
        {"x": Array(floats(64).astype(np.float16))},
        {"scale": Out((1,), "float16"), "y": Out((64,), "float16")},
        (64, 1, 1),
        (64, 1, 1),
        also=_RACES,
    ),
    Case(
        "only_threadgroup_flag_though_both_move",
        """
        threadgroup float tile[64];
        uint lid = thread_position_in_threadgroup.x;
        tile[lid] = x[lid];
        stage[lid] = x[lid] + 1;
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- wrong-mem-flags
        y[lid] = tile[63 - lid] + stage[63 - lid];
        """,
        {"x": Array(floats(64))},
        {"stage": Out((64,)), "y": Out((64,))},
        (64, 1, 1),
        (64, 1, 1),
        also=_RACES,
    ),
    Case(
        "texture_flag_in_a_loop",
        """
        threadgroup int cells[2][64];
        uint lid = thread_position_in_threadgroup.x;
        int v = x[lid];
        for (int r = 0; r < 4; ++r) {
          cells[r & 1][lid] = v;
          threadgroup_barrier(mem_flags::mem_texture);  // <- wrong-mem-flags
          v += cells[r & 1][(lid + 32) % 64];
        }
        y[lid] = v;
        """,
        {"x": Array(integers(0, 9, 64))},
        {"y": Out((64,), "int32")},
        (64, 1, 1),
        (64, 1, 1),
        also=_RACES,
    ),
    Case(
        "simdgroup_barrier_without_memory",
        """
        threadgroup float swap[32];
        uint lane = thread_index_in_simdgroup;
        swap[lane] = x[lane];
        simdgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lane] = swap[31 - lane];
        """,
        {"x": Array(floats(32))},
        {"y": Out((32,))},
        (32, 1, 1),
        (32, 1, 1),
        also=_RACES,
    ),
)
