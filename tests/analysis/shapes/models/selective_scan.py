"""A layer with a selective scan."""

from __future__ import annotations

import math

import mlx.core as mx
from mlx import nn


class Scan(nn.Module):
    def __init__(self, dims: int, states: int, kernel: int = 4, expand: int = 2) -> None:
        super().__init__()
        self.inner, self.states, self.rank = expand * dims, states, math.ceil(dims / 16)
        self.in_proj = nn.Linear(dims, 2 * self.inner)
        self.conv = nn.Conv1d(self.inner, self.inner, kernel, groups=self.inner)
        self.x_proj = nn.Linear(self.inner, self.rank + 2 * states)
        self.dt_proj = nn.Linear(self.rank, self.inner)
        self.a_log = mx.log(mx.repeat(mx.arange(1, states + 1)[None], self.inner, axis=0))
        self.out_proj = nn.Linear(self.inner, dims)
        self.kernel = kernel

    def __call__(self, x: mx.array) -> mx.array:
        B, S, _ = x.shape  # noqa: N806
        x, gate = mx.split(self.in_proj(x), 2, axis=-1)
        padded = mx.pad(x, [(0, 0), (self.kernel - 1, 0), (0, 0)])
        x = nn.silu(self.conv(padded))
        dt, b, c = mx.split(self.x_proj(x), [self.rank, self.rank + self.states], axis=-1)
        dt = nn.softplus(self.dt_proj(dt))
        b, c = b.reshape(B, S, self.states), c.reshape(B, S, self.states)
        decay = mx.exp(dt[..., None] * -mx.exp(self.a_log))
        update = (dt * x)[..., None] * b[:, :, None, :]
        h = mx.zeros((B, self.inner, self.states))
        outputs = []
        for step in range(S):
            h = decay[:, step] * h + update[:, step]
            outputs.append((h @ c[:, step, :, None]).squeeze(-1))
        y = mx.stack(outputs, axis=1).reshape(B, S, -1) * nn.silu(gate)
        return self.out_proj(y)
