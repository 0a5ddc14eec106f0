"""The norms of heads by their definition, and its gradient, in NumPy's float64."""

from __future__ import annotations

import numpy as np

EPS = 1e-5


def oracle(
    x: np.ndarray,
    norm: str,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    gate: np.ndarray | None = None,
    eps: float = EPS,
) -> np.ndarray:
    batch, length, heads, columns = x.shape
    count = max(columns, 1)  # the mean of no elements is never used
    if norm == "layer":
        x = x - x.sum(axis=-1, keepdims=True) / count
    below = np.sqrt((x**2).sum(axis=-1, keepdims=True) / count + eps)
    result = (x / below).reshape(batch, length, heads * columns)
    result = result * (1.0 if weight is None else weight) + (0.0 if bias is None else bias)
    return result * (1.0 if gate is None else 1 / (1 + np.exp(-gate)))


def gradients(
    x: np.ndarray,
    norm: str,
    cotangent: np.ndarray,
    weight: np.ndarray | None = None,
    bias: np.ndarray | None = None,
    gate: np.ndarray | None = None,
    eps: float = EPS,
) -> dict[str, np.ndarray]:
    """Of `oracle` in x, weight, bias and gate, backward through its very steps.

    Beside them "parts", of x: the gradient if what is below the root were constant. Where a head
    has but one value, x has no gradient left, and its errors are those of the parts.
    """
    batch, length, heads, columns = x.shape
    flat = (batch, length, heads * columns)
    count = max(columns, 1)
    weight = np.ones(flat[2]) if weight is None else weight
    bias = np.zeros(flat[2]) if bias is None else bias
    opened = np.ones(flat) if gate is None else 1 / (1 + np.exp(-gate))
    centred = x - x.sum(axis=-1, keepdims=True) / count if norm == "layer" else x
    below = np.sqrt((centred**2).sum(axis=-1, keepdims=True) / count + eps)
    normalised = (centred / below).reshape(flat)

    through = cotangent * opened
    in_normalised = (through * weight).reshape(x.shape)
    parts = in_normalised / below
    in_below = -(in_normalised * centred).sum(axis=-1, keepdims=True) / below**2
    in_x = parts + in_below * centred / (count * below)
    if norm == "layer":
        in_x = in_x - in_x.sum(axis=-1, keepdims=True) / count
    return {
        "x": in_x,
        "weight": (through * normalised).sum(axis=(0, 1)),
        "bias": through.sum(axis=(0, 1)),
        "gate": cotangent * (normalised * weight + bias) * opened * (1 - opened),
        "parts": parts,
    }
