"""The sLSTM: a scalar memory a unit, exponential gates, and a recurrence among a head's units.

With the pre-activations g_t = Wx_t + R y_{t-1} + b of the gates i, f and o and of the candidate z,

    m_t = i_t if n_{t-1} = 0, else max(i_t, log sigmoid(f_t) + m_{t-1})
    i'_t = min(1, exp(i_t - m_t)),   f'_t = min(1, exp(log sigmoid(f_t) + m_{t-1} - m_t))
    c_t = f'_t c_{t-1} + i'_t tanh(z_t),   n_t = f'_t n_{t-1} + i'_t,   y_t = sigmoid(o_t) c_t / n_t

for every unit by itself (Beck et al., "xLSTM", 2024, equations 8 to 17; Poeppel et al., "FlashRNN",
2024). Where nothing was ever let in, n = 0, y is zero.

Only c exp(m) and n exp(m) are meaningful, and an m of 100 is accurate to 4e-6 in float32. Inside, m
is therefore a pair of floats. In the returned states m is rounded, and c and n are scaled by the
remainder: continuing from them loses nothing, however often a sequence is cut.
"""

from __future__ import annotations

import functools

import mlx.core as mx

from xlstm_kernels.arguments import require_floating, require_mask
from xlstm_kernels.differentiation import Arrays, Operation, gradient_of, on_backend
from xlstm_kernels.executors import NATIVE, StreamLike, on_stream, resolve
from xlstm_kernels.packing import sequence_begins
from xlstm_kernels.recurrent.slstm.arguments import (
    STATES,
    RecurrentGradient,
    initial_states,
    recurrent_gradient,
    require_inputs,
)
from xlstm_kernels.recurrent.slstm.gradient import slstm_gradient
from xlstm_kernels.recurrent.slstm.layout import MAX_CAPACITY, Shares, most_threads
from xlstm_kernels.recurrent.slstm.reference import slstm_reference
from xlstm_kernels.recurrent.slstm.sequence_kernel import KERNELS


@on_stream
def slstm(
    Wx: mx.array,  # the names are those of FlashRNN, as is the order
    R: mx.array,
    b: mx.array,
    states: mx.array | None = None,
    function: str = "slstm",
    *,
    backend: str | None = None,
    mask: mx.array | None = None,
    seq_idx: mx.array | None = None,
    gradient_recurrent_clipval: float | None = None,
    gradient_recurrent_cut: bool = False,
    stream: StreamLike = None,
) -> tuple[mx.array, mx.array]:
    """Run the sLSTM over a sequence: T steps of N heads with D units each.

    Everything inside is float32, and so are both results whatever the inputs are: y is one of four
    states in one array, and the others need the digits. Use `states[0].astype(Wx.dtype)` where the
    model goes on in half precision.

    Differentiable any number of times, in `Wx`, `R`, `b` and `states`. The first derivative is
    exact: it includes the stabiliser m, so that c, n and m may be used like y. It needs the states,
    which are the result, and computes the gates again, with float32's digits also on GPUs that
    multiply in TF32. With `backend="native"` the graph grows with T, and on such a GPU R y has the
    digits of TF32 in the forward pass. Derivatives of derivatives go through MLX operations on any
    backend. What is done to the gradient that R feeds back, below, is done in derivatives of any
    order.

    Args:
        Wx: (B, T, 4, N, D), what the input contributes to i, f, z and o, in this order; float32,
            float16 or bfloat16. It is read as it lies in memory, transposed or not. Any axis may
            be empty.
        R: (4, N, D, D), the recurrent weights of each head, indexed [gate, head, out, in]; any of
            these dtypes.
        b: (4, N, D), the bias; any of these dtypes.
        states: (4, B, 1, N, D) or (4, B, N, D), the initial y, c, n and m, in this order, any of
            these dtypes; what an earlier call returned as `last`, or None for zeros.
        function: only "slstm"; `flashrnn` takes "lstm" too.
        backend: "metal", "cuda", "native" (MLX operations; `mx.vmap` needs it), or None to choose.
        mask: (B, T) booleans, or None for all True. A step that is False leaves the states as they
            are, and its y is zero.
        seq_idx: (B, T) integers, for sequences packed into rows, or None for one a row. Where the
            number changes, a new sequence begins from zeros: all is as if it were alone, to the
            last bit. The first of a row goes on from `states`. Masked steps belong to none.
        gradient_recurrent_clipval: bring each element of the gradient that a y gets through R, the
            initial one included, into [-clipval, clipval]; None for no limit. Values do not change,
            and neither does what a y gets from elsewhere.
        gradient_recurrent_cut: take that gradient for zero. R itself has its gradient all the same.

    Returns:
        The states after each step, (4, B, T, N, D), and after the last, (4, B, 1, N, D); y, c, n
        and m, in this order, all float32. They differ in one point: where a step is masked, the
        first holds y = 0, and the second the y that the next step feeds back.

    Raises:
        TypeError: for a dtype that is not listed, a limit that is not a number, a cut that is not
            a bool, `seq_idx` that is not an array of integers.
        ValueError: for shapes that do not fit, another function, an unknown backend, a limit that
            is negative or not finite, and for more than 4096 units a head on any backend but
            `"native"`.
        RuntimeError: for a backend that cannot run here.
    """
    if function != "slstm":
        raise ValueError(
            f'slstm: function must be "slstm", got {function!r}; use flashrnn for "lstm"'
        )
    rule = recurrent_gradient("slstm", gradient_recurrent_clipval, gradient_recurrent_cut)
    return _slstm_of("slstm", (Wx, R, b), states, rule, backend, mask=mask, seq_idx=seq_idx)


@on_stream
def slstm_step(
    Wx_t: mx.array,
    R: mx.array,
    b: mx.array,
    states: mx.array | None = None,
    *,
    backend: str | None = None,
    gradient_recurrent_clipval: float | None = None,
    gradient_recurrent_cut: bool = False,
    stream: StreamLike = None,
) -> mx.array:
    """Run the sLSTM for one step, as a decoder does. It is differentiable as `slstm` is.

    Arguments and errors are those of `slstm`, but for the input of the step, Wx_t (B, 4, N, D). The
    gradient rule is for that in the initial y.

    Returns:
        The states after the step, float32: in the shape of `states`, (4, B, N, D) for None. The
        first of the four is y.
    """
    require_floating("slstm_step", "Wx_t", Wx_t)
    if Wx_t.ndim != 4:
        raise ValueError(f"slstm_step: Wx_t must be (B, 4, N, D), got {Wx_t.shape}")
    rule = recurrent_gradient("slstm_step", gradient_recurrent_clipval, gradient_recurrent_cut)
    sequence = mx.expand_dims(Wx_t, axis=1)
    _, last = _slstm_of("slstm_step", (sequence, R, b), states, rule, backend)
    return last.reshape(
        (STATES, Wx_t.shape[0], *Wx_t.shape[2:]) if states is None else states.shape
    )


def _slstm_of(
    operator: str,
    inputs: tuple[mx.array, mx.array, mx.array],
    states: mx.array | None,
    rule: RecurrentGradient,
    backend: str | None,
    *,
    mask: mx.array | None = None,
    seq_idx: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    require_inputs(operator, *inputs)
    Wx = inputs[0]
    require_mask(operator, mask, Wx.shape[:2], "(B, T)")
    batch, steps, _, heads, units = Wx.shape
    initial = initial_states(operator, states, (batch, heads, units))
    masks: Arrays = () if mask is None else (mask,)
    if seq_idx is not None:
        begins = sequence_begins(operator, seq_idx, mask, (batch, steps))
        masks = (mx.ones_like(begins) if mask is None else mask, begins)
    name = resolve(backend)
    if name != NATIVE and units > MAX_CAPACITY:
        raise ValueError(
            f"{operator}: a kernel holds at most {MAX_CAPACITY} units a head, got {units}; "
            "use backend='native'"
        )
    if not steps:
        nothing = mx.zeros((STATES, batch, 0, heads, units), dtype=mx.float32)
        return nothing, mx.expand_dims(initial, axis=2)
    after_each, last = _slstm(name, rule)(*inputs, initial, *masks)
    return after_each, mx.expand_dims(last, axis=2)


@functools.cache
def _slstm(backend: str, rule: RecurrentGradient) -> Operation:
    """The differentiable operation (Wx, R, b, initial, [mask, [begins]]) -> (states, last)."""
    reference = functools.partial(slstm_reference, rule=rule)

    def launch(gate_input: mx.array, recurrent: mx.array, *others: mx.array) -> Arrays:
        threads = most_threads(backend, recurrent.shape[-1])
        arranged = Shares.of(recurrent.shape[-1], threads).arranged(recurrent)
        laid_out = (mx.contiguous(array) for array in others)
        kernel = KERNELS[len(others) - 2]
        return kernel(gate_input, arranged, *laid_out, backend=backend, threads=threads)

    # Arrays are the primals, the two cotangents, and the states after each step.
    def gradient_of_values(executor: str, *arrays: mx.array) -> Arrays:
        *primals, states_cotangent, last_cotangent, states = arrays
        cotangents = states_cotangent, last_cotangent
        return slstm_gradient(tuple(primals), states, cotangents, rule, executor)

    # The states are a function of the primals, and count there.
    def same_by_reference(*arrays: mx.array) -> Arrays:
        inputs, masks, cotangents = arrays[:4], arrays[4:-3], arrays[-3:-1]
        gradients = gradient_of(lambda *inputs: reference(*inputs, *masks))(inputs, cotangents)
        return (*gradients, *(mx.zeros_like(mask) for mask in masks))

    gradient = on_backend(
        backend,
        functools.partial(gradient_of_values, backend),
        functools.partial(gradient_of_values, NATIVE),
        gradient_of(same_by_reference),
        operator="slstm",
    )

    def pull_back(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        gradients: Arrays = gradient(*primals, *cotangents, outputs[0])
        return gradients

    return on_backend(backend, launch, reference, pull_back, operator="slstm", of_outputs=True)
