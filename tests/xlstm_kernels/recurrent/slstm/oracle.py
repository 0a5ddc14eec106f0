"""The sLSTM by its definition, step by step in NumPy's float64.

Equations: Beck et al., "xLSTM" (2024), section 2.2, with its stabiliser. Three cases need words.
Before anything was let in (n = 0) there is no past to stabilise: m = i. A gate of minus infinity
lets nothing through, though m may be minus infinity too. And y is 0 where n is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

VALUE = 2e-6  # relative L2 error that y may have
STATE = 1e-6  # and the others


@dataclass(frozen=True, slots=True)
class Result:
    """States y, c, n, m after each step (4, B, T, N, D), and after the last (4, B, N, D)."""

    states: Numbers
    last: Numbers


def slstm(
    inputs: Numbers,
    recurrent: Numbers,
    bias: Numbers,
    initial: Numbers | None = None,
    mask: NDArray[np.bool_] | None = None,
) -> Result:
    """inputs (B, T, 4, N, D), recurrent (4, N, D, D), bias (4, N, D), initial (4, B, N, D)."""
    batch, steps, _, heads, units = inputs.shape
    shape = (4, batch, heads, units)
    y, c, n, m = np.zeros(shape) if initial is None else initial.reshape(shape)
    states = np.zeros((4, batch, steps, heads, units))
    for t in range(steps):
        i, f, z, o = np.moveaxis(
            inputs[:, t] + np.einsum("gnoi,bni->bgno", recurrent, y) + bias, 1, 0
        )
        with np.errstate(all="ignore"):
            decayed = np.minimum(f, 0) - np.log1p(np.exp(-np.abs(f))) + m
            new_m = np.where(n == 0, i, np.maximum(i, decayed))
            admit = np.where(np.isneginf(i), 0, np.minimum(1, np.exp(i - new_m)))
            keep = np.where(np.isneginf(decayed), 0, np.minimum(1, np.exp(decayed - new_m)))
            new_c, new_n = keep * c + admit * np.tanh(z), keep * n + admit
            new_y = np.where(new_n == 0, 0, new_c / new_n / (1 + np.exp(-o)))
        live = np.ones((batch, 1, 1), bool) if mask is None else mask[:, t, None, None]
        y, c, n, m = (
            np.where(live, new, old)
            for new, old in zip((new_y, new_c, new_n, new_m), (y, c, n, m), strict=True)
        )
        states[:, :, t] = np.where(live, y, 0), c, n, m
    return Result(states, np.stack((y, c, n, m)))
