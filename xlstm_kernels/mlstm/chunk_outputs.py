"""Outputs of the chunkwise mLSTM: what the steps of a chunk read of its past and of each other.

With G, log i' and the floor of `gates.LogGates`, and C, n the states before the chunk,

    P_ts = exp(log i'_s + G_t - G_s) for s <= t, else 0
    A = P * (q k^T) / sqrt(DK)
    a_t = exp(G_t) q_t n / sqrt(DK) + sum_s A_ts
    h_t = (exp(G_t) q_t C / sqrt(DK) + (A v)_t) / (max(|a_t|, floor_t) + eps)

(Beck et al., "Tiled Flash Linear Attention", 2025, section 3). The parallel form is this one with a
single chunk.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import executors, pairs
from xlstm_kernels.mlstm.chunks import (
    admitted_rows,
    chunked_prefix,
    in_chunks,
    rows_where,
    weights_within,
)
from xlstm_kernels.mlstm.tile_kernel import tile_kernel
from xlstm_kernels.mlstm.tiles import Factor, Tiles

if TYPE_CHECKING:
    from xlstm_kernels.kernel import Kernel
    from xlstm_kernels.mlstm.gates import LogGates


def chunk_outputs(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    gates: LogGates,
    states: tuple[mx.array, mx.array] | None,
    eps: mx.array,
    *,
    chunk_size: int,
    normalize: bool,
    backend: str,
) -> tuple[mx.array, mx.array]:
    """The outputs h (B, NH, S, DV), in the dtype of v, and the a_t (B, NH, S) float32.

    Args:
        q: (B, NH, S, DK), read through its strides.
        k: (B, NH, S, DK), read through its strides.
        v: (B, NH, S, DV), read through its strides.
        gates: of the S steps, in chunks of `chunk_size`.
        states: C (B, NH, NC or more, DK, DV) and n (B, NH, as many, DK) before every chunk,
            float32; None if all of them are zero.
        eps: 0-d float32, added to the normaliser.
        chunk_size: L; the last chunk may be shorter.
        normalize: whether to divide at all.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        return chunk_outputs_reference(
            q, k, v, gates, states, eps, chunk_size=chunk_size, normalize=normalize
        )
    size = mx.array(chunk_size, dtype=mx.uint32)
    gated = (gates.prefix, gates.prefix_rest, gates.admitted, gates.floor)
    c, n = ((), ()) if states is None else ((states[0],), (states[1],))
    kernel = _KERNELS[states is not None, normalize]
    if not normalize:
        (h,) = kernel(q, k, v, size, *gated, *c, backend=backend, chunk_size=chunk_size)
        return h, mx.zeros_like(gates.floor)
    h, sums = kernel(q, k, v, size, *gated, *c, *n, eps, backend=backend, chunk_size=chunk_size)
    return h, sums


def chunk_outputs_reference(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    gates: LogGates,
    states: tuple[mx.array, mx.array] | None,
    eps: mx.array,
    *,
    chunk_size: int,
    normalize: bool,
) -> tuple[mx.array, mx.array]:
    """`chunk_outputs` in MLX operations."""
    steps, key_width = q.shape[2:]
    rows = (
        rows_where(q, mx.isfinite(gates.floor)),
        admitted_rows(k, gates),
        admitted_rows(v, gates),
    )
    queries, keys, values = (in_chunks(array, chunk_size) for array in rows)
    queries = queries * mx.array(key_width**-0.5, dtype=queries.dtype)
    floor = in_chunks(gates.floor, chunk_size, fill=mx.inf)
    weights = (queries @ mx.swapaxes(keys, -1, -2)) * weights_within(gates, chunk_size)
    numerator = weights @ values
    normaliser = mx.sum(weights, axis=-1)
    if states is not None:
        c, n = (state[:, :, : queries.shape[2]] for state in states)
        decay = pairs.exp(chunked_prefix(gates, chunk_size))
        decayed = queries * mx.expand_dims(decay, axis=-1)
        numerator = numerator + decayed @ c
        normaliser = normaliser + mx.squeeze(decayed @ mx.expand_dims(n, axis=-1), axis=-1)
    live = mx.expand_dims(mx.isfinite(floor), axis=-1)
    h = mx.where(live, numerator, mx.zeros_like(numerator))
    if normalize:
        divisor = mx.maximum(mx.abs(normaliser), floor) + eps
        h = numerator / mx.expand_dims(divisor, axis=-1)
    outputs = mx.flatten(h, 2, 3)[:, :, :steps].astype(v.dtype)
    return outputs, mx.flatten(normaliser, 2, 3)[:, :, :steps]


# --- Metal -------------------------------------------------------------------------------------


def _kernel(carried: bool, normalize: bool) -> Kernel:
    return tile_kernel(
        Tiles(
            name="xlstm_mlstm_chunk_outputs" + "_carried" * carried + "_raw" * (not normalize),
            rows=Factor.QUERY,
            columns=Factor.KEY,
            sums=Factor.KEY,
            past=True,
            carried=carried,
            normaliser=normalize,
        )
    )


_KERNELS = {
    (carried, normalize): _kernel(carried, normalize)
    for carried in (False, True)
    for normalize in (False, True)
}
