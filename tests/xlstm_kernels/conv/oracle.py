"""The convolutions by their definitions, step by step in NumPy's float64."""

from __future__ import annotations

import numpy as np
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
    seq_idx: NDArray[np.int64] | None = None,
) -> tuple[Numbers, Numbers]:
    """x (B, S, C), weight (C, K), bias (C,), states (B, K-1, C) -> y (B, S, C), final states.

    seq_idx (B, S): a tap counts in the steps whose number its own step has, unless it is negative.
    """
    (batch, steps, channels), width = x.shape, weight.shape[1]

    def at(step: int) -> Numbers:
        if step >= 0:
            return x[:, step]
        return np.zeros((batch, channels)) if states is None else states[:, width - 1 + step]

    y = np.zeros(x.shape)
    for t in range(steps):
        for j in range(width):
            seen = at(t - (width - 1) + j)
            if seq_idx is not None:
                seen = np.where(counted(seq_idx, t, width)[:, j, None], seen, 0)
            y[:, t] += weight[:, j] * seen
    if bias is not None:
        y += bias
    last = [at(step) for step in range(steps - (width - 1), steps)]
    final = np.stack(last, axis=1) if last else np.zeros((batch, 0, channels))
    if activation:
        y = silu(y)
    return (y if seq_idx is None else np.where(seq_idx[..., None] < 0, 0, y)), final


def counted(seq_idx: NDArray[np.int64], step: int, width: int) -> NDArray[np.bool_]:
    """(B, K): taps that count in a step; those before the first step do in every sequence."""
    first = max(0, step - (width - 1))
    same = seq_idx[:, first : step + 1] == seq_idx[:, step, None]
    missing = width - same.shape[1]
    return np.pad(same, ((0, 0), (missing, 0)), constant_values=True) & (
        seq_idx[:, step, None] >= 0
    )


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
    seq_idx: NDArray[np.int64] | None = None,
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
        pulled, values = cotangents[0][:, t], rows[:, seen]
        count = np.ones((batch, width), dtype=np.bool_)
        if seq_idx is not None:
            count = counted(seq_idx, t, width)
            pulled = np.where(count[:, -1:], pulled, 0)
            values = np.where(count[..., None], values, 0)
        if activation:
            pulled = pulled * silu_slope(bias + np.einsum("bkc,ck->bc", values, weight))
        in_rows[:, seen] += np.einsum("bc,ck,bk->bkc", pulled, weight, count)
        in_weight += np.einsum("bc,bkc->ck", pulled, values)
        in_bias += pulled.sum(axis=0)
    return [in_rows[:, width - 1 :], in_weight, in_bias, in_rows[:, : width - 1]]


def long_causal(x: Numbers, weight: Numbers, skip: Numbers | None = None) -> Numbers:
    """x (B, S, C), weight (C, K), whose first tap applies to the current step, skip (C,) -> y."""
    y = np.empty(x.shape)
    for row, channel in np.ndindex(x.shape[0], x.shape[2]):
        y[row, :, channel] = np.convolve(x[row, :, channel], weight[channel])[: x.shape[1]]
    return y if skip is None else y + x * skip


def long_causal_gradients(
    x: Numbers, weight: Numbers, skip: Numbers, cotangent: Numbers
) -> list[Numbers]:
    """Of `long_causal` in x, weight and skip; K <= S."""
    backward = long_causal(cotangent[:, ::-1], weight, skip)[:, ::-1]
    in_weight = np.zeros(weight.shape)
    for row, channel in np.ndindex(x.shape[0], x.shape[2]):
        pulled = np.convolve(cotangent[row, :, channel], x[row, ::-1, channel])[x.shape[1] - 1 :]
        in_weight[channel] += pulled[: weight.shape[1]]
    return [backward, in_weight, (cotangent * x).sum(axis=(0, 1))]
