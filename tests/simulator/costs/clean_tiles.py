"""Kernels without a cost fault: tiles and streams."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

_X = floats(128, 128)
_A = floats(64, 64, seed=1)
_B = floats(64, 64, seed=2)
_FILTER = floats(3, 3, seed=3)


def _convolved() -> np.ndarray:
    padded = np.pad(_X, 1)
    return sum(_FILTER[i, j] * padded[i : i + 128, j : j + 128] for i in range(3) for j in range(3))


def _relaxed() -> np.ndarray:
    padded = np.pad(_X, 1)
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    return 0.25 * around


_LONG = floats(131072, seed=1)
_GATE = floats(32768, seed=2).astype(np.float16)
_UP = floats(32768, seed=3).astype(np.float16)
_HEADS = floats(64, 4, 64, seed=4)
_ANGLES = floats(64, 32, seed=5)
_BYTES = integers(-128, 128, 64, 512, seed=6, dtype="int8")
_SCALES = floats(64, seed=7)
_SIGNAL = floats(128, 256, seed=8)
_TAPS = floats(4, 256, seed=9)
_DECAY = np.random.default_rng(10).random((128, 256)).astype(np.float32)
_WHOLE = integers(-9, 10, 32, 1024, seed=11)
_PIXELS = integers(0, 256, 16384, seed=12, dtype="uint8")


def _rotated() -> np.ndarray:
    first, second = _HEADS[..., :32], _HEADS[..., 32:]
    cos, sin = np.cos(_ANGLES)[:, None], np.sin(_ANGLES)[:, None]
    return np.concatenate([first * cos - second * sin, first * sin + second * cos], -1)


def _rotated_pairs() -> np.ndarray:
    even, odd = _HEADS[..., ::2], _HEADS[..., 1::2]
    cos, sin = np.cos(_ANGLES)[:, None], np.sin(_ANGLES)[:, None]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(64, 4, 64)


def _causal() -> np.ndarray:
    padded = np.pad(_SIGNAL, ((3, 0), (0, 0)))
    return sum(_TAPS[k] * padded[k : k + 128] for k in range(4))


def _recurred() -> np.ndarray:
    state, states = np.zeros(256, np.float32), []
    for decay, x in zip(_DECAY, _SIGNAL, strict=True):
        state = decay * state + x
        states.append(state)
    return np.stack(states)


def _gelu(x: np.ndarray) -> np.ndarray:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def _gated() -> np.ndarray:
    gate, up = _GATE.astype(np.float32), _UP.astype(np.float32)
    return (gate / (1 + np.exp(-gate)) * up).astype(np.float16)


CLEAN = (
    kernel("transpose_by_padded_tiles", ((128, 32), (32, 8)))(x=_X, y=gives(_X.T))("""
        threadgroup float tile[32][33];
        uint2 group = threadgroup_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        for (uint r = lid.y; r < 32; r += 8)
          tile[r][lid.x] = x[(group.y * 32 + r) * 128 + group.x * 32 + lid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint r = lid.y; r < 32; r += 8)
          y[(group.x * 32 + r) * 128 + group.y * 32 + lid.x] = tile[lid.x][r];
    """),
    kernel("matmul_by_tiles", ((64, 64), (16, 16)), close=1e-4)(a=_A, b=_B, y=gives(_A @ _B))("""
        constexpr uint N = 64, T = 16;
        threadgroup float at[T][T], bt[T][T];
        uint2 at_grid = thread_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        float sum = 0;
        for (uint k = 0; k < N; k += T) {
          at[lid.y][lid.x] = a[at_grid.y * N + k + lid.x];
          bt[lid.y][lid.x] = b[(k + lid.y) * N + at_grid.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint i = 0; i < T; i++) sum += at[lid.y][i] * bt[i][lid.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        y[at_grid.y * N + at_grid.x] = sum;
    """),
    kernel("matmul_by_blocks_of_registers", ((64, 16), (32, 8)), close=1e-4)(
        a=_A, b=_B, y=gives(_A @ _B)
    )("""
        constexpr uint N = 64, T = 32;
        threadgroup float at[T][T], bt[T][T];
        uint2 group = threadgroup_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        float sums[4] = {0, 0, 0, 0};
        for (uint k = 0; k < N; k += T) {
          for (uint r = 0; r < 4; r++) {
            uint y0 = lid.y + 8 * r;
            at[y0][lid.x] = a[(group.y * T + y0) * N + k + lid.x];
            bt[y0][lid.x] = b[(k + y0) * N + group.x * T + lid.x];
          }
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint i = 0; i < T; i++) {
            float right = bt[i][lid.x];
            for (uint r = 0; r < 4; r++) sums[r] += at[lid.y + 8 * r][i] * right;
          }
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        for (uint r = 0; r < 4; r++)
          y[(group.y * T + lid.y + 8 * r) * N + group.x * T + lid.x] = sums[r];
    """),
    kernel("matmul_by_simdgroup_matrices", ((128, 4), 32), close=1e-4)(
        a=_A, b=_B, y=gives(_A @ _B)
    )("""
        constexpr uint N = 64;
        uint row = threadgroup_position_in_grid.y * 16, col = threadgroup_position_in_grid.x * 16;
        simdgroup_float8x8 left[2], right[2];
        simdgroup_float8x8 sums[4] = {simdgroup_float8x8(0), simdgroup_float8x8(0),
                                      simdgroup_float8x8(0), simdgroup_float8x8(0)};
        for (uint k = 0; k < N; k += 8) {
          for (uint i = 0; i < 2; i++) {
            simdgroup_load(left[i], a + (row + 8 * i) * N + k, N);
            simdgroup_load(right[i], b + k * N + col + 8 * i, N);
          }
          for (uint i = 0; i < 4; i++)
            simdgroup_multiply_accumulate(sums[i], left[i / 2], right[i % 2], sums[i]);
        }
        for (uint i = 0; i < 4; i++)
          simdgroup_store(sums[i], y + (row + 8 * (i / 2)) * N + col + 8 * (i % 2), N);
    """),
    kernel("convolution_of_an_image", ((128, 128), (32, 8)))(
        x=_X, w=_FILTER, y=gives(_convolved())
    )("""
        int c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        float sum = 0;
        for (int i = -1; i <= 1; i++) {
          for (int j = -1; j <= 1; j++) {
            int rr = r + i, cc = c + j;
            if (rr >= 0 && rr < 128 && cc >= 0 && cc < 128)
              sum += x[rr * 128 + cc] * w[(i + 1) * 3 + j + 1];
          }
        }
        y[r * 128 + c] = sum;
    """),
    kernel("jacobi_step_with_a_halo", ((128, 128), (32, 8)))(x=_X, y=gives(_relaxed()))("""
        threadgroup float tile[10][34];
        uint2 group = threadgroup_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        for (uint k = lid.y * 32 + lid.x; k < 340; k += 256) {
          int r = int(group.y * 8 + k / 34) - 1, c = int(group.x * 32 + k % 34) - 1;
          bool inside = r >= 0 && r < 128 && c >= 0 && c < 128;
          tile[k / 34][k % 34] = inside ? x[r * 128 + c] : 0.0f;
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = tile[lid.y][lid.x + 1] + tile[lid.y + 2][lid.x + 1]
                  + tile[lid.y + 1][lid.x] + tile[lid.y + 1][lid.x + 2];
        y[(group.y * 8 + lid.y) * 128 + group.x * 32 + lid.x] = 0.25f * sum;
    """),
    kernel("max_pool_by_pairs", ((64, 64), (32, 8)))(
        x=_X, y=gives(_X.reshape(64, 2, 64, 2).max((1, 3)))
    )("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        const device float2* pairs = (const device float2*)x;
        float2 v = max(pairs[2 * r * 64 + c], pairs[(2 * r + 1) * 64 + c]);
        y[r * 64 + c] = max(v.x, v.y);
    """),
    kernel("nearest_upsampling", ((256, 256), (32, 8)))(
        x=_X, y=gives(_X.repeat(2, 0).repeat(2, 1))
    )("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        y[r * 256 + c] = x[r / 2 * 128 + c / 2];
    """),
    kernel("gelu_of_vectors", (32768, 256))(x=_LONG, y=gives(_gelu(_LONG)))("""
        float4 v = ((const device float4*)x)[i];
        float4 inner = 0.7978845608f * (v + 0.044715f * v * v * v);
        ((device float4*)y)[i] = 0.5f * v * (1.0f + precise::tanh(inner));
    """),
    kernel("gated_halves_by_four", (8192, 256), close=1e-3)(g=_GATE, u=_UP, y=gives(_gated()))("""
        float4 gate = float4(((const device half4*)g)[i]), up = float4(((const device half4*)u)[i]);
        ((device half4*)y)[i] = half4(gate / (1.0f + fast::exp(-gate)) * up);
    """),
    kernel("rotary_embedding_of_halves", ((32, 4, 64), (32, 4, 2)))(
        x=_HEADS, angles=_ANGLES, y=gives(_rotated())
    )("""
        uint d = thread_position_in_grid.x, h = thread_position_in_grid.y;
        uint t = thread_position_in_grid.z;
        float angle = angles[t * 32 + d], c = cos(angle), s = sin(angle);
        uint at = (t * 4 + h) * 64 + d;
        float first = x[at], second = x[at + 32];
        y[at] = first * c - second * s;
        y[at + 32] = first * s + second * c;
    """),
    kernel("rotary_embedding_of_pairs", ((32, 4, 64), (32, 4, 2)))(
        x=_HEADS, angles=_ANGLES, y=gives(_rotated_pairs())
    )("""
        uint d = thread_position_in_grid.x, h = thread_position_in_grid.y;
        uint t = thread_position_in_grid.z;
        float angle = angles[t * 32 + d], c = cos(angle), s = sin(angle);
        uint at = (t * 4 + h) * 32 + d;
        float2 v = ((const device float2*)x)[at];
        ((device float2*)y)[at] = float2(v.x * c - v.y * s, v.x * s + v.y * c);
    """),
    kernel("dequantized_bytes_by_four", ((128, 64), (128, 2)))(
        x=_BYTES, scales=_SCALES, y=gives(_BYTES.astype(np.float32) * _SCALES[:, None])
    )("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        char4 q = ((const device char4*)x)[r * 128 + c];
        ((device float4*)y)[r * 128 + c] = float4(q) * scales[r];
    """),
    kernel("causal_convolution_of_channels", ((256, 128), 256))(
        x=_SIGNAL, w=_TAPS, y=gives(_causal())
    )("""
        uint c = thread_position_in_grid.x;
        int t = thread_position_in_grid.y;
        float sum = 0;
        for (int k = 0; k < 4; k++) {
          if (t + k >= 3) sum += w[k * 256 + c] * x[(t + k - 3) * 256 + c];
        }
        y[t * 256 + c] = sum;
    """),
    kernel("linear_recurrence_of_channels", (256, 64))(
        a=_DECAY, x=_SIGNAL, y=gives(_recurred())
    )("""
        uint c = thread_position_in_grid.x;
        float state = 0;
        for (uint t = 0; t < 128; t++) {
          state = a[t * 256 + c] * state + x[t * 256 + c];
          y[t * 256 + c] = state;
        }
    """),
    kernel("prefix_sums_of_rows", (32 * 256, 256))(x=_WHOLE, y=gives(_WHOLE.cumsum(1)))("""
        threadgroup int totals[8];
        uint row = threadgroup_position_in_grid.x, group = simdgroup_index_in_threadgroup;
        int4 v = ((const device int4*)x)[row * 256 + lid];
        v.y += v.x;
        v.z += v.y;
        v.w += v.z;
        int before = simd_prefix_exclusive_sum(v.w);
        if (lane == 31) totals[group] = before + v.w;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        before += simd_sum(lane < group ? totals[lane] : 0);
        ((device int4*)y)[row * 256 + lid] = v + before;
    """),
    kernel("sums_of_a_long_array", (4096, 256))(
        x=_LONG, y=gives(_LONG.reshape(8, 16, 1024).sum((0, 2)))
    )("""
        threadgroup float partial[8];
        float4 sums = 0;
        for (uint i = thread_position_in_grid.x; i < 32768; i += threads_per_grid.x)
          sums += ((const device float4*)x)[i];
        float sum = simd_sum(sums.x + sums.y + sums.z + sums.w);
        if (lane == 0) partial[simdgroup_index_in_threadgroup] = sum;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum = simd_sum(lane < 8 ? partial[lane] : 0.0f);
        if (lid == 0) y[threadgroup_position_in_grid.x] = sum;
    """),
    kernel("histogram_in_threadgroup_memory", (4096, 256), init=0, atomic=True)(
        x=_PIXELS, y=gives(np.bincount(_PIXELS, minlength=256), "uint32")
    )("""
        threadgroup atomic_uint bins[256];
        atomic_store_explicit(&bins[lid], 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uchar4 v = ((const device uchar4*)x)[thread_position_in_grid.x];
        for (uint k = 0; k < 4; k++)
          atomic_fetch_add_explicit(&bins[v[k]], 1, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint count = atomic_load_explicit(&bins[lid], memory_order_relaxed);
        atomic_fetch_add_explicit(&y[lid], count, memory_order_relaxed);
    """),
    kernel("heads_to_the_front", ((16, 4, 64), (16, 4, 4)))(
        x=_HEADS, y=gives(_HEADS.transpose(1, 0, 2))
    )("""
        uint d = thread_position_in_grid.x, h = thread_position_in_grid.y;
        uint t = thread_position_in_grid.z;
        float4 v = ((const device float4*)x)[(t * 4 + h) * 16 + d];
        ((device float4*)y)[(h * 64 + t) * 16 + d] = v;
    """),
)
