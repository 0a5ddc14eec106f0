"""Checks of the arrays that layers and models take, and their split into heads."""

from __future__ import annotations

import mlx.core as mx

from xlstm_kernels.arguments import require_kind


def require_sequences(owner: str, x: mx.array, *features: int) -> None:
    """Accept sequences (B, S, *features); raise a ValueError for other shapes."""
    if x.shape[2:] != features:
        sizes = ", ".join(map(str, features))
        raise ValueError(f"{owner}: x must be (B, S, {sizes}), got {x.shape}")


def require_tokens(owner: str, inputs: mx.array) -> None:
    """Accept token ids (B, S).

    Raise a TypeError for what is not an array of integers, a ValueError for another number of axes.
    """
    require_kind(owner, "inputs", inputs, mx.integer, "token ids (B, S)")
    if inputs.ndim != 2:
        raise ValueError(
            f"{owner}: inputs must be token ids (B, S), got {inputs.shape}; "
            "one sequence is inputs[None]"
        )


def heads_first(x: mx.array, heads: int) -> mx.array:
    """View (B, S, NH * DH) as (B, NH, S, DH), without a copy."""
    batch, steps, width = x.shape
    return x.reshape((batch, steps, heads, width // heads)).transpose(0, 2, 1, 3)
