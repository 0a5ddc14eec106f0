"""Kernels with one cost fault each."""

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


_X_GROUPS = floats(16, 64)
_W = floats(64, 128, seed=1)
_A_GROUPS = floats(64, 64, seed=2)
_B_GROUPS = floats(64, 64, seed=3)
_WHOLE_GROUPS = integers(-9, 10, 16, 128, seed=4)
_ROWS = floats(16, 512, seed=5)
_V = floats(32, 256, seed=6)
_LONG = floats(16, 2048, seed=7)
_BOOK = floats(7168, seed=8)
_CODES = integers(0, 7168, 2048, seed=9)
_COLUMNS = floats(128, 512, seed=10)
_SMALL = floats(64, 64, seed=11)


def _softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


_IMAGE = integers(0, 256, 132, 132, dtype="uint8")
_W_NARROW = integers(-128, 128, 256, 512, seed=1, dtype="int8")
_X_NARROW = floats(512, seed=2)
_A_NARROW = floats(64, 64, seed=3).astype(np.float16)
_B_NARROW = floats(64, 64, seed=4).astype(np.float16)
_SIGNAL = floats(79, 256, seed=5).astype(np.float16)
_TAPS_NARROW = (floats(16, 256, seed=6) / 4).astype(np.float16)
_CODES_NARROW = integers(0, 256, 32, 1024, seed=7, dtype="uint8")
_QUERIES = integers(0, 256, 4, 32, seed=8, dtype="uint8")
_NIBBLES = integers(0, 256, 256, 256, seed=9, dtype="uint8")


def _blurred() -> np.ndarray:
    whole = _IMAGE.astype(np.int32)
    return sum(whole[i : i + 128, j : j + 128] for i in range(5) for j in range(5)) // 25


def _distances() -> np.ndarray:
    different = _QUERIES[:, :, None] ^ _CODES_NARROW[None]
    return np.unpackbits(different[..., None], axis=-1).sum((1, 3))


def _unpacked() -> np.ndarray:
    whole = np.stack([_NIBBLES & 15, _NIBBLES >> 4], -1).reshape(256, 512)
    return whole.astype(np.float32) - 8


def _filtered() -> np.ndarray:
    signal, taps = _SIGNAL.astype(np.float32), _TAPS_NARROW.astype(np.float32)
    return sum(taps[k] * signal[k : k + 64] for k in range(16)).astype(np.float16)


_TALL = floats(1024, 128, seed=1)
_VECTOR = floats(128, seed=2)
_A_UNCOALESCED = floats(64, 64, seed=3)
_B_UNCOALESCED = floats(64, 64, seed=4)
_NARROW = floats(512, 64, seed=5)
_RECORDS = floats(8192, 8, seed=6)
_CHUNKS = floats(2048, 16, seed=7)
_KEYS = floats(256, 4, 64, seed=8)
_QUERY = floats(4, 64, seed=9)
_PIXELS = floats(1024, 32, seed=10)
_MIX = floats(32, 8, seed=11)
_SERIES = floats(1024, 64, seed=12)
_CHANNELS = floats(4, 64, 128, seed=13)


def _smoothed() -> np.ndarray:
    state, states = np.zeros(1024, np.float32), []
    for t in range(64):
        state = 0.5 * state + _SERIES[:, t]
        states.append(state)
    return np.stack(states, 1)


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
    kernel("one_element_staged_at_a_time", (16 * 128, 128), close=1e-4)(
        x=_X_GROUPS, w=_W, y=gives(_X_GROUPS @ _W)
    )("""
        threadgroup float cell;
        uint row = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint k = 0; k < 64; k++) {
          if (lid == 0) cell = x[row * 64 + k];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          sum += cell * w[k * 128 + lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
        y[row * 128 + lid] = sum;
    """),
    kernel("matmul_by_tiles_of_depth_one", ((64, 64), (16, 16)), close=1e-4)(
        a=_A_GROUPS, b=_B_GROUPS, y=gives(_A_GROUPS.T @ _B_GROUPS)
    )("""
        constexpr uint N = 64;
        threadgroup float at[16], bt[16];
        uint2 group = threadgroup_position_in_grid.xy;
        uint2 lid = thread_position_in_threadgroup.xy;
        float sum = 0;
        for (uint k = 0; k < N; k++) {
          if (lid.x == 0) at[lid.y] = a[k * N + group.y * 16 + lid.y];
          if (lid.y == 0) bt[lid.x] = b[k * N + group.x * 16 + lid.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          sum += at[lid.y] * bt[lid.x];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
        y[(group.y * 16 + lid.y) * N + group.x * 16 + lid.x] = sum;
    """),
    kernel("prefix_sums_by_turns", (16 * 128, 128))(
        x=_WHOLE_GROUPS, y=gives(_WHOLE_GROUPS.cumsum(1))
    )("""
        threadgroup int s[128];
        uint row = threadgroup_position_in_grid.x;
        s[lid] = x[row * 128 + lid];
        for (uint i = 1; i < 128; i++) {
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          if (lid == i) s[i] += s[i - 1];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[row * 128 + lid] = s[lid];
    """),
    kernel("elements_staged_for_no_reader", (16 * 64, 64))(x=_ROWS, y=gives(2 * _ROWS))("""
        threadgroup float tile[64];
        uint row = threadgroup_position_in_grid.x;
        for (uint k = lid; k < 512; k += 64) {
          tile[lid] = x[row * 512 + k];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          y[row * 512 + k] = 2.0f * tile[lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
    """),
    kernel("dot_products_by_the_whole_group", (16 * 256, 256), close=1e-3)(
        x=_ROWS, v=_V, y=gives(_ROWS[:, :256] @ _V.T)
    )("""
        threadgroup float partial[8];
        uint group = simdgroup_index_in_threadgroup, row = threadgroup_position_in_grid.x;
        float mine = x[row * 512 + lid];
        for (uint o = 0; o < 32; o++) {
          float sum = simd_sum(mine * v[o * 256 + lid]);
          if (lane == 0) partial[group] = sum;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          if (group == 0) sum = simd_sum(lane < 8 ? partial[lane] : 0.0f);
          if (lid == 0) y[row * 32 + o] = sum;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
    """),
    kernel("softmax_of_rows_staged_by_one_simdgroup", (16 * 32, 32))(
        x=_LONG, y=gives(_softmax(_LONG))
    )("""
        constexpr uint C = 2048;
        threadgroup float staged[2 * C];  // <- low-occupancy
        uint row = threadgroup_position_in_grid.x;
        float best = -INFINITY, total = 0;
        for (uint c = lane; c < C; c += 32) {
          staged[c] = x[row * C + c];
          best = max(best, staged[c]);
        }
        best = simd_max(best);
        for (uint c = lane; c < C; c += 32) {
          staged[C + c] = fast::exp(staged[c] - best);
          total += staged[C + c];
        }
        total = simd_sum(total);
        for (uint c = lane; c < C; c += 32) y[row * C + c] = staged[C + c] / total;
    """),
    kernel("codebook_staged_for_64_threads", (2048, 64))(
        book=_BOOK, codes=_CODES, y=gives(_BOOK[_CODES])
    )("""
        threadgroup float staged[7168];  // <- low-occupancy
        for (uint k = lid; k < 7168; k += 64) staged[k] = book[k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = staged[codes[i]];
    """),
    kernel("columns_reversed_in_private_stacks", (512, 32))(x=_COLUMNS, y=gives(_COLUMNS[::-1]))("""
        threadgroup float stack[32 * 129];  // <- low-occupancy
        uint c = thread_position_in_grid.x;
        for (uint r = 0; r < 128; r++) stack[lid * 129 + r] = x[r * 512 + c];
        for (uint r = 0; r < 128; r++) y[r * 512 + c] = stack[lid * 129 + 127 - r];
    """),
    kernel("scratch_declared_for_the_largest_size", (64 * 32, 32), close=1e-4)(
        x=_SMALL,
        y=gives(np.stack([(_SMALL * np.roll(_SMALL, -j, 1)).sum(1) for j in range(32)], 1)),
    )("""
        threadgroup float scratch[8192];  // <- low-occupancy
        uint row = threadgroup_position_in_grid.x;
        scratch[lid] = x[row * 64 + lid];
        scratch[lid + 32] = x[row * 64 + lid + 32];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint k = 0; k < 64; k++) sum += scratch[k] * scratch[(k + lid) % 64];
        y[row * 32 + lid] = sum;
    """),
    kernel("box_blur_of_bytes", ((128, 128), (32, 8)))(x=_IMAGE, y=gives(_blurred(), "uint8"))("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y, sum = 0;
        for (uint i = 0; i < 5; i++) {
          for (uint j = 0; j < 5; j++) sum += x[(r + i) * 132 + c + j];  // <- narrow-access
        }
        y[r * 128 + c] = sum / 25;  // <- narrow-access
    """),
    kernel("matvec_of_bytes", ((32, 256), (32, 8)), close=1e-4)(
        w=_W_NARROW, x=_X_NARROW, y=gives(_W_NARROW.astype(np.float32) @ _X_NARROW)
    )("""
        uint row = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = lane; k < 512; k += 32) sum += w[row * 512 + k] * x[k];  // <- narrow-access
        sum = simd_sum(sum);
        if (lane == 0) y[row] = sum;
    """),
    kernel("matmul_of_single_halves", ((64, 64), (32, 8)), close=0.002)(
        a=_A_NARROW,
        b=_B_NARROW,
        y=gives(_A_NARROW.astype(np.float32) @ _B_NARROW.astype(np.float32), "float16"),
    )("""
        uint col = thread_position_in_grid.x, row = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 64; k++)
          sum += float(a[row * 64 + k]) * float(b[k * 64 + col]);  // <- narrow-access
        y[row * 64 + col] = half(sum);  // <- narrow-access
    """),
    kernel("filter_of_single_halves", ((256, 64), 256))(
        x=_SIGNAL, w=_TAPS_NARROW, y=gives(_filtered())
    )("""
        uint c = thread_position_in_grid.x, t = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 16; k++)
          sum += float(w[k * 256 + c]) * float(x[(t + k) * 256 + c]);  // <- narrow-access
        y[t * 256 + c] = half(sum);  // <- narrow-access
    """),
    kernel("hamming_distances_of_bytes", ((1024, 4), 256))(
        q=_QUERIES, codes=_CODES_NARROW, y=gives(_distances(), "uint32")
    )("""
        uint j = thread_position_in_grid.x, i = thread_position_in_grid.y, bits = 0;
        for (uint b = 0; b < 32; b++)
          bits += popcount(uint(q[i * 32 + b] ^ codes[b * 1024 + j]));  // <- narrow-access
        y[i * 1024 + j] = bits;
    """),
    kernel("quantized_matvec_by_bytes", ((32, 256), (32, 8)), close=1e-4)(
        w=_NIBBLES, x=_X_NARROW, y=gives(_unpacked() @ _X_NARROW)
    )("""
        uint row = thread_position_in_grid.y;
        const device float2* x2 = (const device float2*)x;
        float sum = 0;
        for (uint k = lane; k < 256; k += 32) {
          uint pair = w[row * 256 + k];  // <- narrow-access
          sum += dot(float2(pair & 15, pair >> 4) - 8.0f, x2[k]);
        }
        sum = simd_sum(sum);
        if (lane == 0) y[row] = sum;
    """),
    kernel("sum_of_a_row_by_each_thread", (1024, 256), close=1e-3)(
        x=_TALL, y=gives(_TALL.sum(1))
    )("""
        uint r = thread_position_in_grid.x;
        float sum = 0;
        for (uint c = 0; c < 128; c++) sum += x[r * 128 + c];  // <- uncoalesced-access
        y[r] = sum;
    """),
    kernel("transpose_with_scattered_writes", ((128, 128), 128))(x=_X, y=gives(_X.T))("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        float v = x[r * 128 + c];
        y[c * 128 + r] = v;  // <- uncoalesced-access
    """),
    kernel("transpose_with_scattered_reads", ((128, 128), 128))(x=_X, y=gives(_X.T))("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        float v = x[c * 128 + r];  // <- uncoalesced-access
        y[r * 128 + c] = v;
    """),
    kernel("one_field_of_records", (8192, 256))(records=_RECORDS, y=gives(0.5 * _RECORDS[:, 2]))("""
        float mass = records[i * 8 + 2];  // <- uncoalesced-access
        y[i] = 0.5f * mass;
    """),
    kernel("records_written_field_by_field", (8192, 256))(
        x=_RECORDS.reshape(-1)[:8192],
        y=gives(_RECORDS.reshape(-1)[:8192, None] * np.arange(8, dtype=np.float32)),
    )("""
        for (uint f = 0; f < 8; f++) y[i * 8 + f] = x[i] * f;  // <- uncoalesced-access
    """),
    kernel("matvec_with_a_row_a_thread", (1024, 128), close=1e-4)(
        w=_TALL, x=_VECTOR, y=gives(_TALL @ _VECTOR)
    )("""
        uint r = thread_position_in_grid.x;
        float sum = 0;
        for (uint k = 0; k < 128; k++) sum += w[r * 128 + k] * x[k];  // <- uncoalesced-access
        y[r] = sum;
    """),
    kernel("matmul_with_swapped_axes", ((64, 64), (32, 8)), close=1e-4)(
        a=_A_UNCOALESCED, b=_B_UNCOALESCED, y=gives(_A_UNCOALESCED @ _B_UNCOALESCED)
    )("""
        uint row = thread_position_in_grid.x, col = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 64; k++)
          sum += a[row * 64 + k] * b[k * 64 + col];  // <- uncoalesced-access
        y[row * 64 + col] = sum;  // <- uncoalesced-access
    """),
    kernel("softmax_with_a_row_a_thread", (512, 128))(x=_NARROW, y=gives(_softmax(_NARROW)))("""
        uint r = thread_position_in_grid.x;
        float best = -INFINITY, total = 0;
        for (uint c = 0; c < 64; c++) best = max(best, x[r * 64 + c]);  // <- uncoalesced-access
        for (uint c = 0; c < 64; c++)
          total += fast::exp(x[r * 64 + c] - best);  // <- uncoalesced-access
        for (uint c = 0; c < 64; c++)
          y[r * 64 + c] = fast::exp(x[r * 64 + c] - best) / total;  // <- uncoalesced-access
    """),
    kernel("chunk_of_elements_a_thread", (2048, 256))(
        x=_CHUNKS, y=gives(np.maximum(_CHUNKS, 0))
    )("""
        uint first = thread_position_in_grid.x * 16;
        for (uint k = 0; k < 16; k++)
          y[first + k] = max(x[first + k], 0.0f);  // <- uncoalesced-access
    """),
    kernel("column_means_by_simdgroup", ((32, 128), (32, 4)))(x=_TALL, y=gives(_TALL.mean(0)))("""
        uint c = thread_position_in_grid.y;
        float sum = 0;
        for (uint r = lane; r < 1024; r += 32) sum += x[r * 128 + c];  // <- uncoalesced-access
        sum = simd_sum(sum);
        if (lane == 0) y[c] = sum / 1024;
    """),
    kernel("attention_scores_with_a_key_a_thread", ((256, 4), 256), close=1e-4)(
        q=_QUERY, k=_KEYS, y=gives(np.einsum("hd,thd->ht", _QUERY, _KEYS))
    )("""
        uint t = thread_position_in_grid.x, h = thread_position_in_grid.y;
        float sum = 0;
        for (uint d = 0; d < 64; d++)
          sum += q[h * 64 + d] * k[(t * 4 + h) * 64 + d];  // <- uncoalesced-access
        y[h * 256 + t] = sum;
    """),
    kernel("pointwise_convolution_with_a_pixel_a_thread", ((1024, 8), 256), close=1e-4)(
        x=_PIXELS, w=_MIX, y=gives(_PIXELS @ _MIX)
    )("""
        uint p = thread_position_in_grid.x, o = thread_position_in_grid.y;
        float sum = 0;
        for (uint c = 0; c < 32; c++) sum += x[p * 32 + c] * w[c * 8 + o];  // <- uncoalesced-access
        y[p * 8 + o] = sum;  // <- uncoalesced-access
    """),
    kernel("recurrence_of_channels_in_rows", (1024, 128))(x=_SERIES, y=gives(_smoothed()))("""
        uint c = thread_position_in_grid.x;
        float state = 0;
        for (uint t = 0; t < 64; t++) {
          state = 0.5f * state + x[c * 64 + t];  // <- uncoalesced-access
          y[c * 64 + t] = state;  // <- uncoalesced-access
        }
    """),
    kernel("elementwise_with_swapped_axes", ((128, 128), (32, 8)))(x=_X, y=gives(2 * _X + 1))("""
        uint r = thread_position_in_grid.x, c = thread_position_in_grid.y;
        y[r * 128 + c] = 2.0f * x[r * 128 + c] + 1.0f;  // <- uncoalesced-access
    """),
    kernel("keys_written_channel_by_channel", ((128, 64, 4), (128, 2)))(
        x=_CHANNELS, cache=gives(_CHANNELS.transpose(0, 2, 1))
    )("""
        uint d = thread_position_in_grid.x, t = thread_position_in_grid.y;
        uint h = thread_position_in_grid.z;
        float v = x[(h * 64 + t) * 128 + d];
        cache[(h * 128 + d) * 64 + t] = v;  // <- uncoalesced-access
    """),
)
