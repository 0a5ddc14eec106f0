"""The kernel of the sLSTM's gradient; the equations are in `gradient`.

Steps go from the last to the first. The first of the threads of a column keeps the gradients in its
unit's state in registers, and works out those in its gates. These go to threadgroup memory, and all
threads multiply R^T by them (see `layout`). What the next step reads is asked for a step before.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.recurrent.slstm.arguments import STATES
from xlstm_kernels.recurrent.slstm.layout import PLACE, PRODUCT, UNIT, Shares

_STEP_BACK = """
    // c, n and m after a step.
    template <typename Numbers>
    inline float3 xlstm_slstm_memory(Numbers first, long apart) {
        return float3(first[apart], first[2 * apart], first[3 * apart]);
    }
    // Gradients: Y in y; H in h, L in log n, or where n is zero in c and n; E in m beyond that.
    struct xlstm_slstm_slopes {
        float y;
        float h;
        float l;
        float e;
    };
    // What a step reads.
    struct xlstm_slstm_arrivals {
        float4 gates;
        float4 fed;
        float4 gradients;  // in y, c, n and m after the step
        float3 before;
    };
    // Add gradients in c, n and m.
    inline void xlstm_slstm_add(
        thread xlstm_slstm_slopes& slopes, float3 memory, float3 gradients) {
        const bool empty = memory.y == 0.0f;
        const float by_c = memory.x * gradients.x;
        const float by_n = memory.y * gradients.y;
        slopes.h += empty ? gradients.x : memory.y * gradients.x;
        slopes.l += empty ? gradients.y : by_c + by_n;
        slopes.e += gradients.z - by_c - by_n;
    }
    // The gradients in y, c, n and m.
    inline float4 xlstm_slstm_gradients(xlstm_slstm_slopes slopes, float3 memory) {
        if (memory.y == 0.0f) {
            return float4(slopes.y, slopes.h, slopes.l, slopes.e + memory.x * slopes.h);
        }
        const float h = memory.x / memory.y;
        const float along_n = (slopes.l - slopes.h * h) / memory.y;
        return float4(slopes.y, slopes.h / memory.y, along_n, slopes.e + slopes.l);
    }
    // The gradients in i, f, z and o. slopes: of the state after the step, then of that before it,
    // but for y, which R alone carries back.
    inline float4 xlstm_slstm_step_back(
        thread xlstm_slstm_slopes& slopes, float3 before, float3 after,
        float2 input, float2 forget, float candidate, float output) {
        const float forgetting = xlstm_slstm_sigmoids(forget.x).y;
        const float2 decayed = xlstm_pair_sum(
            float2(before.z, 0.0f), xlstm_slstm_log_sigmoid(forget, forgetting));
        const bool fresh = before.y == 0.0f;
        const bool by_input = fresh || xlstm_pair_less(decayed, input);
        const float2 m = float2(after.z, 0.0f);
        const float kept = xlstm_slstm_kept(decayed, m, fresh);
        const float admitted = xlstm_slstm_admitted(input, m);
        const float value = xlstm_slstm_tanh(candidate);
        const float squared = metal::precise::exp(-2.0f * metal::abs(candidate));
        const float value_slope =
            metal::fast::divide(4.0f * squared, (1.0f + squared) * (1.0f + squared));

        float4 gradients = float4(0.0f);
        xlstm_slstm_slopes earlier = {0.0f, 0.0f, 0.0f, by_input ? 0.0f : slopes.e};
        if (after.y == 0.0f) {
            // Nothing is admitted; what was nothing before remains so.
            if (fresh) {
                earlier.h = kept * slopes.h;
                earlier.l = kept * slopes.l;
            }
        } else {
            const float inverse = 1.0f / after.y;
            const float h = after.x * inverse;
            const float2 opened = xlstm_slstm_sigmoids(output);
            slopes.h += opened.x * slopes.y;
            gradients.w = slopes.y * opened.x * h * opened.y;
            const float admitted_share = admitted * inverse;
            gradients.z = admitted_share * slopes.h * value_slope;
            if (fresh) {
                gradients.x = admitted_share * ((value - h) * slopes.h + slopes.l);
                earlier.h = kept * slopes.h * inverse;
                earlier.l = kept * (slopes.l - slopes.h * h) * inverse;
            } else {
                const float kept_share = kept * before.y * inverse;
                const float difference = value - before.x / before.y;
                const float moved = admitted_share * kept_share * difference * slopes.h;
                gradients.x = admitted_share * slopes.l + moved;
                earlier.h = kept_share * slopes.h;
                earlier.l = kept_share * slopes.l - moved;
                gradients.y = earlier.l;
            }
        }
        if (fresh) {
            // A c without an n, as no sequence leaves it: the exponent of f' counts below zero.
            const float by_kept = before.x * earlier.h;
            const bool limited = xlstm_pair_less(m, decayed);
            gradients.x += limited ? by_kept : 0.0f;
            gradients.y = limited ? 0.0f : by_kept;
            earlier.e = limited ? -by_kept : 0.0f;
        }
        gradients.x += by_input ? slopes.e : 0.0f;
        gradients.y = (gradients.y + (by_input ? 0.0f : slopes.e)) * forgetting;
        slopes = earlier;
        return gradients;
    }
"""

# What a step reads, asked for a step before.
_ARRIVALS = """coming[slot] = {
                xlstm_slstm_four(incoming + next * along_time + own * along_units, along_gates),
                xlstm_slstm_four(heard + static_cast<size_t>(next) * units + own, states_apart),
                xlstm_slstm_four(
                    pulled + next * cotangent_strides[2] + own * cotangent_strides[4],
                    cotangent_strides[0]),
                next > 0
                    ? xlstm_slstm_memory(reached + (next - 1) * step_size + own, states_apart)
                    : xlstm_slstm_memory(starting + own, one_state)};"""


def _launch(
    gate_input: mx.array, recurrent: mx.array, *_others: mx.array, threads: int, cut: bool
) -> Launch:
    batch, steps, gates, heads, units = gate_input.shape
    shares = Shares.of(units, threads)
    return Launch(
        grid=(shares.threads * heads * batch, 1, 1),
        threadgroup=(shares.threads, 1, 1),
        output_shapes=((batch, steps, gates, heads, units), (STATES, batch, heads, units)),
        output_dtypes=(mx.float32, mx.float32),
        # CUT: nothing goes back through R.
        template=(*shares.template(recurrent.dtype, resident=not cut), ("CUT", cut)),
    )


def _kernel(suffix: str, mask_inputs: tuple[str, ...], live: str, begins: str = "false") -> Kernel:
    return Kernel(
        name=f"xlstm_slstm_gradient{suffix}",
        inputs=(
            "gate_input",
            "recurrent",
            "bias",
            "fed_back",
            "initial",
            "states",
            "cotangent",
            "last_cotangent",
            "limit",
            *mask_inputs,
        ),
        outputs=("gate_gradient", "initial_gradient"),
        launch=_launch,
        contiguous_inputs=False,
        header=UNIT + PRODUCT + _STEP_BACK,
        body=f"""
    // gate_input (B, T, 4, N, D), cotangent (4, B, T, N, D) and last_cotangent (4, B, N, D),
    // strided. Contiguous: recurrent (N, ROWS, WIDTH, 4), bias (4, N, D), fed_back (4, N, B, T, D),
    // initial, initial_gradient (4, B, N, D), states (4, B, T, N, D), mask, begins (B, T),
    // gate_gradient (B, T, 4, N, D). limit: 0-d.
    {PLACE}
    constexpr uint ROWS_OF_SLOT = ROWS / SLOTS;
    threadgroup float4 drawn[ROWS_OF_SLOT];
    threadgroup float partial[SLICES > 1 ? SLICES * COLUMNS : 1];
    const size_t steps_before = static_cast<size_t>(sequence) * steps;
    const auto heard = fed_back + (head * batch + sequence) * static_cast<size_t>(steps) * units;
    const auto reached = states + steps_before * step_size + own_head;
    const auto pulled = cotangent + sequence * cotangent_strides[1] + head * cotangent_strides[3];
    const auto pulled_last = last_cotangent + sequence * last_cotangent_strides[1]
        + head * last_cotangent_strides[2];
    const auto leaving = gate_gradient + 4 * steps_before * step_size + own_head;
    const auto ending = initial_gradient + sequence * step_size + own_head;

    for (uint row = thread_index_in_threadgroup; row < ROWS_OF_SLOT; row += SLICES * COLUMNS) {{
        drawn[row] = float4(0.0f);
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float4 offset[SLOTS];
    float3 memory[SLOTS];
    xlstm_slstm_slopes slopes[SLOTS];
    xlstm_slstm_arrivals coming[SLOTS];
    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * COLUMNS + column;
        if (owner && own < units) {{
            offset[slot] = xlstm_slstm_four(bias + own_head + own, step_size);
            memory[slot] = xlstm_slstm_memory(
                reached + (steps - 1) * step_size + own, states_apart);
            const float4 gradients = xlstm_slstm_four(
                pulled_last + own * last_cotangent_strides[3], last_cotangent_strides[0]);
            slopes[slot] = {{gradients.x, 0.0f, 0.0f, 0.0f}};
            xlstm_slstm_add(slopes[slot], memory[slot], gradients.yzw);
            const uint next = steps - 1;
            {_ARRIVALS}
        }}
    }}

    for (uint done = 0; done < steps; ++done) {{
        const uint step = steps - 1 - done;
        const bool live = {live};
        const bool reset = {begins};  // the step began from zeros
        float back[SLOTS] = {{}};  // what R feeds back
        for (uint slot = 0; slot < SLOTS; ++slot) {{
            const uint own = slot * COLUMNS + column;
            if (owner && own < units) {{
                const xlstm_slstm_arrivals now = coming[slot];
                if (step > 0) {{
                    const uint next = step - 1;
                    {_ARRIVALS}
                }}
                xlstm_slstm_add(slopes[slot], memory[slot], now.gradients.yzw);
                float4 gradients = float4(0.0f);
                if (live) {{
                    const float4 open = now.gates + offset[slot] + now.fed;
                    slopes[slot].y += now.gradients.x;
                    gradients = xlstm_slstm_step_back(
                        slopes[slot], reset ? float3(0.0f) : now.before, memory[slot],
                        xlstm_pair_add(xlstm_pair(now.gates.x, offset[slot].x), now.fed.x),
                        xlstm_pair_add(xlstm_pair(now.gates.y, offset[slot].y), now.fed.y),
                        open.z, open.w);
                }}
                if (reset) {{
                    slopes[slot] = {{0.0f, 0.0f, 0.0f, 0.0f}};
                }}
                memory[slot] = now.before;
                drawn[column] = gradients;
                xlstm_slstm_store(leaving + 4 * step * step_size + own, step_size, gradients);
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
                slopes[slot].y =
                    reset ? 0.0f : (sum > limit ? limit : (sum < -limit ? -limit : sum));
            }}
        }}
    }}

    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * COLUMNS + column;
        if (owner && own < units) {{
            xlstm_slstm_store(
                ending + own, one_state, xlstm_slstm_gradients(slopes[slot], memory[slot]));
        }}
    }}
    """,
    )


# Indexed by the number of masks.
KERNELS = (
    _kernel("", (), "true"),
    _kernel("_masked", ("mask",), "mask[steps_before + step]"),
    _kernel(
        "_packed", ("mask", "begins"), "mask[steps_before + step]", "begins[steps_before + step]"
    ),
)
