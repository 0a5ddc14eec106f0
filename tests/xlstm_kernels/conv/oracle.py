"""The convolutions by their definitions, step by step in NumPy's float64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]


def silu(y: Numbers) -> Numbers:
    return y / (1 + np.exp(-y))


def causal(
    x: Numbers,
    weight: Numbers,
    bias: Numbers | None = None,
    states: Numbers | None = None,
    activation: str | None = None,
) -> tuple[Numbers, Numbers]:
    """x (B, S, C), weight (C, K), bias (C,), states (B, K-1, C) -> y (B, S, C), final states."""
    (batch, steps, channels), width = x.shape, weight.shape[1]

    def at(step: int) -> Numbers:
        if step >= 0:
            return x[:, step]
        return np.zeros((batch, channels)) if states is None else states[:, width - 1 + step]

    y = np.zeros(x.shape)
    for t in range(steps):
        for j in range(width):
            y[:, t] += weight[:, j] * at(t - (width - 1) + j)
    if bias is not None:
        y += bias
    last = [at(step) for step in range(steps - (width - 1), steps)]
    final = np.stack(last, axis=1) if last else np.zeros((batch, 0, channels))
    return (silu(y) if activation else y), final


def silu_slope(y: Numbers) -> Numbers:
    s = 1 / (1 + np.exp(-y))
    return s + y * s * (1 - s)


def causal_gradients(
    x: Numbers,
    weight: Numbers,
    bias: Numbers | None,
    states: Numbers | None,
    activation: str | None,
    cotangents: tuple[Numbers, Numbers],
) -> list[Numbers]:
    """Of `causal` in x, weight, bias and states (of zeros for None), one step after the other.

    cotangents: of y (B, S, C), and of the final states (B, K-1, C).
    """
    (batch, steps, channels), width = x.shape, weight.shape[1]
    if states is None:
        states = np.zeros((batch, width - 1, channels))
    if bias is None:
        bias = np.zeros(channels)
    rows = np.concatenate([states, x], axis=1)
    in_rows, in_weight, in_bias = (np.zeros(array.shape) for array in (rows, weight, bias))
    in_rows[:, steps:] = cotangents[1]
    for t in range(steps):
        seen = slice(t, t + width)
        pulled = cotangents[0][:, t]
        if activation:
            pulled = pulled * silu_slope(bias + np.einsum("bkc,ck->bc", rows[:, seen], weight))
        in_rows[:, seen] += np.einsum("bc,ck->bkc", pulled, weight)
        in_weight += np.einsum("bc,bkc->ck", pulled, rows[:, seen])
        in_bias += pulled.sum(axis=0)
    return [in_rows[:, width - 1 :], in_weight, in_bias, in_rows[:, : width - 1]]


def numeric_gradients(
    loss: Callable[..., float], primals: Sequence[Numbers], step: float = 1e-5
) -> list[Numbers]:
    """The gradient of `loss` in each array, by central differences."""
    gradients = [np.zeros(primal.shape) for primal in primals]
    for position, primal in enumerate(primals):
        for index in np.ndindex(primal.shape):
            nudge = np.zeros(primal.shape)
            nudge[index] = step
            ahead, behind = (
                loss(*primals[:position], primal + sign * nudge, *primals[position + 1 :])
                for sign in (1, -1)
            )
            gradients[position][index] = (ahead - behind) / (2 * step)
    return gradients
