"""Gradients in the states between chunks, from the last chunk to the first.

    dC_{k-1} = exp(G_L) dC_k + sum_t exp(G_t) q_t / sqrt(DK) (dh_t / normaliser_t)^T

and dn likewise, with the gradient in the normaliser's sum for the row of dh. It is the recurrence
of `chunk_states` run backward, and shares its kernel.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import executors, pairs
from xlstm_kernels.mlstm.chunk_states import STATE_GRADIENTS
from xlstm_kernels.mlstm.chunks import chunked_prefix, in_chunks, rows_where, totals

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.gates import LogGates


def chunk_state_gradients(
    q: mx.array,
    cotangent: mx.array,
    gates: LogGates,
    inverse: mx.array,
    bias: mx.array,
    c_cotangent: mx.array,
    n_cotangent: mx.array,
    *,
    chunk_size: int,
    backend: str,
) -> tuple[mx.array, mx.array]:
    """The gradients in the states before every chunk, and those given of the last.

    Args:
        q: (B, NH, S, DK), read through its strides.
        cotangent: of h, (B, NH, S, DV), read through its strides.
        gates: of the S steps, in chunks of `chunk_size`.
        inverse: 1 / normaliser, zero where h is zero whatever comes, (B, NH, S) float32.
        bias: gradient in the normaliser's sum before its bound, (B, NH, S) float32.
        c_cotangent: of the last C, (B, NH, DK, DV) float32.
        n_cotangent: of the last n, (B, NH, DK) float32.
        chunk_size: L; the last chunk may be shorter.
        backend: as `executors.resolve` returned it.

    Returns:
        dC (B, NH, NC + 1, DK, DV) and dn (B, NH, NC + 1, DK), float32.
    """
    if backend == executors.NATIVE:
        return chunk_state_gradients_reference(
            q, cotangent, gates, inverse, bias, c_cotangent, n_cotangent, chunk_size=chunk_size
        )
    c, n = STATE_GRADIENTS(
        q,
        cotangent,
        gates.prefix,
        gates.prefix_rest,
        mx.contiguous(c_cotangent),
        mx.contiguous(n_cotangent),
        mx.array(chunk_size, dtype=mx.uint32),
        inverse,
        bias,
        backend=backend,
        chunks=math.ceil(q.shape[2] / chunk_size),
    )
    return c, n


def chunk_state_gradients_reference(
    q: mx.array,
    cotangent: mx.array,
    gates: LogGates,
    inverse: mx.array,
    bias: mx.array,
    c_cotangent: mx.array,
    n_cotangent: mx.array,
    *,
    chunk_size: int,
) -> tuple[mx.array, mx.array]:
    """`chunk_state_gradients` in MLX operations."""
    live = inverse != mx.zeros_like(inverse)
    weight = mx.expand_dims(pairs.exp(chunked_prefix(gates, chunk_size)), axis=-1)
    root = mx.array(q.shape[3] ** -0.5, dtype=weight.dtype)
    queries = in_chunks(rows_where(q, live), chunk_size) * (weight * root)
    pulled = rows_where(cotangent, live) * mx.expand_dims(inverse, axis=-1)
    c_added = mx.swapaxes(queries, -1, -2) @ in_chunks(pulled, chunk_size)
    biased = mx.expand_dims(in_chunks(bias, chunk_size), axis=-1)
    n_added = mx.sum(queries * biased, axis=-2)
    decay = pairs.exp(totals(gates, chunk_size))
    c, n = [c_cotangent], [n_cotangent]
    for chunk in reversed(range(c_added.shape[2])):
        kept = mx.expand_dims(decay[:, :, chunk], axis=-1)
        n.append(kept * n[-1] + n_added[:, :, chunk])
        c.append(mx.expand_dims(kept, axis=-1) * c[-1] + c_added[:, :, chunk])
    return mx.stack(c[::-1], axis=2), mx.stack(n[::-1], axis=2)
