"""Recurrent networks without a kernel: FlashRNN's LSTM, GRU and Elman network.

With the pre-activations g_t = Wx_t + R y_{t-1} + b of the gates,

    LSTM:   c_t = sigmoid(f_t) c_{t-1} + sigmoid(i_t) tanh(z_t),   y_t = sigmoid(o_t) tanh(c_t)
    Elman:  y_t = tanh(g_t)
    GRU:    y_t = sigmoid(z_t) y_{t-1} + (1 - sigmoid(z_t)) tanh(n_t + sigmoid(r_t) g_t)

(Hochreiter and Schmidhuber, 1997; Gers et al., 2000; Elman, 1990; Cho et al., 2014, in cuDNN's
form, where Wx has no part in g and R none in n; Poeppel et al., "FlashRNN", 2024), in MLX
operations, a few for each step. The kernels of the sLSTM are mostly its stabiliser, which these
lack. The gradient needs the states alone. What doesn't go backward in it is computed for all steps
at once: the gates again by one product, the slopes of a step, and the gradient in R.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import mlx.core as mx

from xlstm_kernels import products
from xlstm_kernels.differentiation import Arrays, Operation, differentiable, gradient_of
from xlstm_kernels.recurrent.slstm.arguments import initial_states, require_inputs


@dataclass(frozen=True, slots=True)
class Cell:
    """A recurrent network of N heads with D units each."""

    name: str  # of the operator
    # From the gates and the states, y first, all of one shape, to the next states.
    step: Callable[..., list[mx.array]]
    gates: str  # those of Wx, a letter each, which are the last ones of b
    recurrent: int  # how many R contributes to, the first ones of b
    biased: int  # how many gates there are
    states: int = 1  # of a unit


def lstm(
    Wx: mx.array,  # the names are those of FlashRNN, as is the order
    R: mx.array,
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
    return run(LSTM, Wx, R, b, states)


def run(
    cell: Cell, Wx: mx.array, R: mx.array, b: mx.array, states: mx.array | None
) -> tuple[mx.array, mx.array]:
    """Return the states after each step, (S, B, T, N, D), and after the last, (S, B, 1, N, D)."""
    require_inputs(
        *(cell.name, Wx, R, b), gates=cell.gates, recurrent=cell.recurrent, biased=cell.biased
    )
    batch, steps, _, heads, units = Wx.shape
    initial = initial_states(cell.name, states, (batch, heads, units), count=cell.states)
    if not Wx.size:
        nothing = mx.zeros((cell.states, batch, steps, heads, units), dtype=mx.float32)
        return nothing, mx.expand_dims(initial, axis=2)
    if cell.biased > len(cell.gates):
        Wx = mx.pad(Wx, [(0, 0), (0, 0), (cell.biased - len(cell.gates), 0), (0, 0), (0, 0)])
        R = mx.pad(R, [(0, cell.biased - cell.recurrent), (0, 0), (0, 0), (0, 0)])
    after_each = _operation(cell.step, cell.states)(Wx, R, b, initial)
    return after_each, after_each[:, :, -1:]


@functools.cache
def _operation(step: Callable[..., list[mx.array]], count: int) -> Operation:
    """The differentiable (Wx (B, T, G, N, D), R, b, initial) -> states (S, B, T, N, D)."""

    @mx.compile
    def step_on(gates: mx.array, *states: mx.array) -> list[mx.array]:
        return step(*mx.split(gates, gates.shape[-1] // states[0].shape[-1], axis=-1), *states)

    def forward(wx: mx.array, r: mx.array, b: mx.array, initial: mx.array) -> mx.array:
        multiply = products.exact()
        weights = multiply.operand(_by_head(r)).transposed
        states = list(initial.swapaxes(1, 2))
        trace = []
        for arrival in _by_step(wx.astype(mx.float32) + b.astype(mx.float32)):
            states = step_on(arrival + multiply.operand(states[0]) @ weights, *states)
            trace.append(mx.stack(states))
        return mx.stack(trace, axis=2).transpose(0, 3, 2, 1, 4)

    @mx.compile
    def step_back(slopes: mx.array, own: mx.array, handed: mx.array) -> list[mx.array]:
        """The gradients in gates (N, B, G D), and in the states before them, (N, B, S, D)."""
        found = mx.sum(slopes * mx.expand_dims(own + handed, axis=3), axis=2)
        return [mx.flatten(found[:, :, :-count], 2), found[:, :, -count:]]

    def backward(*arrays: mx.array) -> Arrays:
        wx, r, b, initial, cotangent, after = arrays
        batch, steps, gates, heads, units = wx.shape
        multiply = products.exact()
        weights = multiply.operand(_by_head(r))
        before = mx.concatenate([mx.expand_dims(initial, 2), after[:, :, :-1]], axis=2)
        heard = multiply.operand(before[0].reshape((-1, heads, units)).swapaxes(0, 1))
        fed_back = (heard @ weights.transposed).reshape((heads, batch, steps, gates, units))
        opened = wx.astype(mx.float32) + b.astype(mx.float32) + fed_back.transpose(1, 2, 3, 0, 4)
        # Of each state by all gates and states before, (B, T, N, D) each.
        taken, ones = [*mx.moveaxis(opened, 2, 0), *before], mx.eye(count)
        slopes = [
            mx.vjp(step, taken, [mx.broadcast_to(one, after[0].shape) for one in of_state])[1]
            for of_state in ones
        ]
        of_steps = mx.stack([mx.stack(row) for row in slopes]).transpose(3, 4, 2, 0, 1, 5)
        given = (mx.split(array, steps) for array in (of_steps, cotangent.transpose(2, 3, 1, 0, 4)))
        handed = mx.zeros((heads, batch, count, units))
        trace = []
        for slope, own in reversed(list(zip(*given, strict=True))):
            by_gates, handed = step_back(mx.squeeze(slope, 0), mx.squeeze(own, 0), handed)
            of_y = mx.expand_dims(multiply.operand(by_gates) @ weights, axis=2)
            handed = handed + mx.pad(of_y, [(0, 0), (0, 0), (0, count - 1), (0, 0)])
            trace.append(by_gates)
        by_gates = mx.stack(trace[::-1], axis=2)  # (N, B, T, G D)
        rows = multiply.operand(by_gates.reshape((heads, batch * steps, gates * units)))
        by_r = (rows.transposed @ heard).reshape((heads, gates, units, units))
        by_wx = by_gates.reshape((heads, batch, steps, gates, units)).transpose(1, 2, 3, 0, 4)
        return (
            by_wx.astype(wx.dtype),
            by_r.swapaxes(0, 1).astype(r.dtype),
            mx.sum(by_wx, axis=(0, 1)).astype(b.dtype),
            handed.transpose(2, 1, 0, 3),
        )

    def same_by_reference(*arrays: mx.array) -> Arrays:
        # The states, last, are a function of the others, and count there.
        return gradient_of(forward)(arrays[:4], arrays[4:5])

    gradient = differentiable(backward, gradient_of(same_by_reference))

    def pull_back(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        gradients: Arrays = gradient(*primals, *cotangents, *outputs)
        return gradients

    return differentiable(forward, pull_back, of_outputs=True)


def _by_step(arrays: mx.array) -> list[mx.array]:
    """(B, T, G, N, D) as T arrays (N, B, G D)."""
    batch, steps, gates, heads, units = arrays.shape
    whole = arrays.transpose(1, 3, 0, 2, 4)
    # Split, not indexed: the gradient of each index would be as big as the whole.
    return list(mx.split(whole.reshape((steps * heads, batch, gates * units)), steps))


def _by_head(recurrent: mx.array) -> mx.array:
    """(G, N, D, D) as (N, G D, D), float32."""
    gates, heads, units, _ = recurrent.shape
    return recurrent.astype(mx.float32).swapaxes(0, 1).reshape((heads, gates * units, units))


def _sigmoid(x: mx.array) -> mx.array:
    """The logistic function, whose derived slope keeps its digits in both tails."""
    least, one = (mx.array(number, dtype=x.dtype) for number in (-80, 1))
    value = one / (one + mx.exp(mx.negative(mx.maximum(x, least))))
    return mx.where(x < least, mx.zeros_like(x), value)


def _lstm(
    i: mx.array, f: mx.array, z: mx.array, o: mx.array, _y: mx.array, c: mx.array
) -> list[mx.array]:
    c = _sigmoid(f) * c + _sigmoid(i) * mx.tanh(z)
    return [_sigmoid(o) * mx.tanh(c), c]


def _gru(g: mx.array, r: mx.array, z: mx.array, n: mx.array, y: mx.array) -> list[mx.array]:
    candidate = mx.tanh(n + _sigmoid(r) * g)
    return [candidate + _sigmoid(z) * (y - candidate)]


def _elman(g: mx.array, _y: mx.array) -> list[mx.array]:
    return [mx.tanh(g)]


LSTM = Cell("lstm", _lstm, "ifzo", recurrent=4, biased=4, states=2)
GRU = Cell("gru", _gru, "rzn", recurrent=3, biased=4)
ELMAN = Cell("elman", _elman, "g", recurrent=1, biased=1)
