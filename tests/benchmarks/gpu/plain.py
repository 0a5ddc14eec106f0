"""Operators in plain MLX operations: the comparison that users would write themselves."""

from __future__ import annotations

import mlx.core as mx

EPS = 1e-6


def log_sigmoid(values: mx.array) -> mx.array:
    return -mx.logaddexp(-values, mx.zeros_like(values))


def chunkwise(*arrays: mx.array, length: int, exponential: bool = True) -> mx.array:
    """The mLSTM in float32, by a loop over compiled chunks.

    Args:
        arrays: q, k (B, NH, S, DK), v (B, NH, S, DV), i, f (B, NH, S).
        length: steps of a chunk; S is a multiple of it.
        exponential: the input gate is exponential and stabilized by m, otherwise a sigmoid.

    Returns:
        h (B, NH, S, DV) in the dtype of v.
    """
    q, k, v, i, f = (array.astype(mx.float32) for array in arrays)
    batch, heads, steps, keys = q.shape
    past = mx.tril(mx.ones((length, length), dtype=mx.bool_))
    c, n = mx.zeros((batch, heads, keys, v.shape[3])), mx.zeros((batch, heads, keys, 1))
    m = mx.zeros((batch, heads, 1))
    outputs = []
    for chunk in zip(
        *(array.split(steps // length, axis=2) for array in (q, k, v, i, f)), strict=True
    ):
        h, c, n, m = _chunk(*chunk, past, c, n, m, exponential=exponential)
        outputs.append(h)
    return mx.concatenate(outputs, axis=2).astype(arrays[2].dtype)


@mx.compile
def _chunk(*arrays: mx.array, exponential: bool) -> tuple[mx.array, ...]:
    """Return h and the states after a chunk; `past` masks the steps that a step depends on."""
    query, key, value, admitted, forget, past, c, n, m = arrays
    query = query * query.shape[-1] ** -0.5
    gate = admitted if exponential else log_sigmoid(admitted)
    total = mx.cumsum(log_sigmoid(forget), axis=-1)
    decay = mx.where(past, total[..., None] - total[..., None, :] + gate[..., None, :], -mx.inf)
    kept, last = total + m, total[..., -1:]
    arrived = last - total + gate
    bound, after = mx.zeros_like(kept), mx.zeros_like(m)
    if exponential:
        bound = mx.maximum(kept, decay.max(axis=-1))
        after = mx.maximum(last + m, arrived.max(axis=-1, keepdims=True))
    weights = mx.exp(decay - bound[..., None]) * (query @ key.swapaxes(-1, -2))
    scaled = query * mx.exp(kept - bound)[..., None]
    inner = mx.abs(weights.sum(axis=-1, keepdims=True) + scaled @ n)
    size = mx.maximum(inner, mx.exp(-bound)[..., None]) + EPS
    weighted = (key * mx.exp(arrived - after)[..., None]).swapaxes(-1, -2)
    fading = mx.exp(last + m - after)[..., None]
    return (
        (weights @ value + scaled @ c) / size,
        fading * c + weighted @ value,
        fading * n + weighted.sum(axis=-1, keepdims=True),
        after,
    )


def step(*arrays: mx.array) -> tuple[mx.array, ...]:
    """One step of the mLSTM in float32.

    Args:
        arrays: q, k (B, NH, DK), v (B, NH, DV), i, f (B, NH), C (B, NH, DK, DV), n (B, NH, DK), m
            (B, NH).

    Returns:
        h (B, NH, DV) in the dtype of v, and the states after the step.
    """
    q, k, v, i, f, c, n, m = (array.astype(mx.float32) for array in arrays)
    kept = log_sigmoid(f) + m
    after = mx.maximum(kept, i)
    forget, admit = (mx.exp(gate - after)[..., None] for gate in (kept, i))
    key = admit * k
    c = forget[..., None] * c + key[..., None] * v[..., None, :]
    n = forget * n + key
    query = (q * q.shape[-1] ** -0.5)[..., None, :]
    inner = mx.abs(query @ n[..., None])[..., 0]
    size = mx.maximum(inner, mx.exp(-after)[..., None]) + EPS
    return ((query @ c)[..., 0, :] / size).astype(arrays[2].dtype), c, n, after


def rms_norm(x: mx.array, weight: mx.array) -> mx.array:
    wide = x.astype(mx.float32)
    scale = mx.rsqrt(mx.mean(wide * wide, axis=-1, keepdims=True) + EPS)
    return (wide * scale * weight.astype(mx.float32)).astype(x.dtype)


def head_norm(
    x: mx.array, weight: mx.array, gate: mx.array | None = None, *, centered: bool
) -> mx.array:
    """The norm of each head of x (B, S, NH, DH), weighted and gated (B, S, NH * DH)."""
    wide = x.astype(mx.float32)
    if centered:
        wide = wide - mx.mean(wide, axis=-1, keepdims=True)
    scale = mx.rsqrt(mx.mean(wide * wide, axis=-1, keepdims=True) + EPS)
    flat = (wide * scale).flatten(2) * weight.astype(mx.float32)
    return (flat if gate is None else flat * mx.sigmoid(gate.astype(mx.float32))).astype(x.dtype)


def soft_cap(values: mx.array, cap: float) -> mx.array:
    return (cap * mx.tanh(values.astype(mx.float32) / cap)).astype(values.dtype)


def fft_conv(x: mx.array, weight: mx.array, skip: mx.array) -> mx.array:
    """The usual long convolution of x (B, S, C): twice the steps, whatever their number."""
    steps, wide = x.shape[1], x.astype(mx.float32)
    taps = mx.fft.rfft(weight.astype(mx.float32).T, n=2 * steps, axis=0)
    y = mx.fft.irfft(mx.fft.rfft(wide, n=2 * steps, axis=1) * taps, n=2 * steps, axis=1)
    return (y[:, :steps] + wide * skip.astype(mx.float32)).astype(x.dtype)


def complex_multiply(a: mx.array, b: mx.array) -> mx.array:
    """The product of pairs (..., 2) in complex64."""
    x, y = (pair[..., 0].astype(mx.complex64) + 1j * pair[..., 1] for pair in (a, b))
    product = x * y
    return mx.stack([mx.real(product), mx.imag(product)], axis=-1).astype(a.dtype)
