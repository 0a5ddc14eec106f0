"""What every call of the sLSTM takes."""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx
import numpy as np


class Inputs(NamedTuple):
    """Wx (B, T, 4, N, D), R (4, N, D, D), b (4, N, D)."""

    wx: mx.array
    r: mx.array
    b: mx.array

    def limited(self, i: float, f: float) -> Inputs:
        """With these gates of some units at the first step, in the middle, and both at once."""
        wx = np.array(self.wx)
        wx[0, 0, 0, 0, 0] = wx[0, 3, 0, 0, 1] = wx[0, 2, 0, 0, 2] = wx[0, 0, 0, 0, 4] = i
        wx[0, 0, 1, 0, 0] = wx[0, 3, 1, 0, 3] = wx[0, 2, 1, 0, 2] = f
        return self._replace(wx=mx.array(wx))


def one_unit(*steps: tuple[float, float, float, float]) -> Inputs:
    """Pre-activations i, f, z, o for one unit that nothing is fed back to."""
    wx = mx.array(steps, dtype=mx.float32).reshape((1, len(steps), 4, 1, 1))
    return Inputs(wx, mx.zeros((4, 1, 1, 1)), mx.zeros((4, 1, 1)))
