"""Causal depthwise convolution: y_t = act(bias + sum_j w_j x_{t-(K-1)+j}) in each channel.

Every channel has its own w and bias. w_{K-1} is multiplied with x_t, and x before the first step
is `initial_states`, or zero: the names and the order of Dao's causal-conv1d (Tri Dao, 2023),
channels last. xLSTM's mLSTM block makes q and k of it, with K = 4 and silu (Beck et al., 2024).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace

import mlx.core as mx

from xlstm_kernels.arguments import require_choice, require_floating
from xlstm_kernels.conv.arguments import ACTIVATIONS, require_filter
from xlstm_kernels.conv.causal_conv1d_gradient import gradient_call
from xlstm_kernels.conv.causal_runs import (
    RESIDENT_THREADGROUPS,
    ROUND,
    ConvOptions,
    beginning,
    convolved,
    counted_taps,
    counts,
    runs,
    shared_ends,
    values_window,
)
from xlstm_kernels.differentiation import Arrays, Operation, selected, with_gradient_kernel
from xlstm_kernels.executors import NATIVE, StreamLike, on_stream, resolve
from xlstm_kernels.kernel import Kernel, Launch
from xlstm_kernels.msl import PACKS
from xlstm_kernels.packing import require_seq_idx


@on_stream
def causal_conv1d(
    x: mx.array,
    weight: mx.array,
    bias: mx.array | None = None,
    initial_states: mx.array | None = None,
    return_final_states: bool = False,
    activation: str | None = None,
    *,
    seq_idx: mx.array | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array | tuple[mx.array, mx.array]:
    """Convolve each channel of `x` with its own filter, which sees the present and the past.

    Computed in float32 and rounded once. A sequence in pieces, each begun with the state that the
    piece before it ended with, gives what the whole gives, bit for bit. Differentiable any number
    of times, in every array. `x` is read as it lies: a transposed view is not copied.

    Args:
        x: (B, S, C); float32, float16 or bfloat16. B, S and C may be 0.
        weight: (C, K) of any of these dtypes, 1 <= K <= 32; weight[:, K-1] applies to the
            current step.
        bias: (C,) of any of these dtypes, or None for none.
        initial_states: (B, K-1, C) of any of these dtypes, the K-1 steps before the first of x, the
            latest last; None for zeros.
        return_final_states: whether to return the state after the last step as well.
        activation: None; or "silu", also called "swish": y sigmoid(y).
        seq_idx: (B, S) integers, for sequences packed into one row: a step sees only steps
            with its number. Steps with a negative one are padding, whose y is zero. It allows
            neither initial nor final states, as in Dao's package.
        backend: "metal", "cuda", "native" (MLX operations; `mx.vmap` needs it), or None to choose.

    Returns:
        y (B, S, C) in the dtype of x; with `return_final_states` the pair (y, states): states
        (B, K-1, C), the last K-1 steps of initial_states and x one after the other, in the dtype of
        x. What fewer than K-1 steps leave of the initial states is in it.

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit, K > 32, an unknown activation, an unknown backend,
            and for states with `seq_idx`.
        RuntimeError: for a backend that cannot run here.
    """
    require_floating("causal_conv1d", "x", x)
    if x.ndim != 3:
        raise ValueError(f"causal_conv1d: x must be (B, S, C), channels last, got {x.shape}")
    require_filter("causal_conv1d", x, weight, bias, ("initial_states", initial_states))
    require_choice("causal_conv1d", "activation", activation, ACTIVATIONS)
    options = ConvOptions(
        bias is not None,
        initial_states is not None,
        bool(return_final_states),
        seq_idx is not None,
        activation is not None,
    )
    if seq_idx is not None:
        require_seq_idx("causal_conv1d", seq_idx, (x.shape[0], x.shape[1]))
        if options.continued or options.final:
            raise ValueError("causal_conv1d: seq_idx allows neither initial nor final states")
    resolved = resolve(backend)
    if not x.size:
        # On a CPU, MLX 0.32 may never end the sums over an empty axis that gradients would be.
        y, unchanged = mx.zeros_like(x), initial_states
        if unchanged is None:
            unchanged = mx.zeros((x.shape[0], weight.shape[1] - 1, x.shape[2]))
        return (y, unchanged.astype(x.dtype)) if return_final_states else y
    if weight.shape[1] == 1:
        # A filter that sees no past has states without elements: nothing to bind to a kernel.
        options, initial_states = replace(options, continued=False, final=False), None
    given = (array for array in (bias, initial_states, seq_idx) if array is not None)
    result: mx.array | tuple[mx.array, mx.array] = _causal_conv1d(resolved, options)(
        x, weight, *given
    )
    if isinstance(result, mx.array) and return_final_states:
        return result, mx.zeros((x.shape[0], 0, x.shape[2]), dtype=x.dtype)
    return result


def causal_conv1d_reference(
    x: mx.array,
    weight: mx.array,
    bias: mx.array | None = None,
    initial_states: mx.array | None = None,
    activation: str | None = None,
    seq_idx: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """`causal_conv1d` in MLX operations: y and the final states, as a sum of shifted products.

    Not `mx.conv1d`: a GPU may multiply its float32 in TF32 (`MLX_ENABLE_TF32`).
    """
    (batch, steps, channels), width = x.shape, weight.shape[1]
    if initial_states is None:
        initial_states = mx.zeros((batch, width - 1, channels), dtype=x.dtype)
    rows = mx.concatenate([initial_states.astype(mx.float32), x.astype(mx.float32)], axis=1)
    taps = weight.astype(mx.float32)
    seen = [rows[:, tap : tap + steps] for tap in range(width)]
    if seq_idx is not None:
        seen = _of_own_sequence(seen, seq_idx)
    convolved = seen[0] * taps[:, 0]
    for tap in range(1, width):
        convolved = convolved + seen[tap] * taps[:, tap]
    if bias is not None:
        convolved = convolved + bias.astype(mx.float32)
    if activation is not None:
        convolved = convolved * mx.sigmoid(convolved)
    if seq_idx is not None:
        in_sequence = seq_idx >= mx.zeros_like(seq_idx)
        convolved = selected(mx.expand_dims(in_sequence, axis=2), convolved)
    return convolved.astype(x.dtype), rows[:, steps:].astype(x.dtype)


def _of_own_sequence(seen: list[mx.array], seq_idx: mx.array) -> list[mx.array]:
    """Return `seen`, (B, S, C) for each tap, with zeros of other sequences and in padding."""
    steps = seq_idx.shape[1]
    # x is zero before the first step, whatever the number.
    numbers = mx.pad(seq_idx, [(0, 0), (len(seen) - 1, 0)])
    shifted = (numbers[:, tap : tap + steps] for tap in range(len(seen)))
    in_sequence = seq_idx >= mx.zeros_like(seq_idx)
    return [
        selected(mx.expand_dims(mx.logical_and(in_sequence, own == seq_idx), axis=2), rows)
        for own, rows in zip(shifted, seen, strict=True)
    ]


# --- Metal -------------------------------------------------------------------------------------


def _launch(options: ConvOptions, values: mx.array, weight: mx.array, *others: mx.array) -> Launch:
    (batch, _, channels), width = values.shape, weight.shape[1]
    states = ((batch, width - 1, channels), values.dtype)
    outputs = ((values.shape, values.dtype), *((states,) * options.final))
    template = (("NumberT", others[-1].dtype),) if options.packed else ()
    return runs(values, width).launch(width, values.dtype, outputs, template)


_SILU = """
    inline float xlstm_activation(float value) {
        return metal::fast::divide(value, 1.0f + metal::fast::exp(-value));
    }
"""
_IDENTITY = """
    inline float xlstm_activation(float value) {
        return value;
    }
"""
_WRITE_FINAL_STATES = """
            // The last HALO steps are with the thread of the last run: window[i] is the step
            // start + i - HALO.
            #pragma clang loop unroll(full)
            for (uint i = 0; i < HALO + RUN; ++i) {
                const uint end = start + i;
                if (start + RUN >= steps && end >= steps && end < steps + HALO) {
                    const size_t row = static_cast<size_t>(batch) * HALO + (end - steps);
                    xlstm_store(final_states + row * channels + channel, window[i]);
                }
            }
"""


_NO_PADDING = f"""
                if (!({counts("taps", "HALO", "HALO + i")})) {{
                    sum = Pack{{}};
                }}"""


@functools.cache
def conv_kernel(options: ConvOptions) -> Kernel:
    """The kernel with or without a bias, initial states, final states, silu, and `seq_idx`."""
    continued, packed = options.continued, options.packed
    inputs = {"bias": options.biased, "states": continued, "seq_idx": packed}
    return Kernel(
        name=options.named("xlstm_causal_conv1d"),
        inputs=("values", "weight", *(name for name, given in inputs.items() if given)),
        outputs=("convolved", *(("final_states",) * options.final)),
        launch=functools.partial(_launch, options),
        header=PACKS + (_SILU if options.activated else _IDENTITY),
        contiguous_inputs=False,
        resident_threadgroups=RESIDENT_THREADGROUPS,
        body=f"""
    // values: (batch, steps, channels); weight: (channels, TAPS); bias: (channels); states:
    // (batch, HALO, channels); seq_idx: (batch, steps), all read through their strides; convolved:
    // as values, final_states: as states, both contiguous.
    {beginning(biased=options.biased)}
    {shared_ends("ends")}
    for (uint round = 0; round < rounds; ++round) {{
        {ROUND}
        {counted_taps("taps", before="HALO", size="HALO + RUN") if packed else ""}
        {values_window(continued=continued)}
        if (active) {{
            const size_t first = (static_cast<size_t>(batch) * steps + start) * channels + channel;
            #pragma clang loop unroll(full)
            for (uint i = 0; i < RUN; ++i) {{
                {convolved("window", "i", "taps" * packed)}
                #pragma clang loop unroll(full)
                for (uint k = 0; k < PACK; ++k) {{
                    sum.at[k] = xlstm_activation(sum.at[k]);
                }}{_NO_PADDING if packed else ""}
                if (i < taken) {{
                    xlstm_store(convolved + first + static_cast<size_t>(i) * channels, sum);
                }}
            }}{_WRITE_FINAL_STATES if options.final else ""}
        }}
    }}
    """,
    )


def _named(
    options: ConvOptions, arrays: Sequence[mx.array]
) -> tuple[mx.array, mx.array, mx.array | None, mx.array | None, mx.array | None]:
    """x, weight, bias, initial states and `seq_idx`, or None, of the arrays of a call."""
    x, weight, *given = arrays
    bias = given[0] if options.biased else None
    last = given[-1] if given else None
    return x, weight, bias, last if options.continued else None, last if options.packed else None


def _reference(options: ConvOptions, *arrays: mx.array) -> mx.array | Arrays:
    """`causal_conv1d_reference` with them: y, and the final states if these are asked for."""
    x, weight, bias, states, seq_idx = _named(options, arrays)
    activation = "silu" if options.activated else None
    both = causal_conv1d_reference(x, weight, bias, states, activation, seq_idx)
    return both if options.final else both[0]


@functools.cache
def _causal_conv1d(backend: str, options: ConvOptions) -> Operation:
    """The differentiable (x, weight[, bias][, initial states | seq_idx]) -> y[, final states]."""
    reference = functools.partial(_reference, options)
    if backend == NATIVE:
        return reference

    def launch(*arrays: mx.array) -> mx.array | Arrays:
        outputs = conv_kernel(options)(*arrays, backend=backend)
        return outputs if options.final else outputs[0]

    def pull_back(primals: Arrays, cotangents: Arrays) -> Arrays:
        x, weight, bias, states, seq_idx = _named(options, primals)
        cotangent, *final = cotangents
        optional = (bias, states, final[0] if final else None, seq_idx)
        kernel, given = gradient_call(optional, activated=options.activated)
        in_x, *in_states, block_sums = kernel(x, weight, cotangent, *given, backend=backend)
        sums = mx.sum(block_sums, axis=0)
        in_weight = sums[:-1].transpose(1, 0).astype(weight.dtype)
        in_bias = () if bias is None else (sums[-1].astype(bias.dtype),)
        in_numbers = () if seq_idx is None else (mx.zeros_like(seq_idx),)
        return (in_x, in_weight, *in_bias, *in_states, *in_numbers)

    return with_gradient_kernel(backend, launch, reference, pull_back, operator="causal_conv1d")
