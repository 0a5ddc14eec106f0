"""The exact gradient of the sLSTM over a sequence, from its last step to its first.

Only h = c / n and the size n exp(m) of a unit's memory mean something. With the share that a step
has in its memory, w_t = i'_t / n_t, the equations of `sequence` are

    h_t = (1 - w_t) h_{t-1} + w_t tanh(z_t),   n_t = f'_t n_{t-1} + i'_t,   y_t = sigmoid(o_t) h_t

so that the gradients H in h, L in log n at a constant h, and Y in y go backward by (z: tanh(z_t))

    H_t += sigmoid(o_t) Y_t
    do_t = Y_t y_t (1 - sigmoid(o_t)),   dz_t = w_t H_t (1 - z^2)
    q_t = w_t (1 - w_t) (z - h_{t-1}) H_t
    di_t = w_t L_t + q_t,   df_t = ((1 - w_t) L_t - q_t) (1 - sigmoid(f_t))
    H_{t-1} = (1 - w_t) H_t,   L_{t-1} = (1 - w_t) L_t - q_t,   Y_{t-1} = R^T (di, df, dz, do)_t

In c and n the same would be differences of big terms: with n of some hundred, as slow forgetting
has it, a step changes n and c by a hundredth, and h by the difference of the two.

So far m does not count, as whatever m is, the states stand for the same: m could be a constant. It
does count for who looks at c, n or m themselves. Of their gradients C, N and M, the part that no
change of m which c and n follow could make up for, E = M - c C - n N, is m's alone. It goes to that
of which m_t is the greater one: into di_t, and ends there; or into df_t and, past it, E_{t-1}.

Where n is zero there is no h; H and L stand for the gradients in c and n then. A masked step hands
everything on, and the first step of a sequence that begins within a row hands on nothing.
"""

from __future__ import annotations

import math

import mlx.core as mx

from xlstm_kernels import products
from xlstm_kernels.differentiation import Arrays
from xlstm_kernels.executors import NATIVE
from xlstm_kernels.recurrent.slstm.arguments import RecurrentGradient
from xlstm_kernels.recurrent.slstm.factors import (
    Factors,
    factors_of,
    gradients_of,
    open_gates,
    slopes_of,
)
from xlstm_kernels.recurrent.slstm.gradient_kernel import KERNELS
from xlstm_kernels.recurrent.slstm.layout import Shares, most_threads
from xlstm_kernels.recurrent.slstm.reference import by_step, unmasked

_LENGTH = 2048  # of the sums left to matrix hardware, which rounds towards zero


def slstm_gradient(
    inputs: Arrays,
    states: mx.array,
    cotangents: Arrays,
    rule: RecurrentGradient,
    backend: str,
) -> Arrays:
    """The gradients in Wx, R, b and the initial states, in their dtypes, and zeros for the masks.

    What doesn't go backward is computed for all steps at once, and R y again, by one product. The
    gradients in R and b are one product and one sum over all steps too.

    Args:
        inputs: Wx (B, T, 4, N, D), R, b, the initial states (4, B, N, D) float32, and no mask, a
            mask (B, T), or a mask and the steps (B, T) that begin from zeros.
        states: the result of the forward pass, (4, B, T, N, D).
        cotangents: of the states after each step, (4, B, T, N, D), and after the last,
            (4, B, N, D).
        rule: what is done to the gradient that R feeds back.
        backend: name of an executor, or "native".
    """
    gate_input, recurrent, bias, initial, *masks = inputs
    mask, begins = [*masks, None, None][:2]
    batch, steps, gates, heads, units = gate_input.shape
    before = mx.concatenate([mx.expand_dims(initial, 2), states[:, :, :-1]], axis=2)
    heard = _forgotten(_heard(before[0], mask), begins)
    heard = mx.contiguous(heard).reshape((batch * steps, heads, units))
    multiply = products.exact()
    fed_back = multiply.operand(heard.transpose(1, 0, 2)) @ multiply.operand(recurrent).transposed
    limit = math.inf if rule.clipval is None else rule.clipval
    if backend == NATIVE:
        gradient, of_initial = _backward(
            inputs, _forgotten(before, begins), fed_back, states, cotangents, limit, rule.cut
        )
    else:
        threads = most_threads(backend, units)
        gradient, of_initial = KERNELS[len(masks)](
            gate_input,
            Shares.of(units, threads).arranged(recurrent, backward=True),
            *(mx.contiguous(array) for array in (bias, fed_back, initial, states)),
            *cotangents,
            mx.array(limit, dtype=mx.float32),
            *(mx.contiguous(flags) for flags in masks),
            backend=backend,
            threads=threads,
            cut=rule.cut,
        )
    by_unit = gradient.reshape((batch * steps, gates, heads, units))
    by_weights = [
        multiply.operand(by_unit[k : k + _LENGTH].transpose(1, 2, 3, 0))
        @ multiply.operand(heard[k : k + _LENGTH].transpose(1, 0, 2))
        for k in range(0, batch * steps, _LENGTH)
    ]
    return (
        gradient.astype(gate_input.dtype),
        sum(by_weights, start=mx.zeros(recurrent.shape)).astype(recurrent.dtype),
        mx.sum(by_unit, axis=0).astype(bias.dtype),
        of_initial,
        *(mx.zeros_like(flags) for flags in masks),
    )


def _backward(
    inputs: Arrays,
    before: mx.array,
    fed_back: mx.array,
    states: mx.array,
    cotangents: Arrays,
    limit: float,
    cut: bool,
) -> tuple[mx.array, mx.array]:
    """Return what the kernel does: the factors of all steps at once, then one step after another.

    The gradients are (B, T, 4, N, D) in the gates and (4, B, N, D) in the initial states.
    """
    gate_input, recurrent, bias, initial, *masks = inputs
    mask, begins = [*masks, None, None][:2]
    batch, steps, gates, heads, units = gate_input.shape
    of_each, of_last = cotangents
    # Gates first, (4, B, T, N, D).
    fed_back = fed_back.reshape((gates, heads, batch, steps, units)).transpose(0, 2, 3, 1, 4)
    opened = open_gates(
        mx.contiguous(unmasked(gate_input, mask).transpose(2, 0, 1, 3, 4)),
        mx.contiguous(fed_back),
        mx.expand_dims(bias.astype(mx.float32), (1, 2)),
    )
    factors = factors_of(opened, before, states, of_each, mask)
    last = states[:, :, -1]
    slopes = mx.stack([of_last[0], *slopes_of(last, *of_last[1:])])
    weights = recurrent.astype(mx.float32).transpose(1, 0, 2, 3)
    weights = weights.reshape((heads, 4 * units, units))
    # From (B, T, N, D) to (1, N, B, D) each, those of a step together.
    parts = mx.flatten(mx.stack(list(factors)).transpose(2, 0, 3, 1, 4), 0, 1)
    parts = mx.split(parts, len(factors) * steps)
    live, fresh = by_step(mask), by_step(begins)
    bound = mx.array(limit, dtype=slopes.dtype)
    y, *memory = mx.split(slopes.transpose(0, 2, 1, 3), 4)
    nothing = mx.zeros_like(y)
    trace = []
    for step in reversed(range(steps)):
        begin = len(factors) * step
        gradient, *memory = _step_back(y, *memory, *parts[begin : begin + len(factors)])
        trace.append(gradient)
        fed = mx.zeros_like(y) if cut else gradient @ weights
        if not math.isinf(limit):
            fed = mx.clip(fed, mx.negative(bound), bound)
        y = fed if live is None else mx.where(live[step], fed, y)
        if fresh is not None:
            y, *memory = (mx.where(fresh[step], nothing, each) for each in (y, *memory))
    gradient = mx.concatenate(trace[::-1]).reshape((steps, heads, batch, 4, units))
    slopes = mx.concatenate([y, *memory]).transpose(0, 2, 1, 3)
    return gradient.transpose(2, 0, 3, 1, 4), gradients_of(initial, slopes)


@mx.compile
def _step_back(y: mx.array, h: mx.array, l: mx.array, e: mx.array, *factors: mx.array) -> Arrays:  # noqa: E741
    """The gradients in all gates, (1, N, B, 4 D), and H, L and E before the step."""
    by = Factors(*factors)
    y = y + by.add_y
    h = h + by.add_h + by.opened * y
    l = l + by.add_l  # noqa: E741
    e = e + by.add_e
    old_l = by.kept * l + by.lost * h
    past = by.past * e
    gates = [
        by.share * l + by.moved * h + (e - past),
        by.forgetting * (old_l + past) + by.alone * h,
        by.value * h,
        by.output * y,
    ]
    return mx.concatenate(gates, axis=-1), by.kept * h, old_l, past + by.limited * h


def _forgotten(values: mx.array, begins: mx.array | None) -> mx.array:
    """`values` (..., B, T, N, D), zero where a step begins from zeros."""
    if begins is None:
        return values
    return mx.where(mx.expand_dims(begins, (2, 3)), mx.zeros_like(values), values)


def _heard(before: mx.array, mask: mx.array | None) -> mx.array:
    """The y that each step hears, (B, T, N, D): of the last step before it that is not masked.

    `before` is the initial y, then that of each step but the last, zero where it is masked.
    """
    if mask is None:
        return before
    batch, steps = mask.shape
    places = mx.broadcast_to(mx.arange(1, steps, dtype=mx.int32), (batch, steps - 1))
    live = mx.where(mask[:, :-1], places, mx.zeros_like(places))
    start = mx.zeros((batch, 1), dtype=mx.int32)
    latest = mx.cummax(mx.concatenate([start, live], axis=1), axis=1)
    return mx.take_along_axis(before, mx.expand_dims(latest, (2, 3)), axis=1)
