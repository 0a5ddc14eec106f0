"""The exact gradient of the sLSTM over a sequence, from its last step to its first, by a kernel.

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
everything on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import mlx.core as mx

from xlstm_kernels.slstm.gradient_kernel import KERNELS

if TYPE_CHECKING:
    from xlstm_kernels.differentiation import Arrays
    from xlstm_kernels.slstm.arguments import RecurrentGradient


def slstm_gradient(
    inputs: Arrays,
    states: mx.array,
    cotangents: Arrays,
    rule: RecurrentGradient,
    backend: str,
) -> Arrays:
    """The gradients in Wx, R, b and the initial states, in their dtypes, and zeros for the mask.

    In addition to the inputs and outputs of the kernel, it moves R y of all steps, once out and
    once in, and y a step later: gates are recomputed by one matrix product, not step by step.

    Args:
        inputs: Wx (B, T, 4, N, D), R, b, the initial states (4, B, N, D) float32, and a mask
            (B, T) or none.
        states: what the forward kernel gave, (4, B, T, N, D).
        cotangents: of the states after each step, (4, B, T, N, D), and after the last,
            (4, B, N, D).
        rule: what is done to the gradient that R feeds back.
        backend: name of an executor.
    """
    gate_input, recurrent, bias, initial, *masks = inputs
    batch, steps, gates, heads, units = gate_input.shape
    before = _heard(states, initial, masks[0] if masks else None)
    before = before.reshape((batch * steps, heads, units)).transpose(1, 0, 2)
    fed_back = before @ recurrent.astype(mx.float32).swapaxes(-1, -2)
    limit = math.inf if rule.clipval is None else rule.clipval
    gate_gradient, bias_sums, initial_gradient = KERNELS[len(masks)](
        gate_input,
        mx.contiguous(recurrent),
        *(mx.contiguous(array) for array in (bias, fed_back, initial, states)),
        *cotangents,
        mx.array(limit, dtype=mx.float32),
        *(mx.contiguous(mask) for mask in masks),
        backend=backend,
        cut=rule.cut,
    )
    by_unit = gate_gradient.reshape((batch * steps, gates, heads, units)).transpose(1, 2, 3, 0)
    return (
        gate_gradient.astype(gate_input.dtype),
        (by_unit @ before).astype(recurrent.dtype),
        mx.sum(bias_sums, axis=0).astype(bias.dtype),
        initial_gradient,
        *(mx.zeros_like(mask) for mask in masks),
    )


def _heard(states: mx.array, initial: mx.array, mask: mx.array | None) -> mx.array:
    """The y that each step hears, (B, T, N, D): of the last step before it that is not masked."""
    after = mx.concatenate([mx.expand_dims(initial[0], axis=1), states[0, :, :-1]], axis=1)
    if mask is None:
        return after
    batch, steps = mask.shape
    places = mx.broadcast_to(mx.arange(1, steps, dtype=mx.int32), (batch, steps - 1))
    live = mx.where(mask[:, :-1], places, mx.zeros_like(places))
    start = mx.zeros((batch, 1), dtype=mx.int32)
    latest = mx.cummax(mx.concatenate([start, live], axis=1), axis=1)
    return mx.take_along_axis(after, mx.expand_dims(latest, (2, 3)), axis=1)
