"""The recurrence of the mLSTM in MLX operations, which the references of step and sequence share.

Its equations are in `xlstm_kernels.mlstm.step`. Everything is float32, gates are summed in float64.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels.double_float import pairs
from xlstm_kernels.executors import NATIVE
from xlstm_kernels.mlstm.chunked.gates import log_gates


class Factors(NamedTuple):
    """Of each step, (B, NH, S): what it keeps and admits, and the floor; and the last m (B, NH, 1).

    A step that is masked keeps all, admits nothing, and its floor is infinite.
    """

    forget: mx.array
    admit: mx.array
    floor: mx.array
    m: mx.array


def factors(i: mx.array, f: mx.array, m: mx.array, mask: mx.array | None = None) -> Factors:
    """The factors of gates i, f (B, NH, S) after an m (B, NH, 1), with a mask (B, S) or none.

    The floor, exp(-m), bounds the normaliser from below. Of the numbers that a GPU takes for zero
    it gives the next one that is not, as zero divided by zero is not zero.
    """
    gates = log_gates(i, f, m, mask, chunk_size=1, sigmoid_input=False, backend=NATIVE)
    exponents = [mx.squeeze(array, axis=-1) for array in gates.exponents]
    floor = mx.squeeze(gates.floor, axis=-1)
    smallest = mx.array(mx.finfo(mx.float32).smallest_normal, dtype=floor.dtype)
    forget, admit = (pairs.exp(pairs.Pair(*exponents[at : at + 2])) for at in (0, 2))
    if mask is not None:  # also where m is minus infinity
        forget = mx.where(mx.expand_dims(mask, axis=1), forget, mx.ones_like(forget))
    return Factors(forget, admit, mx.maximum(floor, smallest), gates.m)


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
