"""Recurrent networks whose one state is their output y: FlashRNN's GRU and Elman network.

With what the input and the recurrent weights contribute, Wx_t and R y_{t-1}, and the bias b,

    Elman:  y_t = tanh(Wx_t + R y_{t-1} + b)
    GRU:    r_t = sigmoid(Wx_t + R y_{t-1} + b),   z_t likewise,   n_t = Wx_t + b,
            g_t = R y_{t-1} + b,   y_t = z_t y_{t-1} + (1 - z_t) tanh(n_t + r_t g_t)

(Elman, 1990; Cho et al., 2014, in cuDNN's form; Poeppel et al., "FlashRNN", 2024). Both run in MLX
operations, a few for each step, and have no kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import products
from xlstm_kernels.differentiation import Arrays, differentiable
from xlstm_kernels.recurrent.lstm import by_head, by_step
from xlstm_kernels.recurrent.slstm.arguments import initial_states, require_inputs

if TYPE_CHECKING:
    from collections.abc import Callable


def gru(
    Wx: mx.array,  # noqa: N803  # the names are those of FlashRNN, as is the order
    R: mx.array,  # noqa: N803
    b: mx.array,
    states: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """Run the GRU over a sequence: T steps of N heads with D units each.

    Everything inside is float32, and so are both results. Differentiable any number of times. The
    graph grows with T.

    Args:
        Wx: (B, T, 3, N, D), what the input contributes to r, z and n, in this order; float32,
            float16 or bfloat16. Any axis may be empty.
        R: (3, N, D, D), the weights of g, r and z, indexed [gate, head, out, in]; any of these
            dtypes.
        b: (4, N, D), the bias of g, r, z and n; any of these dtypes.
        states: (1, B, 1, N, D) or (1, B, N, D), the initial y; what an earlier call returned as
            `last`, or None for zeros.

    Returns:
        y after each step, (1, B, T, N, D), and after the last, (1, B, 1, N, D).

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit.
    """
    require_inputs("gru", Wx, R, b, gates="rzn", recurrent=3, biased=4)
    return _run("gru", _gru_step, Wx, R, b, states)


def elman(
    Wx: mx.array,  # noqa: N803
    R: mx.array,  # noqa: N803
    b: mx.array,
    states: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """Run the Elman network over a sequence.

    Args:
        Wx: (B, T, 1, N, D).
        R: (1, N, D, D).
        b: (1, N, D).
        states: as in `gru`, as are dtypes, results and errors.

    Raises:
        TypeError: for a dtype that is not listed.
        ValueError: for shapes that do not fit.
    """
    require_inputs("elman", Wx, R, b, gates="g", recurrent=1, biased=1)
    return _run("elman", _elman_step, Wx, R, b, states)


def _run(
    operator: str,
    step: Callable[[mx.array, mx.array, mx.array, mx.array], mx.array],
    gate_input: mx.array,
    recurrent: mx.array,
    bias: mx.array,
    states: mx.array | None,
) -> tuple[mx.array, mx.array]:
    """Step from Wx (N, B, G D), R y (N, B, G D), b (N, 1, G D) and y (N, B, D) to the next y."""
    batch, steps, _, heads, units = gate_input.shape
    initial = initial_states(operator, states, (batch, heads, units), count=1)
    if not gate_input.size:
        nothing = mx.zeros((1, batch, steps, heads, units), dtype=mx.float32)
        return nothing, mx.expand_dims(initial, axis=2)
    weights = by_head(recurrent)
    biases = bias.astype(mx.float32).swapaxes(0, 1).reshape(heads, 1, -1)
    y = initial[0].swapaxes(0, 1)
    trace = []
    for arrival in by_step(gate_input.astype(mx.float32)):
        y = step(arrival, _product(y, weights), biases, y)
        trace.append(y)
    after_each = mx.expand_dims(mx.stack(trace, axis=1).transpose(2, 1, 0, 3), axis=0)
    return after_each, after_each[:, :, -1:]


def _gru_step(arrival: mx.array, heard: mx.array, bias: mx.array, y: mx.array) -> mx.array:
    of_g, of_r, of_z, of_n = mx.split(bias, 4, axis=-1)
    heard_g, heard_r, heard_z = mx.split(heard, 3, axis=-1)
    arriving_r, arriving_z, arriving_n = mx.split(arrival, 3, axis=-1)
    r = mx.sigmoid(arriving_r + heard_r + of_r)
    z = mx.sigmoid(arriving_z + heard_z + of_z)
    candidate = mx.tanh(arriving_n + of_n + r * (heard_g + of_g))
    return candidate + z * (y - candidate)


def _elman_step(arrival: mx.array, heard: mx.array, bias: mx.array, _y: mx.array) -> mx.array:
    return mx.tanh(arrival + heard + bias)


def _multiplied(y: mx.array, weights: mx.array) -> mx.array:
    """The product of y (N, B, D) and the transposed weights (N, G D, D)."""
    multiply = products.exact()
    return multiply.operand(y) @ multiply.operand(weights).transposed


def _product_gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
    multiply = products.exact()
    y, weights, slopes = (multiply.operand(array) for array in (*primals, *cotangents))
    return slopes @ weights, slopes.transposed @ y


_product = differentiable(_multiplied, _product_gradient)
