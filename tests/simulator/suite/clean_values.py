"""Clean kernels: bits, complex numbers, private memory and outputs."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import floats, gives, integers, kernel

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
          T scale;
          T shift;
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
        int q = a[i] / b[i];
        int r = a[i] % b[i];
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
        int q = a[i] / b[i];
        int r = a[i] % b[i];
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
        float m = -INFINITY;
        float bad = 0;
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
        int i = thread_position_in_grid.x;
        int n = x_shape[0];
        float left = i > 0 ? x[i - 1] : 0.0f;
        float right = i + 1 < n ? x[i + 1] : 0.0f;
        float far = x[clamp(i + 9, 0, n - 1)];
        y[i] = 0.25f * (left + 2.0f * x[i] + right) - far;
    """),
)
