"""Checks of the arrays that layers and models take, and their split into heads."""

from __future__ import annotations

import mlx.core as mx


def require_sequences(owner: str, x: mx.array, *features: int) -> None:
    """Accept sequences (B, S, *features).

    Raises:
        ValueError: for another number of axes, and for other features.
    """
    if x.shape[2:] != features:
        sizes = ", ".join(map(str, features))
        raise ValueError(f"{owner}: x must be (B, S, {sizes}), got {x.shape}")


def require_tokens(owner: str, inputs: mx.array) -> None:
    """Accept token ids (B, S).

    Raises:
        ValueError: for another number of axes, and for a dtype that is not an integer's.
    """
    if inputs.ndim != 2 or not mx.issubdtype(inputs.dtype, mx.integer):
        raise ValueError(
            f"{owner}: inputs must be token ids (B, S), got {inputs.dtype} {inputs.shape}"
        )


def heads_first(x: mx.array, heads: int) -> mx.array:
    """View (B, S, NH * DH) as (B, NH, S, DH), without a copy."""
    batch, steps, width = x.shape
    return x.reshape((batch, steps, heads, width // heads)).transpose(0, 2, 1, 3)
