"""A language model with grouped queries, rotary embeddings and a cache."""

from __future__ import annotations

from dataclasses import dataclass

import mlx.core as mx
from mlx import nn


@dataclass
class Config:
    dims: int
    heads: int
    groups: int
    head_dim: int
    hidden: int
    vocabulary: int
    layers: int = 2


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
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads, self.groups = config.heads, config.groups
        self.head_dim = config.head_dim
        self.q = nn.Linear(config.dims, config.heads * self.head_dim, bias=False)
        self.kv = nn.Linear(config.dims, 2 * config.groups * self.head_dim, bias=False)
        self.out = nn.Linear(config.heads * self.head_dim, config.dims, bias=False)
        self.rope = nn.RoPE(self.head_dim)

    def __call__(self, x: mx.array, cache: Cache | None = None) -> mx.array:
        B, S, _ = x.shape  # noqa: N806
        q = self.q(x).reshape(B, S, self.heads, self.head_dim).transpose(0, 2, 1, 3)
        k, v = mx.split(self.kv(x).reshape(B, S, 2 * self.groups, self.head_dim), 2, axis=2)
        k, v = k.swapaxes(1, 2), v.swapaxes(1, 2)
        past = 0 if cache is None else cache.length
        q, k = self.rope(q, offset=past), self.rope(k, offset=past)
        if cache is not None:
            k, v = cache.update(k, v)
        repeats = self.heads // self.groups
        scores = (q * self.head_dim**-0.5) @ mx.repeat(k, repeats, axis=1).swapaxes(-1, -2)
        total = k.shape[2]
        mask = mx.arange(total)[None] > mx.arange(total - S, total)[:, None]
        weights = mx.softmax(mx.where(mask, -1e9, scores), axis=-1, precise=True)
        y = weights @ mx.repeat(v, repeats, axis=1)
        y = y.transpose(0, 2, 1, 3).reshape(B, S, -1)
        return self.out(y)


class Block(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.norms = [nn.RMSNorm(config.dims), nn.RMSNorm(config.dims)]
        self.up = nn.Linear(config.dims, 2 * config.hidden)
        self.down = nn.Linear(config.hidden, config.dims)

    def __call__(self, x: mx.array, cache: Cache | None = None) -> mx.array:
        B, S, D = x.shape  # noqa: N806
        x = x + self.attention(self.norms[0](x), cache).reshape(B, S, D)
        gate, up = mx.split(self.up(self.norms[1](x)), 2, axis=-1)
        hidden = nn.silu(gate) * up
        return x + self.down(hidden)


class Model(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embedding = nn.Embedding(config.vocabulary, config.dims)
        self.blocks = [Block(config) for _ in range(config.layers)]
        self.norm = nn.RMSNorm(config.dims)

    def __call__(self, tokens: mx.array) -> mx.array:
        B, S = tokens.shape  # noqa: N806
        caches = [Cache() for _ in self.blocks]
        for piece in (tokens[:, : S // 2], tokens[:, S // 2 :]):
            x = self.embedding(piece)
            for block, cache in zip(self.blocks, caches, strict=True):
                x = block(x, cache)
        last = self.norm(x[:, -1]).reshape(B, -1)
        return self.embedding.as_linear(last)
