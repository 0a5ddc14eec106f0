"""The kernel of the sLSTM's gradient: what goes backward step by step; see `gradient`.

The first of the threads of a column keeps the gradients in its unit's state in registers, and
works out those in its gates. These go to threadgroup memory, and all threads multiply R^T by them
(see `layout`). All of that is linear: the factors were computed before, for all steps at once, and
those of a step are asked for a step before.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.slstm.arguments import STATES
from xlstm_kernels.slstm.factors import Factors
from xlstm_kernels.slstm.layout import PLACE, PRODUCT, Shares

_FACTORS = f"""
    struct xlstm_slstm_factors {{
        {" ".join(f"float {name};" for name in Factors._fields)}
    }};
    // Gradients, or sums of them: Y in y; H in h, L in log n, or where n is zero in c and n; E in m
    // beyond that.
    struct xlstm_slstm_slopes {{
        float y;
        float h;
        float l;
        float e;
    }};
    // The gradients in i, f, z and o; slopes: of the state after the step, then of that before it,
    // but for y, which R alone carries back: it becomes the sum.
    inline float4 xlstm_slstm_step_back(
        thread xlstm_slstm_slopes& slopes, xlstm_slstm_factors by) {{
        const float y = slopes.y + by.add_y;
        const float h = slopes.h + by.add_h + by.opened * y;
        const float l = slopes.l + by.add_l;
        const float e = slopes.e + by.add_e;
        slopes.h = by.kept * h;
        slopes.l = by.kept * l + by.lost * h;
        slopes.e = by.past * e + by.limited * h;
        return float4(
            by.share * l + by.moved * h + (1.0f - by.past) * e,
            by.forgetting * (slopes.l + by.past * e) + by.alone * h,
            by.value * h, by.output * y);
    }}
"""


def _launch(
    recurrent: mx.array, first: mx.array, *_others: mx.array, threads: int, cut: bool
) -> Launch:
    batch, steps, heads, units = first.shape
    shares = Shares.of(units, threads)
    return Launch(
        grid=(shares.threads * heads * batch, 1, 1),
        threadgroup=(shares.threads, 1, 1),
        output_shapes=((batch, steps, STATES, heads, units), (STATES, batch, heads, units)),
        output_dtypes=(mx.float32, mx.float32),
        # CUT: nothing goes back through R.
        template=(*shares.template(recurrent.dtype, resident=not cut), ("CUT", cut)),
    )


_NEXT = ", ".join(f"{name}[next]" for name in Factors._fields)


def _kernel(suffix: str, mask_input: tuple[str, ...], live: str) -> Kernel:
    return Kernel(
        name=f"xlstm_slstm_gradient{suffix}",
        inputs=("recurrent", *Factors._fields, "of_last", "limit", *mask_input),
        outputs=("gate_gradient", "of_initial"),
        launch=_launch,
        header=PRODUCT + _FACTORS,
        body=f"""
    // recurrent (N, ROWS, WIDTH, 4); factors (B, T, N, D); of_last, of_initial (4, B, N, D): Y, H,
    // L and E; limit: 0-d; mask (B, T); gate_gradient (B, T, 4, N, D).
    {PLACE}
    constexpr uint ROWS_OF_SLOT = ROWS / SLOTS;
    threadgroup float4 drawn[ROWS_OF_SLOT];
    threadgroup float partial[SLICES > 1 ? SLICES * COLUMNS : 1];
    const uint batch = opened_shape[0];
    const uint steps = opened_shape[1];
    const uint units = opened_shape[3];
    const size_t step_size = static_cast<size_t>(heads) * units;
    const size_t one_state = batch * step_size;
    const size_t own_head = static_cast<size_t>(head) * units;
    const size_t steps_before = static_cast<size_t>(sequence) * steps;
    const auto starting = of_last + sequence * step_size + own_head;
    const auto ending = of_initial + sequence * step_size + own_head;

    for (uint row = thread_index_in_threadgroup; row < ROWS_OF_SLOT; row += SLICES * COLUMNS) {{
        drawn[row] = float4(0.0f);
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    xlstm_slstm_slopes slopes[SLOTS];
    xlstm_slstm_factors coming[SLOTS];
    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * COLUMNS + column;
        if (owner && own < units) {{
            slopes[slot] = {{
                starting[own], starting[one_state + own],
                starting[2 * one_state + own], starting[3 * one_state + own]}};
            const size_t next = (steps_before + steps - 1) * step_size + own_head + own;
            coming[slot] = {{{_NEXT}}};
        }}
    }}

    for (uint done = 0; done < steps; ++done) {{
        const uint step = steps - 1 - done;
        const bool live = {live};
        float back[SLOTS];  // what R feeds back
        for (uint slot = 0; slot < SLOTS; ++slot) {{
            back[slot] = 0.0f;
        }}
        for (uint slot = 0; slot < SLOTS; ++slot) {{
            const uint own = slot * COLUMNS + column;
            if (owner && own < units) {{
                const float4 gradients = xlstm_slstm_step_back(slopes[slot], coming[slot]);
                const size_t place = steps_before + step;
                if (step > 0) {{
                    const size_t next = (place - 1) * step_size + own_head + own;
                    coming[slot] = {{{_NEXT}}};
                }}
                drawn[column] = gradients;
                const auto leaving = gate_gradient + 4 * place * step_size + own_head + own;
                leaving[0] = gradients.x;
                leaving[step_size] = gradients.y;
                leaving[2 * step_size] = gradients.z;
                leaving[3 * step_size] = gradients.w;
            }} else if (owner) {{
                drawn[column] = float4(0.0f);
            }}
            if (!CUT) {{
                threadgroup_barrier(mem_flags::mem_threadgroup);
                for (uint other = 0; other < SLOTS; ++other) {{
                    const float4 sums = xlstm_slstm_product<SPAN / SLOTS, RESIDENT, WIDTH>(
                        resident,
                        weights + slot * ROWS_OF_SLOT * WIDTH + other * COLUMNS + column,
                        drawn + slice * SPAN);
                    back[other] += sums.x + sums.y + sums.z + sums.w;
                }}
                if (SLICES > 1) {{
                    partial[slice * COLUMNS + column] = back[slot];
                }}
                threadgroup_barrier(mem_flags::mem_threadgroup);
            }}
        }}
        for (uint slot = 0; slot < SLOTS; ++slot) {{
            if (owner && live) {{
                for (uint other = 1; !CUT && other < SLICES; ++other) {{
                    back[slot] += partial[other * COLUMNS + column];
                }}
                // Not clamp, which would make a number of NaN.
                const float sum = back[slot];
                slopes[slot].y = sum > limit ? limit : (sum < -limit ? -limit : sum);
            }}
        }}
    }}

    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * COLUMNS + column;
        if (owner && own < units) {{
            ending[own] = slopes[slot].y;
            ending[one_state + own] = slopes[slot].h;
            ending[2 * one_state + own] = slopes[slot].l;
            ending[3 * one_state + own] = slopes[slot].e;
        }}
    }}
    """,
    )


# Indexed by the number of masks.
KERNELS = (
    _kernel("", (), "true"),
    _kernel("_masked", ("mask",), "mask[steps_before + step]"),
)
