"""Bugs: barriers that order the wrong memory."""

from __future__ import annotations

from tests.simulator.suite.case import Out, floats, halves, integers, kernel

BUGS = (
    kernel("mem_none_between_store_and_load", 64)(x=floats(64), y=Out(64))("""
        threadgroup float tile[64];
        tile[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lid] = tile[63 - lid];
    """),
    kernel("device_flag_for_threadgroup_memory", 128)(x=floats(128), y=Out(128))("""
        threadgroup float partial[4];
        float s = simd_sum(x[lid]);
        if (thread_index_in_simdgroup == 0) partial[simdgroup_index_in_threadgroup] = s;
        threadgroup_barrier(mem_flags::mem_device);  // <- wrong-mem-flags
        y[lid] = partial[0] + partial[1] + partial[2] + partial[3];
    """),
    kernel("threadgroup_flag_for_device_memory", (192, 96))(
        x=floats(192), scratch=Out(192), y=Out(192)
    )("""
        uint base = threadgroup_position_in_grid.x * 96;
        scratch[base + lid] = x[base + lid] * 2;
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- wrong-mem-flags
        y[base + lid] = scratch[base + (lid + 48) % 96];
    """),
    kernel("mem_none_for_device_memory", 64)(
        x=halves(64), scale=Out(1, "float16"), y=Out(64, "float16")
    )("""
        if (lid == 0) scale[0] = half(rsqrt(float(x[0]) * float(x[0]) + 1.0f));
        threadgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lid] = x[lid] * scale[0];
    """),
    kernel("only_threadgroup_flag_though_both_move", 64)(x=floats(64), stage=Out(64), y=Out(64))("""
        threadgroup float tile[64];
        tile[lid] = x[lid];
        stage[lid] = x[lid] + 1;
        threadgroup_barrier(mem_flags::mem_threadgroup);  // <- wrong-mem-flags
        y[lid] = tile[63 - lid] + stage[63 - lid];
    """),
    kernel("texture_flag_in_a_loop", 64)(x=integers(0, 9, 64), y=Out(64, "int32"))("""
        threadgroup int cells[2][64];
        int v = x[lid];
        for (int r = 0; r < 4; ++r) {
          cells[r & 1][lid] = v;
          threadgroup_barrier(mem_flags::mem_texture);  // <- wrong-mem-flags
          v += cells[r & 1][(lid + 32) % 64];
        }
        y[lid] = v;
    """),
    kernel("simdgroup_barrier_without_memory", 32)(x=floats(32), y=Out(32))("""
        threadgroup float swap[32];
        swap[lane] = x[lane];
        simdgroup_barrier(mem_flags::mem_none);  // <- wrong-mem-flags
        y[lane] = swap[31 - lane];
    """),
)
