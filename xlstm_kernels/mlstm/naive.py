"""The mLSTM as the papers write it, in MLX operations: to read with them, and to compare with.

The operators compute the same in chunks, keep more digits, and take infinite gates.
"""

from __future__ import annotations

import mlx.core as mx
from mlx import nn


def mlstm_naive(
    *arrays: mx.array,
    eps: float = 1e-6,
    sigmoid_input: bool = False,
    normalize: bool = True,
    mask: mx.array | None = None,
) -> tuple[mx.array, tuple[mx.array, ...]]:
    """The mLSTM, one step after the other.

    Args:
        *arrays: q, k (B, NH, S, DK), v (B, NH, S, DV), i, f (B, NH, S); and the states to begin
            with, c (B, NH, DK, DV), n (B, NH, DK) and m (B, NH, 1), or none for zeros.
        eps: added to the denominator.
        sigmoid_input: the input gate is a sigmoid, and there is no m.
        normalize: whether to divide; without, only for a sigmoid.
        mask: (B, S) booleans; a step where it is False changes no state, and its h is zero.

    Returns:
        h (B, NH, S, DV), and the last c, n and m; float32, or float64 if the arrays are.
    """
    q, k, v, i, f, *given = (a if a.dtype == mx.float64 else a.astype(mx.float32) for a in arrays)
    batch, heads, steps, keys = q.shape
    shapes = ((batch, heads, keys, v.shape[3]), (batch, heads, keys), (batch, heads, 1))
    zeros = (mx.zeros(shape, dtype=q.dtype) for shape in shapes[: 2 if sigmoid_input else 3])
    states = [*(given or zeros)]
    if mask is not None:
        i = mx.where(mx.expand_dims(mask, 1), i, mx.array(-mx.inf, dtype=i.dtype))
        f = mx.where(mx.expand_dims(mask, 1), f, mx.array(mx.inf, dtype=f.dtype))
    outputs = []
    for t in range(steps):
        at = q[:, :, t], k[:, :, t], v[:, :, t], i[:, :, t : t + 1], f[:, :, t : t + 1]
        h, *states = mlstm_step_naive(*at, *states, eps=eps, normalize=normalize)
        outputs.append(h)
    h = mx.stack(outputs, axis=2)
    if mask is not None:
        h = mx.where(mx.expand_dims(mask, (1, 3)), h, mx.zeros_like(h))
    return h, tuple(states)


def mlstm_step_naive(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    i: mx.array,
    f: mx.array,
    c: mx.array,
    n: mx.array,
    m: mx.array | None = None,
    *,
    eps: float = 1e-6,
    normalize: bool = True,
) -> tuple[mx.array, ...]:
    """One step: h, c, n and m from q, k (B, NH, DK), v (B, NH, DV), i, f (B, NH, 1).

    With m, the equations of Beck et al., "xLSTM", 2024; without it the input gate is a sigmoid, as
    in Beck et al., "Tiled Flash Linear Attention", 2025, section 4.
    """
    keep, admit, floor = mx.sigmoid(f), mx.sigmoid(i), mx.ones_like(i)
    if m is not None:
        decayed = nn.log_sigmoid(f) + m
        m = mx.maximum(decayed, i)  # (15)
        admit = mx.exp(i - m)  # (16)
        keep = mx.exp(decayed - m)  # (17)
        floor = mx.exp(mx.negative(m))  # the 1 of (21), since c and n are scaled by exp(-m)
    key = admit * k
    c = mx.expand_dims(keep, 3) * c + mx.expand_dims(key, 3) * mx.expand_dims(v, 2)  # (19)
    n = keep * n + key  # (20)
    q = q * mx.rsqrt(mx.array(q.shape[2], dtype=q.dtype))  # the scale of the keys in (23)
    h = mx.squeeze(mx.expand_dims(q, 2) @ c, axis=2)
    if normalize:
        inner = mx.sum(q * n, axis=2, keepdims=True)
        h = h / (mx.maximum(mx.abs(inner), floor) + mx.array(eps, dtype=h.dtype))  # (21)
    return (h, c, n) if m is None else (h, c, n, m)
