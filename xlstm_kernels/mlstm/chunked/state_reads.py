"""Gradients of queries and keys through the states: what is read of a state, weighted.

With C, n before the chunk, dC, dn the gradients in those after it, w_t = 1 / normaliser, da_t the
gradient in its sum, and G, log i' of `gates.LogGates`,

    dq_t gets exp(G_t) (w_t C dh_t + da_t n) / sqrt(DK)
    dk_s gets exp(log i'_s + G_L - G_s) (dC v_s + dn)

The dot products of queries and keys with what they get are the gradients in those exponents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.mlstm.chunked.chunks import weights_from_start, weights_to_end
from xlstm_kernels.mlstm.chunked.row_kernels import row_kernel

if TYPE_CHECKING:
    from xlstm_kernels.kernel import Kernel
    from xlstm_kernels.mlstm.chunked.gates import LogGates


def read_by_queries(
    read: mx.array,
    n: mx.array,
    q: mx.array,
    gates: LogGates,
    inverse: mx.array,
    bias: mx.array,
    *,
    backend: str,
) -> tuple[mx.array, mx.array]:
    """The gradients that queries get, (B, NH, NC, L, DK), and their dot products with the queries.

    Args:
        read: dh C^T, (B, NH, NC, L, DK).
        n: (B, NH, NC, DK) float32.
        q: (B, NH, NC, L, DK), as it lies.
        gates: of the steps.
        inverse: w, (B, NH, NC, L) float32.
        bias: da, likewise.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        weights = weights_from_start(gates)
        weights = weights * mx.array(read.shape[-1] ** -0.5, dtype=weights.dtype)
        return _weighted(read, n, q, weights * inverse, weights * bias)
    gradients, dots = QUERIES(read, q, n, gates.prefix, inverse, bias, backend=backend)
    return gradients, dots


def read_by_keys(
    read: mx.array, n: mx.array, k: mx.array, gates: LogGates, *, backend: str
) -> tuple[mx.array, mx.array]:
    """The gradients that keys get, (B, NH, NC, L, DK), and their dot products with the keys.

    Args:
        read: v dC^T, (B, NH, NC, L, DK).
        n: dn, (B, NH, NC, DK) float32.
        k: (B, NH, NC, L, DK), as it lies.
        gates: of the steps.
        backend: as `executors.resolve` returned it.
    """
    if backend == executors.NATIVE:
        weights = weights_to_end(gates)
        return _weighted(read, n, k, weights, weights)
    gradients, dots = KEYS(read, k, n, *gates.exponents, backend=backend)
    return gradients, dots


def _weighted(
    read: mx.array, n: mx.array, rows: mx.array, of_read: mx.array, of_n: mx.array
) -> tuple[mx.array, mx.array]:
    weighted = read.astype(mx.float32) * mx.expand_dims(of_read, axis=-1)
    weighted = weighted + mx.expand_dims(of_n, axis=-1) * mx.expand_dims(n, axis=-2)
    return weighted.astype(read.dtype), mx.sum(weighted * rows.astype(mx.float32), axis=-1)


def _kernel(name: str, others: tuple[str, ...], weights: str) -> Kernel:
    return row_kernel(
        name,
        ("read", "rows"),
        ("n_states", *others),
        ("gradients", "dots"),
        """
        const auto n = xlstm_load<PACK>(n_states + place * width + column, 1, left);
        for (uint k = 0; k < PACK; ++k) {
            read_pack.at[k] = of_read * read_pack.at[k] + of_n * n.at[k];
            number += read_pack.at[k] * rows_pack.at[k];
        }
        xlstm_store(gradients + step * width + column, read_pack, left);""",
        before=weights,
    )


QUERIES = _kernel(
    "xlstm_mlstm_read_by_queries",
    ("prefix", "inverse", "bias"),
    """
    const float decay =
        metal::precise::rsqrt(static_cast<float>(width)) * metal::precise::exp(prefix[step]);
    const float of_read = decay * inverse[step];
    const float of_n = decay * bias[step];""",
)
KEYS = _kernel(
    "xlstm_mlstm_read_by_keys",
    ("prefix", "prefix_rest", "admitted", "admitted_rest"),
    """
    const size_t last = step - row + steps - 1;
    const float2 total = float2(prefix[last], prefix_rest[last]);
    const float2 here = float2(prefix[step], prefix_rest[step]);
    const float of_read = xlstm_pair_exp(float2(admitted[step], admitted_rest[step]),
        float2(xlstm_pair_difference(total, here), 0.0f));
    const float of_n = of_read;""",
)
