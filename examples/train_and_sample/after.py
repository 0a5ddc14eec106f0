"""Train a Transformer on made sequences, then sample from it, in bfloat16.

    python examples/train_and_sample/after.py --size small

This is before.py with its problems repaired: `diff` shows each change.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

END = 0
Cache = list[tuple[mx.array, mx.array]]


@dataclass(frozen=True)
class Size:
    """A preset: the model, the batches, and how much is trained and sampled."""

    layers: int
    width: int
    heads: int
    tokens: int
    batch: int
    length: int
    steps: int
    sampled: int
    learning_rate: float


SIZES = {
    "small": Size(2, 64, 4, 32, batch=4, length=32, steps=60, sampled=24, learning_rate=2e-3),
    "h200": Size(
        12, 512, 8, 1024, batch=16, length=512, steps=300, sampled=256, learning_rate=5e-4
    ),
}


@dataclass(frozen=True)
class Result:
    """The values and the speed of a run; the first step and token are not timed."""

    loss: float
    tokens: list[int]
    step_seconds: float
    trained_per_second: float
    sampled_per_second: float


def sequences(size: Size, count: int) -> mx.array:
    """Batches (count, batch, length + 1): a token follows from the one before, in 9 of 10 cases."""
    shape = (count, size.batch, size.length + 1)
    following = mx.concatenate([mx.array([1]), mx.random.permutation(size.tokens - 1) + 1])
    rows = [mx.random.randint(1, size.tokens, shape[:2])]
    for _ in range(size.length):
        rows.append(following[rows[-1]])
    noise = mx.random.randint(1, size.tokens, shape)
    return mx.where(mx.random.bernoulli(0.1, shape), noise, mx.stack(rows, axis=-1))


class Block(nn.Module):
    """Causal attention and a feed-forward layer, each scaled by one half."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads, self.width = size.heads, size.width // size.heads
        self.norms = [nn.RMSNorm(size.width), nn.RMSNorm(size.width)]
        self.projection = nn.Linear(size.width, 3 * size.width, bias=False)
        self.out = nn.Linear(size.width, size.width, bias=False)
        self.wide = nn.Linear(size.width, 4 * size.width, bias=False)
        self.narrow = nn.Linear(4 * size.width, size.width, bias=False)

    def __call__(
        self,
        x: mx.array,
        cache: tuple[mx.array, mx.array] | None = None,
        position: mx.array | int = 0,
        mask: mx.array | str = "causal",
    ) -> tuple[mx.array, tuple[mx.array, mx.array]]:
        """Outputs (batch, length, width) and keys and values, from the cache's on."""
        parts = mx.split(self.projection(self.norms[0](x)), 3, axis=-1)
        q, k, v = (mx.unflatten(p, -1, (self.heads, self.width)).swapaxes(1, 2) for p in parts)
        rope = {"traditional": False, "base": 10000.0, "scale": 1.0, "offset": position}
        q, k = mx.fast.rope(q, self.width, **rope), mx.fast.rope(k, self.width, **rope)
        if cache is not None:
            start = position
            k = mx.slice_update(cache[0], k, start, axes=(2,))
            v = mx.slice_update(cache[1], v, start, axes=(2,))
        mixed = mx.fast.scaled_dot_product_attention(q, k, v, scale=self.width**-0.5, mask=mask)
        x = x + self.out(mixed.swapaxes(1, 2).flatten(2)) * 0.5
        return x + self.narrow(nn.silu(self.wide(self.norms[1](x)))) * 0.5, (k, v)


class Model(nn.Module):
    """A Transformer that predicts the next token."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = nn.Embedding(size.tokens, size.width)
        self.blocks = [Block(size) for _ in range(size.layers)]
        self.norm = nn.RMSNorm(size.width)
        self.head = nn.Linear(size.width, size.tokens, bias=False)
        self.set_dtype(mx.bfloat16)

    def __call__(self, tokens: mx.array) -> mx.array:
        """Logits (batch, length, tokens), in float32."""
        x = self.embedding(tokens)
        for block in self.blocks:
            x, _ = block(x)
        return self.head(self.norm(x)).astype(mx.float32)

    def decode(
        self, token: mx.array, cache: Cache, mask: mx.array, position: mx.array | int
    ) -> tuple[mx.array, Cache]:
        """The likeliest token (1, 1) after the one at a position, and the new cache."""
        x, caches = self.embedding(token), []
        for block, one in zip(self.blocks, cache, strict=True):
            x, now = block(x, one, position, mask)
            caches.append(now)
        return mx.argmax(self.head(self.norm(x)), axis=-1), caches


def train(model: Model, batches: mx.array, learning_rate: float) -> tuple[float, float]:
    """Update the model in place; the last loss, and the seconds of a step."""
    optimizer = optim.AdamW(learning_rate, betas=[0.9, 0.95])

    def loss_of(model: Model, x: mx.array, y: mx.array) -> tuple[mx.array, mx.array]:
        logits = model(x)
        return nn.losses.cross_entropy(logits, y, reduction="mean"), logits

    gradient = nn.value_and_grad(model, loss_of)
    begin = time.perf_counter()
    for step in range(len(batches)):
        x, y = batches[step, :, :-1], batches[step, :, 1:]
        (loss, logits), gradients = gradient(model, x, y)
        optimizer.update(model, gradients)
        hits = mx.argmax(logits, axis=-1) == y
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.4f}, accuracy {mx.mean(hits).item():.3f}")
        mx.eval(model.parameters(), optimizer.state)
        if step == 0:
            begin = time.perf_counter()
    return loss.item(), (time.perf_counter() - begin) / (len(batches) - 1)


def sample(model: Model, first: mx.array, size: Size) -> tuple[list[int], float]:
    """Continue a token (1, 1); the new tokens, and the seconds of one."""
    shape = (1, size.heads, size.sampled, size.width // size.heads)
    cache = [(mx.zeros(shape, mx.bfloat16), mx.zeros(shape, mx.bfloat16)) for _ in model.blocks]
    decode = mx.compile(model.decode, inputs=model.state)
    token, tokens, places = first, [], mx.arange(size.sampled)
    begin = time.perf_counter()
    for position in range(size.sampled):
        now = places[position : position + 1]
        token, cache = decode(token, cache, places <= now, now)
        mx.async_eval(token)
        tokens.append(token)
        if position == 0:
            begin = time.perf_counter()
    said = mx.concatenate(tokens, axis=1)[0].tolist()
    seconds = (time.perf_counter() - begin) / (len(tokens) - 1)
    return said[: said.index(END)] if END in said else said, seconds


def run(size: Size) -> Result:
    """Train and sample with fixed random numbers."""
    mx.random.seed(0)
    batches = sequences(size, size.steps)
    model = Model(size)
    mx.eval(batches, model.parameters())
    loss, step_seconds = train(model, batches, size.learning_rate)
    tokens, token_seconds = sample(model, batches[0, :1, :1].astype(mx.uint32), size)
    per_step = size.batch * size.length
    return Result(loss, tokens, step_seconds, per_step / step_seconds, 1 / token_seconds)


def main() -> None:
    """Print the speed, and write the result as JSON."""
    parser = argparse.ArgumentParser(description="Train a Transformer and sample from it.")
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--json", type=Path, help="write the result here")
    options = parser.parse_args()
    result = run(SIZES[options.size])
    print(f"loss {result.loss:.4f}, {result.step_seconds * 1e3:.2f} ms a step")
    print(f"trained {result.trained_per_second:,.0f} tokens/s")
    print(f"sampled {result.sampled_per_second:,.0f} tokens/s")
    if options.json:
        options.json.write_text(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
