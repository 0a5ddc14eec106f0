"""All gradients of the causal convolution in one kernel, which reads x and dy once.

With z what the activation gets, x and its halo as in `causal_conv1d`, and d(state) for the
cotangent of the final states:

    g_t = dy_t act'(z_t)  (zero before the first step and after the last one)
    dx_t = sum_j w_j g_{t+K-1-j}, with d(state) added where x_t is in the final states
    dw_j = sum over sequences and steps of g_t x_{t-(K-1)+j},  dbias = that of g_t

silu'(z) = s + z s (1 - s), s = sigmoid(z). z is computed anew: to read it would cost as much memory
as x.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels.conv.causal_runs import (
    ROUND,
    beginning,
    convolved,
    element,
    halo,
    run_of,
    runs,
    shared_ends,
    values_window,
)
from xlstm_kernels.kernel import Kernel
from xlstm_kernels.msl import PACKS, SIGMOID

if TYPE_CHECKING:
    from xlstm_kernels.differentiation import Arrays
    from xlstm_kernels.kernel import Launch


def causal_conv1d_gradient(
    x: mx.array,
    weight: mx.array,
    bias: mx.array | None,
    states: mx.array | None,
    cotangent: mx.array,
    final_cotangent: mx.array | None,
    *,
    activated: bool,
    backend: str,
) -> Arrays:
    """The gradients in x, weight and those of bias and states that there are.

    Args:
        x: (B, S, C), not empty.
        weight: (C, K).
        bias: (C,), or None.
        states: (B, K-1, C), K > 1, or None.
        cotangent: (B, S, C), of y.
        final_cotangent: (B, K-1, C), K > 1, of the final states, or None.
        activated: whether y is silu of the sum.
        backend: one that runs kernels.

    Returns:
        One array for each of the first four, in its shape and dtype, without those that are None.
    """
    continued, final = states is not None, final_cotangent is not None
    # Without an activation the bias is in no gradient.
    biased = activated and bias is not None
    given = (bias if biased else None, states, final_cotangent)
    kernel = _kernel(biased, continued, final, activated)
    in_x, *in_states, block_sums = kernel(
        x, weight, cotangent, *(array for array in given if array is not None), backend=backend
    )
    sums = mx.sum(block_sums, axis=0)
    in_weight = sums[:-1].transpose(1, 0).astype(weight.dtype)
    in_bias = () if bias is None else (sums[-1].astype(bias.dtype),)
    return (in_x, in_weight, *in_bias, *in_states)


# --- Metal -------------------------------------------------------------------------------------

# The layout of `causal_runs`, in time as well: a thread takes the gradients of the steps from HALO
# before its run on, which are those that its g is the last to count for. Its g, and those of its
# halo, are in registers as x is. So gradients of the initial states come out as those of steps
# before the first, and the thread of the last run goes on to the last step. Each threadgroup sums
# up what its runs have for the weights.


def _launch(states_at: slice, *inputs: mx.array) -> Launch:
    values, weight, *_ = inputs
    (_, _, channels), width = values.shape, weight.shape[1]
    laid = runs(values, width, windows=2)
    states = inputs[states_at]
    sums = ((laid.threadgroups, width + 1, channels), mx.float32)
    outputs = ((values.shape, values.dtype), *((s.shape, s.dtype) for s in states), sums)
    dtypes = tuple(("StateT", state.dtype) for state in states)
    return laid.launch(width, values.dtype, outputs, dtypes)


_SILU_SLOPE = f"""
    {SIGMOID}
    inline float xlstm_silu_slope(float value) {{
        const float2 opened = xlstm_sigmoid(value);
        return opened.x + value * opened.y;
    }}
"""

_SHARE_EARLIER = f"""
        // The first run of a threadgroup has nobody to give it the g of its halo, and computes it:
        // earlier is x from 2 HALO before the run on, and then its first half is g.
        constexpr uint EARLIER = RUN > 1 ? 2 * HALO : 0;
        Pack earlier[EARLIER > 0 ? EARLIER : 1] = {{}};
        if (round == 0 && active && place == 0 && start > 0) {{
            #pragma clang loop unroll(full)
            for (uint k = 0; k < EARLIER; ++k) {{
                if (start + k >= 2 * HALO) {{
                    earlier[k] = {element("values", "start + k - 2 * HALO")};
                }}@BEFORE@
            }}
            #pragma clang loop unroll(full)
            for (uint i = 0; i < EARLIER / 2; ++i) {{
                {convolved("earlier", "i")}
                const auto given = {element("cotangent", "start + i - HALO")};
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    earlier[i].at[k] = given.at[k] * xlstm_silu_slope(sum.at[k]);
                }}
            }}
        }}
"""


def _pulled(*, continued: bool, activated: bool) -> str:
    """MSL of `window` and `pulled`, which is g; on the way, what the run adds to `sums`."""
    if activated:
        before = f""" else {{
                    earlier[k] = {element("states", "start + k - HALO")};
                }}"""
        earlier = _SHARE_EARLIER.replace("@BEFORE@", before if continued else "")
        of_values, of_cotangent = "earlier[EARLIER > 0 ? HALO + j : 0]", "earlier[j]"
        window = values_window(continued=continued, first=of_values)
        slope = f"""
                {convolved("window", "i")}
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    own.at[k] *= xlstm_silu_slope(sum.at[k]);
                }}"""
    else:
        earlier, window, slope = "", values_window(continued=continued), ""
        of_cotangent = element("cotangent", "start + j - HALO")
    return f"""
        {earlier}
        {window}
        Pack pulled[HALO + RUN] = {{}};
        const auto given = {run_of("cotangent")};
        #pragma clang loop unroll(full)
        for (uint i = 0; i < RUN; ++i) {{
            if (i < taken) {{
                Pack own = given.at[i];{slope}
                pulled[HALO + i] = own;
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    #pragma clang loop unroll(full)
                    for (uint j = 0; j < TAPS; ++j) {{
                        sums[j].at[k] =
                            metal::fma(own.at[k], window[i + j].at[k], sums[j].at[k]);
                    }}
                    sums[TAPS].at[k] += own.at[k];
                }}
            }}
        }}
        {halo("pulled", "pulled_ends", before="", first=of_cotangent)}
    """


_SUM_OVER_PLACES = """
    // Nobody reads the filters any more: there the sums of the places are added, one by one.
    for (uint turn = 0; turn < places; ++turn) {
        threadgroup_barrier(mem_flags::mem_threadgroup);
        #pragma clang loop unroll(full)
        for (uint j = 0; j <= TAPS; ++j) {
            #pragma clang loop unroll(full)
            for (uint k = 0; k < PACK; ++k) {
                if (place == turn) {
                    filters[j][lane].at[k] =
                        (turn == 0 ? 0.0f : filters[j][lane].at[k]) + sums[j].at[k];
                }
            }
        }
    }
    threadgroup_barrier(mem_flags::mem_threadgroup);
    for (uint j = place; j <= TAPS; j += places) {
        const size_t row = static_cast<size_t>(threadgroup_position_in_grid.y) * (TAPS + 1) + j;
        const Pack total = filters[j][lane];
        if (present) {
            xlstm_store(block_sums + row * channels + channel, total);
        }
    }
"""


@functools.cache
def _kernel(biased: bool, continued: bool, final: bool, activated: bool) -> Kernel:
    """The kernel for an activation or none, and for which of the others matter to it."""
    options = {
        "_bias": biased,
        "_initial": continued,
        "_final": final,
        "_silu": activated,
    }
    chosen = "".join(name for name, chosen in options.items() if chosen)
    from_state = f"""
                if (end >= steps) {{
                    sum = {element("final_cotangent", "end - steps")};
                }}"""
    to_state = """else {
                    const size_t row = static_cast<size_t>(batch) * HALO + end;
                    xlstm_store(states_gradient + row * channels + channel, sum);
                }"""
    inputs = ("values", "weight", "cotangent", *(("bias",) * biased))
    states_at = slice(len(inputs), len(inputs) + continued)
    return Kernel(
        name="xlstm_causal_conv1d_gradient" + chosen,
        inputs=(*inputs, *(("states",) * continued), *(("final_cotangent",) * final)),
        outputs=("values_gradient", *(("states_gradient",) * continued), "block_sums"),
        launch=functools.partial(_launch, states_at),
        header=PACKS + (_SILU_SLOPE if activated else ""),
        contiguous_inputs=False,
        body=f"""
    // values, cotangent: (batch, steps, channels); weight: (channels, TAPS); bias: (channels);
    // states, final_cotangent: (batch, HALO, channels), all read through their strides;
    // values_gradient: as values, states_gradient: as states; block_sums: (threadgroups, TAPS + 1,
    // channels), those of the weights, the bias last. Outputs are contiguous.
    {beginning(biased=biased)}
    {shared_ends("ends")}
    {shared_ends("pulled_ends")}
    Pack sums[TAPS + 1] = {{}};
    for (uint round = 0; round < rounds; ++round) {{
        {ROUND}
        {_pulled(continued=continued, activated=activated)}
        #pragma clang loop unroll(full)
        for (uint i = 0; i < RUN + HALO; ++i) {{
            // Of the step end - HALO. The last run has those that no other run comes to.
            const uint end = start + i;
            if (active && end < steps + HALO && (i < RUN || start + RUN >= steps)) {{
                Pack sum = {{}};{from_state if final else ""}
                #pragma clang loop unroll(full)
                for (uint j = i < RUN ? 0 : i - RUN + 1; j < TAPS; ++j) {{
                    #pragma clang loop unroll(full)
                    for (uint k = 0; k < PACK; ++k) {{
                        sum.at[k] =
                            metal::fma(filter[j].at[k], pulled[i + HALO - j].at[k], sum.at[k]);
                    }}
                }}
                if (end >= HALO) {{
                    const size_t row = static_cast<size_t>(batch) * steps + (end - HALO);
                    xlstm_store(values_gradient + row * channels + channel, sum);
                }} {to_state if continued else ""}
            }}
        }}
    }}
    {_SUM_OVER_PLACES}
    """,
    )
