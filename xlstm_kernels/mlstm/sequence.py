"""The mLSTM over a sequence, step by step: of any length, best of few steps.

The equations of a step are in `xlstm_kernels.mlstm.step`; its states begin at zero, or as given.
"""

from __future__ import annotations

import functools
import math

import mlx.core as mx

from xlstm_kernels.arguments import non_negative, require_mask
from xlstm_kernels.differentiation import Arrays, Operation, on_backend
from xlstm_kernels.executors import StreamLike, on_stream, resolve
from xlstm_kernels.mlstm import recurrence
from xlstm_kernels.mlstm.arguments import (
    States,
    initial_states,
    require_sequence,
    require_state_dtype,
    zero_states,
)
from xlstm_kernels.mlstm.chunked.operation import Form, sequence_gradient
from xlstm_kernels.mlstm.sequence_kernel import KERNELS

_OPERATOR = "mlstm_sequence"


@on_stream
def mlstm_sequence(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    i: mx.array,
    f: mx.array,
    c_initial: mx.array | None = None,
    n_initial: mx.array | None = None,
    m_initial: mx.array | None = None,
    return_last_states: bool = False,
    eps: float = 1e-6,
    dtype_state: mx.Dtype = mx.float32,
    *,
    normalizer_grad: bool = True,
    mask: mx.array | None = None,
    backend: str | None = None,
    stream: StreamLike = None,
) -> mx.array | tuple[mx.array, States]:
    """Run the mLSTM over a sequence, one step after the other.

    Computed in float32 and rounded once; the exponents of the gates are kept to twice the digits of
    that, so that gates of +-100 lose none. Differentiable any number of times, exactly, in all
    arrays; the gradient is computed in chunks. Errors are those of `mlstm_chunkwise`, and a
    ValueError on Metal for a DK beyond 16384.

    Args:
        q: (B, NH, S, DK), the queries; float32, float16 or bfloat16, as all that follow. Any S, 0
            included. Arrays that are transposed are read as they lie.
        k: (B, NH, S, DK), the keys, not scaled; the dtype of q.
        v: (B, NH, S, DV), the values; the dtype of q.
        i: (B, NH, S), the input gates before their exp. They may be minus infinity.
        f: (B, NH, S), the forget gates before their sigmoid. They may be infinite.
        c_initial: (B, NH, DK, DV), the state C that the sequence begins with, scaled by
            exp(-m_initial); None for zeros. The three initial states come together.
        n_initial: (B, NH, DK), the normaliser's state, likewise.
        m_initial: (B, NH, 1) or (B, NH), the logarithm of their scale.
        return_last_states: whether to return the states after the last step.
        eps: a number, zero or positive, added to the denominator. It is not scaled by exp(-m).
        dtype_state: the dtype of the states returned.
        normalizer_grad: whether gradients flow through the normaliser and m: see `mlstm_chunkwise`.
        mask: (B, S), booleans; a step that is False leaves the states as they are and has an h of
            zero, whatever q, k, v, i and f hold. None for all True.
        backend: as in `mlstm_chunkwise`.

    Returns:
        h (B, NH, S, DV) in the dtype of v; with `return_last_states` the pair of it and the states
        c (B, NH, DK, DV), n (B, NH, DK), m (B, NH, 1).
    """
    require_sequence(_OPERATOR, q, k, v, i, f)
    require_mask(_OPERATOR, mask, (q.shape[0], q.shape[2]), "(B, S)")
    states = initial_states(_OPERATOR, q, v, (c_initial, n_initial, m_initial))
    require_state_dtype(_OPERATOR, dtype_state)
    operation = _sequence(
        resolve(backend),
        Form(None, non_negative(_OPERATOR, "eps", eps), normalizer_grad=bool(normalizer_grad)),
        initial=states is not None,
        masked=mask is not None,
    )
    if q.shape[2]:
        masks = () if mask is None else (mask,)
        h, *last = operation(q, k, v, i, f, *(states or ()), *masks)
    else:
        h, last = mx.zeros_like(v), [*(states or zero_states(q, v))]
    return (h, States(*last).stored(dtype_state)) if return_last_states else h


def mlstm_sequence_reference(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    i: mx.array,
    f: mx.array,
    *others: mx.array,
    eps: float = 1e-6,
    masked: bool = False,
) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """The h, c, n and m of `mlstm_sequence`, in MLX operations, for one step or more.

    `others` are the initial states, all or none, then the mask if there is one (`masked`).
    """
    mask = None
    if masked:
        others, mask = others[:-1], others[-1]
        live = mx.expand_dims(mask, axis=(1, 3))
        q, k, v = (mx.where(live, array, mx.zeros_like(array)) for array in (q, k, v))
    c, n, m = others or zero_states(q, v)
    # The last step is followed by one that changes nothing, but that m is rounded there: it is
    # returned as one number, and it is that by which C and n are scaled.
    i, f = _followed_by(i, -math.inf), _followed_by(f, math.inf)
    of_gates = recurrence.factors(i, f, m, None if mask is None else _followed_by(mask, True))
    factors = (array[..., :-1] for array in of_gates[:-1])
    gauge = mx.where(mx.isneginf(of_gates.m), mx.ones_like(of_gates.m), of_gates.forget[..., -1:])
    # Not by indices: the gradient of each would be as big as the whole.
    over_time = (mx.split(array, q.shape[2], axis=2) for array in (q, k, v, *factors))
    read = []
    for arrays in zip(*over_time, strict=True):
        query, key, value, forget, admit, floor = (mx.squeeze(array, axis=2) for array in arrays)
        c, n = recurrence.updated(c, n, key, value, forget, admit)
        read.append(recurrence.read_out(query, c, n, floor, eps).astype(v.dtype))
    return mx.stack(read, axis=2), mx.expand_dims(gauge, axis=3) * c, gauge * n, of_gates.m


def _followed_by(array: mx.array, value: float | bool) -> mx.array:
    more = mx.full((*array.shape[:-1], 1), value, dtype=array.dtype)
    return mx.concatenate([array, more], axis=-1)


@functools.cache
def _sequence(backend: str, form: Form, *, initial: bool, masked: bool) -> Operation:
    """The differentiable operation (q, k, v, i, f, [c, n, m], [mask]) -> (h, c, n, m)."""
    reference = functools.partial(mlstm_sequence_reference, eps=form.eps, masked=masked)
    kernel = KERNELS[initial][masked]

    def launch(*arrays: mx.array) -> Arrays:
        return kernel(*arrays, mx.array(form.eps, dtype=mx.float32), backend=backend)

    gradient = sequence_gradient(form, backend, carried=initial, masked=masked)
    return on_backend(backend, launch, reference, gradient, operator=_OPERATOR)
