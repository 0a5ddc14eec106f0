"""Clean kernels: bits, complex numbers, private memory and outputs."""

from __future__ import annotations

import numpy as np

from tests.simulator.suite.case import Array, Case, Out, floats, integers

_X = floats(60)

_M = floats(7, 12)

_RE, _IM = floats(9), floats(9, seed=1)

_Z = (_RE + 1j * _IM).astype(np.complex64)

_BIG = integers(-(1 << 40), 1 << 40, 20, dtype="int64")

_NUM, _DEN = integers(-50, 50, 24), integers(-2, 3, 24, seed=1)

_MASK = np.arange(60) % 4 == 1

_COMPLEX_OPS = """
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
"""

_KEY = """
inline uint sortable(float v) {
  uint bits = as_type<uint>(v);
  return (bits & 0x80000000u) ? ~bits : bits | 0x80000000u;
}
"""


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
    Case(
        "complex_squares",
        """
        uint i = thread_position_in_grid.x;
        complex64_t z = x[i];
        complex64_t w = z * z + complex64_t(1.0f, 0.0f);
        y[i] = w;
        size[i] = metal::sqrt(z.real * z.real + z.imag * z.imag);
        """,
        {"x": Array(_Z)},
        {"y": Out((9,), "complex64"), "size": Out((9,))},
        (9, 1, 1),
        (3, 1, 1),
        expected=lambda: (_Z * _Z + 1, np.abs(_Z)),
        atol=1e-5,
    ),
    Case(
        "sortable_bits_of_floats",
        """
        uint i = thread_position_in_grid.x;
        keys[i] = sortable(x[i]);
        ushort2 halves = as_type<ushort2>(x[i]);
        back[i] = as_type<float>((uint(halves.y) << 16) | halves.x);
        """,
        {"x": Array(_X)},
        {"keys": Out((60,), "uint32"), "back": Out((60,))},
        (60, 1, 1),
        (60, 1, 1),
        header=_KEY,
        expected=lambda: (_sortable(_X), _X),
        rtol=0,
        atol=0,
    ),
    Case(
        "hash_of_counters",
        """
        uint h = thread_position_in_grid.x + seed;
        h ^= h >> 16; h *= 0x7feb352du;
        h ^= h >> 15; h *= 0x846ca68bu;
        h ^= h >> 16;
        bits[thread_position_in_grid.x] = h;
        unit[thread_position_in_grid.x] = float(h >> 8) / 16777216.0f;
        """,
        {"seed": Array(np.uint32(12345))},
        {"bits": Out((40,), "uint32"), "unit": Out((40,))},
        (40, 1, 1),
        (16, 1, 1),
        expected=lambda: (
            _mix(np.arange(40, dtype=np.uint32) + 12345),
            (_mix(np.arange(40, dtype=np.uint32) + 12345) >> 8) / 2**24,
        ),
    ),
    Case(
        "adds_to_its_initial_value",
        """
        uint row = thread_position_in_grid.x;
        for (int k = 0; k < 12; ++k) {
          y[row] += x[row * 12 + k];
        }
        if (row % 2) top[row] = max(top[row], 5.0f);
        """,
        {"x": Array(_M)},
        {"y": Out((7,)), "top": Out((7,))},
        (7, 1, 1),
        (7, 1, 1),
        init_value=2.5,
        expected=lambda: (_M.sum(1) + 2.5, np.where(np.arange(7) % 2 == 1, 5, 2.5)),
        atol=1e-5,
    ),
    Case(
        "recurrence_reads_its_own_output",
        """
        uint c = thread_position_in_grid.x;
        device float* h = y + c;
        h[0] = x[c];
        for (int t = 1; t < 7; ++t) {
          h[t * 12] = 0.5f * h[(t - 1) * 12] + x[t * 12 + c];
        }
        last[c] = h[6 * 12];
        """,
        {"x": Array(_M)},
        {"y": Out((7, 12)), "last": Out((12,))},
        (12, 1, 1),
        (4, 1, 1),
        expected=lambda: (
            _recurrence(_M),
            _recurrence(_M)[-1],
        ),
    ),
    Case(
        "structs_functors_and_constexpr_branches",
        """
        uint i = thread_position_in_grid.x;
        Affine<float> f{2.0f, -1.0f};
        float v = shape_value<MODE>(f(x[i]));
        y[i] = v + kTable[i & 3];
        """,
        {"x": Array(_X)},
        {"y": Out((60,))},
        (60, 1, 1),
        (20, 1, 1),
        header=_COMPLEX_OPS,
        template=(("MODE", 1),),
        expected=lambda: ((2 * _X - 1) ** 2 + np.tile([0, 0.25, 0.5, 1], 15),),
        atol=1e-5,
    ),
    Case(
        "quotients_thrown_away_where_undefined",
        """
        uint i = thread_position_in_grid.x;
        int q = a[i] / b[i];
        int r = a[i] % b[i];
        y[i] = select(-1, q * 1000 + r, keep[i]);
        """,
        {"a": Array(_NUM), "b": Array(_DEN), "keep": Array(_DEN != 0)},
        {"y": Out((24,), "int32")},
        (24, 1, 1),
        (24, 1, 1),
        expected=lambda: (
            np.array(
                [
                    -1 if d == 0 else int(n / d) * 1000 + int(np.fmod(n, d))
                    for n, d in zip(_NUM.tolist(), _DEN.tolist(), strict=True)
                ]
            ),
        ),
    ),
    Case(
        "quotients_guarded_by_their_divisors",
        """
        uint i = thread_position_in_grid.x;
        int q = a[i] / b[i];
        int r = a[i] % b[i];
        y[i] = b[i] == 0 ? -1 : q;
        z[i] = select(r, -2, b[i] == 0);
        """,
        {"a": Array(_NUM), "b": Array(_DEN)},
        {"y": Out((24,), "int32"), "z": Out((24,), "int32")},
        (24, 1, 1),
        (24, 1, 1),
        expected=lambda: (
            np.array([-1 if d == 0 else int(n / d) for n, d in zip(_NUM, _DEN, strict=True)]),
            np.array(
                [-2 if d == 0 else int(np.fmod(n, d)) for n, d in zip(_NUM, _DEN, strict=True)]
            ),
        ),
    ),
    Case(
        "escape_times",
        """
        uint i = thread_position_in_grid.x;
        float cr = re[i], ci = im[i], zr = 0, zi = 0;
        ushort n = 0;
        while (n < 40 && zr * zr + zi * zi <= 4.0f) {
          float t = zr * zr - zi * zi + cr;
          zi = 2 * zr * zi + ci;
          zr = t;
          ++n;
        }
        y[i] = n;
        """,
        {"re": Array(_RE), "im": Array(_IM)},
        {"y": Out((9,), "uint16")},
        (9, 1, 1),
        (9, 1, 1),
        expected=lambda: (_iterations(_Z),),
    ),
    Case(
        "masked_maximum_of_nothing",
        """
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
        """,
        {"x": Array(_X), "mask": Array(_MASK & (np.arange(60) < 30))},
        {"y": Out((6,)), "n": Out((6,))},
        (6, 1, 1),
        (6, 1, 1),
        expected=lambda: (
            np.array(
                [
                    max(row[kept], default=0)
                    for row, kept in zip(
                        _X.reshape(6, 10),
                        (_MASK & (np.arange(60) < 30)).reshape(6, 10),
                        strict=True,
                    )
                ]
            ),
            np.full(6, 10),
        ),
    ),
    Case(
        "pointers_one_past_the_end",
        """
        uint row = thread_position_in_grid.x;
        const device float* p = x + row * 12;
        const device float* const end = p + 12;
        float s = 0;
        for (; p != end; ++p) s += *p;
        device float* into = y + (row == 6 ? 7 : row);
        if (row == 6) --into;
        *into = s;
        """,
        {"x": Array(_M)},
        {"y": Out((7,))},
        (7, 1, 1),
        (7, 1, 1),
        expected=lambda: (_M.sum(1),),
        atol=1e-5,
    ),
    Case(
        "wide_integers",
        """
        uint i = thread_position_in_grid.x;
        long v = x[i];
        ulong u = as_type<ulong>(v);
        y[i] = (v >> 7) + long(popcount(u)) + (v < 0 ? -1L : 1L) * 5000000000L;
        small[i] = char(v);
        """,
        {"x": Array(_BIG)},
        {"y": Out((20,), "int64"), "small": Out((20,), "int8")},
        (20, 1, 1),
        (20, 1, 1),
        expected=lambda: (
            (_BIG >> 7)
            + np.array([(int(v) & (2**64 - 1)).bit_count() for v in _BIG])
            + np.where(_BIG < 0, -1, 1) * 5_000_000_000,
            _BIG.astype(np.int8),
        ),
    ),
    Case(
        "private_arrays_and_sorted_triples",
        """
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
        """,
        {"x": Array(_M)},
        {"y": Out((7, 3))},
        (7, 1, 1),
        (7, 1, 1),
        expected=lambda: (-np.sort(-_M, axis=1)[:, :3],),
        rtol=0,
        atol=0,
    ),
    Case(
        "select_before_the_load",
        """
        int i = thread_position_in_grid.x;
        int n = x_shape[0];
        float left = i > 0 ? x[i - 1] : 0.0f;
        float right = i + 1 < n ? x[i + 1] : 0.0f;
        float far = x[clamp(i + 9, 0, n - 1)];
        y[i] = 0.25f * (left + 2.0f * x[i] + right) - far;
        """,
        {"x": Array(_X)},
        {"y": Out((60,))},
        (60, 1, 1),
        (24, 1, 1),
        expected=lambda: (
            0.25 * (np.r_[0, _X[:-1]] + 2 * _X + np.r_[_X[1:], 0])
            - _X[np.minimum(np.arange(60) + 9, 59)],
        ),
    ),
)
