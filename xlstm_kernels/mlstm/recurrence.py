"""The recurrence of the mLSTM in MLX operations, which the references of step and sequence share.

Its equations are in `xlstm_kernels.mlstm.step`. Everything is float32, m a pair of them. To the
gradient m is a constant: it scales numerator and denominator of h alike.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels.mlstm import pairs

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.pairs import Pair


class Exponents(NamedTuple):
    """Of a step, (B, NH) each: of what is kept, of what is admitted, and the greater one, m."""

    kept: Pair
    admitted: Pair
    m: Pair


def exponents(i: mx.array, f: mx.array, m: Pair) -> Exponents:
    """Of gates i, f (B, NH) of any dtype, and m before the step."""
    kept = pairs.add(pairs.log_sigmoid(f.astype(mx.float32)), pairs.constant(m))
    admitted = pairs.pair(i.astype(mx.float32))
    return Exponents(kept, admitted, pairs.constant(pairs.maximum(kept, admitted)))


def factor(exponent: Pair, m: Pair) -> mx.array:
    """exp(exponent - m), which is zero if m is minus infinity."""
    return pairs.exp(pairs.pair(pairs.difference(exponent, m)))


def updated(
    c: mx.array, n: mx.array, k: mx.array, v: mx.array, forget: mx.array, admit: mx.array
) -> tuple[mx.array, mx.array]:
    """C (B, NH, DK, DV) and n (B, NH, DK) after a step whose factors are forget, admit (B, NH)."""
    forget, admit = mx.expand_dims(forget, axis=2), mx.expand_dims(admit, axis=2)
    key = admit * k.astype(mx.float32)
    value = mx.expand_dims(v.astype(mx.float32), axis=2)
    n = forget * n.astype(mx.float32) + key
    c = mx.expand_dims(forget, axis=3) * c.astype(mx.float32) + mx.expand_dims(key, axis=3) * value
    return c, n


def read_out(q: mx.array, c: mx.array, n: mx.array, m: Pair, eps: float) -> mx.array:
    """What q (B, NH, DK) reads from the states after a step: h (B, NH, DV), float32."""
    query = mx.expand_dims(q.astype(mx.float32), axis=2)
    query = query * mx.array(1 / math.sqrt(q.shape[2]), dtype=query.dtype)
    read = mx.squeeze(query @ c, axis=2)
    inner = mx.squeeze(query @ mx.expand_dims(n, axis=3), axis=2)
    # Of the numbers that a GPU takes for zero the next one that is not: zero divided by zero is
    # not zero.
    smallest = mx.array(mx.finfo(mx.float32).smallest_normal, dtype=m.high.dtype)
    floor = mx.maximum(pairs.exp(pairs.negative(m)), smallest)
    denominator = mx.maximum(mx.abs(inner), mx.expand_dims(floor, axis=2))
    return read / (denominator + mx.array(eps, dtype=denominator.dtype))
