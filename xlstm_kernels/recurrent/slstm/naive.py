"""The sLSTM as the paper writes it, in MLX operations: to read with it, and to compare with.

The operator computes the same, keeps more digits, and takes infinite gates.
"""

from __future__ import annotations

import mlx.core as mx
from mlx import nn


def slstm_naive(
    Wx: mx.array,  # the names are those of FlashRNN
    R: mx.array,
    b: mx.array,
    states: mx.array | None = None,
    mask: mx.array | None = None,
) -> tuple[mx.array, mx.array]:
    """The sLSTM, one step after the other (Beck et al., "xLSTM", 2024, section 2.2).

    Args:
        Wx: (B, T, 4, N, D), what the input contributes to i, f, z and o.
        R: (4, N, D, D), indexed [gate, head, out, in].
        b: (4, N, D).
        states: (4, B, N, D), y, c, n and m; None for zeros.
        mask: (B, T) booleans; a step where it is False changes no state, and its y is zero.

    Returns:
        y (B, T, N, D), and the last states; float32, or float64 if the arrays are.
    """
    Wx, R, b = (a if a.dtype == mx.float64 else a.astype(mx.float32) for a in (Wx, R, b))
    batch, steps, _, heads, units = Wx.shape
    if states is None:
        states = mx.zeros((4, batch, heads, units), dtype=Wx.dtype)
    outputs = []
    for t in range(steps):
        after = slstm_step_naive(Wx[:, t], R, b, states)
        y = after[0]
        if mask is not None:
            live = mask[:, t].reshape((batch, 1, 1))
            y, after = mx.where(live, y, mx.zeros_like(y)), mx.where(live, after, states)
        states = after
        outputs.append(y)
    return mx.stack(outputs, axis=1), states


def slstm_step_naive(Wx: mx.array, R: mx.array, b: mx.array, states: mx.array) -> mx.array:
    """The states (4, B, N, D) after one step, from Wx (B, 4, N, D)."""
    y, c, n, m = states
    fed_back = R @ mx.expand_dims(y.transpose(1, 2, 0), axis=0)  # (4, N, D, B)
    gates = Wx.transpose(1, 0, 2, 3) + fed_back.transpose(0, 3, 1, 2) + mx.expand_dims(b, axis=1)
    i, f, z, o = gates
    decayed = nn.log_sigmoid(f) + m
    fresh = n == mx.zeros_like(n)  # an empty memory has nothing to stabilise
    m = mx.where(fresh, i, mx.maximum(decayed, i))  # (15)
    admit = mx.exp(i - m)  # (16)
    keep = mx.exp(decayed - m)  # (17)
    c = keep * c + admit * mx.tanh(z)  # (8), (11)
    n = keep * n + admit  # (9)
    y = mx.sigmoid(o) * c / n  # (10), (14)
    return mx.stack([y, c, n, m])
