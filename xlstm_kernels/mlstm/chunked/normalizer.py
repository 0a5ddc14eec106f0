"""Gradients through the normaliser of the mLSTM, step by step.

h = numerator / (max(|a|, floor) + eps), where the numerator and a are linear in q.
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.mlstm.chunked.gates import LogGates
from xlstm_kernels.mlstm.chunked.row_kernels import row_kernel


class NormalizerGradients(NamedTuple):
    """Of every step, (B, NH, NC, L) float32.

    Attributes:
        inverse: 1 / normaliser, zero where h is zero whatever comes.
        bias: da, the gradient in the sums before their bound.
        by_eps: the gradient in m, which scales all but eps.
    """

    inverse: mx.array
    bias: mx.array
    by_eps: mx.array


def normalizer_gradients(
    h: mx.array,
    cotangent: mx.array,
    sums: mx.array,
    gates: LogGates,
    eps: float,
    *,
    normalize: bool,
    through: bool,
    backend: str,
) -> NormalizerGradients:
    """Gradients through the normaliser, from the cotangent of h.

    Args:
        h: (B, NH, NC, L, DV), as it lies.
        cotangent: of h.
        sums: a, (B, NH, NC, L) float32.
        gates: of the steps.
        eps: added to the normaliser.
        normalize: whether h was divided.
        through: whether the gradient flows through the normaliser.
        backend: as `executors.resolve` returned it.
    """
    smallest, nothing = mx.array(eps, dtype=sums.dtype), mx.zeros_like(sums)
    live = mx.isfinite(gates.floor)
    if not normalize:
        return NormalizerGradients(live.astype(mx.float32), nothing, nothing)
    if backend != executors.NATIVE:
        found = GRADIENTS(h, cotangent, sums, gates.floor, smallest, backend=backend)
        return NormalizerGradients(*(found if through else (found[0], nothing, nothing)))
    size = mx.abs(sums)
    inverse = mx.where(live, mx.reciprocal(mx.maximum(size, gates.floor) + smallest), nothing)
    if not through:
        return NormalizerGradients(inverse, nothing, nothing)
    pulled = mx.where(live, row_dots(h, cotangent, backend=backend), nothing) * inverse
    bias = mx.where(size > gates.floor, mx.negative(pulled) * mx.sign(sums), nothing)
    return NormalizerGradients(inverse, bias, mx.negative(pulled * smallest))


def row_dots(a: mx.array, b: mx.array, *, backend: str) -> mx.array:
    """Dot products of rows, (..., D) twice to (...), summed in float32."""
    if backend == executors.NATIVE:
        return mx.sum(a.astype(mx.float32) * b.astype(mx.float32), axis=-1)
    (dots,) = DOTS(a, b, backend=backend)
    return dots


_ADD_PRODUCTS = """
        for (uint k = 0; k < PACK; ++k) {
            number += first_pack.at[k] * second_pack.at[k];
        }"""
DOTS = row_kernel("xlstm_mlstm_row_dots", ("first", "second"), ("dots",), _ADD_PRODUCTS)
GRADIENTS = row_kernel(
    "xlstm_mlstm_normalizer_gradients",
    ("first", "second"),
    ("inverse", "bias", "by_eps"),
    _ADD_PRODUCTS,
    given=("sums", "least", "smallest"),
    finish="""
        const float size = metal::abs(sums[step]);
        const bool live = metal::isfinite(least[step]);
        const float reciprocal = live ? 1.0f / (metal::max(size, least[step]) + smallest) : 0.0f;
        const float pulled = live ? number * reciprocal : 0.0f;
        inverse[step] = reciprocal;
        const float bounded = size > least[step] ? pulled : 0.0f;
        bias[step] = sums[step] > 0.0f ? -bounded : bounded;
        by_eps[step] = -pulled * smallest;""",
)
