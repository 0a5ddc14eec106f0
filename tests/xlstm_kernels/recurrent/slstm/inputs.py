"""What every call of the sLSTM takes."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx


class Inputs(NamedTuple):
    """Wx (B, T, 4, N, D), R (4, N, D, D), b (4, N, D)."""

    wx: mx.array
    r: mx.array
    b: mx.array


def one_unit(*steps: tuple[float, float, float, float]) -> Inputs:
    """Pre-activations i, f, z, o for one unit that nothing is fed back to."""
    wx = mx.array(steps, dtype=mx.float32).reshape((1, len(steps), 4, 1, 1))
    return Inputs(wx, mx.zeros((4, 1, 1, 1)), mx.zeros((4, 1, 1)))
