"""The kernel of the sLSTM's gradient; the equations are in `gradient`.

Steps go from the last to the first, each lane taking those of its units (see `layout`). In a step,
a simdgroup hands the gradients in its units' gates from lane to lane, and adds up its rows of R^T
times these with a lane for every 32nd column, so that lanes read neighbouring weights. The sums of
the simdgroups go through threadgroup memory, for a block of columns at a time, in which blocks take
turns with two halves, so that one barrier each is enough.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.slstm.arguments import STATES
from xlstm_kernels.slstm.layout import (
    MAX_SIMDGROUPS,
    OWN_UNITS,
    RESIDENT_WEIGHTS,
    SIMD_WIDTH,
    UNIT,
    Shares,
)

# The sums of all simdgroups, twice, take 24 KB of a threadgroup's memory then.
_MAX_CHUNKS = 8

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
    inline float4 xlstm_slstm_told(xlstm_slstm_slopes slopes, float3 memory) {
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
        const float value = metal::precise::tanh(candidate);
        const float squared = metal::precise::exp(-2.0f * metal::abs(candidate));
        const float value_slope = 4.0f * squared / ((1.0f + squared) * (1.0f + squared));

        float4 gradients = float4(0.0f);
        xlstm_slstm_slopes earlier = {0.0f, 0.0f, 0.0f, by_input ? 0.0f : slopes.e};
        if (after.y == 0.0f) {
            // Nothing is admitted; what was nothing before remains so.
            if (fresh) {
                earlier.h = kept * slopes.h;
                earlier.l = kept * slopes.l;
            }
        } else {
            const float h = after.x / after.y;
            const float2 opened = xlstm_slstm_sigmoids(output);
            slopes.h += opened.x * slopes.y;
            gradients.w = slopes.y * opened.x * h * opened.y;
            const float admitted_share = admitted / after.y;
            gradients.z = admitted_share * slopes.h * value_slope;
            if (fresh) {
                gradients.x = admitted_share * ((value - h) * slopes.h + slopes.l);
                earlier.h = kept * slopes.h / after.y;
                earlier.l = kept * (slopes.l - slopes.h * h) / after.y;
            } else {
                const float kept_share = kept * before.y / after.y;
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


def _launch(gate_input: mx.array, *_others: mx.array, cut: bool) -> Launch:
    batch, steps, gates, heads, units = gate_input.shape
    shares = Shares.of(units)
    return Launch(
        grid=(shares.threads * heads * batch, 1, 1),
        threadgroup=(shares.threads, 1, 1),
        output_shapes=(
            (batch, steps, gates, heads, units),
            (batch, gates, heads, units),
            (STATES, batch, heads, units),
        ),
        output_dtypes=(mx.float32, mx.float32, mx.float32),
        template=(
            ("CHUNKS", min(shares.capacity // SIMD_WIDTH, _MAX_CHUNKS)),  # of columns, in a block
            ("ROWS", shares.rows),
            ("SLOTS", shares.slots),
            ("RESIDENT", shares.resident and not cut),
            ("CUT", cut),  # nothing goes back through R
        ),
    )


def _kernel(suffix: str, mask_input: tuple[str, ...], live: str) -> Kernel:
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
            *mask_input,
        ),
        outputs=("gate_gradient", "bias_sums", "initial_gradient"),
        launch=_launch,
        contiguous_inputs=False,
        header=UNIT + _STEP_BACK,
        body=f"""
    // cotangent (4, B, T, N, D) and last_cotangent (4, B, N, D), strided. Contiguous: fed_back
    // (4, N, B, T, D), initial, initial_gradient (4, B, N, D), states (4, B, T, N, D), mask (B, T),
    // gate_gradient (B, T, 4, N, D), bias_sums (B, 4, N, D). limit: 0-d.
    {OWN_UNITS}
    constexpr uint BLOCK = CHUNKS * LANES;
    constexpr uint HALF = {MAX_SIMDGROUPS} * BLOCK;
    threadgroup float partial[CUT ? 1 : 2 * HALF];

    const size_t steps_before = static_cast<size_t>(sequence) * steps;
    const size_t states_apart = steps * one_state;
    const auto starting = initial + sequence * step_size + own_head;
    const auto told = states + steps_before * step_size + own_head;
    const auto heard = fed_back
        + (static_cast<size_t>(head) * batch * steps + steps_before) * units + first;
    const long pulled_apart = cotangent_strides[0];
    const long pulled_time = cotangent_strides[2];
    const long pulled_units = cotangent_strides[4];
    const auto pulled = cotangent + sequence * cotangent_strides[1]
        + head * cotangent_strides[3] + first * pulled_units;
    const auto pulled_last = last_cotangent + sequence * last_cotangent_strides[1]
        + head * last_cotangent_strides[2] + first * last_cotangent_strides[3];
    const auto leaving = gate_gradient + 4 * steps_before * step_size + own_head;

    {RESIDENT_WEIGHTS}
    float4 offset[SLOTS];
    float3 memory[SLOTS];
    xlstm_slstm_slopes slopes[SLOTS];
    float4 sums[SLOTS];
    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * LANES + lane;
        offset[slot] = float4(0.0f);
        memory[slot] = float3(0.0f);
        slopes[slot] = {{0.0f, 0.0f, 0.0f, 0.0f}};
        sums[slot] = float4(0.0f);
        if (own < count) {{
            offset[slot] = xlstm_slstm_four(bias + own_head + own, step_size);
            memory[slot] = xlstm_slstm_memory(
                told + (steps - 1) * step_size + own, states_apart);
            const float4 gradients = xlstm_slstm_four(
                pulled_last + own * last_cotangent_strides[3], last_cotangent_strides[0]);
            slopes[slot].y = gradients.x;
            xlstm_slstm_add(slopes[slot], memory[slot], gradients.yzw);
        }}
    }}

    uint writing = 0;
    for (uint done = 0; done < steps; ++done) {{
        const uint step = steps - 1 - done;
        const bool live = {live};
        float4 drawn[SLOTS];
        for (uint slot = 0; slot < SLOTS; ++slot) {{
            const uint own = slot * LANES + lane;
            drawn[slot] = float4(0.0f);
            if (own < count) {{
                const float4 gradients = xlstm_slstm_four(
                    pulled + step * pulled_time + own * pulled_units, pulled_apart);
                const float3 before = step > 0
                    ? xlstm_slstm_memory(told + (step - 1) * step_size + own, states_apart)
                    : xlstm_slstm_memory(starting + own, one_state);
                xlstm_slstm_add(slopes[slot], memory[slot], gradients.yzw);
                if (live) {{
                    const float4 gates = xlstm_slstm_four(
                        incoming + step * along_time + own * along_units, along_gates);
                    const float4 fed = xlstm_slstm_four(
                        heard + static_cast<size_t>(step) * units + own, steps * one_state);
                    const float4 open = gates + offset[slot] + fed;
                    slopes[slot].y += gradients.x;
                    drawn[slot] = xlstm_slstm_step_back(
                        slopes[slot], before, memory[slot],
                        xlstm_pair_add(xlstm_pair(gates.x, offset[slot].x), fed.x),
                        xlstm_pair_add(xlstm_pair(gates.y, offset[slot].y), fed.y),
                        open.z, open.w);
                }}
                memory[slot] = before;
                sums[slot] += drawn[slot];
                const auto left = leaving + 4 * step * step_size + own;
                left[0] = drawn[slot].x;
                left[step_size] = drawn[slot].y;
                left[2 * step_size] = drawn[slot].z;
                left[3 * step_size] = drawn[slot].w;
            }}
        }}
        for (uint start = 0; !CUT && start < units; start += BLOCK) {{
            float columns[CHUNKS];
            for (uint chunk = 0; chunk < CHUNKS; ++chunk) {{
                columns[chunk] = 0.0f;
            }}
            if (RESIDENT) {{
                for (uint row = 0; row < ROWS; ++row) {{
                    const float4 gradients = simd_broadcast(drawn[0], row);
                    for (uint chunk = 0; chunk < CHUNKS; ++chunk) {{
                        columns[chunk] += metal::dot(resident[row * CHUNKS + chunk], gradients);
                    }}
                }}
            }} else {{
                for (uint slot = 0; slot < SLOTS; ++slot) {{
                    const uint end = metal::min(count, (slot + 1) * LANES);
                    for (uint row = slot * LANES; row < end; ++row) {{
                        const float4 gradients = simd_broadcast(drawn[slot], row - slot * LANES);
                        const auto columns_of = weights + static_cast<size_t>(row) * units;
                        for (uint chunk = 0; chunk < CHUNKS; ++chunk) {{
                            const uint to = start + chunk * LANES + lane;
                            if (to < units) {{
                                columns[chunk] += metal::dot(
                                    xlstm_slstm_four(columns_of + to, one_gate), gradients);
                            }}
                        }}
                    }}
                }}
            }}
            const uint mine = writing + simdgroup_index_in_threadgroup * BLOCK;
            for (uint chunk = 0; chunk < CHUNKS; ++chunk) {{
                partial[mine + chunk * LANES + lane] = columns[chunk];
            }}
            threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint slot = 0; slot < SLOTS; ++slot) {{
                const uint own = slot * LANES + lane;
                const uint unit = first + own;
                if (live && own < count && unit >= start && unit < start + BLOCK) {{
                    float sum = 0.0f;
                    for (uint group = 0; group < simdgroups_per_threadgroup; ++group) {{
                        sum += partial[writing + group * BLOCK + unit - start];
                    }}
                    // Not clamp, which would make a number of NaN.
                    slopes[slot].y = sum > limit ? limit : (sum < -limit ? -limit : sum);
                }}
            }}
            writing = HALF - writing;
        }}
    }}

    const auto ending = initial_gradient + sequence * step_size + own_head;
    const auto summed = bias_sums + 4 * sequence * step_size + own_head;
    for (uint slot = 0; slot < SLOTS; ++slot) {{
        const uint own = slot * LANES + lane;
        if (own < count) {{
            const float4 gradients = xlstm_slstm_told(slopes[slot], memory[slot]);
            for (uint k = 0; k < 4; ++k) {{
                ending[k * one_state + own] = gradients[k];
                summed[k * step_size + own] = sums[slot][k];
            }}
        }}
    }}
    """,
    )


# Indexed by the number of masks.
KERNELS = (
    _kernel("", (), "true"),
    _kernel("_masked", ("mask",), "mask[steps_before + step]"),
)
