"""The shares of threads in R, and the Metal text that both kernels of the sLSTM join.

A threadgroup runs one head of one sequence through all steps. At each step a vector, of one value
or of one for each gate for every unit, is multiplied by R. A thread multiplies some rows of R by
one column, or by one column in every COLUMNS, and an element of R is the weights of the four gates
between two units. Neighbouring threads have neighbouring columns, so that they read neighbouring
memory, 16 bytes each. The first rows of a thread stay in registers. The others are read at each
step: all of a head of 128 units from a GPU's first-level cache where that has 200 KB.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import mlx.core as mx

from xlstm_kernels.msl import PAIRS

#: Units of a head: two values a unit fill the 32 KB of a threadgroup's memory.
MAX_CAPACITY = 4096
# What Metal runs of any kernel, whatever registers that needs.
_THREADS = 256
# Four registers each, so that 512 threads fit on CUDA: 128 KB of 256. Halves take as
# much, since the compiler widens them before the first step.
_RESIDENT = 16
_BLOCK = 8  # rows that a thread reads at once


def most_threads(backend: str, units: int) -> int:
    """The threads that a head may have: on CUDA more than any kernel may have on Metal."""
    return 2 * _THREADS if backend != "metal" and 64 < units <= 2 * _THREADS else _THREADS


@dataclass(frozen=True, slots=True)
class Shares:
    """The distribution of R over the threads of a threadgroup."""

    columns: int  # of one slot, one for each thread of a slice
    slots: int  # columns of a thread
    slices: int  # of the rows, with a thread for each slice of a column
    rows: int  # the units, rounded up to whole blocks of each slice

    @staticmethod
    def of(units: int, threads: int) -> Shares:
        """Shares of at most `threads` threads, which is a multiple of 32.

        Units are rounded up, as each number of them is compiled: to 8, 16, 32, 64, 96 and so on.
        """
        capacity = _up(units, 32) if units > 16 else _up(units, 8)
        if capacity > threads:
            capacity = _up(units, threads)
            return Shares(threads, capacity // threads, 1, capacity)
        slices = min(threads // max(capacity, 1), capacity // _BLOCK)
        return Shares(capacity, 1, slices, slices * _up(capacity / max(slices, 1), _BLOCK))

    @property
    def threads(self) -> int:
        """The threads of a threadgroup."""
        return self.columns * self.slices

    def template(
        self, dtype: mx.Dtype, *, resident: bool = True
    ) -> tuple[tuple[str, mx.Dtype | int], ...]:
        """The template arguments of both kernels, for an R of this dtype."""
        span = self.rows // max(self.slices, 1)
        return (
            ("T", dtype),
            ("COLUMNS", self.columns),
            ("SLOTS", self.slots),
            ("SLICES", self.slices),
            ("ROWS", self.rows),
            ("RESIDENT", min(span, _RESIDENT) if resident and self.slots == 1 else 0),
        )

    def arranged(self, recurrent: mx.array, *, backward: bool = False) -> mx.array:
        """R as a kernel reads it: (N, rows, columns, 4), a new array, which begins at 16 bytes.

        Rows are the inputs of R and columns its outputs; backward it is the other way round.
        """
        units = recurrent.shape[-1]
        more = [(0, size - units) for size in (self.rows, self.columns * self.slots)]
        axes = (1, 2, 3, 0) if backward else (1, 3, 2, 0)
        return mx.contiguous(mx.pad(recurrent.transpose(axes), [(0, 0), *more, (0, 0)]))


def _up(size: float, multiple: int) -> int:
    return math.ceil(size / multiple) * multiple


PRODUCT = """
    // The weights of the gates i, f, z and o between two units.
    template <typename T>
    struct alignas(4 * sizeof(T)) xlstm_slstm_weights {
        T i;
        T f;
        T z;
        T o;
    };
    template <typename T>
    inline float4 xlstm_slstm_floats(xlstm_slstm_weights<T> weights) {
        return float4(
            static_cast<float>(weights.i), static_cast<float>(weights.f),
            static_cast<float>(weights.z), static_cast<float>(weights.o));
    }
    // The sum over COUNT rows of one column times the vector, of floats or of float4. The first
    // RESIDENT rows are those in registers.
    template <uint COUNT, uint RESIDENT, uint WIDTH, typename T, typename Vector>
    inline float4 xlstm_slstm_product(
        thread const xlstm_slstm_weights<T>* resident, const device xlstm_slstm_weights<T>* rows,
        threadgroup const Vector* vector) {
        constexpr uint BLOCK = 8;
        float4 sum = float4(0.0f);
        for (uint row = 0; row < RESIDENT; ++row) {
            sum += xlstm_slstm_floats(resident[row]) * vector[row];
        }
        for (uint start = RESIDENT; start < COUNT; start += BLOCK) {
            xlstm_slstm_weights<T> block[BLOCK];
            for (uint row = 0; row < BLOCK; ++row) {
                block[row] = rows[(start + row) * WIDTH];
            }
            for (uint row = 0; row < BLOCK; ++row) {
                sum += xlstm_slstm_floats(block[row]) * vector[start + row];
            }
        }
        return sum;
    }
"""

# The place of a thread, its rows that stay in registers, and what both kernels read of its head.
PLACE = """
    const uint heads = recurrent_shape[0];
    const uint sequence = threadgroup_position_in_grid.x / heads;
    const uint head = threadgroup_position_in_grid.x % heads;
    const uint slice = thread_index_in_threadgroup / COLUMNS;
    const uint column = thread_index_in_threadgroup % COLUMNS;
    const bool owner = slice == 0;  // of the units in its columns, whose gates and state it keeps
    constexpr uint SPAN = ROWS / SLICES;
    constexpr uint WIDTH = COLUMNS * SLOTS;
    const auto weights = reinterpret_cast<const device xlstm_slstm_weights<T>*>(recurrent)
        + (static_cast<size_t>(head) * ROWS + slice * SPAN) * WIDTH;
    xlstm_slstm_weights<T> resident[RESIDENT ? RESIDENT : 1];
    for (uint row = 0; row < RESIDENT; ++row) {
        resident[row] = weights[row * WIDTH + column];
    }
    const uint batch = gate_input_shape[0];
    const uint steps = gate_input_shape[1];
    const uint units = gate_input_shape[4];
    const long along_time = gate_input_strides[1];
    const long along_gates = gate_input_strides[2];
    const long along_units = gate_input_strides[4];
    const size_t step_size = static_cast<size_t>(heads) * units;
    const size_t one_state = batch * step_size;
    const size_t states_apart = steps * one_state;
    const size_t own_head = static_cast<size_t>(head) * units;
    const auto incoming = gate_input + sequence * gate_input_strides[0]
        + head * gate_input_strides[3];
    const auto starting = initial + sequence * step_size + own_head;
"""

# m is a pair, to which c and n belong. So are the gates i and f, here input and forget, since near
# 100 a rounding of theirs would show in the result.
UNIT = (
    PAIRS
    + """
    // What lies `apart` elements from each other: one number of each gate, or of each state.
    template <typename Numbers>
    inline float4 xlstm_slstm_four(Numbers first, long apart) {
        return float4(
            static_cast<float>(first[0]), static_cast<float>(first[apart]),
            static_cast<float>(first[2 * apart]), static_cast<float>(first[3 * apart]));
    }
    inline void xlstm_slstm_store(device float* first, long apart, float4 numbers) {
        first[0] = numbers.x;
        first[apart] = numbers.y;
        first[2 * apart] = numbers.z;
        first[3 * apart] = numbers.w;
    }
    // Divisions of the fast kind, of two roundings at most, have no branch. A step would wait for
    // each, so they serve wherever the divisor is between 1 and 4.
    // sigmoid(x), and sigmoid(-x) without a loss of digits.
    inline float2 xlstm_slstm_sigmoids(float x) {
        const float tail = metal::precise::exp(-metal::abs(x));
        const float greater = metal::fast::divide(1.0f, 1.0f + tail);
        return x < 0.0f ? float2(tail * greater, greater) : float2(greater, tail * greater);
    }
    // log sigmoid(x) of a pair: its second part moves it along the slope, which is sigmoid(-x).
    // Metal has no log1p: what the rounding of 1 + tail took away is given back to first order.
    inline float2 xlstm_slstm_log_sigmoid(float2 x, float slope) {
        const float tail = metal::precise::exp(-metal::abs(x.x));
        const float sum = 1.0f + tail;
        const float lost = metal::fast::divide(tail - (sum - 1.0f), sum);
        float2 log = xlstm_pair(metal::min(x.x, 0.0f), -(metal::precise::log(sum) + lost));
        log.y += slope * x.y;
        return log;
    }
    // tanh(x) without a branch: below 0.55 x + x^3 P(x^2), with P from a least-squares fit, since
    // the quotient loses digits there. The relative error is below 4e-7.
    inline float xlstm_slstm_tanh(float x) {
        const float tail = metal::precise::exp(-2.0f * metal::abs(x));
        const float far = metal::fast::divide(1.0f - tail, 1.0f + tail);
        const float square = x * x;
        float series = 0.01632615f;
        series = metal::fma(series, square, -0.05261931f);
        series = metal::fma(series, square, 0.13320038f);
        series = metal::fma(series, square, -0.33332926f);
        return metal::abs(x) < 0.55f
            ? metal::fma(x * square, series, x) : metal::copysign(far, x);
    }
    // f' and i'. Of an exponent of -inf nothing is left, even where m is that too. The exponent of
    // f' is above zero only where m ignores the past, as that is nothing (fresh); it must not
    // become something.
    inline float xlstm_slstm_kept(float2 decayed, float2 m, bool fresh) {
        const float decay = xlstm_pair_difference(decayed, m);
        return decayed.x == -INFINITY
            ? 0.0f : metal::precise::exp(fresh ? metal::min(decay, 0.0f) : decay);
    }
    inline float xlstm_slstm_admitted(float2 input, float2 m) {
        return input.x == -INFINITY
            ? 0.0f : metal::precise::exp(xlstm_pair_difference(input, m));
    }
"""
)
