"""The LSTM, GRU and Elman network by their definitions, step by step in NumPy's float64.

Equations: Hochreiter and Schmidhuber (1997) with forget gates (Gers et al., 2000), in N heads whose
units hear each other alone, as in FlashRNN (Poeppel et al., 2024).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def lstm(
    inputs: Numbers, recurrent: Numbers, bias: Numbers, initial: Numbers | None = None
) -> tuple[Numbers, Numbers]:
    """inputs (B, T, 4, N, D), recurrent (4, N, D, D), bias (4, N, D), initial (2, B, N, D).

    The states y and c after each step (2, B, T, N, D), and after the last (2, B, 1, N, D).
    """
    batch, steps, _, heads, units = inputs.shape
    shape = (2, batch, heads, units)
    y, c = np.zeros(shape) if initial is None else initial.reshape(shape)
    states = np.zeros((2, batch, steps, heads, units))
    for t in range(steps):
        heard = np.einsum("gnoi,bni->gbno", recurrent, y)
        i, f, z, o = inputs[:, t].swapaxes(0, 1) + heard + bias[:, None]
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(z)
        y = sigmoid(o) * np.tanh(c)
        states[:, :, t] = y, c
    return states, np.stack((y, c))[:, :, None]


def gru(
    inputs: Numbers, recurrent: Numbers, bias: Numbers, initial: Numbers | None = None
) -> tuple[Numbers, Numbers]:
    """inputs (B, T, 3, N, D) of r, z, n, recurrent (3, N, D, D) of g, r, z, bias (4, N, D)."""

    def step(x: Numbers, heard: Numbers, y: Numbers) -> Numbers:
        r = sigmoid(x[0] + heard[1] + bias[1])
        z = sigmoid(x[1] + heard[2] + bias[2])
        return z * y + (1 - z) * np.tanh(x[2] + bias[3] + r * (heard[0] + bias[0]))

    return _single_state(step, inputs, recurrent, initial)


def elman(
    inputs: Numbers, recurrent: Numbers, bias: Numbers, initial: Numbers | None = None
) -> tuple[Numbers, Numbers]:
    """inputs (B, T, 1, N, D), recurrent (1, N, D, D), bias (1, N, D)."""
    return _single_state(
        lambda x, heard, _: np.tanh(x[0] + heard[0] + bias[0]), inputs, recurrent, initial
    )


def _single_state(step, inputs, recurrent, initial):
    """y after each step (1, B, T, N, D), and after the last (1, B, 1, N, D)."""
    batch, steps, _, heads, units = inputs.shape
    shape = (batch, heads, units)
    y = np.zeros(shape) if initial is None else initial.reshape(shape)
    outputs = np.zeros((1, batch, steps, heads, units))
    for t in range(steps):
        y = step(inputs[:, t].swapaxes(0, 1), np.einsum("gnoi,bni->gbno", recurrent, y), y)
        outputs[0, :, t] = y
    return outputs, y[None, :, None]


#: Definitions, and how many gates Wx, R and b have.
SINGLE_STATE = {"gru": (gru, (3, 3, 4)), "elman": (elman, (1, 1, 1))}


def single_state_shapes(gates, batch, steps, heads, units):
    """The shapes of Wx, R, b and the initial state."""
    of_input, recurrent, biased = gates
    return (
        (batch, steps, of_input, heads, units),
        (recurrent, heads, units, units),
        (biased, heads, units),
        (1, batch, 1, heads, units),
    )


def sigmoid(x: Numbers) -> Numbers:
    return (1 + np.tanh(x / 2)) / 2
