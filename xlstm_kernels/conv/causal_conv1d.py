"""Causal depthwise convolution: y_t = act(bias + sum_j w_j x_{t-(K-1)+j}) in each channel.

Every channel has its own w and bias. w_{K-1} meets x_t, and x before the first step is what
`initial_states` holds, or zero: the names and the order of Dao's causal-conv1d (Tri Dao, 2023),
channels last. xLSTM's mLSTM block makes q and k of it, with K = 4 and silu (Beck et al., 2024).
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.arguments import require_floating
from xlstm_kernels.conv.arguments import require_activation, require_filter
from xlstm_kernels.differentiation import Arrays, Operation, differentiable, gradient_of
from xlstm_kernels.kernel import Kernel, Launch

_SIMD_WIDTH = 32


def causal_conv1d(
    x: mx.array,
    weight: mx.array,
    bias: mx.array | None = None,
    initial_states: mx.array | None = None,
    return_final_states: bool = False,
    activation: str | None = None,
    *,
    backend: str | None = None,
) -> mx.array | tuple[mx.array, mx.array]:
    """Convolve each channel of `x` with its own filter, which sees the present and the past.

    Computed in float32 and rounded once. A sequence in pieces, each begun with the state that the
    piece before it ended with, gives what the whole gives, bit for bit. Differentiable in every
    array. `x` is read as it lies: a transposed view is not copied.

    Args:
        x: (B, S, C); float32, float16 or bfloat16. B, S and C may be 0.
        weight: (C, K) of any of these dtypes, 1 <= K <= 32; weight[:, K-1] meets the present step.
        bias: (C,) of any of these dtypes, or None for none.
        initial_states: (B, K-1, C) of any of these dtypes, the K-1 steps before the first of x, the
            latest last; None for zeros.
        return_final_states: whether to return the state after the last step as well.
        activation: None; or "silu", also called "swish": y sigmoid(y).
        backend: `"metal"`, `"native"` (MLX operations), or None for Metal where it is available and
            the GPU is the default device. Inside `mx.vmap` and `mx.jvp` it must be `"native"`,
            since MLX refuses kernels there.

    Returns:
        y (B, S, C) in the dtype of x; with `return_final_states` the pair (y, states): states
        (B, K-1, C), the last K-1 steps of initial_states and x one after the other, in the dtype of
        x. What fewer than K-1 steps leave of the initial states is in it.

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit, K > 32, an unknown activation, an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    require_floating("causal_conv1d", "x", x)
    if x.ndim != 3:
        raise ValueError(f"causal_conv1d: x must be (B, S, C), channels last, got {x.shape}")
    require_filter("causal_conv1d", x, weight, bias, ("initial_states", initial_states))
    require_activation("causal_conv1d", activation)
    operation = _causal_conv1d(
        executors.resolve(backend),
        bias is not None,
        initial_states is not None,
        bool(return_final_states),
        activation is not None,
    )
    given = (array for array in (bias, initial_states) if array is not None)
    result: mx.array | tuple[mx.array, mx.array] = operation(x, weight, *given)
    return result


def causal_conv1d_reference(
    x: mx.array,
    weight: mx.array,
    bias: mx.array | None = None,
    initial_states: mx.array | None = None,
    activation: str | None = None,
) -> tuple[mx.array, mx.array]:
    """`causal_conv1d` in MLX operations: y and the final states, as a sum of shifted products.

    Not `mx.conv1d`: a GPU may multiply its float32 in TF32 (`MLX_ENABLE_TF32`).
    """
    (batch, steps, channels), width = x.shape, weight.shape[1]
    if initial_states is None:
        initial_states = mx.zeros((batch, width - 1, channels), dtype=x.dtype)
    rows = mx.concatenate([initial_states.astype(mx.float32), x.astype(mx.float32)], axis=1)
    taps = weight.astype(mx.float32)
    convolved = rows[:, :steps] * taps[:, 0]
    for tap in range(1, width):
        convolved = convolved + rows[:, tap : tap + steps] * taps[:, tap]
    if bias is not None:
        convolved = convolved + bias.astype(mx.float32)
    if activation is not None:
        convolved = convolved * mx.sigmoid(convolved)
    return convolved.astype(x.dtype), rows[:, steps:].astype(x.dtype)


# --- Metal -------------------------------------------------------------------------------------

# A thread takes a run of RUN steps of one channel; the lanes of a simdgroup take neighbouring
# channels. Its steps, and the K-1 before them, the halo, are in its registers. The simdgroups of a
# threadgroup take runs that follow each other, through one sequence and into the next; they share
# the filters, and hand on the ends of their runs, through threadgroup memory. So only the first
# run of a threadgroup reads its halo from x, and all other elements of x are read once.

_STEPS_OF_A_RUN = 16
_STEPS_OF_A_LONG_RUN = 32  # a run has to hold the halo of the next one
_STEPS_OF_A_ROUND = 128
_MOST_SIMDGROUPS = 8
_STEPS_FOR_A_TAP = 24  # read by a threadgroup at least, if there are: the rest is then below 10 %


def _launch(final_states: bool, values: mx.array, weight: mx.array, *_others: mx.array) -> Launch:
    """A row of simdgroups for each 32 channels, in threadgroups that take rounds of runs."""
    (batch, steps, channels), width = values.shape, weight.shape[1]
    if steps == 1:
        run, places = 1, _MOST_SIMDGROUPS
    else:
        run = _STEPS_OF_A_RUN if width <= _STEPS_OF_A_RUN else _STEPS_OF_A_LONG_RUN
        places = _STEPS_OF_A_ROUND // run
    all_runs = batch * math.ceil(steps / run)
    simdgroups = max(min(places, all_runs), 1)
    steps_of_a_round = simdgroups * (min(steps, run) + width - 1)
    rounds = math.ceil(_STEPS_FOR_A_TAP * width / steps_of_a_round)
    threadgroups = math.ceil(all_runs / (simdgroups * rounds))
    lanes = math.ceil(channels / _SIMD_WIDTH) * _SIMD_WIDTH
    states = ((batch, width - 1, channels),) if final_states else ()
    return Launch(
        grid=(lanes, threadgroups * simdgroups, 1),
        threadgroup=(_SIMD_WIDTH, simdgroups, 1),
        output_shapes=(values.shape, *states),
        output_dtypes=(values.dtype,) * (1 + len(states)),
        template=(("T", values.dtype), ("TAPS", width), ("RUN", run), ("PLACES", places)),
    )


_SILU = """
    inline float xlstm_activation(float value) {
        return value / (1.0f + metal::precise::exp(-value));
    }
"""
_IDENTITY = """
    inline float xlstm_activation(float value) {
        return value;
    }
"""

# What the body has only with a bias, with initial states, with final states.
_BIAS = "static_cast<float>(bias[channel * bias_strides[0]])"
_INITIAL_STATE = """static_cast<float>(states[
                    batch * states_strides[0] + j * states_strides[1] + channel * states_strides[2]
                ])"""
_WRITE_FINAL_STATES = """
            // The last HALO steps are with the thread of the last run: window[i] is the step
            // start + i - HALO.
            #pragma clang loop unroll(full)
            for (uint i = 0; i < HALO + RUN; ++i) {
                const uint end = start + i;
                if (start + RUN >= steps && end >= steps && end < steps + HALO) {
                    const size_t row = static_cast<size_t>(batch) * HALO + (end - steps);
                    final_states[row * channels + channel] = static_cast<T>(window[i]);
                }
            }
"""


@functools.cache
def _kernel(biased: bool, continued: bool, final_states: bool, activated: bool) -> Kernel:
    """The kernel with or without a bias, initial states, final states, and silu."""
    options = {
        "_bias": biased,
        "_initial": continued,
        "_final": final_states,
        "_silu": activated,
    }
    return Kernel(
        name="xlstm_causal_conv1d" + "".join(name for name, chosen in options.items() if chosen),
        inputs=("values", "weight", *(("bias",) * biased), *(("states",) * continued)),
        outputs=("convolved", *(("final_states",) * final_states)),
        launch=functools.partial(_launch, final_states),
        header=_SILU if activated else _IDENTITY,
        contiguous_inputs=False,
        body=f"""
    // values: (batch, steps, channels); weight: (channels, TAPS); bias: (channels); states:
    // (batch, HALO, channels), all read through their strides; convolved: as values,
    // final_states: as states, both contiguous.
    constexpr uint HALO = TAPS - 1;
    threadgroup float filters[TAPS + 1][32];  // the bias last
    threadgroup float ends[RUN > 1 ? PLACES : 1][HALO > 0 ? HALO : 1][32];
    const uint lane = thread_position_in_threadgroup.x;
    const uint place = thread_position_in_threadgroup.y;
    const uint places = threads_per_threadgroup.y;
    const uint channel = thread_position_in_grid.x;
    const uint steps = values_shape[1];
    const uint channels = values_shape[2];
    const bool present = channel < channels;

    for (uint j = place; j <= TAPS; j += places) {{
        float number = 0.0f;
        if (present) {{
            number = j == TAPS ? {_BIAS if biased else "0.0f"} : static_cast<float>(
                weight[channel * weight_strides[0] + j * weight_strides[1]]);
        }}
        filters[j][lane] = number;
    }}
    threadgroup_barrier(mem_flags::mem_threadgroup);
    float filter[TAPS];
    #pragma clang loop unroll(full)
    for (uint j = 0; j < TAPS; ++j) {{
        filter[j] = filters[j][lane];
    }}
    const float offset = filters[TAPS][lane];

    const uint runs = (steps + RUN - 1) / RUN;  // of each sequence
    const uint all_runs = runs * values_shape[0];
    const uint places_of_a_round = places * threadgroups_per_grid.y;
    const uint rounds = (all_runs + places_of_a_round - 1) / places_of_a_round;
    for (uint round = 0; round < rounds; ++round) {{
        const uint index = (threadgroup_position_in_grid.y * rounds + round) * places + place;
        const bool active = present && index < all_runs;
        const uint batch = index / runs;
        const uint start = (index - batch * runs) * RUN;
        const auto column =
            values + (batch * values_strides[0] + channel * values_strides[2]);

        float window[HALO + RUN];
        #pragma clang loop unroll(full)
        for (uint i = 0; i < RUN; ++i) {{
            window[HALO + i] = active && start + i < steps
                ? static_cast<float>(column[(start + i) * values_strides[1]]) : 0.0f;
        }}
        #pragma clang loop unroll(full)
        for (uint j = 0; j < HALO; ++j) {{
            window[j] = 0.0f;
            if (active && start == 0) {{
                window[j] = {_INITIAL_STATE if continued else "0.0f"};
            }} else if (active && place == 0) {{
                // ends still holds those of the round before
                window[j] = round == 0
                    ? static_cast<float>(column[(start + j - HALO) * values_strides[1]])
                    : ends[places - 1][j][lane];
            }}
        }}
        if (runs > 1) {{
            threadgroup_barrier(mem_flags::mem_threadgroup);
            #pragma clang loop unroll(full)
            for (uint j = 0; j < HALO; ++j) {{
                ends[place][j][lane] = window[RUN + j];
            }}
            threadgroup_barrier(mem_flags::mem_threadgroup);
            #pragma clang loop unroll(full)
            for (uint j = 0; j < HALO; ++j) {{
                if (place > 0 && start > 0) {{
                    window[j] = ends[place - 1][j][lane];
                }}
            }}
        }}

        if (active) {{
            const size_t first = (static_cast<size_t>(batch) * steps + start) * channels + channel;
            #pragma clang loop unroll(full)
            for (uint i = 0; i < RUN; ++i) {{
                // Always the same order and rounding, so that pieces give what the whole gives.
                float sum = offset;
                #pragma clang loop unroll(full)
                for (uint j = 0; j < TAPS; ++j) {{
                    sum = metal::fma(filter[j], window[i + j], sum);
                }}
                if (start + i < steps) {{
                    convolved[first + static_cast<size_t>(i) * channels] =
                        static_cast<T>(xlstm_activation(sum));
                }}
            }}{_WRITE_FINAL_STATES if final_states else ""}
        }}
    }}
    """,
    )


@functools.cache
def _causal_conv1d(
    backend: str, biased: bool, continued: bool, final_states: bool, activated: bool
) -> Operation:
    """The differentiable operation (x, weight[, bias][, initial states]) -> y[, final states]."""

    def reference(x: mx.array, weight: mx.array, *given: mx.array) -> mx.array | Arrays:
        bias = given[0] if biased else None
        states = given[-1] if continued else None
        activation = "silu" if activated else None
        both = causal_conv1d_reference(x, weight, bias, states, activation)
        return both if final_states else both[0]

    def launch(x: mx.array, weight: mx.array, *given: mx.array) -> mx.array | Arrays:
        if not x.shape[1]:
            return reference(x, weight, *given)  # states, and nothing to compute
        if weight.shape[1] > 1:
            kernel = _kernel(biased, continued, final_states, activated)
            outputs = kernel(x, weight, *given, backend=backend)
            return outputs if final_states else outputs[0]
        # A filter that sees no past has states without elements: nothing to bind to a kernel.
        kernel = _kernel(biased, False, False, activated)
        (convolved,) = kernel(x, weight, *given[: int(biased)], backend=backend)
        empty = mx.zeros((x.shape[0], 0, x.shape[2]), dtype=x.dtype)
        return (convolved, empty) if final_states else convolved

    forward = reference if backend == executors.NATIVE else launch
    return differentiable(forward, gradient_of(reference))
