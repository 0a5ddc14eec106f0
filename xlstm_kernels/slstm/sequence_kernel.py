"""The kernel of the sLSTM over a sequence: its states after each step; see `sequence`.

For each of its units in turn a simdgroup adds up R y with a lane to every 32nd input; then each
lane takes one of these units through its gates, and keeps its state in registers. The y of all
units goes through threadgroup memory, in which steps take turns with two halves, so that one
barrier a step is enough. `layout` says which units are whose.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.slstm.arguments import STATES
from xlstm_kernels.slstm.layout import OWN_UNITS, RESIDENT_WEIGHTS, UNIT, Shares

_STEP = """
    // m is a pair, to which c and n belong.
    struct xlstm_slstm_unit {
        float y;
        float c;
        float n;
        float2 m;
    };
    inline xlstm_slstm_unit xlstm_slstm_step(
        xlstm_slstm_unit before, float2 input, float2 forget, float candidate, float output) {
        const float slope = xlstm_slstm_sigmoids(forget.x).y;
        const float2 decayed = xlstm_pair_sum(before.m, xlstm_slstm_log_sigmoid(forget, slope));
        const bool fresh = before.n == 0.0f;
        xlstm_slstm_unit after;
        after.m = (fresh || xlstm_pair_less(decayed, input)) ? input : decayed;
        const float kept = xlstm_slstm_kept(decayed, after.m, fresh);
        const float admitted = xlstm_slstm_admitted(input, after.m);
        after.c = kept * before.c + admitted * metal::precise::tanh(candidate);
        after.n = kept * before.n + admitted;
        const float opened = 1.0f + metal::precise::exp(-output);
        after.y = after.n == 0.0f ? 0.0f : after.c / after.n / opened;
        return after;
    }
    // The state as it is told: m rounded to one float, c and n belonging to that.
    inline float4 xlstm_slstm_told(xlstm_slstm_unit unit) {
        const float scale = metal::precise::exp(unit.m.y);
        return float4(unit.y, unit.c * scale, unit.n * scale, unit.m.x);
    }
"""


def _launch(gate_input: mx.array, *_others: mx.array) -> Launch:
    batch, steps, _, heads, units = gate_input.shape
    shares = Shares.of(units)
    return Launch(
        grid=(shares.threads * heads * batch, 1, 1),
        threadgroup=(shares.threads, 1, 1),
        output_shapes=((STATES, batch, steps, heads, units), (STATES, batch, heads, units)),
        output_dtypes=(mx.float32, mx.float32),
        template=(
            ("CAPACITY", shares.capacity),
            ("ROWS", shares.rows),
            ("SLOTS", shares.slots),
            ("RESIDENT", shares.resident),
        ),
    )


def _kernel(suffix: str, mask_input: tuple[str, ...], live: str) -> Kernel:
    return Kernel(
        name=f"xlstm_slstm{suffix}",
        inputs=("gate_input", "recurrent", "bias", "initial", *mask_input),
        outputs=("states", "last"),
        launch=_launch,
        contiguous_inputs=False,
        header=UNIT + _STEP,
        body=f"""
    // Contiguous: initial, last (4, B, N, D), mask (B, T), states (4, B, T, N, D).
    {OWN_UNITS}
    constexpr uint CHUNKS = RESIDENT ? CAPACITY / LANES : 1;
    threadgroup float hidden[2 * CAPACITY];
    const uint chunks = RESIDENT ? CHUNKS : (units + LANES - 1) / LANES;
    const auto starting = initial + sequence * step_size + own_head;
    const auto leaving = states + step_size * sequence * steps + own_head;
    const auto ending = last + sequence * step_size + own_head;

    {RESIDENT_WEIGHTS}
    xlstm_slstm_unit unit[SLOTS];
    float4 offset[SLOTS];
    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * LANES + lane;
        unit[slot] = {{0.0f, 0.0f, 0.0f, float2(0.0f)}};
        offset[slot] = float4(0.0f);
        if (own < count) {{
            const float4 start = xlstm_slstm_four(starting + own, one_state);
            unit[slot] = {{start.x, start.y, start.z, float2(start.w, 0.0f)}};
            offset[slot] = xlstm_slstm_four(bias + own_head + own, step_size);
            hidden[first + own] = unit[slot].y;
        }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);

    for (uint step = 0; step < steps; ++step) {{
        const auto arriving = incoming + step * along_time;
        const uint reading = (step & 1) * CAPACITY;
        const uint writing = CAPACITY - reading;
        const bool live = {live};
        for (uint slot = 0; slot < SLOTS; ++slot) {{
            const uint own = slot * LANES + lane;
            // Asked for before the sums, which need not wait for it.
            const float4 gates = own < count
                ? xlstm_slstm_four(arriving + own * along_units, along_gates) : float4(0.0f);
            float4 fed_back = float4(0.0f);
            const uint end = metal::min(count, (slot + 1) * LANES);
            for (uint start = slot * LANES; start < end; start += ROWS) {{
                const uint rows = metal::min(static_cast<uint>(ROWS), end - start);
                float4 sums[ROWS];
                for (uint row = 0; row < ROWS; ++row) {{
                    sums[row] = float4(0.0f);
                }}
                for (uint chunk = 0; chunk < chunks; ++chunk) {{
                    const uint from = chunk * LANES + lane;
                    if (from < units) {{
                        const float y = hidden[reading + from];
                        for (uint row = 0; row < ROWS; ++row) {{
                            if (RESIDENT) {{
                                sums[row] += resident[row * CHUNKS + chunk] * y;
                            }} else if (row < rows) {{
                                const size_t weight =
                                    static_cast<size_t>(start + row) * units + from;
                                sums[row] += xlstm_slstm_four(weights + weight, one_gate) * y;
                            }}
                        }}
                    }}
                }}
                for (uint row = 0; row < ROWS; ++row) {{
                    const float4 sum = float4(
                        simd_sum(sums[row].x), simd_sum(sums[row].y),
                        simd_sum(sums[row].z), simd_sum(sums[row].w));
                    fed_back = start + row == own ? sum : fed_back;
                }}
            }}
            if (own < count) {{
                const float4 open = gates + offset[slot] + fed_back;
                const xlstm_slstm_unit after = xlstm_slstm_step(
                    unit[slot],
                    xlstm_pair_add(xlstm_pair(gates.x, offset[slot].x), fed_back.x),
                    xlstm_pair_add(xlstm_pair(gates.y, offset[slot].y), fed_back.y),
                    open.z, open.w);
                if (live) {{
                    unit[slot] = after;
                }}
                hidden[writing + first + own] = unit[slot].y;
                const float4 told = xlstm_slstm_told(unit[slot]);
                const auto state = leaving + step * step_size + own;
                const size_t states_apart = steps * one_state;
                state[0] = live ? told.x : 0.0f;
                state[states_apart] = told.y;
                state[2 * states_apart] = told.z;
                state[3 * states_apart] = told.w;
            }}
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }}

    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * LANES + lane;
        if (own < count) {{
            const float4 told = xlstm_slstm_told(unit[slot]);
            ending[own] = told.x;
            ending[one_state + own] = told.y;
            ending[2 * one_state + own] = told.z;
            ending[3 * one_state + own] = told.w;
        }}
    }}
    """,
    )


# Indexed by the number of masks.
KERNELS = (
    _kernel("", (), "true"),
    _kernel("_masked", ("mask",), "mask[static_cast<size_t>(sequence) * steps + step]"),
)
