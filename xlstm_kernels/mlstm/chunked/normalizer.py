"""Gradients through the normaliser of the mLSTM, step by step.

h = numerator / (max(|a|, floor) + eps), where the numerator and a are linear in q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.mlstm.chunked.row_kernels import row_kernel

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.chunked.gates import LogGates


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
    live = mx.isfinite(gates.floor)
    if not normalize:
        none = mx.zeros_like(sums)
        return NormalizerGradients(live.astype(mx.float32), none, none)
    # An array of zeros would be another launch.
    nothing, smallest = (mx.array(number, dtype=sums.dtype) for number in (0.0, eps))
    size = mx.abs(sums)
    divisor = mx.maximum(size, gates.floor) + smallest
    inverse = mx.where(live, mx.reciprocal(divisor), nothing)
    if not through:
        none = mx.zeros_like(sums)
        return NormalizerGradients(inverse, none, none)
    pulled = mx.where(live, row_dots(h, cotangent, backend=backend), nothing) * inverse
    bias = mx.where(size > gates.floor, mx.negative(pulled) * mx.sign(sums), nothing)
    return NormalizerGradients(inverse, bias, mx.negative(pulled * smallest))


def row_dots(a: mx.array, b: mx.array, *, backend: str) -> mx.array:
    """Dot products of rows, (..., D) twice to (...), summed in float32."""
    if backend == executors.NATIVE:
        return mx.sum(a.astype(mx.float32) * b.astype(mx.float32), axis=-1)
    (dots,) = DOTS(a, b, backend=backend)
    return dots


DOTS = row_kernel(
    "xlstm_mlstm_row_dots",
    ("first", "second"),
    ("dots",),
    """
        for (uint k = 0; k < PACK; ++k) {
            number += first_pack.at[k] * second_pack.at[k];
        }""",
)
