"""NaN and infinity, kept to the steps that read them.

A product of matrices multiplies by zero what a step does not read, and zero times NaN is NaN. So
both passes compute with finite numbers, zeros in place of others, and what depends on the others is
made NaN: h from such a step to the end of its sequence, the last states after it, and all gradients
of the steps up to a cotangent that is not finite, or to an h that is not and has a cotangent. A
sequence ends where a forget gate is minus infinity.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.differentiation import Arrays
from xlstm_kernels.mlstm.chunked.row_kernels import row_kernel


class Spoilt(NamedTuple):
    """Booleans of what reads a number that is not finite.

    Attributes:
        rows: the h of the step is NaN, (B, NH, S).
        end: the last states are NaN, (B, NH, 1).
        begins: a sequence begins at the step, (B, NH, S).
        live: the step is not masked, (B, 1, S), or 0-d for all.
    """

    rows: mx.array
    end: mx.array
    begins: mx.array
    live: mx.array


def isolated(
    inputs: Arrays, states: Arrays, mask: mx.array | None, *, sigmoid_input: bool, backend: str
) -> tuple[Arrays, Arrays, Spoilt]:
    """Inputs and states without what is not finite, and what reads it.

    Args:
        inputs: q, k and v, zero where a step is masked, i and f.
        states: c, n and m to begin with, or none.
        mask: (B, S) booleans, or None.
        sigmoid_input: the input gate may be infinite.
        backend: as `executors.resolve` returned it.
    """
    *given, i, f = inputs
    rows, sizes = zip(*(_finite_rows(array, backend) for array in given), strict=True)
    in_query, in_key, in_value = map(mx.isinf, sizes)
    infinite = mx.array(math.inf, dtype=i.dtype)
    in_gate = mx.isnan(i) if sigmoid_input else mx.logical_not(i < infinite)
    live = mx.array(True) if mask is None else mx.expand_dims(mask, axis=1)
    # MLX cannot differentiate running maxima.
    flags = _any(in_gate, mx.isnan(f), in_key, in_value), mx.isneginf(f)
    read, begins = (mx.stop_gradient(mx.logical_and(each, live)) for each in flags)
    initial = mx.array(False)
    if states:
        *others, m = states
        initial = mx.isinf(_size((*others, mx.where(mx.isneginf(m), mx.zeros_like(m), m))))
    # The states to begin with count as a step before the first.
    order = mx.arange(1, i.shape[-1] + 1, dtype=mx.int32)
    before, never = mx.zeros_like(order), mx.full(order.shape, -1, dtype=mx.int32)
    latest = mx.cummax(mx.where(read, order, mx.where(initial, before, never)), axis=-1)
    carried = latest >= mx.cummax(mx.where(begins, order, before), axis=-1)
    spoilt = mx.logical_and(mx.logical_or(carried, in_query), live)
    i = mx.where(in_gate, mx.negative(infinite), i)
    f = mx.where(mx.isnan(f), mx.zeros_like(f), f)
    states = tuple(replaced(array, initial, 0.0) for array in states)
    return (*rows, i, f), states, Spoilt(spoilt, carried[..., -1:], begins, live)


def isolated_cotangents(
    cotangents: Arrays, spoilt: Spoilt, *, backend: str
) -> tuple[Arrays, mx.array, mx.array]:
    """Cotangents without what is not finite, and which gradients are NaN.

    Args:
        cotangents: of h, zero where a step is masked, and of c, n and m.
        spoilt: of the inputs.
        backend: as `executors.resolve` returned it.

    Returns:
        Cotangents; the steps whose gradients are NaN, (B, NH, S) booleans; and whether those of the
        initial states are, (B, NH, 1).
    """
    of_h, size = _finite_rows(cotangents[0], backend)
    source = _any(mx.isinf(size), mx.logical_and(spoilt.rows, size.astype(mx.bool_)))
    size = _size(cotangents[1:])
    of_last = _any(mx.isinf(size), mx.logical_and(spoilt.end, size.astype(mx.bool_)))
    of_states = (replaced(array, _any(of_last, spoilt.end), 0.0) for array in cotangents[1:])
    # The last states count as a step after the last.
    steps = source.shape[-1]
    order = mx.arange(steps, dtype=mx.int32)
    behind, never = (mx.full(order.shape, at, dtype=mx.int32) for at in (steps, steps + 1))
    first = mx.where(source, order, mx.where(of_last, behind, never))
    end = mx.cummin(mx.where(spoilt.begins, order, never), axis=-1, reverse=True, inclusive=False)
    reached = mx.cummin(first, axis=-1, reverse=True) < mx.minimum(end, never)
    initial = mx.logical_and(reached, mx.logical_not(spoilt.begins))[..., :1]
    return (of_h, *of_states), mx.logical_and(reached, spoilt.live), initial


def replaced(array: mx.array, flags: mx.array, value: float = math.nan) -> mx.array:
    """`array` (B, NH, ...) with `value` where flags of its first axes are True."""
    flags = flags.reshape((*flags.shape[: array.ndim], *(1,) * (array.ndim - flags.ndim)))
    return mx.where(flags, mx.array(value, dtype=array.dtype), array)


def marked(rows: mx.array, flags: mx.array, *, backend: str) -> mx.array:
    """`rows` (B, NH, S, D), NaN where flags (B, NH, S) are True."""
    if backend == executors.NATIVE:
        return replaced(rows, flags)
    # MLX's selection by a flag for each row works out the place of each element.
    (found,) = MARKED_ROWS(mx.expand_dims(rows, axis=2), flags, backend=backend)
    return mx.squeeze(found, axis=2)


def _any(*flags: mx.array) -> mx.array:
    return functools.reduce(mx.logical_or, flags)


def _size(states: Arrays) -> mx.array:
    """The largest magnitude of a head's states, (B, NH, 1)."""
    sizes = [_sizes(mx.flatten(array, 2)) for array in states]
    return mx.expand_dims(mx.max(mx.stack(sizes), axis=0), axis=-1)


def _sizes(rows: mx.array) -> mx.array:
    """The largest magnitude of each row (..., D), float32: infinity if it is not finite."""
    rows = mx.stop_gradient(rows).astype(mx.float32)
    infinite = mx.array(math.inf, dtype=mx.float32)
    return mx.max(mx.where(mx.isfinite(rows), mx.abs(rows), infinite), axis=-1)


def _finite_rows(rows: mx.array, backend: str) -> tuple[mx.array, mx.array]:
    """Rows (B, NH, S, D) with zeros for what is not finite, and their `_sizes`."""
    if backend == executors.NATIVE:
        return mx.where(mx.isfinite(rows), rows, mx.zeros_like(rows)), _sizes(rows)
    finite, sizes = FINITE_ROWS(mx.expand_dims(rows, axis=2), backend=backend)
    return mx.squeeze(finite, axis=2), mx.squeeze(sizes, axis=2)


FINITE_ROWS = row_kernel(
    "xlstm_mlstm_finite_rows",
    ("rows",),
    ("finite", "sizes"),
    """
        for (uint k = 0; k < PACK; ++k) {
            const float size = metal::abs(rows_pack.at[k]);
            rows_pack.at[k] = metal::isfinite(size) ? rows_pack.at[k] : 0.0f;
            number = metal::max(number, metal::isfinite(size) ? size : INFINITY);
        }
        xlstm_store(finite + step * width + column, rows_pack, left);""",
    reduced="simd_max",
    stored=True,
)
MARKED_ROWS = row_kernel(
    "xlstm_mlstm_marked_rows",
    ("rows",),
    ("marked",),
    """
        for (uint k = 0; k < PACK; ++k) {
            rows_pack.at[k] = flags[step] ? NAN : rows_pack.at[k];
        }
        xlstm_store(marked + step * width + column, rows_pack, left);""",
    stored=True,
    given=("flags",),
    finish="",
)
