"""The LSTM with the shapes of the sLSTM: N heads of D units, whose recurrence stays in the head.

With the pre-activations g_t = Wx_t + R y_{t-1} + b of the gates i, f and o and of the candidate z,

    c_t = sigmoid(f_t) c_{t-1} + sigmoid(i_t) tanh(z_t),   y_t = sigmoid(o_t) tanh(c_t)

(Hochreiter and Schmidhuber, 1997; Gers et al., 2000; Poeppel et al., "FlashRNN", 2024). It runs in
MLX operations, a few for each step. The kernels of the sLSTM are mostly its stabiliser, which the
LSTM lacks: one text for both would be harder to read than two. The gradient is written by hand. It
needs the states alone, and computes the gates of all steps again by one product.
"""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels import products
from xlstm_kernels.differentiation import Arrays, differentiable, gradient_of
from xlstm_kernels.recurrent.slstm.arguments import initial_states, require_inputs

_STATES = 2
_GATES = 4
_PLAIN = products.Products(mx.float32)


def lstm(
    Wx: mx.array,  # noqa: N803  # the names are those of FlashRNN, as is the order
    R: mx.array,  # noqa: N803
    b: mx.array,
    states: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """Run the LSTM over a sequence: T steps of N heads with D units each.

    Everything inside is float32, and so are both results. Differentiable any number of times. The
    graph grows with T.

    Args:
        Wx: (B, T, 4, N, D), what the input contributes to i, f, z and o, in this order; float32,
            float16 or bfloat16. Any axis may be empty.
        R: (4, N, D, D), the recurrent weights of each head, indexed [gate, head, out, in]; any of
            these dtypes.
        b: (4, N, D), the bias; any of these dtypes.
        states: (2, B, 1, N, D) or (2, B, N, D), the initial y and c, in this order, any of these
            dtypes; what an earlier call returned as `last`, or None for zeros.

    Returns:
        The states y and c after each step, (2, B, T, N, D), and after the last, (2, B, 1, N, D).

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit.
    """
    require_inputs("lstm", Wx, R, b)
    batch, steps, _, heads, units = Wx.shape
    initial = initial_states("lstm", states, (batch, heads, units), count=_STATES)
    if not Wx.size:
        nothing = mx.zeros((_STATES, batch, steps, heads, units), dtype=mx.float32)
        return nothing, mx.expand_dims(initial, axis=2)
    after_each = _lstm(Wx, R, b, initial)
    return after_each, after_each[:, :, -1:]


def lstm_reference(
    gate_input: mx.array,
    recurrent: mx.array,
    bias: mx.array,
    initial: mx.array,
    *,
    multiply: products.Products = _PLAIN,
) -> mx.array:
    """Return the states (2, B, T, N, D) of `lstm`.

    Args:
        gate_input: (B, T, 4, N, D), not empty.
        recurrent: (4, N, D, D), indexed [gate, head, out, in].
        bias: (4, N, D).
        initial: (2, B, N, D), y and c, float32.
        multiply: the product of R and y.
    """
    arriving = by_step(gate_input.astype(mx.float32) + bias.astype(mx.float32))
    weights = multiply.operand(by_head(recurrent)).transposed
    y, c = initial.transpose(0, 2, 1, 3)
    trace = []
    for arrival in arriving:
        y, c = _step(arrival + multiply.operand(y) @ weights, c)
        trace.append(mx.stack([y, c]))
    return mx.stack(trace, axis=2).transpose(0, 3, 2, 1, 4)


@mx.compile
def _step(gates: mx.array, c: mx.array) -> Arrays:
    """Return y and c after a step; gates are (N, B, 4 D)."""
    admit, forget, candidate, output = mx.split(gates, _GATES, axis=-1)
    c = mx.sigmoid(forget) * c + mx.sigmoid(admit) * mx.tanh(candidate)
    return mx.sigmoid(output) * mx.tanh(c), c


def by_step(gate_input: mx.array) -> list[mx.array]:
    """(B, T, G, N, D) as T arrays (N, B, G D)."""
    batch, steps, gates, heads, units = gate_input.shape
    whole = gate_input.transpose(1, 3, 0, 2, 4)
    # Split, not indexed: the gradient of each index would be as big as the whole.
    return list(mx.split(whole.reshape((steps * heads, batch, gates * units)), steps))


def by_head(recurrent: mx.array) -> mx.array:
    """(G, N, D, D) as (N, G D, D), float32."""
    gates, heads, units, _ = recurrent.shape
    by_head = recurrent.astype(mx.float32).transpose(1, 0, 2, 3)
    return by_head.reshape((heads, gates * units, units))


# --- the gradient ------------------------------------------------------------------------------


def _gradient(*arrays: mx.array) -> Arrays:
    """The gradients in Wx, R, b and the initial states, of these, the cotangent and the states."""
    gate_input, recurrent, bias, initial, cotangent, states = arrays
    batch, steps, gates, heads, units = gate_input.shape
    rows = batch * steps
    multiply = products.exact()
    weights = multiply.operand(by_head(recurrent))
    y_before, c_before = mx.concatenate([mx.expand_dims(initial, 2), states[:, :, :-1]], axis=2)
    heard = multiply.operand(y_before.reshape((rows, heads, units)).transpose(1, 0, 2))
    fed_back = (heard @ weights.transposed).reshape((heads, batch, steps, gates, units))
    arriving = gate_input.astype(mx.float32) + bias.astype(mx.float32)
    admit, forget, candidate, output = mx.moveaxis(
        arriving + fed_back.transpose(1, 2, 3, 0, 4), 2, 0
    )
    factors = _factors(admit, forget, candidate, output, c_before, states[1])
    # From (B, T, N, D) each to (N, B, D), those of a step together.
    parts = mx.stack([*cotangent, *factors]).transpose(2, 0, 3, 1, 4)
    parts = mx.split(parts.reshape((-1, batch, units)), (_STATES + len(factors)) * steps)
    y, c = mx.zeros((_STATES, heads, batch, units), dtype=mx.float32)
    trace = []
    for step in reversed(range(steps)):
        begin = (_STATES + len(factors)) * step
        slopes, c = _step_back(y, c, *parts[begin : begin + _STATES + len(factors)])
        trace.append(slopes)
        y = multiply.operand(slopes) @ weights
    slopes = mx.stack(trace[::-1], axis=2)  # (N, B, T, 4 D)
    flat = multiply.operand(slopes.reshape((heads, rows, gates * units)))
    by_weights = (flat.transposed @ heard).reshape((heads, gates, units, units))
    by_gates = slopes.reshape((heads, batch, steps, gates, units)).transpose(1, 2, 3, 0, 4)
    return (
        by_gates.astype(gate_input.dtype),
        by_weights.transpose(1, 0, 2, 3).astype(recurrent.dtype),
        mx.sum(slopes.reshape((heads, rows, gates, units)), axis=1)
        .transpose(1, 0, 2)
        .astype(bias.dtype),
        mx.stack([y, c]).transpose(0, 2, 1, 3),
    )


def _factors(
    admit: mx.array,
    forget: mx.array,
    candidate: mx.array,
    output: mx.array,
    c_before: mx.array,
    c: mx.array,
) -> Arrays:
    """The factors of `_step_back` for all steps, (B, T, N, D) each."""
    admitted, kept, opened = (mx.sigmoid(gate) for gate in (admit, forget, output))
    value, shown = mx.tanh(candidate), mx.tanh(c)
    one = mx.ones_like(c)
    return (
        opened * (one - mx.square(shown)),
        kept,
        value * admitted * mx.sigmoid(mx.negative(admit)),
        c_before * kept * mx.sigmoid(mx.negative(forget)),
        admitted * (one - mx.square(value)),
        shown * opened * mx.sigmoid(mx.negative(output)),
    )


@mx.compile
def _step_back(y: mx.array, c: mx.array, *parts: mx.array) -> Arrays:
    """The gradients in the gates of a step, (N, B, 4 D), and in the c before it.

    Args:
        y: the gradient in y by the steps after it, (N, B, D).
        c: that in c.
        *parts: the cotangents of y and c, and the factors: of y in c, of c in the c before, of c
            in i, f and z, and of y in o.
    """
    own_y, own_c, of_y, kept, by_admit, by_forget, by_candidate, by_output = parts
    y = y + own_y
    c = c + own_c + y * of_y
    gates = [c * by_admit, c * by_forget, c * by_candidate, y * by_output]
    return mx.concatenate(gates, axis=-1), c * kept


def _by_reference(*arrays: mx.array) -> Arrays:
    """The same gradient, of which MLX derives another one."""
    return gradient_of(lstm_reference)(arrays[:4], arrays[4:5])


def _second(primals: Arrays, cotangents: Arrays) -> Arrays:
    # The states, last, are a function of the other primals, and count there.
    gradients = gradient_of(_by_reference)(primals[:5], cotangents)
    return (*gradients, mx.zeros_like(primals[5]))


_exact_gradient = differentiable(_gradient, _second)


def _pull_back(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
    gradients: Arrays = _exact_gradient(*primals, *cotangents, *outputs)
    return gradients


_lstm = differentiable(
    lambda *arrays: lstm_reference(*arrays, multiply=products.exact()), _pull_back, of_outputs=True
)
