"""A language model with grouped queries, rotary embeddings and a cache."""

from __future__ import annotations

import mlx.core as mx
from mlx import nn


class Cache:
    def __init__(self) -> None:
        self.keys: mx.array | None = None
        self.values: mx.array | None = None
        self.length = 0

    def update(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        if self.keys is not None and self.values is not None:
            keys = mx.concatenate([self.keys, keys], axis=2)
            values = mx.concatenate([self.values, values], axis=2)
        self.keys, self.values, self.length = keys, values, keys.shape[2]
        return keys, values


class Attention(nn.Module):
    def __init__(self, dims: int, heads: int, groups: int, head_dim: int) -> None:
        super().__init__()
        self.heads, self.groups, self.head_dim = heads, groups, head_dim
        self.q = nn.Linear(dims, heads * head_dim, bias=False)
        self.kv = nn.Linear(dims, 2 * groups * head_dim, bias=False)
        self.out = nn.Linear(heads * head_dim, dims, bias=False)
        self.rope = nn.RoPE(self.head_dim)

    def __call__(self, x: mx.array, cache: Cache) -> mx.array:
        B, S, _ = x.shape  # noqa: N806
        q = self.q(x).reshape(B, S, self.heads, self.head_dim).transpose(0, 2, 1, 3)
        k, v = mx.split(self.kv(x).reshape(B, S, 2 * self.groups, self.head_dim), 2, axis=2)
        q, k = self.rope(q, offset=cache.length), self.rope(k, offset=cache.length)
        k, v = cache.update(k.swapaxes(1, 2), v.swapaxes(1, 2))
        repeats = self.heads // self.groups
        scores = (q * self.head_dim**-0.5) @ mx.repeat(k, repeats, axis=1).swapaxes(-1, -2)
        total = k.shape[2]
        mask = mx.arange(total)[None] > mx.arange(total - S, total)[:, None]
        weights = mx.softmax(mx.where(mask, -1e9, scores), axis=-1, precise=True)
        y = weights @ mx.repeat(v, repeats, axis=1)
        y = y.transpose(0, 2, 1, 3).reshape(B, S, -1)
        return self.out(y)


class Block(nn.Module):
    def __init__(self, dims: int, heads: int, groups: int, head_dim: int, hidden: int) -> None:
        super().__init__()
        self.attention = Attention(dims, heads, groups, head_dim)
        self.norms = [nn.RMSNorm(dims), nn.RMSNorm(dims)]
        self.up, self.down = nn.Linear(dims, 2 * hidden), nn.Linear(hidden, dims)

    def __call__(self, x: mx.array, cache: Cache) -> mx.array:
        _, S, D = x.shape  # noqa: N806
        x = x + self.attention(self.norms[0](x), cache).reshape(-1, S, D)
        gate, up = mx.split(self.up(self.norms[1](x)), 2, axis=-1)
        return x + self.down(nn.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, dims: int, heads: int, groups: int, head_dim: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, dims)
        self.blocks = [Block(dims, heads, groups, head_dim, 2 * dims) for _ in range(layers)]

    def __call__(self, tokens: mx.array) -> mx.array:
        _, S = tokens.shape  # noqa: N806
        caches = [Cache() for _ in self.blocks]
        for piece in (tokens[:, : S // 2], tokens[:, S // 2 :]):
            x = self.embedding(piece)
            for block, cache in zip(self.blocks, caches, strict=True):
                x = block(x, cache)
        logits: mx.array = self.embedding.as_linear(x[:, -1])
        return logits
