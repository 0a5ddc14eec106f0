"""The sLSTM in MLX operations, a step at a time; the equations are in `sequence`.

Exponents are pairs of float32, as in the kernel.
"""

from __future__ import annotations

import functools

import mlx.core as mx

from xlstm_kernels import pairs
from xlstm_kernels.differentiation import Arrays, Operation, differentiable
from xlstm_kernels.slstm.arguments import EXACT, RecurrentGradient


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
    batch, steps = gate_input.shape[:2]
    weights = recurrent.astype(mx.float32).swapaxes(-1, -2)
    hear = _hearing(rule)
    # Time and gates first, so that what a step reads of them is contiguous. Split, not indexed: the
    # gradient of each index would be as big as the whole.
    arriving = unmasked(gate_input, mask).astype(mx.float32).transpose(1, 2, 3, 0, 4)
    arriving = pairs.two_sum(arriving, mx.expand_dims(bias.astype(mx.float32), axis=2))
    arrivals = zip(mx.split(arriving.high, steps), mx.split(arriving.low[:, :2], steps), strict=True)
    live = None if mask is None else mx.split(mask.T.reshape((steps, 1, batch, 1)), steps)

    state = initial.transpose(0, 2, 1, 3)
    state = mx.concatenate([state, mx.zeros_like(state[:1])])
    trace = []
    for step, (high, low) in enumerate(arrivals):
        after = _step(state, hear(state[:1]) @ weights, mx.squeeze(high, 0), mx.squeeze(low, 0))
        state = after if live is None else mx.where(live[step], after, state)
        trace.append(state)
    # From (T, 5, N, B, D) to (5, B, T, N, D).
    states = _rounded(mx.stack(trace).transpose(1, 3, 0, 2, 4))
    last = _rounded(state.transpose(0, 2, 1, 3))
    if mask is None:
        return states, last
    shown = mx.where(mx.expand_dims(mask, (2, 3)), states[0], mx.zeros_like(states[0]))
    return mx.concatenate([mx.expand_dims(shown, 0), states[1:]]), last


def open_gates(
    gate_input: mx.array, fed_back: mx.array, bias: mx.array
) -> tuple[pairs.Pair, pairs.Pair, mx.array, mx.array]:
    """The gates i and f as pairs, z and o, of arrays whose gates come third, (B, T, 4, N, D)."""
    gates = pairs.add(pairs.two_sum(gate_input.astype(mx.float32), bias), pairs.pair(fed_back))
    admit, forget = (pairs.Pair(gates.high[:, :, k], gates.low[:, :, k]) for k in (0, 1))
    return admit, forget, gates.high[:, :, 2], gates.high[:, :, 3]


def decayed_by(forget: pairs.Pair, m: pairs.Pair) -> pairs.Pair:
    """The exponent log sigmoid(f) + m, where low moves the logarithm along its slope."""
    log = pairs.log_sigmoid(forget.high)
    slope = mx.sigmoid(mx.negative(forget.high))
    return pairs.add(m, pairs.Pair(log.high, log.low + forget.low * slope))


def kept_and_admitted(
    decayed: pairs.Pair, admit: pairs.Pair, m: pairs.Pair, fresh: mx.array
) -> tuple[mx.array, mx.array]:
    """The factors f' and i', where `fresh` says that n was zero."""
    # Above zero only where m ignores the past, since it is nothing; it must not become something.
    decay = pairs.difference(decayed, m)
    decay = mx.where(fresh, mx.minimum(decay, mx.zeros_like(decay)), decay)
    return mx.exp(decay), mx.exp(pairs.difference(admit, m))


def unmasked(gate_input: mx.array, mask: mx.array | None) -> mx.array:
    """Zeros where a step is masked: what it holds, NaN even, must not come back in gradients."""
    if mask is None:
        return gate_input
    return mx.where(mx.expand_dims(mask, (2, 3, 4)), gate_input, mx.zeros_like(gate_input))


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


def _rounded(state: mx.array) -> mx.array:
    """y, c, n and m of y, c, n and the pair m: c and n belong to the rounded m then."""
    scale = mx.exp(state[4])
    return mx.stack([state[0], state[1] * scale, state[2] * scale, state[3]])


@mx.compile
def _step(state: mx.array, fed_back: mx.array, high: mx.array, low: mx.array) -> mx.array:
    """One step; the state is y, c, n and the pair m, (5, N, B, D), the others are (4, N, B, D)."""
    _, c, n, *m = state
    gates = pairs.add(pairs.Pair(high[:2], low), pairs.pair(fed_back[:2]))
    admit, forget = (pairs.Pair(gates.high[k], gates.low[k]) for k in (0, 1))
    candidate, output = high[2] + fed_back[2], high[3] + fed_back[3]

    decayed = decayed_by(forget, pairs.Pair(*m))
    zero = mx.zeros_like(n)
    fresh = n == zero
    stabiliser = pairs.where(fresh | pairs.less(decayed, admit), admit, decayed)
    kept, admitted = kept_and_admitted(decayed, admit, stabiliser, fresh)
    c = kept * c + admitted * mx.tanh(candidate)
    n = kept * n + admitted
    empty = n == zero
    ratio = c / mx.where(empty, mx.ones_like(n), n)
    return mx.stack([mx.where(empty, zero, ratio * mx.sigmoid(output)), c, n, *stabiliser])
