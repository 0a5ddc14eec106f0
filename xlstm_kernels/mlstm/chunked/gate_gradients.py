"""Gradients of the mLSTM in its gates and in m, from those in the exponents.

With m for a constant, each exponent is a log i'_s or a sum of some log f'. So the gradient in
log i'_s is the sum of those in all exponents of step s, and the gradient in log f'_t of those that
reach across t: of pairs of steps of the chunk, of steps from t on that read the state before the
chunk, of steps before t in the state after it, and of the one state in the other. Nothing is
subtracted.

m itself matters twice: by eps, which is in units of exp(-m), and for the last states, which are
scaled by exp(-m). Its gradient runs back along the maxima that it was taken of (`running_maximum`).
"""

from __future__ import annotations

from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels.mlstm.chunked.chunks import in_sequence
from xlstm_kernels.mlstm.chunked.gates import LogGates
from xlstm_kernels.mlstm.chunked.running_maximum import maximum_gradient


class GateGradients(NamedTuple):
    """Gradients in the gates i and f (B, NH, S), and in the initial m (B, NH, 1), all float32."""

    i: mx.array
    f: mx.array
    m: mx.array


class Exponents(NamedTuple):
    """Gradients in the exponents, float32.

    Attributes:
        keys: sum over the chunk's pairs of each key, (B, NH, NC, L).
        past: sum over the chunk's pairs that reach across each step, likewise.
        from_start: of what each step reads of the state before the chunk, likewise.
        to_end: of each step in the state after the chunk, likewise.
        across: of the state before each chunk in the one after it, (B, NH, NC).
    """

    keys: mx.array
    past: mx.array
    from_start: mx.array
    to_end: mx.array
    across: mx.array


def gate_gradients(
    i: mx.array,
    f: mx.array,
    gates: LogGates,
    mask: mx.array | None,
    exponents: Exponents,
    m_initial: mx.array,
    m_cotangent: mx.array | None,
    *,
    sigmoid_input: bool,
    backend: str,
) -> GateGradients:
    """The gradients in the gates.

    Args:
        i: (B, NH, S).
        f: (B, NH, S).
        gates: of the S steps.
        mask: (B, S) booleans, or None.
        exponents: the gradients in them.
        m_initial: the gradient in m as the scale of the initial states, (B, NH, 1).
        m_cotangent: what eps makes of m at every step, (B, NH, S); the last m's own cotangent is
            in its last step. None takes m for a constant.
        sigmoid_input: there is no m, and the input gate is a sigmoid.
        backend: as `executors.resolve` returned it.
    """
    steps = i.shape[-1]
    forget = exponents.past + mx.cumsum(exponents.from_start, axis=-1, reverse=True)
    forget = forget + mx.cumsum(exponents.to_end, axis=-1, inclusive=False)
    forget = in_sequence(forget + mx.expand_dims(exponents.across, axis=-1), steps)
    admit = in_sequence(exponents.keys + exponents.to_end, steps)
    if m_cotangent is not None and not sigmoid_input:
        admitted = in_sequence(gates.admitted, steps)
        nothing = mx.array(0, dtype=admitted.dtype)
        chosen = admitted == nothing
        flowing = maximum_gradient(m_cotangent, gates.admitted, backend=backend)
        admit = admit + mx.where(chosen, flowing, nothing)
        passed = mx.where(chosen, nothing, flowing)
        forget = forget + passed
        m_initial = m_initial + passed[..., :1]
    if sigmoid_input:
        admit = admit * mx.sigmoid(mx.negative(i.astype(mx.float32)))
    forget = forget * mx.sigmoid(mx.negative(f.astype(mx.float32)))
    if mask is not None:
        live = mx.expand_dims(mask, axis=1)
        admit = mx.where(live, admit, mx.zeros_like(admit))
        forget = mx.where(live, forget, mx.zeros_like(forget))
    return GateGradients(admit, forget, m_initial)
