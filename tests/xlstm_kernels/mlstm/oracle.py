"""The mLSTM by its definition, step by step in NumPy (float64 unless told otherwise).

Equations: Beck et al., "xLSTM" (2024), section 2.3, with the stabiliser of its appendix; the
denominator's floor is exp(-m) + eps, as in the model xLSTM-7B. One conjugate of a gate that is
-inf needs words: where input and state are both switched off, nothing is left, and m is -inf.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Result:
    """h (B, NH, S, DV), states C (B, NH, DK, DV), n (B, NH, DK), m (B, NH), and what h hangs on.

    Attributes:
        cancellation: for each h, (sum of the normaliser's absolute terms) / (the denominator): by
            so much a rounding of the terms is magnified.
    """

    h: Numbers
    c: Numbers
    n: Numbers
    m: Numbers
    cancellation: Numbers


def log_sigmoid(x: Numbers) -> Numbers:
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def mlstm(
    q: Numbers,
    k: Numbers,
    v: Numbers,
    i: Numbers,
    f: Numbers,
    states: tuple[Numbers, Numbers, Numbers] | None = None,
    *,
    eps: float = 1e-6,
    mask: NDArray[np.bool_] | None = None,
    dtype: type[np.floating] = np.float64,
) -> Result:
    """q, k (B, NH, S, DK), v (B, NH, S, DV), i, f (B, NH, S), mask (B, S), states as in Result."""
    q, k, v, i, f = (np.asarray(array, dtype) for array in (q, k, v, i, f))
    batch, heads, steps, key_width = q.shape
    c = np.zeros((batch, heads, key_width, v.shape[-1]), dtype)
    n, m = np.zeros((batch, heads, key_width), dtype), np.zeros((batch, heads), dtype)
    if states is not None:
        c, n, m = (np.array(array, dtype) for array in states)
    absolute = np.abs(n)
    h = np.zeros_like(v)
    cancellation = np.zeros((batch, heads, steps), dtype)
    scale = dtype(key_width**-0.5)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for t in range(steps):
            kept = np.ones(batch, bool) if mask is None else mask[:, t]
            decayed = log_sigmoid(f[:, :, t]) + m
            following = np.maximum(decayed, i[:, :, t])
            off = np.isneginf(following)
            forget = np.where(off, dtype(0), np.exp(decayed - following))
            admit = np.where(off, dtype(0), np.exp(i[:, :, t] - following))
            key, value = k[:, :, t], v[:, :, t]
            outer = key[..., :, None] * value[..., None, :]
            new_c = forget[..., None, None] * c + admit[..., None, None] * outer
            new_n = forget[..., None] * n + admit[..., None] * key
            new_absolute = forget[..., None] * absolute + admit[..., None] * np.abs(key)
            query = scale * q[:, :, t]
            floor = np.exp(-following)
            inner = np.einsum("bhd,bhd->bh", query, new_n)
            denominator = np.maximum(np.abs(inner), floor) + dtype(eps)
            read = np.einsum("bhd,bhdv->bhv", query, new_c) / denominator[..., None]
            h[:, :, t] = np.where(kept[:, None, None], read, 0)
            terms = np.einsum("bhd,bhd->bh", np.abs(query), new_absolute)
            cancellation[:, :, t] = np.where(kept[:, None], terms / denominator, 0)
            c = np.where(kept[:, None, None, None], new_c, c)
            n = np.where(kept[:, None, None], new_n, n)
            m = np.where(kept[:, None], following, m)
            absolute = np.where(kept[:, None, None], new_absolute, absolute)
    return Result(h, c, n, m, cancellation)
