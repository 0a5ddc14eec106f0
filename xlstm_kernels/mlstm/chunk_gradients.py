"""Gradients of the chunkwise mLSTM in queries, keys and values: three kernels of one shape.

With u_t = dh_t / (max(|a_t|, floor_t) + eps), da_t the gradient in the normaliser's sum a_t, P of
`chunk_outputs`, and E_ts = (u_t . v_s + da_t) P_ts, exactly (also through the normaliser, which
other implementations take for a constant),

    dq_t = (sum_s E_ts k_s + exp(G_t) (C u_t + da_t n)) / sqrt(DK)
    dk_s = sum_t E_ts q_t / sqrt(DK) + e_s (dC v_s + dn)
    dv_s = sum_t P_ts (q_t . k_s) u_t / sqrt(DK) + e_s k_s dC

where C, n are the states before the chunk, dC, dn the gradients in those behind it, and e_s =
exp(log i'_s + G_L - G_s). m counts as a constant: what it changes is in `gate_gradients`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels import executors, pairs
from xlstm_kernels.mlstm.chunks import (
    admitted_rows,
    chunked_prefix,
    in_chunks,
    rows_where,
    weights_to_end,
    weights_within,
)
from xlstm_kernels.mlstm.tile_kernel import tile_kernel
from xlstm_kernels.mlstm.tiles import Factor, Tiles

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.gates import LogGates


class InputGradients(NamedTuple):
    """Gradients in q, k and v, and for the gates' sake the dot products of k and its own.

    Attributes:
        q: (B, NH, S, DK).
        k: (B, NH, S, DK).
        v: (B, NH, S, DV).
        k_dot: k . dk of every step but for what it read of itself, (B, NH, S) float32.
        own_dot: that, (B, NH, S) float32.
    """

    q: mx.array
    k: mx.array
    v: mx.array
    k_dot: mx.array
    own_dot: mx.array


def input_gradients(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    cotangent: mx.array,
    gates: LogGates,
    inverse: mx.array,
    bias: mx.array,
    states: tuple[mx.array, mx.array] | None,
    state_gradients: tuple[mx.array, mx.array],
    *,
    chunk_size: int,
    backend: str,
) -> InputGradients:
    """The gradients in q, k and v.

    Args:
        q: (B, NH, S, DK), read through its strides, as k, v and the cotangent are.
        k: (B, NH, S, DK).
        v: (B, NH, S, DV).
        cotangent: of h, (B, NH, S, DV).
        gates: of the S steps, in chunks of `chunk_size`.
        inverse: 1 / normaliser, zero where h is zero whatever comes, (B, NH, S) float32.
        bias: da, (B, NH, S) float32.
        states: C and n before every chunk, None if all of them are zero.
        state_gradients: dC and dn, of `chunk_states.chunk_state_gradients`.
        chunk_size: L; the last chunk may be shorter.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        return input_gradients_reference(
            q, k, v, cotangent, gates, inverse, bias, states, state_gradients, chunk_size=chunk_size
        )
    size = mx.array(chunk_size, dtype=mx.uint32)
    gated = (gates.prefix, gates.prefix_rest, gates.admitted, gates.floor, inverse)
    (q_gradient,) = _QUERIES[states is not None](
        cotangent, v, k, size, *gated, bias, *(states or ()), backend=backend, chunk_size=chunk_size
    )
    k_gradient, k_dots, own_dots = _KEYS(
        v,
        cotangent,
        q,
        size,
        *gated,
        bias,
        *state_gradients,
        k,
        backend=backend,
        chunk_size=chunk_size,
    )
    (v_gradient,) = _VALUES(
        k, q, cotangent, size, *gated, state_gradients[0], backend=backend, chunk_size=chunk_size
    )
    dots = (mx.sum(tiles, axis=0) for tiles in (k_dots, own_dots))
    return InputGradients(q_gradient, k_gradient, v_gradient, *dots)


def input_gradients_reference(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    cotangent: mx.array,
    gates: LogGates,
    inverse: mx.array,
    bias: mx.array,
    states: tuple[mx.array, mx.array] | None,
    state_gradients: tuple[mx.array, mx.array],
    *,
    chunk_size: int,
) -> InputGradients:
    """`input_gradients` in MLX operations."""
    steps = q.shape[2]
    reading = rows_where(q, mx.isfinite(gates.floor))
    pulled = rows_where(cotangent, inverse != mx.zeros_like(inverse))
    pulled = pulled * mx.expand_dims(inverse, axis=-1)
    rows = reading, admitted_rows(k, gates), admitted_rows(v, gates), pulled
    queries, keys, values, u = (in_chunks(array, chunk_size) for array in rows)
    root = mx.array(q.shape[3] ** -0.5, dtype=queries.dtype)
    biased = mx.expand_dims(in_chunks(bias, chunk_size), axis=-1)
    within = weights_within(gates, chunk_size)
    decay = mx.expand_dims(pairs.exp(chunked_prefix(gates, chunk_size)), axis=-1)
    to_end = mx.expand_dims(weights_to_end(gates, chunk_size), axis=-1)

    paired = (u @ _transposed(values) + biased) * within
    own = mx.expand_dims(mx.diagonal(paired, axis1=-2, axis2=-1), axis=-1)
    others = paired * mx.logical_not(mx.eye(chunk_size, dtype=mx.bool_))
    by_query, by_key = paired @ keys, root * (_transposed(others) @ queries)
    if states is not None:
        c, n = (state[:, :, : queries.shape[2]] for state in states)
        by_query = by_query + decay * (u @ _transposed(c) + biased * mx.expand_dims(n, axis=-2))
    c_behind, n_behind = (gradient[:, :, 1:] for gradient in state_gradients)
    ahead = values @ _transposed(c_behind) + mx.expand_dims(n_behind, axis=-2)
    by_key = by_key + to_end * ahead
    by_value = root * (_transposed((queries @ _transposed(keys)) * within) @ u)
    by_value = by_value + to_end * (keys @ c_behind)

    def whole(chunks: mx.array) -> mx.array:
        return mx.flatten(chunks, 2, 3)[:, :, :steps]

    own_key = root * own * queries
    return InputGradients(
        whole(root * by_query).astype(q.dtype),
        whole(by_key + own_key).astype(k.dtype),
        whole(by_value).astype(v.dtype),
        whole(mx.sum(keys * by_key, axis=-1)),
        whole(mx.sum(keys * own_key, axis=-1)),
    )


def _transposed(matrices: mx.array) -> mx.array:
    return mx.swapaxes(matrices, -1, -2)


# --- Metal -------------------------------------------------------------------------------------

_QUERIES = {
    carried: tile_kernel(
        Tiles(
            name="xlstm_mlstm_chunk_query_gradients" + "_carried" * carried,
            rows=Factor.COTANGENT,
            columns=Factor.KEY,
            sums=Factor.KEY,
            past=True,
            carried=carried,
            transposed=True,
            bias="row",
            vector=carried,
            scaled=True,
        )
    )
    for carried in (False, True)
}
_KEYS = tile_kernel(
    Tiles(
        name="xlstm_mlstm_chunk_key_gradients",
        rows=Factor.KEY,
        columns=Factor.COTANGENT,
        sums=Factor.QUERY,
        past=False,
        transposed=True,
        bias="column",
        vector=True,
        dotted=True,
    )
)
_VALUES = tile_kernel(
    Tiles(
        name="xlstm_mlstm_chunk_value_gradients",
        rows=Factor.KEY,
        columns=Factor.QUERY,
        sums=Factor.COTANGENT,
        past=False,
    )
)
