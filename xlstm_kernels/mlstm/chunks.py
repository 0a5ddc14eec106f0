"""A sequence cut into chunks of L steps, and the weights of its steps, in MLX operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import pairs

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.gates import LogGates


def in_chunks(array: mx.array, chunk_size: int, *, fill: float | None = 0.0) -> mx.array:
    """(B, NH, S, ...) as (B, NH, NC, L, ...), the last chunk filled up.

    Args:
        array: the sequence, S at least 1.
        chunk_size: L.
        fill: what follows the last step; None repeats that step.
    """
    missing = -array.shape[2] % chunk_size
    if missing:
        following = (*array.shape[:2], missing, *array.shape[3:])
        if fill is None:
            more = mx.broadcast_to(array[:, :, -1:], following)
        else:
            more = mx.full(following, fill, dtype=array.dtype)
        array = mx.concatenate([array, more], axis=2)
    return mx.unflatten(array, 2, (-1, chunk_size))


def rows_where(array: mx.array, kept: mx.array) -> mx.array:
    """(B, NH, S, D) as float32, zero where (B, NH, S) `kept` is False, NaN or not."""
    return mx.where(mx.expand_dims(kept, axis=-1), array, mx.zeros_like(array)).astype(mx.float32)


def admitted_rows(array: mx.array, gates: LogGates) -> mx.array:
    """Keys or values as float32, zero where the input gate admits nothing of them."""
    return rows_where(array, mx.logical_not(mx.isneginf(gates.admitted)))


def chunked_prefix(gates: LogGates, chunk_size: int) -> pairs.Pair:
    """G as (B, NH, NC, L); a step after the last one keeps all."""
    return pairs.Pair(
        in_chunks(gates.prefix, chunk_size, fill=None),
        in_chunks(gates.prefix_rest, chunk_size, fill=None),
    )


def totals(gates: LogGates, chunk_size: int) -> pairs.Pair:
    """G_L, the decay of each whole chunk: (B, NH, NC)."""
    prefix = chunked_prefix(gates, chunk_size)
    return pairs.Pair(prefix.high[..., -1], prefix.low[..., -1])


def weights_to_end(gates: LogGates, chunk_size: int) -> mx.array:
    """exp(log i'_s + G_L - G_s), the weight of each step in its chunk's state: (B, NH, NC, L)."""
    prefix = chunked_prefix(gates, chunk_size)
    total = pairs.Pair(*(mx.expand_dims(part, axis=-1) for part in totals(gates, chunk_size)))
    admitted = in_chunks(gates.admitted, chunk_size, fill=-mx.inf)
    return pairs.exp(pairs.pair(admitted + pairs.difference(total, prefix)))


def weights_within(gates: LogGates, chunk_size: int) -> mx.array:
    """exp(log i'_s + G_t - G_s) for s <= t, else zero: (B, NH, NC, L, L), t before s."""
    prefix = chunked_prefix(gates, chunk_size)
    row = pairs.Pair(*(mx.expand_dims(part, axis=-1) for part in prefix))
    column = pairs.Pair(*(mx.expand_dims(part, axis=-2) for part in prefix))
    admitted = mx.expand_dims(in_chunks(gates.admitted, chunk_size, fill=-mx.inf), axis=-2)
    order = mx.arange(chunk_size)
    past = mx.expand_dims(order, axis=1) >= mx.expand_dims(order, axis=0)
    # Of later steps the exponent would be positive, and might overflow.
    exponent = admitted + pairs.difference(row, column)
    exponent = mx.where(past, exponent, mx.full(exponent.shape, -mx.inf, dtype=mx.float32))
    return pairs.exp(pairs.pair(exponent))
