"""The gradient of the sLSTM's definition, step by step backward in NumPy.

Reverse mode by hand, of the very steps of `oracle.slstm`, in y, c, n and m: m is a variable like
any other, and its gradient goes to the greater one of what it is the maximum of. Held to finite
differences.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


class Gradients(NamedTuple):
    """In the inputs (B, T, 4, N, D), the weights (4, N, D, D), the bias (4, N, D) and the initial
    states (4, B, N, D); and what each y was given through R, before a clip, (B, T, N, D)."""

    wx: Numbers
    r: Numbers
    b: Numbers
    initial: Numbers
    fed: Numbers


class Step(NamedTuple):
    """What a step leaves for its way back: gates (4, B, N, D), states (B, N, D)."""

    gates: Numbers
    before: tuple[Numbers, Numbers, Numbers, Numbers]
    after: tuple[Numbers, Numbers, Numbers, Numbers]
    live: NDArray[np.bool_]


def gradients(
    inputs: Numbers,
    recurrent: Numbers,
    bias: Numbers,
    initial: Numbers,
    cotangents: tuple[Numbers, Numbers],
    *,
    mask: NDArray[np.bool_] | None = None,
    clipval: float | None = None,
    cut: bool = False,
) -> Gradients:
    """Of the states after each step (4, B, T, N, D) and the last (4, B, N, D), times cotangents."""
    batch, steps, _, heads, units = inputs.shape
    of_states, of_last = cotangents
    mask = np.ones((batch, steps), bool) if mask is None else mask
    past, states = [], tuple(initial)
    for t in range(steps):
        heard = np.einsum("gnoi,bni->gbno", recurrent, states[0])
        gates = np.moveaxis(inputs[:, t], 1, 0) + heard + bias[:, None]
        past.append(Step(gates, states, _forward(gates, states), mask[:, t, None, None]))
        states = _chosen(past[-1].live, past[-1].after, states)
    wx, fed = np.zeros(inputs.shape), np.zeros((batch, steps, heads, units))
    r = np.zeros(recurrent.shape)
    slopes = tuple(of_last)
    for t in reversed(range(steps)):
        step = past[t]
        reported = (of_states[0, :, t] * step.live, *of_states[1:, :, t])
        slopes = tuple(one + other for one, other in zip(slopes, reported, strict=True))
        by_gates, before = _backward(step, slopes)
        by_gates = np.where(step.live, by_gates, 0)
        wx[:, t] = np.moveaxis(by_gates, 0, 1)
        r += np.einsum("gbno,bni->gnoi", by_gates, step.before[0])
        fed[:, t] = np.einsum("gnoi,gbno->bni", recurrent, by_gates)
        through = fed[:, t] if clipval is None else np.clip(fed[:, t], -clipval, clipval)
        slopes = _chosen(step.live, (0 * through if cut else through, *before), slopes)
    return Gradients(wx, r, wx.sum(axis=(0, 1)), np.stack(slopes), fed)


def _sigmoid(x: Numbers) -> Numbers:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def _exponents(gates, before, m) -> tuple[Numbers, Numbers, NDArray[np.bool_]]:
    """Of f' and i', and where m is i: minus infinity where nothing gets through."""
    i, f = gates[:2]
    decayed = np.minimum(f, 0) - np.log1p(np.exp(-np.abs(f))) + before[3]
    with np.errstate(invalid="ignore"):
        keep = np.where(np.isneginf(decayed), -np.inf, decayed - m)
        admit = np.where(np.isneginf(i), -np.inf, i - m)
    return keep, admit, (before[2] == 0) | (i > decayed)


def _forward(gates: Numbers, before: tuple[Numbers, ...]) -> tuple[Numbers, ...]:
    i, f, z, o = gates
    _, c, n, m = before
    decayed = np.minimum(f, 0) - np.log1p(np.exp(-np.abs(f))) + m
    after_m = np.where((n == 0) | (i > decayed), i, decayed)
    keep, admit, _ = _exponents(gates, before, after_m)
    keep, admit = np.exp(np.minimum(keep, 0)), np.exp(np.minimum(admit, 0))
    after_c, after_n = keep * c + admit * np.tanh(z), keep * n + admit
    y = np.where(after_n == 0, 0, _sigmoid(o) * after_c / np.where(after_n == 0, 1, after_n))
    return y, after_c, after_n, after_m


def _backward(step: Step, slopes):
    """Gradients in the gates, and in c, n and m before the step; those in y come from R."""
    _, f, z, o = step.gates
    y, _, n, _ = step.after
    dy, dc, dn, dm = slopes
    divisor = np.where(n == 0, 1, n)
    dy = np.where(n == 0, 0, dy)
    do = dy * y * _sigmoid(-o)
    dc = dc + dy * _sigmoid(o) / divisor
    dn = dn - dy * y / divisor
    keep, admit, is_input = _exponents(step.gates, step.before, step.after[3])
    limited = keep > 0
    keep, admit = np.exp(np.minimum(keep, 0)), np.exp(admit)
    by_keep = np.where(limited, 0, keep * (dc * step.before[1] + dn * step.before[2]))
    by_admit = admit * (dc * np.tanh(z) + dn)
    dm = dm - by_keep - by_admit
    di = by_admit + np.where(is_input, dm, 0)
    decayed = by_keep + np.where(is_input, 0, dm)
    with np.errstate(over="ignore"):
        dz = dc * admit / np.cosh(z) ** 2
    gates = np.stack((di, decayed * _sigmoid(-f), dz, do))
    return gates, (keep * dc, keep * dn, decayed)


def _chosen(live, new, old):
    return tuple(np.where(live, one, other) for one, other in zip(new, old, strict=True))
