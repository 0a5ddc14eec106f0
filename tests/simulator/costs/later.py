"""Cost faults and clean kernels that were written from the rules' pages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.simulator.suite.case import Case, floats, gives, integers, kernel

_GRID = floats(256, 128)
_PIXELS = floats(4, 256, 64, seed=1)
_PLANES = _PIXELS.transpose(0, 2, 1).copy()
_IMAGE = floats(66, 66, seed=2)


def _patches() -> np.ndarray:
    return np.stack([_IMAGE[i : i + 64, j : j + 64] for i in range(3) for j in range(3)])


_ROWS = floats(8, 32, 64)
_HALVES = floats(8, 32, 64, seed=1).astype(np.float16)
_BLOCKS = floats(8, 64, 64, seed=2)
_VECTOR = floats(64, 8, seed=3)


def _norms() -> np.ndarray:
    whole = _HALVES.astype(np.float32)
    return np.stack([(np.abs(whole) ** p).sum(2) for p in (1, 2, 3, 4)], 1)


def _padded(fault: str, name: str, *changes: tuple[str, str]) -> Case:
    case = next(case for case in FAULTS if case.name == fault)
    source = case.source.replace("  // <- bank-conflict", "")
    for old, new in changes:
        source = source.replace(old, new)
    return replace(case, name=name, source=source)


_WEIGHTS = integers(0, 256, 64, 1024, dtype="uint8")
_TOKENS = (floats(8, 1024, seed=1) / 8).astype(np.float16)
_SIGNAL = floats(32, 544, seed=2).astype(np.float16)
_TABLE = floats(64, 64, seed=3)
_POINTS = floats(4096, seed=4) / 8
_NIBBLES = integers(0, 256, 64, 512, seed=5, dtype="uint8")
_STATES = (floats(8, 1024, seed=6) / 8).astype(np.float16)


def _scored() -> np.ndarray:
    return _TOKENS.astype(np.float32) @ (_WEIGHTS.astype(np.float32) - 128).T / 64


def _averaged() -> np.ndarray:
    signal = _SIGNAL.astype(np.float32)
    return sum(signal[:, k : k + 512] for k in range(32)) / 32


def _evaluated() -> np.ndarray:
    power = np.ones(4096, np.float32)
    sums = np.zeros((4096, 64), np.float32)
    for row in _TABLE:
        sums += row * power[:, None]
        power = power * _POINTS
    return sums


def _unpacked() -> np.ndarray:
    whole = np.stack([_NIBBLES & 15, _NIBBLES >> 4], -1).reshape(64, 1024).astype(np.float32)
    return _STATES.astype(np.float32) @ (whole - 8).T


_ROWS_GROUPS = floats(32, 16, 64)
_VECTOR_GROUPS = floats(64, seed=1)
_SAMPLES = floats(32, 32, 64, seed=2)
_STEPS = floats(64, 256, seed=3)
_KEYS = floats(16, 64, 128, seed=4)
_QUERIES = floats(16, 128, seed=5)
_SCENES = floats(8, 48, 128, seed=6)


def _smoothed() -> np.ndarray:
    neighbours = _SAMPLES.reshape(32, 32, 32, 2)[..., ::-1].reshape(32, 32, 64)
    return (_SAMPLES + 0.5 * neighbours).sum(1)


def _scores() -> np.ndarray:
    return np.einsum("btd,bd->bt", _KEYS, _QUERIES)


def _totals() -> np.ndarray:
    columns = _SCENES.sum(1)
    return _SCENES * columns[:, None]


FAULTS = (
    kernel("exponentials_by_columns_of_a_2d_index", ((256, 16), (64, 4)))(
        x=_GRID, y=gives(np.exp(_GRID).reshape(256, 16, 8).sum(2).T)
    )("""
        const device float (*m)[128] = (const device float (*)[128])x;
        uint r = thread_position_in_grid.x, c = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 8; k++) sum += fast::exp(m[r][c * 8 + k]);  // <- uncoalesced-access
        y[c * 256 + r] = sum;
    """),
    kernel("channels_last_to_channels_first", ((64, 256, 4), (64, 4)))(
        x=_PIXELS, y=gives(np.where(_PLANES > 0, _PLANES, 0.1 * _PLANES))
    )("""
        uint c = thread_position_in_grid.x, p = thread_position_in_grid.y;
        uint n = thread_position_in_grid.z;
        float v = x[(n * 256 + p) * 64 + c];
        y[(n * 64 + c) * 256 + p] = v > 0 ? v : 0.1f * v;  // <- uncoalesced-access
    """),
    kernel("patches_side_by_side", ((64, 64), (64, 4)))(
        x=_IMAGE, y=gives(_patches().transpose(1, 2, 0))
    )("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        for (uint i = 0; i < 3; i++) {
          for (uint j = 0; j < 3; j++) {
            float v = x[(r + i) * 66 + c + j];
            y[(r * 64 + c) * 9 + i * 3 + j] = v;  // <- uncoalesced-access
          }
        }
    """),
    kernel("products_of_rows_with_stride_64", (8 * 256, 256), close=1e-4)(
        x=_ROWS, y=gives(np.einsum("bik,bjk->bij", _ROWS, np.roll(_ROWS, 1, 1)[:, :8]))
    )("""
        threadgroup float tile[32][64];
        uint group = simdgroup_index_in_threadgroup, batch = threadgroup_position_in_grid.x;
        for (uint r = group; r < 32; r += 8) {
          tile[r][lane] = x[(batch * 32 + r) * 64 + lane];
          tile[r][lane + 32] = x[(batch * 32 + r) * 64 + lane + 32];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint other = (group + 31) % 32;
        float sum = 0;
        for (uint k = 0; k < 64; k++) sum += tile[lane][k] * tile[other][k];  // <- bank-conflict
        y[(batch * 32 + lane) * 8 + group] = sum;
    """),
    kernel("norms_of_rows_of_halves", (8 * 128, 128))(x=_HALVES, y=gives(_norms()))("""
        threadgroup half tile[32 * 64];
        uint group = simdgroup_index_in_threadgroup, batch = threadgroup_position_in_grid.x;
        for (uint r = group; r < 32; r += 4) {
          for (uint c = lane; c < 64; c += 32) tile[r * 64 + c] = x[(batch * 32 + r) * 64 + c];
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint k = 0; k < 64; k++) {
          float v = abs(float(tile[lane * 64 + k])), p = v;  // <- bank-conflict
          for (uint e = 0; e < group; e++) p *= v;
          sum += p;
        }
        y[(batch * 4 + group) * 32 + lane] = sum;
    """),
    kernel("vectors_of_a_block_by_rows", (8 * 512, 512), close=1e-4)(
        x=_BLOCKS, b=_VECTOR, y=gives(np.einsum("bik,kj->bji", _BLOCKS, _VECTOR))
    )("""
        threadgroup float4 block[64 * 16];
        uint r = lid % 64, j = lid / 64, batch = threadgroup_position_in_grid.x;
        const device float4* from = (const device float4*)x + batch * 1024;
        for (uint k = lid; k < 1024; k += 512) block[k / 16 * 16 + k % 16] = from[k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint k = 0; k < 16; k++) {
          float4 v = block[r * 16 + k];  // <- bank-conflict
          uint at = 32 * k + j;
          sum += dot(v, float4(b[at], b[at + 8], b[at + 16], b[at + 24]));
        }
        y[(batch * 8 + j) * 64 + r] = sum;
    """),
    kernel("tokens_times_byte_weights", ((32, 8, 64), (32, 8)), close=1e-4)(
        w=_WEIGHTS, x=_TOKENS, y=gives(_scored())
    )("""
        uint token = thread_position_in_grid.y, row = thread_position_in_grid.z;
        float sum = 0;
        for (uint k = lane; k < 1024; k += 32)
          sum += (float(w[row * 1024 + k]) - 128) * float(x[token * 1024 + k]);  // <- narrow-access
        sum = simd_sum(sum);
        if (lane == 0) y[token * 64 + row] = sum / 64;
    """),
    kernel("moving_average_of_halves", ((512, 32), 256))(x=_SIGNAL, y=gives(_averaged()))("""
        uint t = thread_position_in_grid.x, row = thread_position_in_grid.y;
        const device half* from = x + row * 544 + t;
        float sum = 0;
        for (uint k = 0; k < 32; k++) sum += float(from[k]);  // <- narrow-access
        y[row * 512 + t] = sum / 32;
    """),
    kernel("polynomials_of_pairs", ((32, 4096), (32, 8)))(
        table=_TABLE, x=_POINTS, y=gives(_evaluated())
    )("""
        uint c = thread_position_in_grid.x, i = thread_position_in_grid.y;
        const device float2* rows = (const device float2*)table;
        float power = 1, point = x[i];
        float2 sum = 0;
        for (uint k = 0; k < 64; k++) {
          sum += rows[k * 32 + c] * power;  // <- narrow-access
          power *= point;
        }
        ((device float2*)y)[i * 32 + c] = sum;
    """),
    kernel("tokens_times_nibbles_by_bytes", ((32, 8, 64), (32, 8)), close=1e-4)(
        w=_NIBBLES, x=_STATES, y=gives(_unpacked())
    )("""
        uint token = thread_position_in_grid.y, row = thread_position_in_grid.z;
        const device half* from = x + token * 1024;
        float sum = 0;
        for (uint k = lane; k < 512; k += 32) {
          uchar pair = w[row * 512 + k];  // <- narrow-access
          float low = float(pair & 15) - 8, high = float(pair >> 4) - 8;
          sum += low * float(from[2 * k]) + high * float(from[2 * k + 1]);
        }
        sum = simd_sum(sum);
        if (lane == 0) y[token * 64 + row] = sum;
    """),
    kernel("dot_product_of_each_row_by_a_tree", (32 * 64, 64), close=1e-4)(
        x=_ROWS_GROUPS, v=_VECTOR_GROUPS, y=gives(_ROWS_GROUPS @ _VECTOR_GROUPS)
    )("""
        threadgroup float s[64];
        uint batch = threadgroup_position_in_grid.x;
        for (uint r = 0; r < 16; r++) {
          s[lid] = x[(batch * 16 + r) * 64 + lid] * v[lid];
          threadgroup_barrier(mem_flags::mem_threadgroup);
          for (uint half_of = 32; half_of > 0; half_of /= 2) {
            if (lid < half_of) s[lid] += s[lid + half_of];
            threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          }
          if (lid == 0) y[batch * 16 + r] = s[0];
          threadgroup_barrier(mem_flags::mem_threadgroup);
        }
    """),
    kernel("neighbours_exchanged_at_each_sample", (32 * 64, 64))(
        x=_SAMPLES, y=gives(_smoothed())
    )("""
        threadgroup float last[64];
        uint batch = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint t = 0; t < 32; t++) {
          float mine = x[(batch * 32 + t) * 64 + lid];
          last[lid] = mine;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          sum += mine + 0.5f * last[lid ^ 1];
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
        y[batch * 64 + lid] = sum;
    """),
    kernel("running_sum_in_doubling_steps", (64 * 256, 256), close=1e-3)(
        x=_STEPS, y=gives(_STEPS.cumsum(1))
    )("""
        threadgroup float s[256];
        uint row = threadgroup_position_in_grid.x;
        s[lid] = x[row * 256 + lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint step = 1; step < 256; step *= 2) {
          float before = lid >= step ? s[lid - step] : 0.0f;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
          s[lid] += before;
          threadgroup_barrier(mem_flags::mem_threadgroup);  // <- frequent-barriers
        }
        y[row * 256 + lid] = s[lid];
    """),
    kernel("scores_of_keys_staged_whole", (16 * 64, 64), close=1e-4)(
        x=_KEYS, q=_QUERIES, y=gives(_scores())
    )("""
        threadgroup float keys[64 * 128];  // <- low-occupancy
        uint batch = threadgroup_position_in_grid.x;
        for (uint k = lid; k < 64 * 128; k += 64)
          keys[k / 128 * 128 + (k + k / 128) % 128] = x[batch * 8192 + k];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float sum = 0;
        for (uint d = 0; d < 128; d++)
          sum += keys[lid * 128 + (d + lid) % 128] * q[batch * 128 + d];
        y[batch * 64 + lid] = sum;
    """),
    kernel("scene_staged_for_128_threads", (8 * 128, 128))(x=_SCENES, y=gives(_totals()))("""
        threadgroup float scene[48 * 128];  // <- low-occupancy
        uint batch = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint r = 0; r < 48; r++) {
          float v = x[(batch * 48 + r) * 128 + lid];
          scene[r * 128 + lid] = v;
          sum += v;
        }
        for (uint r = 0; r < 48; r++) y[(batch * 48 + r) * 128 + lid] = scene[r * 128 + lid] * sum;
    """),
)

CLEAN = (
    kernel("exponentials_by_rows_of_a_2d_index", ((256, 16), (64, 4)))(
        x=_GRID.T.copy(), y=gives(np.exp(_GRID).reshape(256, 16, 8).sum(2).T)
    )("""
        const device float (*m)[256] = (const device float (*)[256])x;
        uint r = thread_position_in_grid.x, c = thread_position_in_grid.y;
        float sum = 0;
        for (uint k = 0; k < 8; k++) sum += fast::exp(m[c * 8 + k][r]);
        y[c * 256 + r] = sum;
    """),
    kernel("channels_first_through_a_tile", ((64, 64, 4), (32, 8)))(
        x=_PIXELS, y=gives(np.where(_PLANES > 0, _PLANES, 0.1 * _PLANES))
    )("""
        threadgroup float tile[32][33];
        uint2 group = threadgroup_position_in_grid.xy;
        uint n = threadgroup_position_in_grid.z;
        uint2 lid = thread_position_in_threadgroup.xy;
        for (uint p = lid.y; p < 32; p += 8)
          tile[p][lid.x] = x[(n * 256 + group.y * 32 + p) * 64 + group.x * 32 + lid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint c = lid.y; c < 32; c += 8) {
          float v = tile[lid.x][c];
          y[(n * 64 + group.x * 32 + c) * 256 + group.y * 32 + lid.x] = v > 0 ? v : 0.1f * v;
        }
    """),
    kernel("patches_in_planes", ((64, 64), (64, 4)))(x=_IMAGE, y=gives(_patches()))("""
        uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
        for (uint i = 0; i < 3; i++) {
          for (uint j = 0; j < 3; j++) y[((i * 3 + j) * 64 + r) * 64 + c] = x[(r + i) * 66 + c + j];
        }
    """),
    _padded(
        "products_of_rows_with_stride_64",
        "products_of_rows_with_stride_65",
        ("[32][64]", "[32][65]"),
    ),
    _padded(
        "norms_of_rows_of_halves",
        "norms_of_padded_rows_of_halves",
        ("tile[32 * 64]", "tile[32 * 66]"),
        ("tile[r * 64", "tile[r * 66"),
        ("tile[lane * 64", "tile[lane * 66"),
    ),
    _padded(
        "vectors_of_a_block_by_rows",
        "vectors_of_a_padded_block",
        ("block[64 * 16]", "block[64 * 17]"),
        ("k / 16 * 16", "k / 16 * 17"),
        ("block[r * 16", "block[r * 17"),
    ),
    kernel("tokens_times_vectors_of_bytes", ((32, 8, 64), (32, 8)), close=1e-4)(
        w=_WEIGHTS, x=_TOKENS, y=gives(_scored())
    )("""
        uint token = thread_position_in_grid.y, row = thread_position_in_grid.z;
        const device uint4* w16 = (const device uint4*)(w + row * 1024);
        const device half4* x4 = (const device half4*)(x + token * 1024);
        float sum = 0;
        for (uint k = lane; k < 64; k += 32) {
          uint4 words = w16[k];
          for (uint j = 0; j < 4; j++) {
            float4 weights = float4(as_type<uchar4>(words[j])) - 128;
            sum += dot(weights, float4(x4[4 * k + j]));
          }
        }
        sum = simd_sum(sum);
        if (lane == 0) y[token * 64 + row] = sum / 64;
    """),
    kernel("moving_average_of_four_halves", ((128, 32), 128))(x=_SIGNAL, y=gives(_averaged()))("""
        uint t = thread_position_in_grid.x, row = thread_position_in_grid.y;
        const device half4* from = (const device half4*)(x + row * 544) + t;
        float4 first = float4(from[0]), sums = 0;
        for (uint k = 0; k < 8; k++) sums += float4(from[k]);
        float4 last = float4(from[8]);
        float sum = sums.x + sums.y + sums.z + sums.w;
        float4 all;
        for (uint j = 0; j < 4; j++) {
          all[j] = sum / 32;
          sum += last[j] - first[j];
        }
        ((device float4*)y)[row * 128 + t] = all;
    """),
    kernel("polynomials_of_four", ((16, 4096), (16, 16)))(
        table=_TABLE, x=_POINTS, y=gives(_evaluated())
    )("""
        uint c = thread_position_in_grid.x, i = thread_position_in_grid.y;
        const device float4* rows = (const device float4*)table;
        float power = 1, point = x[i];
        float4 sum = 0;
        for (uint k = 0; k < 64; k++) {
          sum += rows[k * 16 + c] * power;
          power *= point;
        }
        ((device float4*)y)[i * 16 + c] = sum;
    """),
    kernel("tokens_times_nibbles_by_words", ((32, 8, 64), (32, 8)), close=1e-4)(
        w=_NIBBLES, x=_STATES, y=gives(_unpacked())
    )("""
        uint token = thread_position_in_grid.y, row = thread_position_in_grid.z;
        const device uint* words = (const device uint*)(w + row * 512);
        const device uint4* eights = (const device uint4*)(x + token * 1024);
        float sum = 0;
        for (uint j = lane; j < 128; j += 32) {
          uint word = words[j];
          uint4 eight = eights[j];
          float4 low = float4(word & 15, word >> 4 & 15, word >> 8 & 15, word >> 12 & 15) - 8;
          float4 high = float4(word >> 16 & 15, word >> 20 & 15, word >> 24 & 15, word >> 28) - 8;
          float4 first = float4(float2(as_type<half2>(eight.x)), float2(as_type<half2>(eight.y)));
          float4 last = float4(float2(as_type<half2>(eight.z)), float2(as_type<half2>(eight.w)));
          sum += dot(low, first) + dot(high, last);
        }
        sum = simd_sum(sum);
        if (lane == 0) y[token * 64 + row] = sum;
    """),
    kernel("dot_product_of_each_row_by_a_simdgroup", ((32, 512), (32, 8)), close=1e-4)(
        x=_ROWS_GROUPS, v=_VECTOR_GROUPS, y=gives(_ROWS_GROUPS @ _VECTOR_GROUPS)
    )("""
        uint row = thread_position_in_grid.y;
        float sum = x[row * 64 + lane] * v[lane] + x[row * 64 + lane + 32] * v[lane + 32];
        sum = simd_sum(sum);
        if (lane == 0) y[row] = sum;
    """),
    kernel("neighbours_exchanged_by_shuffles", (32 * 64, 64))(x=_SAMPLES, y=gives(_smoothed()))("""
        uint batch = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint t = 0; t < 32; t++) {
          float mine = x[(batch * 32 + t) * 64 + lid];
          sum += mine + 0.5f * simd_shuffle_xor(mine, 1);
        }
        y[batch * 64 + lid] = sum;
    """),
    kernel("running_sum_of_simdgroups", (64 * 256, 256), close=1e-4)(
        x=_STEPS, y=gives(_STEPS.cumsum(1))
    )("""
        threadgroup float sums[8];
        uint group = simdgroup_index_in_threadgroup, row = threadgroup_position_in_grid.x;
        float sum = simd_prefix_inclusive_sum(x[row * 256 + lid]);
        if (lane == 31) sums[group] = sum;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        sum += simd_sum(lane < group ? sums[lane] : 0.0f);
        y[row * 256 + lid] = sum;
    """),
    kernel("scores_of_keys_by_simdgroups", ((32, 64, 16), (32, 8)), close=1e-4)(
        x=_KEYS, q=_QUERIES, y=gives(_scores())
    )("""
        uint t = thread_position_in_grid.y, batch = thread_position_in_grid.z;
        float4 key = ((const device float4*)x)[(batch * 64 + t) * 32 + lane];
        float4 query = ((const device float4*)q)[batch * 32 + lane];
        float sum = simd_sum(dot(key, query));
        if (lane == 0) y[batch * 64 + t] = sum;
    """),
    kernel("scene_staged_for_1024_threads", (8 * 1024, 1024), close=1e-4)(
        x=_SCENES, y=gives(_totals())
    )("""
        threadgroup float scene[48 * 128], sums[8][128];
        uint c = lid % 128, part = lid / 128, batch = threadgroup_position_in_grid.x;
        float sum = 0;
        for (uint r = part; r < 48; r += 8) {
          float v = x[(batch * 48 + r) * 128 + c];
          scene[r * 128 + c] = v;
          sum += v;
        }
        sums[part][c] = sum;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float total = 0;
        for (uint p = 0; p < 8; p++) total += sums[p][c];
        for (uint r = part; r < 48; r += 8)
          y[(batch * 48 + r) * 128 + c] = scene[r * 128 + c] * total;
    """),
)
