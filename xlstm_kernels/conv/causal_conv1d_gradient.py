"""All gradients of the causal convolution in one kernel, which reads x and dy once.

With z what the activation gets, x and its halo as in `causal_conv1d`, and d(state) for the
cotangent of the final states:

    g_t = dy_t act'(z_t)  (zero before the first step and after the last one)
    dx_t = sum_j w_j g_{t+K-1-j}, with d(state) added where x_t is in the final states
    dw_j = sum over sequences and steps of g_t x_{t-(K-1)+j},  dbias = that of g_t

With `seq_idx`, the sums leave out taps on steps of another sequence, and g is zero in padding.

silu'(z) = s + z s (1 - s), s = sigmoid(z). z is computed anew: to read it would cost as much memory
as x.
"""

from __future__ import annotations

import functools
from typing import TypeVar

import mlx.core as mx

from xlstm_kernels.conv.causal_runs import (
    RESIDENT_THREADGROUPS,
    ROUND,
    ConvOptions,
    beginning,
    convolved,
    counted_taps,
    counts,
    element,
    halo,
    halo_of,
    pointer,
    read_halo,
    run_of,
    runs,
    shared_ends,
    values_window,
)
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import PACKS

#: Of MLX or of PyTorch.
ArrayT = TypeVar("ArrayT")


def gradient_call(
    optional: tuple[ArrayT | None, ...], *, activated: bool
) -> tuple[Kernel, list[ArrayT]]:
    """The kernel for bias, states, `final_cotangent` and `seq_idx`, and those that it reads.

    It also reads x, weight and the cotangent of y, and gives the gradients in x and the states that
    there are, and sums over blocks of those in the weights and, last, the bias.
    """
    bias, *others = optional
    # Without an activation the bias is in no gradient.
    read = (bias if activated else None, *others)
    biased, continued, final, packed = (array is not None for array in read)
    kernel = conv_gradient_kernel(ConvOptions(biased, continued, final, packed, activated))
    return kernel, [array for array in read if array is not None]


# --- Metal -------------------------------------------------------------------------------------

# The layout of `causal_runs`, in time as well: a thread takes the gradients of the steps from HALO
# before its run on, which are those that its g is the last to count for. Its g, and those of its
# halo, are in registers as x is. So gradients of the initial states come out as those of steps
# before the first, and the thread of the last run goes on to the last step. Each threadgroup sums
# up what its runs have for the weights.


def _launch(options: ConvOptions, *inputs: mx.array) -> Launch:
    values, weight, _, *given = inputs
    (_, _, channels), width = values.shape, weight.shape[1]
    laid = runs(values, width, windows=2)
    states = given[options.biased :][: int(options.continued)]
    sums = ((laid.threadgroups, width + 1, channels), mx.float32)
    outputs = ((values.shape, values.dtype), *((s.shape, s.dtype) for s in states), sums)
    dtypes = [("StateT", state.dtype) for state in states]
    if options.packed:
        dtypes.append(("NumberT", given[-1].dtype))
    return laid.launch(width, values.dtype, outputs, tuple(dtypes))


_SILU_SLOPE = """
    // silu'(z) = s + z s (1 - s), s = sigmoid(z): where 1 - s has no digits, 1 is added to it.
    inline float xlstm_silu_slope(float value) {
        const float opened = metal::fast::divide(1.0f, 1.0f + metal::fast::exp(-value));
        return opened * metal::fma(value, 1.0f - opened, 1.0f);
    }
"""

_PULL_HALO = f"""
            // Nobody gives it the g of its halo either: that needs x from 2 HALO before the run on.
            const auto given_before = {halo_of("cotangent")};
            const auto far = xlstm_load_packs<SPAN, PACK>(
                {pointer("values", "static_cast<int64_t>(start) - HALO - 1")},
                -values_strides[1], values_strides[2], metal::min(HALO, start - HALO));
            Pack earlier[2 * SPAN];
            #pragma clang loop unroll(full)
            for (uint j = 0; j < HALO; ++j) {{
                earlier[j] = far.at[HALO - 1 - j];
                earlier[HALO + j] = window[j];
            }}
            @STATES@
            #pragma clang loop unroll(full)
            for (uint i = 0; i < HALO; ++i) {{
                @CONVOLVED@
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    pulled[i].at[k] = given_before.at[i].at[k] * xlstm_silu_slope(sum.at[k]);
                }}
            }}
"""
_EARLIER_TAPS = counted_taps("earlier_taps", before="2 * HALO", size="2 * SPAN")
_NO_PADDING_IN_HALO = f"""
            #pragma clang loop unroll(full)
            for (uint j = 0; j < HALO; ++j) {{
                if (!({counts("taps", "HALO", "j")})) {{
                    pulled[j] = Pack{{}};
                }}
            }}
"""
_STATES_OF_HALO = f"""
            for (uint j = 0; j < HALO; ++j) {{
                if (start + j < 2 * HALO) {{
                    earlier[j] = {element("states", "start + j - HALO")};
                }}
            }}
"""


def _pulled(options: ConvOptions) -> str:
    """MSL of `window` and `pulled`, which is g; on the way, what the run adds to `sums`."""
    packed = options.packed
    if options.activated:
        filtered = convolved("earlier", "i", "earlier_taps" * packed)
        states = _STATES_OF_HALO if options.continued else ""
        first = _PULL_HALO.replace("@STATES@", states).replace("@CONVOLVED@", filtered)
        slope = f"""
                {convolved("window", "i", "taps" * packed)}
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    own.at[k] *= xlstm_silu_slope(sum.at[k]);
                }}"""
    else:
        first, slope = read_halo("cotangent", "pulled"), ""
    return f"""
        {counted_taps("taps", before="HALO", size="HALO + RUN") if packed else ""}
        {values_window(continued=options.continued)}
        Pack pulled[HALO + RUN] = {{}};
        const auto given = {run_of("cotangent")};
        #pragma clang loop unroll(full)
        for (uint i = 0; i < RUN; ++i) {{
            if (i < taken{f" && {counts('taps', 'HALO', 'HALO + i')}" * packed}) {{
                Pack own = given.at[i];{slope}
                pulled[HALO + i] = own;
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    #pragma clang loop unroll(full)
                    for (uint j = 0; j < TAPS; ++j) {{
                        {f"if ({counts('taps', 'j', 'HALO + i')})" * packed}
                        sums[j].at[k] =
                            metal::fma(own.at[k], window[i + j].at[k], sums[j].at[k]);
                    }}
                    sums[TAPS].at[k] += own.at[k];
                }}
            }}
        }}
        {_EARLIER_TAPS if packed and options.activated else ""}
        {halo("pulled", "pulled_ends", before="", first=first + _NO_PADDING_IN_HALO * packed)}
    """


def _spread(first_tap: str, options: ConvOptions) -> str:
    """MSL of the gradient in x at the step start + i - HALO, of the taps from `first_tap` on."""
    from_state = f"""
            if (active && end >= steps && end < steps + HALO) {{
                sum = {element("final_cotangent", "end - steps")};
            }}"""
    to_state = """ else if (active && end < HALO) {
                const size_t row = static_cast<size_t>(batch) * HALO + end;
                xlstm_store(states_gradient + row * channels + channel, sum);
            }"""
    return f"""
            const uint end = start + i;
            Pack sum = {{}};{from_state if options.final else ""}
            #pragma clang loop unroll(full)
            for (uint j = {first_tap}; j < TAPS; ++j) {{
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    {f"if ({counts('taps', 'j', 'i + HALO - j')})" * options.packed}
                    sum.at[k] = metal::fma(filter[j].at[k], pulled[i + HALO - j].at[k], sum.at[k]);
                }}
            }}
            if (active && end >= HALO && end < steps + HALO) {{
                xlstm_store(run_gradient + (static_cast<int64_t>(i) - HALO) * channels, sum);
            }}{to_state if options.continued else ""}
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
def conv_gradient_kernel(options: ConvOptions) -> Kernel:
    """The kernel for an activation or none, and for which of the others matter to it."""
    inputs = {
        "bias": options.biased,
        "states": options.continued,
        "final_cotangent": options.final,
        "seq_idx": options.packed,
    }
    return Kernel(
        name=options.named("xlstm_causal_conv1d_gradient"),
        inputs=("values", "weight", "cotangent", *(name for name in inputs if inputs[name])),
        outputs=("values_gradient", *(("states_gradient",) * options.continued), "block_sums"),
        launch=functools.partial(_launch, options),
        header=PACKS + (_SILU_SLOPE if options.activated else ""),
        contiguous_inputs=False,
        resident_threadgroups=RESIDENT_THREADGROUPS,
        body=f"""
    // values, cotangent: (batch, steps, channels); weight: (channels, TAPS); bias: (channels);
    // states, final_cotangent: (batch, HALO, channels); seq_idx: (batch, steps), all read through
    // their strides; values_gradient: as values, states_gradient: as states; block_sums:
    // (threadgroups, TAPS + 1, channels), those of the weights, the bias last. Outputs are
    // contiguous.
    {beginning(biased=options.biased)}
    {shared_ends("ends")}
    {shared_ends("pulled_ends")}
    Pack sums[TAPS + 1] = {{}};
    for (uint round = 0; round < rounds; ++round) {{
        {ROUND}
        {_pulled(options)}
        const auto run_gradient = values_gradient
            + (static_cast<int64_t>(batch) * steps + start) * channels + channel;
        #pragma clang loop unroll(full)
        for (uint i = 0; i < RUN; ++i) {{
            {_spread("0", options)}
        }}
        // The last run of a sequence has those steps that no other run comes to.
        if (start + RUN >= steps) {{
            #pragma clang loop unroll(full)
            for (uint i = RUN; i < RUN + HALO; ++i) {{
                {_spread("i - RUN + 1", options)}
            }}
        }}
    }}
    {_SUM_OVER_PLACES}
    """,
    )
