"""The kernel of the sLSTM over a sequence: its states after each step; see `sequence`.

All threads multiply R by y, which is in threadgroup memory (see `layout`). Then the first of the
threads of a column adds up their sums, takes the unit through its gates, and keeps its state in
registers. What the next step reads of the inputs is asked for a step before.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.recurrent.slstm.arguments import STATES
from xlstm_kernels.recurrent.slstm.layout import PLACE, PRODUCT, UNIT, Shares

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
        after.c = kept * before.c + admitted * xlstm_slstm_tanh(candidate);
        after.n = kept * before.n + admitted;
        const float opened = xlstm_slstm_sigmoids(output).x;
        after.y = after.n == 0.0f ? 0.0f : opened * (after.c / after.n);
        return after;
    }
    // The state as it is returned: m rounded to one float, c and n belonging to that.
    inline float4 xlstm_slstm_rounded(xlstm_slstm_unit unit) {
        const float scale = metal::precise::exp(unit.m.y);
        return float4(unit.y, unit.c * scale, unit.n * scale, unit.m.x);
    }
"""


def _launch(gate_input: mx.array, recurrent: mx.array, *_others: mx.array, threads: int) -> Launch:
    batch, steps, _, heads, units = gate_input.shape
    shares = Shares.of(units, threads)
    return Launch(
        grid=(shares.threads * heads * batch, 1, 1),
        threadgroup=(shares.threads, 1, 1),
        output_shapes=((STATES, batch, steps, heads, units), (STATES, batch, heads, units)),
        output_dtypes=(mx.float32, mx.float32),
        template=shares.template(recurrent.dtype),
    )


_FLAG = "[static_cast<size_t>(sequence) * steps + step]"
# A sequence begins from zeros. Its first step hears nothing.
_RESET = f"""
                if (begins{_FLAG}) {{
                    unit[slot] = {{0.0f, 0.0f, 0.0f, float2(0.0f)}};
                    fed_back = float4(0.0f);
                }}"""


def _kernel(suffix: str, mask_inputs: tuple[str, ...], live: str, reset: str = "") -> Kernel:
    return Kernel(
        name=f"xlstm_slstm{suffix}",
        inputs=("gate_input", "recurrent", "bias", "initial", *mask_inputs),
        outputs=("states", "last"),
        launch=_launch,
        contiguous_inputs=False,
        header=UNIT + PRODUCT + _STEP,
        body=f"""
    // gate_input: (B, T, 4, N, D), strided. Contiguous: recurrent (N, ROWS, WIDTH, 4), bias
    // (4, N, D), initial, last (4, B, N, D), mask, begins (B, T), states (4, B, T, N, D).
    {PLACE}
    threadgroup float hidden[2 * ROWS];
    threadgroup float4 partial[SLICES > 1 ? SLICES * COLUMNS : 1];
    const auto leaving = states + step_size * sequence * steps + own_head;
    const auto ending = last + sequence * step_size + own_head;

    for (uint row = thread_index_in_threadgroup; row < 2 * ROWS; row += SLICES * COLUMNS) {{
        hidden[row] = 0.0f;
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    xlstm_slstm_unit unit[SLOTS] = {{}};
    float4 offset[SLOTS] = {{}};
    float4 coming[SLOTS] = {{}};
    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * COLUMNS + column;
        if (owner && own < units) {{
            const float4 start = xlstm_slstm_four(starting + own, one_state);
            unit[slot] = {{start.x, start.y, start.z, float2(start.w, 0.0f)}};
            offset[slot] = xlstm_slstm_four(bias + own_head + own, step_size);
            coming[slot] = xlstm_slstm_four(incoming + own * along_units, along_gates);
            hidden[own] = unit[slot].y;
        }}
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);

    for (uint step = 0; step < steps; ++step) {{
        const uint reading = (step & 1) * ROWS;
        const uint writing = ROWS - reading;
        const bool live = {live};
        for (uint slot = 0; slot < SLOTS; ++slot) {{
            const uint own = slot * COLUMNS + column;
            const bool owned = owner && own < units;
            const float4 gates = coming[slot];
            if (owned && step + 1 < steps) {{
                coming[slot] = xlstm_slstm_four(
                    incoming + (step + 1) * along_time + own * along_units, along_gates);
            }}
            float4 fed_back = xlstm_slstm_product<SPAN, RESIDENT, WIDTH>(
                resident, weights + own, hidden + reading + slice * SPAN);
            if (SLICES > 1) {{
                partial[slice * COLUMNS + column] = fed_back;
                threadgroup_barrier(mem_flags::mem_threadgroup);
            }}
            if (owned) {{
                for (uint other = 1; other < SLICES; ++other) {{
                    fed_back += partial[other * COLUMNS + column];
                }}{reset}
                const float4 open = gates + offset[slot] + fed_back;
                const xlstm_slstm_unit after = xlstm_slstm_step(
                    unit[slot],
                    xlstm_pair_add(xlstm_pair(gates.x, offset[slot].x), fed_back.x),
                    xlstm_pair_add(xlstm_pair(gates.y, offset[slot].y), fed_back.y),
                    open.z, open.w);
                if (live) {{
                    unit[slot] = after;
                }}
                hidden[writing + own] = unit[slot].y;
                const float4 rounded = xlstm_slstm_rounded(unit[slot]);
                xlstm_slstm_store(leaving + step * step_size + own, states_apart,
                    float4(live ? rounded.x : 0.0f, rounded.y, rounded.z, rounded.w));
            }}
        }}
        threadgroup_barrier(mem_flags::mem_threadgroup);
    }}

    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * COLUMNS + column;
        if (owner && own < units) {{
            xlstm_slstm_store(ending + own, one_state, xlstm_slstm_rounded(unit[slot]));
        }}
    }}
    """,
    )


# Indexed by the number of masks.
KERNELS = (
    _kernel("", (), "true"),
    _kernel("_masked", ("mask",), f"mask{_FLAG}"),
    _kernel("_packed", ("mask", "begins"), f"mask{_FLAG}", _RESET),
)
