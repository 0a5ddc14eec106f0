"""The sLSTM in MLX operations, a step at a time; the equations are in `sequence`.

Exponents are pairs of float32, as in the kernel.
"""

from __future__ import annotations

import functools

import mlx.core as mx

from xlstm_kernels.differentiation import Arrays, Operation, differentiable
from xlstm_kernels.double_float import pairs
from xlstm_kernels.recurrent.slstm.arguments import EXACT, RecurrentGradient


def slstm_reference(
    gate_input: mx.array,
    recurrent: mx.array,
    bias: mx.array,
    initial: mx.array,
    mask: mx.array | None = None,
    begins: mx.array | None = None,
    *,
    rule: RecurrentGradient = EXACT,
) -> tuple[mx.array, mx.array]:
    """Run the sLSTM over at least one step, with arguments as `slstm_gradient` has them.

    Return the states (4, B, T, N, D) after each step, y zero where it is masked, and (4, B, N, D)
    after the last; float32.
    """
    batch, steps, _, heads, units = gate_input.shape
    weights = recurrent.astype(mx.float32).swapaxes(-1, -2)
    hear = _hearing(rule)
    # Time and gates first, so that what a step reads of them is contiguous. Split, not indexed: the
    # gradient of each index would be as big as the whole.
    moved = unmasked(gate_input, mask).astype(mx.float32).transpose(1, 2, 3, 0, 4)
    arriving = pairs.two_sum(moved, mx.expand_dims(bias.astype(mx.float32), axis=2))
    parts = (arriving.high[:, :2], arriving.low[:, :2], arriving.high[:, 2:])
    arrivals = [mx.split(mx.flatten(part, 0, 1), steps) for part in parts]
    live, fresh = by_step(mask), by_step(begins)

    state = [*mx.split(initial.transpose(0, 2, 1, 3), 4), mx.zeros((1, heads, batch, units))]
    nothing = mx.zeros_like(state[0])
    trace = []
    for step, arrival in enumerate(zip(*arrivals, strict=True)):
        if fresh is not None:
            state = [mx.where(fresh[step], nothing, each) for each in state]
        after = _step(*state[1:], hear(state[0]) @ weights, *arrival)
        if live is not None:
            after = [mx.where(live[step], a, b) for a, b in zip(after, state, strict=True)]
        state = after
        trace.append(state)
    # From (T, N, B, D) each to (4, B, T, N, D).
    parts_of_all = (mx.concatenate(list(part)) for part in zip(*trace, strict=True))
    states = _rounded(*(part.transpose(2, 0, 1, 3) for part in parts_of_all))
    last = _rounded(*(mx.squeeze(part, 0).transpose(1, 0, 2) for part in state))
    if mask is None:
        return states, last
    shown = mx.where(mx.expand_dims(mask, (2, 3)), states[0], mx.zeros_like(states[0]))
    return mx.concatenate([mx.expand_dims(shown, 0), states[1:]]), last


def by_step(flags: mx.array | None) -> list[mx.array] | None:
    """Split (B, T) booleans into T arrays (1, 1, B, 1); None remains None."""
    if flags is None:
        return None
    batch, steps = flags.shape
    return list(mx.split(flags.T.reshape((steps, 1, batch, 1)), steps))


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


def _rounded(y: mx.array, c: mx.array, n: mx.array, *m: mx.array) -> mx.array:
    """y, c, n and m of y, c, n and the pair m: c and n belong to the rounded m then."""
    scale = mx.exp(m[1])
    return mx.stack([y, c * scale, n * scale, m[0]])


@mx.compile
def _step(*arrays: mx.array) -> list[mx.array]:
    """Return y, c, n and the pair m after a step, (1, N, B, D) each.

    Args:
        *arrays: c, n and the pair m before it; R y, (4, N, B, D); and what arrives, (2, N, B, D)
            each: at i and f, the low part of that, and at z and o.
    """
    c, n, m, m_low, fed_back, exponents, exponents_low, others = arrays
    fed_exponents, fed_others = mx.split(fed_back, 2)
    gates = pairs.two_sum(exponents, fed_exponents)
    admit, forget = mx.split(gates.high, 2)
    admit_low, forget_low = mx.split(gates.low + exponents_low, 2)
    candidate, output = mx.split(others + fed_others, 2)

    # log sigmoid(f) + m; the low part of f moves the logarithm along its slope.
    zero, one = (mx.array(number, dtype=n.dtype) for number in (0, 1))
    below = forget < zero
    # Not by abs: at zero its slope would be zero.
    tail = mx.exp(mx.where(below, forget, mx.negative(forget)))
    slope = mx.where(below, one, tail) / (one + tail)
    decayed = pairs.two_sum(m, mx.where(below, forget, zero))
    decayed_low = decayed.low + (m_low + (forget_low * slope - mx.log1p(tail)))

    # The exponent of f' over that of i'. Where both are minus infinity it must not be formed.
    nothing, never = mx.isneginf(decayed.high), mx.isneginf(admit)
    finite = mx.where(mx.logical_and(nothing, never), zero, admit)
    apart = pairs.two_sum(decayed.high, mx.negative(finite))
    distance = apart.high + (apart.low + (decayed_low - admit_low))
    fresh = n == zero
    by_input = mx.logical_or(fresh, distance < zero)
    kept = mx.where(nothing, zero, mx.exp(mx.minimum(distance, zero)))
    # Where m ignores the past, since it is nothing, i' is one.
    admitted = mx.exp(mx.where(by_input, zero, mx.negative(distance)))
    admitted = mx.where(never, zero, admitted)
    stabiliser = pairs.two_sum(
        mx.where(by_input, admit, decayed.high), mx.where(by_input, admit_low, decayed_low)
    )
    c = kept * c + admitted * mx.tanh(candidate)
    n = kept * n + admitted
    empty = n == zero
    y = c / mx.where(empty, one, n) * mx.sigmoid(output)
    return [mx.where(empty, zero, y), c, n, *stabiliser]
