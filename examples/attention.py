"""Attention that runs without an error, and mixes up its heads and its steps: what it computes
depends on their order.

`embercoach check examples/attention.py` shows where, and `embercoach shapes` the shapes.
"""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn


class Attention(nn.Module):
    """Each step of x (batch, steps, dims) attends to all steps."""

    def __init__(self, dims: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dims, dims)
        self.key = nn.Linear(dims, dims)
        self.value = nn.Linear(dims, dims)

    def split(self, x: mx.array) -> mx.array:
        """A head's part of the dims of each step."""
        batch, steps, _ = x.shape
        parts = x.reshape(batch, steps, self.heads, -1)
        return parts.transpose(0, 2, 1, 3)

    def __call__(self, x: mx.array) -> mx.array:
        """Attend, and join the heads."""
        batch, steps, dims = x.shape
        q = self.split(self.query(x))
        k = self.split(self.key(x))
        v = self.split(self.value(x))
        scores = q @ k.swapaxes(-1, -2)
        weights = mx.softmax(scores, axis=1)
        return (weights @ v).reshape(batch, steps, dims)
