"""The LSTM by its definition, step by step in NumPy's float64.

Equations: Hochreiter and Schmidhuber (1997) with forget gates (Gers et al., 2000), in N heads whose
units hear each other alone, as in FlashRNN (Poeppel et al., 2024).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
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


def sigmoid(x: Numbers) -> Numbers:
    return (1 + np.tanh(x / 2)) / 2
