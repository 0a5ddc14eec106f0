"""What the chunked forms of the mLSTM share: checks, composition of the kernels, and the gradient.

Forward, the gates come first, then the states between chunks, then what the steps read of both; the
fused form has the last two in one kernel. Backward, the states are computed again, the gradients in
the states follow from the last chunk to the first, and then those in q, k, v and the gates.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import NamedTuple

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.arguments import require_mask
from xlstm_kernels.differentiation import Arrays, Gradient, Operation, differentiable, gradient_of
from xlstm_kernels.mlstm.arguments import (
    States,
    initial_states,
    require_sequence,
    zero_states,
)
from xlstm_kernels.mlstm.chunk_gradients import input_gradients
from xlstm_kernels.mlstm.chunk_outputs import chunk_outputs
from xlstm_kernels.mlstm.chunk_state_gradients import chunk_state_gradients
from xlstm_kernels.mlstm.chunk_states import chunk_states
from xlstm_kernels.mlstm.fused import KEY_WIDTH_LIMIT, TIME, fused_outputs
from xlstm_kernels.mlstm.gate_gradients import gate_gradients
from xlstm_kernels.mlstm.gates import log_gates

Result = mx.array | tuple[mx.array, States]


@dataclass(frozen=True, slots=True)
class Form:
    """What is fixed before arrays come in.

    Attributes:
        chunk_size: steps of a chunk, None for all in one.
        eps: added to the normaliser.
        sigmoid_input: the input gate is a sigmoid, and nothing is stabilised.
        normalize: whether h is divided by the normaliser.
        fused: one kernel from the first step to the last; it normalises.
        normalizer_grad: whether gradients flow through the normaliser.
    """

    chunk_size: int | None
    eps: float
    sigmoid_input: bool = False
    normalize: bool = True
    fused: bool = False
    normalizer_grad: bool = True


def run(
    operator: str,
    form: Form,
    inputs: tuple[mx.array, mx.array, mx.array, mx.array, mx.array],
    given: tuple[mx.array | None, mx.array | None, mx.array | None],
    return_last_states: bool,
    mask: mx.array | None,
    backend: str | None,
) -> Result:
    """Check the arguments that all chunked forms share, and compute.

    Args:
        operator: names itself in messages.
        form: what is fixed before arrays come in.
        inputs: q, k, v, i and f.
        given: the initial c, n and m.
        return_last_states: whether to return the last states as well.
        mask: (B, S) booleans, or None.
        backend: as a caller gave it.
    """
    require_sequence(operator, *inputs)
    q, _, v, *_ = inputs
    if form.fused and q.shape[-1] > KEY_WIDTH_LIMIT:
        raise ValueError(
            f"{operator}: fused=True takes a DK of at most {KEY_WIDTH_LIMIT}, got {q.shape[-1]}"
        )
    states = initial_states(operator, q, v, given)
    require_mask(operator, mask, (q.shape[0], q.shape[2]), "(B, S)")
    resolved = executors.resolve(backend)
    if not q.shape[2]:
        h, last = mx.zeros(v.shape, dtype=v.dtype), states or zero_states(q, v)
    else:
        operation = _operation(form, resolved, states is not None, mask is not None)
        masks = () if mask is None else (mask,)
        h, c, n, m, _ = operation(*inputs, *(states or ()), *masks)
        last = States(c, n, m)
    return (h, last) if return_last_states else h


def require_chunk_size(operator: str, chunk_size: int) -> int:
    """Return a chunk size of at least 1.

    Raises:
        TypeError: for anything that is no int.
        ValueError: for one below 1.
    """
    if isinstance(chunk_size, bool) or not isinstance(chunk_size, int):
        raise TypeError(f"{operator}: chunk_size must be an int, got {type(chunk_size).__name__}")
    if chunk_size < 1:
        raise ValueError(f"{operator}: chunk_size must be at least 1, got {chunk_size}")
    return chunk_size


def sequence_gradient(form: Form, backend: str, *, carried: bool, masked: bool) -> Gradient:
    """The gradient, by chunks, of any (q, k, v, i, f[, c, n, m][, mask]) -> (h, c, n, m)."""
    operation = _operation(form, backend, carried, masked)

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        masks = primals[-1:] if masked else ()
        differentiated = list(primals[:-1] if masked else primals)
        sums = mx.zeros(primals[0].shape[:3], dtype=mx.float32)
        _, gradients = mx.vjp(
            lambda *arrays: operation(*arrays, *masks), differentiated, [*cotangents, sums]
        )
        return (*gradients, *map(mx.zeros_like, masks))

    return gradient


@functools.cache
def _operation(form: Form, backend: str, carried: bool, masked: bool) -> Operation:
    """The differentiable (q, k, v, i, f[, c, n, m][, mask]) -> (h, c, n, m, normaliser's sums)."""

    def forward(*arrays: mx.array) -> Arrays:
        return _compute(Call.of(arrays, carried, masked), form, backend)

    def gradient(executor: str, *arrays: mx.array) -> Arrays:
        count = len(arrays) - len(_OUTPUTS) - len(_KEPT)
        primals, cotangents = arrays[:count], arrays[count : count + len(_OUTPUTS)]
        return _gradient(
            Call.of(primals, carried, masked), form, executor, cotangents, arrays[-len(_KEPT) :]
        )

    # Of MLX operations it has a gradient as it is; one of kernels takes that.
    native = functools.partial(gradient, executors.NATIVE)
    chosen: Operation = native
    if backend != executors.NATIVE:
        chosen = differentiable(functools.partial(gradient, backend), gradient_of(native))

    def pull_back(primals: Arrays, cotangents: Arrays, outputs: Arrays) -> Arrays:
        gradients: Arrays = chosen(*primals, *cotangents, outputs[0], outputs[-1])
        return gradients

    return differentiable(forward, pull_back, of_outputs=True)


# What an operation gives, and what of it the gradient uses.
_OUTPUTS = ("h", "c", "n", "m", "sums")
_KEPT = ("h", "sums")


@dataclass(frozen=True, slots=True)
class Call:
    """The arrays of a call: the states are zero, and no step is masked, unless they are given."""

    q: mx.array
    k: mx.array
    v: mx.array
    i: mx.array
    f: mx.array
    states: States
    carried: bool
    mask: mx.array | None

    @staticmethod
    def of(arrays: Arrays, carried: bool, masked: bool) -> Call:
        """Take apart the arguments of an operation."""
        q, k, v, i, f = arrays[:5]
        states = States(*arrays[5:8]) if carried else zero_states(q, v)
        return Call(q, k, v, i, f, states, carried, arrays[-1] if masked else None)

    def chunk_size(self, form: Form) -> int:
        """Steps of a chunk: no more than there are."""
        steps = self.q.shape[2]
        return steps if form.chunk_size is None else min(form.chunk_size, steps)


def _compute(call: Call, form: Form, backend: str) -> Arrays:
    """h, c, n, m and the sums; what nobody looks at of them is never evaluated."""
    q, k, v = call.q, call.k, call.v
    eps = mx.array(form.eps, dtype=mx.float32)
    is_fused = form.fused and backend != executors.NATIVE
    chunk_size = TIME if is_fused else call.chunk_size(form)
    gates = log_gates(
        call.i,
        call.f,
        call.states.m,
        call.mask,
        chunk_size=chunk_size,
        sigmoid_input=form.sigmoid_input,
        backend=backend,
    )
    if is_fused:
        h, c, n, sums = fused_outputs(q, k, v, gates, call.states, eps, backend=backend)
        return h, c, n, gates.m, sums
    c, n = chunk_states(
        k, v, gates, call.states.c, call.states.n, chunk_size=chunk_size, backend=backend
    )
    # A single chunk that begins with nothing reads no state: its kernel need not wait for one.
    is_read = call.carried or chunk_size < q.shape[2]
    h, sums = chunk_outputs(
        q,
        k,
        v,
        gates,
        (c, n) if is_read else None,
        eps,
        chunk_size=chunk_size,
        normalize=form.normalize,
        backend=backend,
    )
    return h, c[:, :, -1], n[:, :, -1], gates.m, sums


def _gradient(call: Call, form: Form, backend: str, cotangents: Arrays, kept: Arrays) -> Arrays:
    """The gradients in the arrays of the call, exactly, as the kernels or their references do."""
    q, k, v, states = call.q, call.k, call.v, call.states
    h_cotangent, c_cotangent, n_cotangent, m_cotangent, _ = cotangents
    chunk_size = call.chunk_size(form)
    gates = log_gates(
        call.i,
        call.f,
        states.m,
        call.mask,
        sigmoid_input=form.sigmoid_input,
        chunk_size=chunk_size,
        backend=backend,
    )
    c, n = chunk_states(k, v, gates, states.c, states.n, chunk_size=chunk_size, backend=backend)
    normaliser = _of_normaliser(form, gates.floor, h_cotangent, *kept)
    inverse, bias, by_eps, q_dot = normaliser
    c_gradients, n_gradients = chunk_state_gradients(
        q,
        h_cotangent,
        gates,
        inverse,
        bias,
        c_cotangent,
        n_cotangent,
        chunk_size=chunk_size,
        backend=backend,
    )
    is_read = call.carried or chunk_size < q.shape[2]
    inputs = input_gradients(
        q,
        k,
        v,
        h_cotangent,
        gates,
        inverse,
        bias,
        (c, n) if is_read else None,
        (c_gradients, n_gradients),
        chunk_size=chunk_size,
        backend=backend,
    )
    flows = _inner(c, c_gradients) + _inner(n, n_gradients)
    by_m = None
    if form.normalizer_grad:
        # The last states are scaled by exp(-m).
        behind = by_eps[..., -1:] + m_cotangent - flows[..., -1:]
        by_m = mx.concatenate([by_eps[..., :-1], behind], axis=-1)
    of_gates = gate_gradients(
        call.i,
        call.f,
        gates,
        call.mask,
        (q_dot - inputs.own_dot, inputs.k_dot, inputs.own_dot),
        flows,
        by_m,
        chunk_size=chunk_size,
        sigmoid_input=form.sigmoid_input,
    )
    initial = (c_gradients[:, :, 0], n_gradients[:, :, 0], of_gates.m)
    return (
        *(inputs.q, inputs.k, inputs.v),
        *(of_gates.i.astype(call.i.dtype), of_gates.f.astype(call.f.dtype)),
        *(initial if call.carried else ()),
        *(() if call.mask is None else (mx.zeros_like(call.mask),)),
    )


class _OfNormaliser(NamedTuple):
    """Of every step, (B, NH, S) float32.

    Attributes:
        inverse: 1 / normaliser, zero where h is zero whatever comes.
        bias: the gradient in the sums before their bound.
        by_eps: the gradient in m, which scales all but eps.
        q_dot: q . dq. It needs no dq: numerator and sum are linear in q, and what a sum that is not
            bounded adds takes all of it away again but for the share of eps.
    """

    inverse: mx.array
    bias: mx.array
    by_eps: mx.array
    q_dot: mx.array


def _of_normaliser(
    form: Form, floor: mx.array, h_cotangent: mx.array, h: mx.array, sums: mx.array
) -> _OfNormaliser:
    nothing = mx.zeros_like(floor)
    live = mx.isfinite(floor)
    products = h_cotangent.astype(mx.float32) * h.astype(mx.float32)
    read = mx.where(live, mx.sum(products, axis=-1), nothing)
    if not form.normalize:
        ones = mx.ones_like(floor)
        return _OfNormaliser(mx.where(live, ones, nothing), nothing, nothing, read)
    eps = mx.array(form.eps, dtype=floor.dtype)
    size = mx.abs(sums)
    inverse = mx.where(live, mx.reciprocal(mx.maximum(size, floor) + eps), nothing)
    if not form.normalizer_grad:
        return _OfNormaliser(inverse, nothing, nothing, read)
    free = size > floor
    pulled = read * inverse
    bias = mx.where(free, mx.negative(pulled) * mx.sign(sums), nothing)
    of_eps = pulled * eps
    return _OfNormaliser(inverse, bias, mx.negative(of_eps), mx.where(free, of_eps, read))


def _inner(states: mx.array, gradients: mx.array) -> mx.array:
    """Inner products of states (B, NH, NC, ...) with their gradients, (B, NH, NC)."""
    # A product of matrices needs no memory for the terms; in two steps it rounds less.
    product = mx.expand_dims(states, axis=-2) @ mx.expand_dims(gradients, axis=-1)
    rows = mx.squeeze(product, axis=(-2, -1))
    return mx.sum(rows, axis=-1) if rows.ndim > 3 else rows
