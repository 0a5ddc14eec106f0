"""Clean kernels: values, inputs and habits."""

from __future__ import annotations

import mlx.core as mx
import numpy as np

from tests.simulator.suite.case import Array, floats, gives, integers, kernel

_X = floats(60)
_M = floats(7, 12)
_RE, _IM = floats(9), floats(9, seed=1)
_Z = (_RE + 1j * _IM).astype(np.complex64)
_BIG = integers(-(1 << 40), 1 << 40, 20, dtype="int64")
_NUM, _DEN = integers(-50, 50, 24), integers(-2, 3, 24, seed=1)
_MASK = np.arange(60) % 4 == 1


def _sortable(x: np.ndarray) -> np.ndarray:
    bits = x.view(np.uint32)
    return np.where(bits >> 31 == 1, ~bits, bits | np.uint32(0x80000000))


def _mix(words: np.ndarray) -> np.ndarray:
    h = words.astype(np.uint64)
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        h = ((h ^ (h >> shift)) * factor) & 0xFFFFFFFF
    return (h ^ (h >> 16)).astype(np.uint32)


def _iterations(c: np.ndarray) -> np.ndarray:
    counts = []
    for value in c:
        z, n = 0j, 0
        while n < 40 and abs(z) <= 2:
            z, n = z * z + complex(value), n + 1
        counts.append(n)
    return np.array(counts)


def _recurrence(x: np.ndarray) -> np.ndarray:
    rows = [x[0]]
    for row in x[1:]:
        rows.append(0.5 * rows[-1] + row)
    return np.stack(rows)


_CUBE = floats(4, 3, 10)
_HALF = floats(6, 40).astype(np.float16)
_POINTS = floats(15, 3)
_BYTES = integers(0, 256, 45, dtype="uint8")
_SHORTS = integers(-30000, 30000, 33, dtype="int16")
_PACKED = integers(0, 1 << 31, 12, dtype="uint32")


def _bf16(x: np.ndarray) -> np.ndarray:
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)


_RANKED = np.random.default_rng(3).permutation(96).astype(np.float32)
_STREAM = floats(5, 40, seed=7)
_FLAGS = integers(0, 200, 60)


def _windows(x: np.ndarray, width: int) -> np.ndarray:
    return np.stack([x[:, max(0, k - width + 1) : k + 1].max(1) for k in range(x.shape[1])], 1)


def _sides(v: np.ndarray) -> np.ndarray:
    side = np.where(v < 0, -1, np.where(v > 1, 1, 0))
    lower = np.where(v < 0, 2 * v, v)
    return lower + 10 * (lower + 1) + 100 * side + np.where(side != 0, 3 * (lower + 1), 0)


CLEAN = (
    kernel("complex_squares", (9, 3))(x=_Z, y=gives(_Z * _Z + 1), size=gives(np.abs(_Z)))("""
        complex64_t z = x[i];
        complex64_t w = z * z + complex64_t(1.0f, 0.0f);
        y[i] = w;
        size[i] = metal::sqrt(z.real * z.real + z.imag * z.imag);
    """),
    kernel("sortable_bits_of_floats", 60, close=0)(
        x=_X, keys=gives(_sortable(_X)), back=gives(_X)
    )("""
        inline uint sortable(float v) {
          uint bits = as_type<uint>(v);
          return (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
        }
        // body
        keys[i] = sortable(x[i]);
        ushort2 halves = as_type<ushort2>(x[i]);
        back[i] = as_type<float>((uint(halves.y) << 16) | halves.x);
    """),
    kernel("hash_of_counters", (40, 16))(
        seed=np.uint32(12345),
        bits=gives(_mix(np.arange(40, dtype=np.uint32) + 12345)),
        unit=gives((_mix(np.arange(40, dtype=np.uint32) + 12345) >> 8) / 2**24),
    )("""
        uint h = thread_position_in_grid.x + seed;
        h ^= h >> 16; h *= 0x7feb352du;
        h ^= h >> 15; h *= 0x846ca68bu;
        h ^= h >> 16;
        bits[thread_position_in_grid.x] = h;
        unit[thread_position_in_grid.x] = float(h >> 8) / 16777216.0f;
    """),
    kernel("adds_to_its_initial_value", 7, init=2.5)(
        x=_M, y=gives(_M.sum(1) + 2.5), top=gives(np.where(np.arange(7) % 2 == 1, 5, 2.5))
    )("""
        uint row = thread_position_in_grid.x;
        for (int k = 0; k < 12; ++k) y[row] += x[row * 12 + k];
        if (row % 2) top[row] = max(top[row], 5.0f);
    """),
    kernel("recurrence_reads_its_own_output", (12, 4))(
        x=_M, y=gives(_recurrence(_M)), last=gives(_recurrence(_M)[-1])
    )("""
        uint c = thread_position_in_grid.x;
        device float* h = y + c;
        h[0] = x[c];
        for (int t = 1; t < 7; ++t) h[t * 12] = 0.5f * h[(t - 1) * 12] + x[t * 12 + c];
        last[c] = h[6 * 12];
    """),
    kernel("structs_functors_and_constexpr_branches", (60, 20))(
        MODE=1, x=_X, y=gives((2 * _X - 1) ** 2 + np.tile([0, 0.25, 0.5, 1], 15))
    )("""
        template <typename T>
        struct Affine {
          T scale, shift;
          T operator()(T v) const { return v * scale + shift; }
        };

        enum Mode : uint { kLinear = 0, kSquare = 1 };

        constant constexpr float kTable[4] = {0.0f, 0.25f, 0.5f, 1.0f};

        #define SQUARE(v) ((v) * (v))

        template <uint M, typename T>
        inline T shape_value(T v) {
          if constexpr (M == kSquare) {
            return SQUARE(v);
          } else {
            return v;
          }
        }
        // body
        Affine<float> f{2.0f, -1.0f};
        float v = shape_value<MODE>(f(x[i]));
        y[i] = v + kTable[i & 3];
    """),
    kernel("quotients_thrown_away_where_undefined", 24)(
        a=_NUM,
        b=_DEN,
        keep=_DEN != 0,
        y=gives(
            np.array(
                [
                    -1 if d == 0 else int(n / d) * 1000 + int(np.fmod(n, d))
                    for n, d in zip(_NUM.tolist(), _DEN.tolist(), strict=True)
                ]
            )
        ),
    )("""
        int q = a[i] / b[i], r = a[i] % b[i];
        y[i] = select(-1, q * 1000 + r, keep[i]);
    """),
    kernel("quotients_guarded_by_their_divisors", 24)(
        a=_NUM,
        b=_DEN,
        y=gives(np.array([-1 if d == 0 else int(n / d) for n, d in zip(_NUM, _DEN, strict=True)])),
        z=gives(
            np.array(
                [-2 if d == 0 else int(np.fmod(n, d)) for n, d in zip(_NUM, _DEN, strict=True)]
            )
        ),
    )("""
        int q = a[i] / b[i], r = a[i] % b[i];
        y[i] = b[i] == 0 ? -1 : q;
        z[i] = select(r, -2, b[i] == 0);
    """),
    kernel("escape_times", 9)(re=_RE, im=_IM, y=gives(_iterations(_Z), "uint16"))("""
        float cr = re[i], ci = im[i], zr = 0, zi = 0;
        ushort n = 0;
        while (n < 40 && zr * zr + zi * zi <= 4.0f) {
          float t = zr * zr - zi * zi + cr;
          zi = 2 * zr * zi + ci;
          zr = t;
          ++n;
        }
        y[i] = n;
    """),
    kernel("masked_maximum_of_nothing", 6)(
        x=_X,
        mask=_MASK & (np.arange(60) < 30),
        y=gives(
            np.array(
                [
                    max(row[kept], default=0)
                    for row, kept in zip(
                        _X.reshape(6, 10),
                        (_MASK & (np.arange(60) < 30)).reshape(6, 10),
                        strict=True,
                    )
                ]
            )
        ),
        n=gives(np.full(6, 10), "float32"),
    )("""
        uint row = thread_position_in_grid.x;
        float m = -INFINITY, bad = 0;
        for (uint k = 0; k < 10; ++k) {
          float v = x[row * 10 + k];
          if (mask[row * 10 + k]) m = metal::fmax(m, v);
          bad += isnan(v - v * INFINITY * 0.0f) ? 1.0f : 0.0f;
        }
        y[row] = isinf(m) ? 0.0f : m;
        n[row] = bad;
    """),
    kernel("pointers_one_past_the_end", 7)(x=_M, y=gives(_M.sum(1)))("""
        uint row = thread_position_in_grid.x;
        const device float* p = x + row * 12;
        const device float* const end = p + 12;
        float s = 0;
        for (; p != end; ++p) s += *p;
        device float* into = y + (row == 6 ? 7 : row);
        if (row == 6) --into;
        *into = s;
    """),
    kernel("wide_integers", 20)(
        x=_BIG,
        y=gives(
            (_BIG >> 7)
            + np.array([(int(v) & (2**64 - 1)).bit_count() for v in _BIG])
            + np.where(_BIG < 0, -1, 1) * 5_000_000_000,
            "int64",
        ),
        small=gives(_BIG.astype(np.int8)),
    )("""
        long v = x[i];
        ulong u = as_type<ulong>(v);
        y[i] = (v >> 7) + long(popcount(u)) + (v < 0 ? -1L : 1L) * 5000000000L;
        small[i] = char(v);
    """),
    kernel("private_arrays_and_sorted_triples", 7, close=0)(
        x=_M, y=gives(-np.sort(-_M, axis=1)[:, :3])
    )("""
        uint row = thread_position_in_grid.x;
        float top[3] = {-INFINITY, -INFINITY, -INFINITY};
        for (int c = 0; c < 12; ++c) {
          float v = x[row * 12 + c];
          for (int k = 0; k < 3; ++k) {
            if (v > top[k]) {
              float t = top[k];
              top[k] = v;
              v = t;
            }
          }
        }
        for (int k = 0; k < 3; ++k) y[row * 3 + k] = top[k];
    """),
    kernel("select_before_the_load", (60, 24))(
        x=_X,
        y=gives(
            0.25 * (np.r_[0, _X[:-1]] + 2 * _X + np.r_[_X[1:], 0])
            - _X[np.minimum(np.arange(60) + 9, 59)]
        ),
    )("""
        int i = thread_position_in_grid.x, n = x_shape[0];
        float left = i > 0 ? x[i - 1] : 0.0f, right = i + 1 < n ? x[i + 1] : 0.0f;
        float far = x[clamp(i + 9, 0, n - 1)];
        y[i] = 0.25f * (left + 2.0f * x[i] + right) - far;
    """),
    kernel("axpy_in_bfloat16", (60, 32))(
        T="bfloat16",
        x=Array(_X, dtype="bfloat16"),
        alpha=Array(np.float32(0.5), dtype="bfloat16"),
        y=gives(_bf16(0.5 * _bf16(_X) + 1), "bfloat16"),
    )("""
        y[i] = static_cast<T>(float(alpha) * float(x[i]) + 1.0f);
    """),
    kernel("half_dot_with_float_accumulator", 6, close=1e-3)(
        T="float16",
        D=40,
        x=_HALF,
        y=gives(np.sqrt((_HALF.astype(np.float32) ** 2).sum(1)), "float16"),
    )("""
        uint row = thread_position_in_grid.x;
        const device T* p = x + row * D;
        float acc = 0.f;
        for (int k = 0; k < D; ++k) acc += float(p[k]) * float(p[k]);
        y[row] = T(metal::sqrt(acc));
    """),
    kernel("template_of_every_sort", 33)(
        OutT="int64",
        FACTOR=-70000,
        NEGATE=True,
        x=_SHORTS,
        y=gives(_SHORTS.astype(np.int64) * 70000, "int64"),
    )("""
        OutT v = OutT(x[i]) * OutT(FACTOR);
        if (NEGATE) v = -v;
        y[i] = v;
    """),
    kernel("grid_stride_loop", (16, 8))(x=_X, y=gives(_X * _X + 1))("""
        for (uint i = thread_position_in_grid.x; i < uint(x_shape[0]); i += threads_per_grid.x)
          y[i] = metal::fma(x[i], x[i], 1.0f);
    """),
    kernel("three_dimensions_in_uneven_groups", ((10, 3, 4), (4, 2, 3)))(
        x=_CUBE, y=gives(_CUBE + 100 * (np.arange(10) // 4) + (np.arange(3) % 2)[:, None])
    )("""
        uint3 g = thread_position_in_grid, n = threads_per_grid;
        uint at = (g.z * n.y + g.y) * n.x + g.x;
        y[at] = x[at] + 100 * threadgroup_position_in_grid.x + thread_position_in_threadgroup.y;
    """),
    kernel("strided_input_by_elem_to_loc", (36, 10), contiguous=False)(
        x=Array(_CUBE, view=lambda a: a.transpose(2, 0, 1)[1::3]),
        y=gives(np.tanh(_CUBE.transpose(2, 0, 1)[1::3])),
    )("""
        uint at = elem_to_loc(i, x_shape, x_strides, x_ndim);
        y[i] = metal::tanh(x[at]);
    """),
    kernel("broadcast_and_reversed_views", ((12, 7), (6, 7)), contiguous=False)(
        T="float32",
        b=Array(_M[0], view=lambda a: mx.broadcast_to(a, (7, 12))),
        r=Array(_M, view=lambda a: a[::-1, ::-1]),
        y=gives(_M[0] - _M[::-1, ::-1]),
    )("""
        uint3 g = thread_position_in_grid;
        T v = b[int(g.y) * b_strides[0] + int(g.x) * b_strides[1]];
        T w = r[int(g.y) * r_strides[0] + int(g.x) * r_strides[1]];
        y[g.y * 12 + g.x] = v - w;
    """),
    kernel("transposed_input_made_contiguous", (84, 21))(
        x=Array(_M, view=lambda a: a.T), y=gives(_M.T * np.arange(7))
    )("""
        y[i] = x[i] * float(i % uint(x_shape[1]));
    """),
    kernel("scalars_and_short_inputs", 6)(
        x=_X[:6],
        range=np.array([-0.5, 0.75], dtype=np.float32),
        flip=np.bool_(True),
        gain=np.float32(2),
        shift=np.array([3], dtype=np.int8),
        ids=np.array([7, 1, 7], dtype=np.uint16),
        y=gives(np.clip(-_X[:6], -0.5, 0.75) * 2 + 3 + [1, 0, 1, 1, 0, 1]),
    )("""
        float low = range[0], high = range[1], v = flip ? -x[i] : x[i];
        v = clamp(v, low, high) * gain;
        y[i] = v + shift[0] + (ids[i % 3] == 7u ? 1.0f : 0.0f);
    """),
    kernel("packed_triples", (15, 5))(
        x=_POINTS,
        y=gives(
            _POINTS / np.linalg.norm(_POINTS, axis=1, keepdims=True)
            + np.cross(_POINTS, np.array([0, 0, 1], dtype=np.float32))
        ),
    )("""
        const device packed_float3* points = (const device packed_float3*)x;
        device packed_float3* out = (device packed_float3*)y;
        float3 p = points[i];
        out[i] = packed_float3(normalize(p) + cross(p, float3(0, 0, 1)));
    """),
    kernel("float4_with_a_scalar_rest", 16, close=0)(M=14, x=_X, y=gives(np.maximum(_X, 0)))("""
        uint n = 4 * M, quads = n / 4;
        if (i < quads) {
          float4 v = ((const device float4*)x)[i], s = select(float4(0.0f), v, v > 0.0f);
          *((device float4*)(y + 4 * i)) = s.wzyx.wzyx;
        }
        if (i < 60 - n) y[n + i] = metal::max(x[n + i], 0.0f);
    """),
    kernel("byte_vectors_side_by_side", (12, 4))(
        x=_BYTES, y=gives(np.minimum(_BYTES.astype(int) + 100, 255), "uint8")
    )("""
        if (i < 11) {
          uchar4 v = *(const device uchar4*)(x + 4 * i);
          ushort4 wide = ushort4(v) + ushort4(100);
          *(device uchar4*)(y + 4 * i) = uchar4(min(wide, ushort4(255)));
        } else {
          y[44] = uchar(min(int(x[44]) + 100, 255));
        }
    """),
    kernel("bits_packed_by_one_thread_a_byte", 8)(
        mask=_MASK, y=gives(np.packbits(_MASK, bitorder="little"))
    )("""
        uint b = thread_position_in_grid.x;
        uchar packed = 0;
        for (uint k = 0; k < 8; ++k) {
          uint i = 8 * b + k;
          if (i < 60) packed |= uchar(mask[i]) << k;
        }
        y[b] = packed;
    """),
    kernel("nibbles_unpacked", (96, 48))(
        words=_PACKED,
        scale=np.array([0.5, 2, 4], dtype=np.float32),
        y=gives(
            (((_PACKED[:, None] >> (4 * np.arange(8))) & 15).astype(int).ravel() - 8)
            * np.repeat([0.5, 2, 4], 32)
        ),
    )("""
        uint32_t w = words[i / 8];
        int q = int(extract_bits(w, 4 * (i % 8), 4));
        y[i] = (q - 8) * scale[i / 32];
    """),
    kernel("one_arena_for_two_phases", 64)(
        x=_RANKED[:64], y=gives(np.argsort(np.argsort(_RANKED[:64]))[::-1])
    )("""
        threadgroup uchar arena[256];
        threadgroup float* values = (threadgroup float*)arena;
        threadgroup int* ranks = (threadgroup int*)arena;
        values[lid] = x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        int rank = 0;
        for (uint k = 0; k < 64; ++k) rank += values[k] < x[lid];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        ranks[lid] = rank;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[lid] = ranks[63 - lid];
    """),
    kernel("idle_simdgroups_go_home", (256, 128))(
        x=_STREAM, y=gives(_STREAM - _STREAM.mean(1, keepdims=True))
    )("""
        uint row = threadgroup_position_in_grid.x * 4 + sg;
        if (row >= uint(x_shape[0])) return;
        float s = 0, q;
        for (uint c = lane; c < 40; c += 32) s += x[row * 40 + c];
        q = simd_sum(s);
        simdgroup_barrier(mem_flags::mem_none);
        for (uint c = lane; c < 40; c += 32) y[row * 40 + c] = x[row * 40 + c] - q / 40;
    """),
    kernel("sliding_maximum_in_a_ring", 5, close=0)(x=_STREAM, y=gives(_windows(_STREAM, 4)))("""
        uint row = thread_position_in_grid.x;
        float ring[4];
        for (int k = 0; k < 40; ++k) {
          ring[k & 3] = x[row * 40 + k];
          float top = ring[0];
          for (int j = 1; j < min(k + 1, 4); ++j) top = max(top, ring[j]);
          y[row * 40 + k] = top;
        }
    """),
    kernel("bits_set_by_atomics_and_read_after", 60)(
        x=_FLAGS, distinct=gives(np.array(len(np.unique(_FLAGS))), "uint32")
    )("""
        threadgroup atomic_uint seen[7];
        if (lid < 7) atomic_store_explicit(&seen[lid], 0, memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint v = x[lid];
        atomic_fetch_or_explicit(&seen[v / 32], 1u << (v % 32), memory_order_relaxed);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint count = 0;
        for (uint k = 0; k < 7; ++k)
          count += popcount(atomic_load_explicit(&seen[k], memory_order_relaxed));
        if (lid == 0) distinct[0] = count;
    """),
    kernel("set_on_every_path_before_its_use", 50)(
        x=_STREAM.ravel()[:50], y=gives(_sides(_STREAM.ravel()[:50]))
    )("""
        float v = x[i], lower, upper;
        int side;
        float3 parts;
        if (v < 0) {
          side = -1;
          lower = v * 2;
        } else {
          side = v > 1 ? 1 : 0;
          lower = v;
        }
        upper = lower + 1;
        parts.x = lower;
        parts.yz = float2(upper, float(side));
        float unused, maybe;
        if (side != 0) maybe = upper * 3;
        y[i] = parts.x + 10 * parts.y + 100 * parts.z + (side != 0 ? maybe : 0.0f);
    """),
)
