"""Gradients of the mLSTM in its gates and in m, from those of queries and keys.

With m for a constant, and L_t = log sigmoid(f_t),

    di_t = k_t . dk_t
    dL_t = sum_{r >= t} (q_r . dq_r - k_r . dk_r) + <C, dC> + <n, dn>   (C, n the last states)

The sum is what flows past step t. What a step has of itself flows past none, and drops out of both
products beforehand; between two chunks the flow is the inner product of the states and their
gradients. So each sum goes over a part of a chunk, forward or backward, whichever has less to sum.

m itself matters twice: by eps, which is in units of exp(-m), and for the last states, which are
scaled by exp(-m). Its gradient runs back along the maxima that it was taken of, m_t = max(L_t +
m_{t-1}, i_t), and ends at the input gate that was the greater one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import mlx.core as mx

from xlstm_kernels.mlstm.chunks import in_sequence

if TYPE_CHECKING:
    from xlstm_kernels.mlstm.gates import LogGates


class GateGradients(NamedTuple):
    """Gradients in the gates i and f (B, NH, S), and in the initial m (B, NH, 1), all float32."""

    i: mx.array
    f: mx.array
    m: mx.array


def gate_gradients(
    i: mx.array,
    f: mx.array,
    gates: LogGates,
    mask: mx.array | None,
    dots: tuple[mx.array, mx.array, mx.array],
    flows: mx.array,
    m_cotangent: mx.array | None,
    *,
    sigmoid_input: bool,
) -> GateGradients:
    """The gradients in the gates.

    Args:
        i: (B, NH, S).
        f: (B, NH, S).
        gates: of the S steps.
        mask: (B, S) booleans, or None.
        dots: q . dq and k . dk, each but for what a step has of itself, and that, (B, NH, NC, L).
        flows: <C, dC> + <n, dn> of the states before every chunk and after the last,
            (B, NH, NC + 1).
        m_cotangent: what eps makes of m at every step, (B, NH, S); the last m's own cotangent is
            in its last step. None takes m for a constant.
        sigmoid_input: there is no m, and the input gate is a sigmoid.
    """
    steps = i.shape[-1]
    q_dot, k_dot, own_dot = dots
    forget = in_sequence(_past_steps(q_dot, k_dot, flows), steps)
    admit = in_sequence(k_dot + own_dot, steps)
    m_gradient = flows[..., :1]
    if m_cotangent is not None and not sigmoid_input:
        admitted = in_sequence(gates.admitted, steps)
        chosen = admitted == mx.zeros_like(admitted)
        flowing = _back_to_choices(m_cotangent, chosen)
        nothing = mx.zeros_like(flowing)
        admit = admit + mx.where(chosen, flowing, nothing)
        passed = mx.where(chosen, nothing, flowing)
        forget = forget + passed
        m_gradient = m_gradient + passed[..., :1]
    if sigmoid_input:
        admit = admit * mx.sigmoid(mx.negative(i.astype(mx.float32)))
    forget = forget * mx.sigmoid(mx.negative(f.astype(mx.float32)))
    if mask is not None:
        live = mx.expand_dims(mask, axis=1)
        admit = mx.where(live, admit, mx.zeros_like(admit))
        forget = mx.where(live, forget, mx.zeros_like(forget))
    return GateGradients(admit, forget, m_gradient)


def _past_steps(ending: mx.array, beginning: mx.array, flows: mx.array) -> mx.array:
    """Return the sums of terms across steps, each from the chunk's edge with smaller terms."""
    terms = ending - beginning
    sizes = mx.abs(ending) + mx.abs(beginning)
    before, behind = (mx.expand_dims(edge, axis=-1) for edge in (flows[..., :-1], flows[..., 1:]))
    forward = before - mx.cumsum(terms, axis=-1, inclusive=False)
    backward = behind + mx.cumsum(terms, axis=-1, reverse=True)
    forward_size = mx.abs(before) + mx.cumsum(sizes, axis=-1, inclusive=False)
    backward_size = mx.abs(behind) + mx.cumsum(sizes, axis=-1, reverse=True)
    return mx.where(forward_size < backward_size, forward, backward)


def _back_to_choices(cotangent: mx.array, chosen: mx.array) -> mx.array:
    """g_t = cotangent_t + g_{t+1} where m_{t+1} came of m_t, by a scan that doubles its reach."""
    steps = cotangent.shape[-1]
    passes = mx.logical_not(chosen[..., 1:]).astype(cotangent.dtype)
    passes = mx.concatenate([passes, mx.zeros_like(cotangent[..., :1])], axis=-1)
    sums, reach = cotangent, 1
    while reach < steps:
        sums = sums + passes * _earlier(sums, reach)
        passes = passes * _earlier(passes, reach)
        reach += reach
    return sums


def _earlier(array: mx.array, steps: int) -> mx.array:
    """Return `array` as many steps earlier, with zeros at the end."""
    behind = mx.zeros((*array.shape[:-1], steps), dtype=array.dtype)
    return mx.concatenate([array[..., steps:], behind], axis=-1)
