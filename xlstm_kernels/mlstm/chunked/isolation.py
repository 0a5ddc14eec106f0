"""NaN and infinity, kept to the steps that read them.

A product of matrices multiplies by zero what a step does not read, and zero times NaN is NaN. So
both passes compute with finite numbers, zeros in place of others, and what depends on the others is
made NaN: h from such a step to the end of its sequence, the last states after it, and all gradients
of the steps up to a cotangent that is not finite, or to an h that is not and has a cotangent. A
sequence ends where a forget gate is minus infinity.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels.mlstm.arguments import States
from xlstm_kernels.mlstm.chunked.finite_rows import finite_rows, magnitudes

if TYPE_CHECKING:
    from xlstm_kernels.differentiation import Arrays


class Spoilt(NamedTuple):
    """Booleans of what a call reads.

    Attributes:
        live: the step is not masked, (B, 1, S), or 0-d for all.
        begins: a sequence begins at the step, (B, NH, S).
        rows: the h of the step is NaN, likewise.
        end: the last states are NaN, (B, NH, 1).
    """

    live: mx.array
    begins: mx.array
    rows: mx.array
    end: mx.array


def isolated(
    inputs: Arrays,
    states: States,
    mask: mx.array | None,
    *,
    sigmoid_input: bool,
    backend: str,
) -> tuple[Arrays, States, Spoilt]:
    """Finite inputs and states of a call, and what those that were not so are read by.

    Args:
        inputs: q, k and v, zero where a step is masked, i and f.
        states: to begin with.
        mask: (B, S) booleans, or None.
        sigmoid_input: the input gate may be infinite.
        backend: as `executors.resolve` returned it.
    """
    *rows, i, f = inputs
    rows, sizes = zip(*(finite_rows(array, backend=backend) for array in rows), strict=True)
    live = mx.array(True) if mask is None else mx.expand_dims(mask, axis=1)
    of_query, *of_others = map(mx.isinf, sizes)
    infinite = mx.array(math.inf, dtype=i.dtype)
    refused = mx.isnan(i) if sigmoid_input else mx.logical_not(i < infinite)
    flags = _any(refused, mx.isnan(f), *of_others), mx.isneginf(f)
    # MLX cannot differentiate running maxima.
    read, begins = (mx.stop_gradient(mx.logical_and(each, live)) for each in flags)
    m = mx.where(mx.isneginf(states.m), mx.zeros_like(states.m), states.m)
    initial = mx.isinf(_size(States(states.c, states.n, m)))
    # The states to begin with count as a step before the first.
    order = mx.arange(1, i.shape[-1] + 1, dtype=mx.int32)
    before, never = mx.zeros_like(order), mx.full(order.shape, -1, dtype=mx.int32)
    latest = mx.cummax(mx.where(read, order, mx.where(initial, before, never)), axis=-1)
    carried = latest >= mx.cummax(mx.where(begins, order, before), axis=-1)
    rows_spoilt = mx.logical_and(_any(carried, of_query), live)
    spoilt = Spoilt(live, begins, rows_spoilt, carried[..., -1:])
    i = mx.where(refused, mx.negative(infinite), i)
    f = mx.where(mx.isnan(f), mx.zeros_like(f), f)
    states = States(*(replaced(array, initial, 0.0) for array in states))
    return (*rows, i, f), states, spoilt


class Reached(NamedTuple):
    """Booleans of what has gradients that are NaN: of the steps (B, NH, S), and initially."""

    rows: mx.array
    initial: mx.array


def isolated_cotangents(
    cotangents: Arrays, spoilt: Spoilt, *, backend: str
) -> tuple[Arrays, Reached]:
    """Finite cotangents, and which gradients depend on those that were not so.

    Args:
        cotangents: of h, zero where a step is masked, and of c, n and m.
        spoilt: what the inputs were.
        backend: as `executors.resolve` returned it.
    """
    none = mx.array(0, dtype=mx.float32)
    of_h, size = finite_rows(cotangents[0], backend=backend)
    source = _any(mx.isinf(size), mx.logical_and(spoilt.rows, size > none))
    size = _size(cotangents[1:])
    of_last = _any(mx.isinf(size), mx.logical_and(spoilt.end, size > none))
    # The last states count as a step behind the last.
    steps = source.shape[-1]
    order = mx.arange(steps, dtype=mx.int32)
    behind, never = (mx.full(order.shape, at, dtype=mx.int32) for at in (steps, steps + 1))
    first = mx.where(source, order, mx.where(of_last, behind, never))
    first = mx.cummin(first, axis=-1, reverse=True)
    end = mx.where(spoilt.begins, order, never)
    end = mx.minimum(mx.cummin(end, axis=-1, reverse=True, inclusive=False), never)
    rows = first < end
    initial = mx.logical_and(rows[..., :1], mx.logical_not(spoilt.begins[..., :1]))
    unused = _any(of_last, spoilt.end)
    of_states = (replaced(array, unused, 0.0) for array in cotangents[1:])
    return (of_h, *of_states), Reached(mx.logical_and(rows, spoilt.live), initial)


def replaced(array: mx.array, flags: mx.array, value: float = math.nan) -> mx.array:
    """`array` (B, NH, ...) with `value` where flags, (B, NH, ...) of any axes, are True."""
    flags = flags.reshape((*flags.shape[: array.ndim], *(1,) * (array.ndim - flags.ndim)))
    return mx.where(flags, mx.array(value, dtype=array.dtype), array)


def _size(states: Arrays) -> mx.array:
    """The largest magnitude of a head's states, (B, NH, 1)."""
    sizes = [magnitudes(mx.flatten(array, 2)) for array in states]
    return mx.expand_dims(mx.max(mx.stack(sizes), axis=0), axis=-1)


def _any(first: mx.array, *others: mx.array) -> mx.array:
    for flags in others:
        first = mx.logical_or(first, flags)
    return first
