"""Kernels with bank conflicts in threadgroup memory, of 2 to 32 ways."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_X = floats(128, 128)
_A = floats(64, 64, seed=1)
_B = floats(64, 64, seed=2)
_COMPLEX = floats(32, 64, 2, seed=3)
_TAPS = floats(64, seed=4)
_POINTS = floats(8, 256, 4, seed=5)
_HALVES = floats(512, 64, seed=6).astype(np.float16)
_NOISE = floats(64, 1024, seed=7)
_WHOLE = integers(-9, 10, 64, 512, seed=8)


def _correlated() -> np.ndarray:
    shifted = np.stack([np.roll(_COMPLEX, -j, 1) for j in range(64)])
    return np.einsum("j,jbkc->bkc", _TAPS, shifted)


def _energies() -> np.ndarray:
    sums = np.zeros((8, 256), np.float32)
    for j in range(1, 33):
        away = _POINTS - np.roll(_POINTS, -j, 1)
        sums += 1 / (1 + (away[..., :3] ** 2).sum(-1))
    return sums


def _delayed() -> np.ndarray:
    """An echo of 16 steps: y[t] = x[t] + y[t - 16] / 2 for each of 1024 channels."""
    out = _NOISE.copy()
    for t in range(16, 64):
        out[t] += 0.5 * out[t - 16]
    return out


FAULTS = (
    kernel("transpose_by_unpadded_tiles", ((128, 32), (32, 8)))(x=_X, y=gives(_X.T))("""
        threadgroup float tile[32][32];
        uint2 group = threadgroup_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        for (uint r = lid.y; r < 32; r += 8)
          tile[r][lid.x] = x[(group.y * 32 + r) * 128 + group.x * 32 + lid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint r = lid.y; r < 32; r += 8) {
          float v = tile[lid.x][r];  // <- bank-conflict
          y[(group.x * 32 + r) * 128 + group.y * 32 + lid.x] = v;
        }
    """),
    kernel("matmul_with_a_tile_of_rows", ((64, 64), (16, 16)), close=1e-4)(
        a=_A, b=_B, y=gives(_A @ _B.T)
    )("""
        constexpr uint N = 64, T = 16;
        threadgroup float at[T][T], bt[T][T];
        uint2 group = threadgroup_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        uint row = group.y * T + lid.y, col = group.x * T + lid.x;
        float sum = 0;
        for (uint k = 0; k < N; k += T) {
          at[lid.y][lid.x] = a[row * N + k + lid.x];
          bt[lid.y][lid.x] = b[(group.x * T + lid.y) * N + k + lid.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint i = 0; i < T; i++) sum += at[lid.y][i] * bt[lid.x][i];  // <- bank-conflict
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[row * N + col] = sum;
    """),
    kernel("correlation_of_interleaved_numbers", (2048, 64))(
        x=_COMPLEX, w=_TAPS, y=gives(_correlated())
    )("""
        threadgroup float s[128];
        uint row = threadgroup_position_in_grid.x;
        s[lid] = x[row * 128 + lid];
        s[lid + 64] = x[row * 128 + lid + 64];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float re = 0, im = 0;
        for (uint j = 0; j < 64; j++) {
          uint at = 2 * ((lid + j) % 64);
          re += w[j] * s[at];  // <- bank-conflict
          im += w[j] * s[at + 1];  // <- bank-conflict
        }
        ((device float2*)y)[row * 64 + lid] = float2(re, im);
    """),
    kernel("energies_of_points_in_records", (2048, 256))(x=_POINTS, y=gives(_energies()))("""
        threadgroup float p[1024];
        uint row = threadgroup_position_in_grid.x;
        for (uint k = lid; k < 1024; k += 256) p[k] = x[row * 1024 + k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint j = 1; j <= 32; j++) {
          uint other = (lid + j) % 256 * 4;
          float dx = p[lid * 4] - p[other];  // <- bank-conflict
          float dy = p[lid * 4 + 1] - p[other + 1];  // <- bank-conflict
          float dz = p[lid * 4 + 2] - p[other + 2];  // <- bank-conflict
          sum += 1.0f / (1.0f + dx * dx + dy * dy + dz * dz);
        }
        y[row * 256 + lid] = sum;
    """),
    kernel("sums_of_staged_rows_of_halves", (512, 64), also="low-occupancy")(
        x=_HALVES, y=gives(_HALVES.astype(np.float32).sum(1))
    )("""
        threadgroup half tile[64 * 64];
        uint first = threadgroup_position_in_grid.x * 64;
        for (uint k = lid; k < 1024; k += 64)
          ((threadgroup half4*)tile)[k] = ((const device half4*)x)[first * 16 + k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint c = 0; c < 64; c++) sum += float(tile[lid * 64 + c]);  // <- bank-conflict
        y[first + lid] = sum;
    """),
    kernel("delay_lines_of_16_elements", (1024, 64))(x=_NOISE, y=gives(_delayed()))("""
        threadgroup float line[64 * 16];
        uint c = thread_position_in_grid.x;
        for (uint t = 0; t < 16; t++) line[lid * 16 + t] = 0;  // <- bank-conflict
        for (uint t = 0; t < 64; t++) {
          float v = x[t * 1024 + c] + 0.5f * line[lid * 16 + t % 16];  // <- bank-conflict
          line[lid * 16 + t % 16] = v;  // <- bank-conflict
          y[t * 1024 + c] = v;
        }
    """),
    kernel("tree_with_growing_strides", (64 * 256, 256), also="frequent-barriers")(
        x=_WHOLE, y=gives(_WHOLE.sum(1))
    )("""
        threadgroup int s[512];
        uint row = threadgroup_position_in_grid.x;
        s[lid] = x[row * 512 + lid];
        s[lid + 256] = x[row * 512 + lid + 256];
        for (uint stride = 1; stride < 512; stride *= 2) {
          threadgroup_barrier(mem_flags::mem_threadgroup);
          uint at = 2 * stride * lid;
          if (at < 512) s[at] += s[at + stride];  // <- bank-conflict
        }
        if (lid == 0) y[row] = s[0];
    """),
)
