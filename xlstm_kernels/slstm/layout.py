"""How the kernels of the sLSTM share out a head's units, and what both do with a unit.

A threadgroup runs one head of one sequence through all steps. Its simdgroups share out the units,
and with them the rows of R; each lane of a simdgroup owns one unit of every 32, whose gates and
state are its own business. In a row of R the lanes read neighbouring weights. The weights of up to
64 units stay in registers; those of more are streamed at every step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xlstm_kernels.msl import LOG_SIGMOID, PAIRS

SIMD_WIDTH = 32
# Metal runs 384 threads of any kernel, and fewer than 1024 of one that needs many registers.
MAX_SIMDGROUPS = 12
_MAX_RESIDENT = 64


@dataclass(frozen=True, slots=True)
class Shares:
    """The distribution of units over threads; sizes are rounded up, as each is compiled.

    Attributes:
        capacity: the units, rounded up to 32, 64, 128 and so on.
        resident: whether the weights stay in registers.
        rows: rows of R that a simdgroup works on at once, and at most keeps.
        slots: units that a lane owns, at most.
        threads: of a threadgroup.
    """

    capacity: int
    resident: bool
    rows: int
    slots: int
    threads: int

    @staticmethod
    def of(units: int) -> Shares:
        """The shares of a head with this many units."""
        capacity = max(SIMD_WIDTH, 1 << (units - 1).bit_length())
        rows = 6 if capacity == _MAX_RESIDENT else 4
        return Shares(
            capacity=capacity,
            resident=capacity <= _MAX_RESIDENT,
            rows=rows,
            slots=math.ceil(units / (MAX_SIMDGROUPS * SIMD_WIDTH)),
            threads=min(math.ceil(units / rows), MAX_SIMDGROUPS) * SIMD_WIDTH,
        )


OWN_UNITS = """
    // gate_input: (B, T, 4, N, D), strided. Contiguous: recurrent (4, N, D, D), bias (4, N, D).
    constexpr uint LANES = 32;
    const uint lane = thread_index_in_simdgroup;
    const uint batch = gate_input_shape[0];
    const uint steps = gate_input_shape[1];
    const uint heads = gate_input_shape[3];
    const uint units = gate_input_shape[4];
    const uint sequence = threadgroup_position_in_grid.x / heads;
    const uint head = threadgroup_position_in_grid.x % heads;
    const uint share = (units + simdgroups_per_threadgroup - 1) / simdgroups_per_threadgroup;
    const uint first = simdgroup_index_in_threadgroup * share;
    const uint count = first < units ? metal::min(share, units - first) : 0;

    const long along_time = gate_input_strides[1];
    const long along_gates = gate_input_strides[2];
    const long along_units = gate_input_strides[4];
    const size_t step_size = static_cast<size_t>(heads) * units;
    const size_t one_state = batch * step_size;
    const size_t one_gate = step_size * units;
    const size_t own_head = static_cast<size_t>(head) * units + first;
    const auto incoming = gate_input + sequence * gate_input_strides[0]
        + head * gate_input_strides[3] + first * along_units;
    const auto weights = recurrent + own_head * units;
"""

RESIDENT_WEIGHTS = """
    float4 resident[RESIDENT ? ROWS * CHUNKS : 1];
    if (RESIDENT) {
        for (uint row = 0; row < ROWS; ++row) {
            for (uint chunk = 0; chunk < CHUNKS; ++chunk) {
                const uint from = chunk * LANES + lane;
                resident[row * CHUNKS + chunk] = (row < count && from < units)
                    ? xlstm_slstm_four(weights + row * units + from, one_gate) : float4(0.0f);
            }
        }
    }
"""

# m is a pair, to which c and n belong. So are the gates i and f, here input and forget, since near
# 100 a rounding of theirs would show in the result.
UNIT = (
    LOG_SIGMOID
    + PAIRS
    + """
    // What lies `apart` elements from each other: one number of each gate, or of each state.
    template <typename Numbers>
    inline float4 xlstm_slstm_four(Numbers first, long apart) {
        return float4(
            static_cast<float>(first[0]), static_cast<float>(first[apart]),
            static_cast<float>(first[2 * apart]), static_cast<float>(first[3 * apart]));
    }
    // sigmoid(x), and sigmoid(-x) without a loss of digits.
    inline float2 xlstm_slstm_sigmoids(float x) {
        const float tail = metal::precise::exp(-metal::abs(x));
        return (x < 0.0f ? float2(tail, 1.0f) : float2(1.0f, tail)) / (1.0f + tail);
    }
    // log sigmoid(x) of a pair: its second part moves it along the slope, which is sigmoid(-x).
    inline float2 xlstm_slstm_log_sigmoid(float2 x, float slope) {
        const float tail = metal::precise::exp(-metal::abs(x.x));
        float2 log = xlstm_pair(metal::min(x.x, 0.0f), -xlstm_log1p(tail));
        log.y += slope * x.y;
        return log;
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
