"""The recurrence of the mLSTM in MLX operations, which the references of step and sequence share.

Its equations are in `xlstm_kernels.mlstm.step`. Everything is float32, exponents are pairs of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels import pairs

if TYPE_CHECKING:
    from xlstm_kernels.pairs import Pair


def stabilisers(forget: Pair, admit: Pair, m: mx.array) -> Pair:
    """The m after each step: the greater one of `forget` + m and `admit`.

    Two spans of steps, in which m becomes max(m + a, b) and max(m + a', b'), make one with
    (a + a', max(b + a', b')). So spans that end at each step are doubled till they are the whole.

    Args:
        forget: (B, NH, S), log sigmoid(f).
        admit: (B, NH, S), i.
        m: (B, NH, 1) before the first step.
    """
    steps = forget.high.shape[2]
    sums, greatest = forget, admit
    reach = 1
    while reach < steps:
        joined = pairs.maximum(pairs.add(_later(greatest, reach, -math.inf), sums), greatest)
        sums, greatest = pairs.add(_later(sums, reach, 0.0), sums), joined
        reach *= 2
    return pairs.maximum(pairs.add(pairs.pair(m), sums), greatest)


def before(m: mx.array, after: Pair) -> Pair:
    """The m before each step, (B, NH, S): `m` (B, NH, 1) and what it is after each but the last."""
    high = mx.concatenate([m, after.high[..., :-1]], axis=2)
    return pairs.Pair(high, mx.concatenate([mx.zeros_like(m), after.low[..., :-1]], axis=2))


def factor(exponent: Pair, m: Pair) -> mx.array:
    """exp(exponent - m), which is zero if m is minus infinity."""
    return pairs.exp(pairs.pair(pairs.difference(exponent, m)))


def floor(m: Pair) -> mx.array:
    """exp(-m), which bounds the normaliser from below.

    Of the numbers that a GPU takes for zero it gives the next one that is not, as zero divided by
    zero is not zero.
    """
    smallest = mx.array(mx.finfo(mx.float32).smallest_normal, dtype=m.high.dtype)
    return mx.maximum(pairs.exp(pairs.negative(m)), smallest)


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


def read_out(q: mx.array, c: mx.array, n: mx.array, floor: mx.array, eps: float) -> mx.array:
    """Return h (B, NH, DV), float32: the states after a step, read by q (B, NH, DK)."""
    query = mx.expand_dims(q.astype(mx.float32), axis=2)
    query = query * mx.array(1 / math.sqrt(q.shape[2]), dtype=query.dtype)
    read = mx.squeeze(query @ c, axis=2)
    inner = mx.squeeze(query @ mx.expand_dims(n, axis=3), axis=2)
    normaliser = mx.maximum(mx.abs(inner), mx.expand_dims(floor, axis=2))
    return read / (normaliser + mx.array(eps, dtype=normaliser.dtype))


def _later(array: Pair, steps: int, first: float) -> Pair:
    """The same as many steps later; what comes before is `first`."""
    high, low = array.high[..., :-steps], array.low[..., :-steps]
    missing = (*high.shape[:-1], steps)
    front = mx.full(missing, first, dtype=high.dtype)
    return pairs.Pair(
        mx.concatenate([front, high], axis=-1),
        mx.concatenate([mx.zeros_like(front), low], axis=-1),
    )
