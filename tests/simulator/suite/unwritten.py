"""Bugs: outputs left unwritten."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Out, floats, halves, integers, kernel

BUGS = (
    kernel("grid_counted_in_threadgroups", (4, 16))(x=floats(64), y=Out(64))("""
        y[i] = x[i] * 3;  // <- unwritten-output
    """),
    kernel("guard_stops_one_short", (24, 8))(x=halves(24), y=Out(24, "float16"))("""
        if (i < uint(x_shape[0]) - 1)
          y[i] = x[i] + x[i + 1];  // <- unwritten-output
    """),
    kernel("every_other_element", (18, 9))(
        x=integers(0, 99, 18, dtype="int16"), y=Out(36, "int16")
    )("""
        y[2 * i] = x[i];  // <- unwritten-output
    """),
    kernel("second_output_of_the_masked_rows", (20, 10))(
        x=floats(20), mask=np.arange(20) % 3 != 1, value=Out(20), logit=Out(20)
    )("""
        value[i] = x[i];
        if (mask[i])
          logit[i] = log(max(x[i], 1e-6f));  // <- unwritten-output
    """),
    kernel("rows_padded_to_a_multiple", ((13, 4), 13))(x=floats(4, 13), y=Out(4, 16))("""
        uint3 at = thread_position_in_grid;
        y[at.y * 16 + at.x] = x[at.y * 13 + at.x];  // <- unwritten-output
    """),
    kernel("vector_loop_forgets_the_rest", 8)(x=floats(30), y=Out(30))("""
        uint quads = 30 / 4;
        if (i < quads) {
          float4 v = ((const device float4*)x)[i];
          ((device float4*)y)[i] = sqrt(abs(v));  // <- unwritten-output
        }
    """),
    kernel("early_return_before_the_store", 6)(
        x=np.where(np.arange(24).reshape(6, 4) // 4 == 2, 0, 1.5).astype(np.float32), y=Out(6, 4)
    )("""
        uint row = thread_position_in_grid.x;
        float s = 0;
        for (uint k = 0; k < 4; ++k) s += x[row * 4 + k];
        if (s == 0.0f) return;
        for (uint k = 0; k < 4; ++k) y[row * 4 + k] = x[row * 4 + k] / s;  // <- unwritten-output
    """),
    kernel("edge_tiles_of_a_transpose", ((24, 16), (8, 8)))(
        T="bfloat16", x=Array(floats(16, 20), dtype="bfloat16"), y=Out(20, 16, "bfloat16")
    )("""
        threadgroup T tile[8][9];
        uint3 t = thread_position_in_threadgroup;
        uint3 g = threadgroup_position_in_grid;
        uint rows = x_shape[0], columns = x_shape[1];
        if ((g.x + 1) * 8 > columns) return;
        tile[t.y][t.x] = x[(g.y * 8 + t.y) * columns + g.x * 8 + t.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[(g.x * 8 + t.y) * rows + g.y * 8 + t.x] = tile[t.x][t.y];  // <- unwritten-output
    """),
    kernel("imaginary_parts", 12)(x=floats(12), y=Out(12, "complex64"))("""
        device float* parts = (device float*)y;
        parts[2 * i] = cos(x[i]);  // <- unwritten-output
    """),
)
