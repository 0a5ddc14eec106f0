"""The sLSTM in MLX operations, a step at a time; the equations are in `sequence`.

Exponents are carried as pairs of float32, as in the kernel.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels import pairs
from xlstm_kernels.differentiation import Arrays, Operation, differentiable
from xlstm_kernels.slstm.arguments import EXACT, RecurrentGradient


class _Unit(NamedTuple):
    """The state, (B, N, D) each; c and n belong to the pair m."""

    y: mx.array
    c: mx.array
    n: mx.array
    m: pairs.Pair


def slstm_reference(
    gate_input: mx.array,
    recurrent: mx.array,
    bias: mx.array,
    initial: mx.array,
    mask: mx.array | None = None,
    *,
    rule: RecurrentGradient = EXACT,
) -> tuple[mx.array, mx.array]:
    """Run the sLSTM over at least one step.

    Args:
        gate_input: (B, T, 4, N, D).
        recurrent: (4, N, D, D), indexed [gate, head, out, in].
        bias: (4, N, D).
        initial: (4, B, N, D): y, c, n and m, float32.
        mask: (B, T) booleans, or None for all True.
        rule: what is done to the gradient that `recurrent` feeds back.

    Returns:
        The states (4, B, T, N, D) after each step, y zero where it is masked, and (4, B, N, D)
        after the last; float32.
    """
    batch, steps, gates, heads, units = gate_input.shape
    # One product a step: (N, B, in) @ (N, in, gates * out).
    weights = recurrent.astype(mx.float32).transpose(1, 3, 0, 2)
    weights = weights.reshape((heads, units, gates * units))
    offset = bias.astype(mx.float32)
    unit = _Unit(initial[0], initial[1], initial[2], pairs.pair(initial[3]))
    hear = _hearing(rule)
    if mask is not None:
        # Whatever a masked step holds, NaN even, must not come back in gradients.
        live = mask.reshape((batch, steps, 1, 1, 1))
        gate_input = mx.where(live, gate_input, mx.zeros_like(gate_input))
    # Not by indices: the gradient of each would be as big as the whole.
    arrivals = mx.split(gate_input, steps, axis=1)
    trace = []
    for step, arrival in enumerate(arrivals):
        fed_back = (hear(unit.y).transpose(1, 0, 2) @ weights).reshape((heads, batch, gates, units))
        arriving = mx.squeeze(arrival, axis=1).astype(mx.float32)
        after = _step(unit, arriving, offset, fed_back.transpose(1, 2, 0, 3))
        if mask is None:
            unit = after
            trace.append(_told(unit))
        else:
            live = mask[:, step].reshape((batch, 1, 1))
            unit = _chosen(live, after, unit)
            trace.append(_told(unit._replace(y=mx.where(live, unit.y, mx.zeros_like(unit.y)))))
    return mx.stack(trace, axis=2), _told(unit)


@functools.cache
def _hearing(rule: RecurrentGradient) -> Operation:
    """The operation that gives its array as it is, and a gradient back as the rule has it."""
    if rule.cut:
        return mx.stop_gradient
    if rule.clipval is None:
        return lambda y: y
    limit = rule.clipval

    def clipped(_: Arrays, cotangents: Arrays) -> Arrays:
        (cotangent,) = cotangents
        bound = mx.array(limit, dtype=cotangent.dtype)
        return (mx.clip(cotangent, mx.negative(bound), bound),)

    return differentiable(lambda y: y, clipped)


def _told(unit: _Unit) -> mx.array:
    """The state as (4, B, N, D): m rounded to one float, c and n belonging to that."""
    scale = mx.exp(unit.m.low)
    return mx.stack([unit.y, unit.c * scale, unit.n * scale, unit.m.high])


def _step(before: _Unit, arriving: mx.array, offset: mx.array, fed_back: mx.array) -> _Unit:
    """One step; arriving and fed_back are (B, 4, N, D), offset (4, N, D)."""
    gates = pairs.add(pairs.two_sum(arriving, offset), pairs.pair(fed_back))
    admit, forget = (pairs.Pair(gates.high[:, gate], gates.low[:, gate]) for gate in (0, 1))
    candidate, output = gates.high[:, 2], gates.high[:, 3]

    decayed = pairs.add(before.m, _log_sigmoid(forget))
    zero = mx.zeros_like(before.n)
    fresh = before.n == zero
    m = pairs.where(fresh | pairs.less(decayed, admit), admit, decayed)
    # Above zero only where m ignores the past, since it is nothing; it must not become something.
    decay = pairs.difference(decayed, m)
    kept = mx.exp(mx.where(fresh, mx.minimum(decay, zero), decay))
    admitted = mx.exp(pairs.difference(admit, m))

    c = kept * before.c + admitted * mx.tanh(candidate)
    n = kept * before.n + admitted
    empty = n == zero
    ratio = c / mx.where(empty, mx.ones_like(n), n)
    return _Unit(mx.where(empty, zero, ratio * mx.sigmoid(output)), c, n, m)


def _log_sigmoid(x: pairs.Pair) -> pairs.Pair:
    """The logarithm of the sigmoid of a pair: low moves it along its slope, sigmoid(-x)."""
    log = pairs.log_sigmoid(x.high)
    return pairs.Pair(log.high, log.low + x.low * mx.sigmoid(mx.negative(x.high)))


def _chosen(live: mx.array, after: _Unit, before: _Unit) -> _Unit:
    y, c, n = (mx.where(live, a, b) for a, b in zip(after[:3], before[:3], strict=True))
    return _Unit(y, c, n, pairs.where(live, after.m, before.m))
