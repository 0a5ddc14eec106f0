"""The gradient of the mLSTM's definition, step by step backward in NumPy.

Reverse mode by hand, of the very steps of `oracle.mlstm`: m is a variable like any other, and its
gradient goes to the greater one of what it is the maximum of. Held to finite differences, and to
torch's autograd where torch is.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from tests.xlstm_kernels.mlstm.oracle import log_sigmoid

Numbers = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients in the inputs and the initial states, in their shapes; m is (B, NH)."""

    q: Numbers
    k: Numbers
    v: Numbers
    i: Numbers
    f: Numbers
    c: Numbers
    n: Numbers
    m: Numbers

    def __iter__(self):
        return (getattr(self, field.name) for field in fields(self))


@dataclass(frozen=True, slots=True)
class Step:
    """What a step leaves for its way back."""

    c: Numbers
    n: Numbers
    m: Numbers
    after: tuple[Numbers, Numbers, Numbers]
    forget: Numbers
    admit: Numbers
    inner: Numbers
    denominator: Numbers
    read: Numbers

    def dividing_by(self, denominator: Numbers, inner: Numbers) -> Step:
        """The same terms over another normaliser."""
        read = self.read * self.denominator[..., None] / denominator[..., None]
        return replace(self, read=read, denominator=denominator, inner=inner)


def gradients(
    q: Numbers,
    k: Numbers,
    v: Numbers,
    i: Numbers,
    f: Numbers,
    states: tuple[Numbers, Numbers, Numbers],
    cotangents: tuple[Numbers, Numbers, Numbers, Numbers],
    *,
    eps: float = 1e-6,
    mask: NDArray[np.bool_] | None = None,
    dtype: type[np.floating] = np.float64,
    magnitudes: bool = False,
) -> Gradients:
    """Of the sum of h, C, n and m, each times its cotangent; shapes as in `oracle.mlstm`.

    With `magnitudes`, the sums of the absolute numbers of all terms instead: by as much as these
    are bigger than a gradient, the rounding of a term counts for more in it.
    """
    q, k, v, i, f = (np.asarray(array, dtype) for array in (q, k, v, i, f))
    steps, scale = q.shape[2], dtype(q.shape[3] ** -0.5)
    kept = np.ones((q.shape[0], steps), bool) if mask is None else mask
    past, magnified = [], np.ones((*q.shape[:3], 1))
    before = tuple(np.array(state, dtype) for state in states)
    sized = (np.abs(before[0]), np.abs(before[1]), before[2])
    with np.errstate(over="ignore", invalid="ignore"):
        for t in range(steps):
            arrays = q[:, :, t] * scale, k[:, :, t], v[:, :, t]
            step = _forward(*arrays, i[..., t], f[..., t], before, eps)
            true_after = step.after
            if magnitudes:
                sizes = _forward(*map(np.abs, arrays), i[..., t], f[..., t], sized, eps)
                # What cancelled in the normaliser is in all that is divided by it.
                magnified[:, :, t] += 2 * (sizes.inner / step.denominator)[..., None]
                step = sizes.dividing_by(step.denominator, np.abs(step.inner))
            past.append(step)
            before = _where(kept[:, t, None], true_after, before)
            sized = _where(kept[:, t, None], step.after, sized)
        strip = np.abs if magnitudes else np.asarray
        q, k, v = map(strip, (q, k, v))
        dh, dc, dn, dm = (strip(np.array(array, dtype)) for array in cotangents)
        dh = dh * magnified.astype(dtype)
        result = [np.zeros_like(array) for array in (q, k, v, i, f)]
        for t in reversed(range(steps)):
            arrays = q[:, :, t] * scale, k[:, :, t], v[:, :, t], f[..., t], dh[:, :, t]
            back = _backward(past[t], *arrays, (dc, dn, dm), 1 if magnitudes else -1)
            live = kept[:, t, None]
            for whole, part in zip(result, back[:5], strict=True):
                whole[:, :, t] = np.where(
                    live.reshape(live.shape + (1,) * (part.ndim - 2)), part, 0
                )
            dc = np.where(live[..., None, None], back[5], dc)
            dn = np.where(live[..., None], back[6], dn)
            dm = np.where(live, back[7], dm)
    result[0] *= scale
    return Gradients(*result, dc, dn, dm)


def _forward(q, k, v, i, f, states, eps) -> Step:
    c, n, m = states
    decayed = log_sigmoid(f) + m
    after_m = np.maximum(decayed, i)
    forget, admit = np.exp(decayed - after_m), np.exp(i - after_m)
    after_c = (
        forget[..., None, None] * c + admit[..., None, None] * k[..., :, None] * v[..., None, :]
    )
    after_n = forget[..., None] * n + admit[..., None] * k
    inner = np.einsum("bhd,bhd->bh", q, after_n)
    denominator = np.maximum(np.abs(inner), np.exp(-after_m)) + q.dtype.type(eps)
    read = np.einsum("bhd,bhdv->bhv", q, after_c) / denominator[..., None]
    return Step(c, n, m, (after_c, after_n, after_m), forget, admit, inner, denominator, read)


def _where(live, new, old):
    return tuple(
        np.where(live.reshape(live.shape + (1,) * (one.ndim - 2)), one, other)
        for one, other in zip(new, old, strict=True)
    )


def _backward(step: Step, q, k, v, f, dh, states, minus):
    """`minus` is -1; or 1 for terms that are to be added whatever their sign."""
    after_c, after_n, after_m = step.after
    dc, dn, dm = states
    numerator = dh / step.denominator[..., None]
    denominator = minus * np.einsum("bhv,bhv->bh", dh, step.read) / step.denominator
    floor = np.exp(-after_m)
    free = np.abs(step.inner) > floor
    inner = np.where(free, denominator * np.sign(step.inner), 0)
    dm = dm + np.where(free, 0, minus * denominator * floor)
    dq = np.einsum("bhdv,bhv->bhd", after_c, numerator) + after_n * inner[..., None]
    dc = dc + q[..., :, None] * numerator[..., None, :]
    dn = dn + q * inner[..., None]
    forget = np.einsum("bhdv,bhdv->bh", dc, step.c) + np.einsum("bhd,bhd->bh", dn, step.n)
    pulled = np.einsum("bhdv,bhv->bhd", dc, v) + dn
    admit = np.einsum("bhd,bhd->bh", pulled, k)
    dk = step.admit[..., None] * pulled
    dv = step.admit[..., None] * np.einsum("bhdv,bhd->bhv", dc, k)
    by_forget, by_admit = forget * step.forget, admit * step.admit
    dm = dm + minus * (by_forget + by_admit)
    chosen = after_m > log_sigmoid(f) + step.m
    di = by_admit + np.where(chosen, dm, 0)
    decay = by_forget + np.where(chosen, 0, dm)
    df = decay * np.exp(log_sigmoid(-f))
    before = (step.forget[..., None, None] * dc, step.forget[..., None] * dn, decay)
    return dq, dk, dv, di, df, *before
