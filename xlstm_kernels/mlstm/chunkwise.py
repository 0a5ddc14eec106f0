"""Chunkwise mLSTM: a recurrence over chunks, and within a chunk all steps at once.

    m_t = max(log sigmoid(f_t) + m_{t-1}, i_t)
    f' = exp(log sigmoid(f_t) + m_{t-1} - m_t), i' = exp(i_t - m_t)
    C_t = f' C_{t-1} + i' k_t v_t^T, n_t = f' n_{t-1} + i' k_t
    h_t = q_t C_t / (max(|q_t n_t|, exp(-m_t)) + eps), with q_t / sqrt(DK) for q_t

(Beck et al., "xLSTM", 2024, section 2.3). What is computed from the gates alone is in `gates`, the
states between chunks in `chunk_states`, what the steps read in `chunk_outputs`; `fused` has both in
one kernel.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import mlx.core as mx

from xlstm_kernels import executors
from xlstm_kernels.differentiation import Arrays, Operation, differentiable
from xlstm_kernels.mlstm.arguments import (
    States,
    initial_states,
    require_eps,
    require_mask,
    require_sequence,
    zero_states,
)
from xlstm_kernels.mlstm.chunk_outputs import chunk_outputs
from xlstm_kernels.mlstm.chunk_states import chunk_states
from xlstm_kernels.mlstm.fused import KEY_WIDTH_LIMIT, TIME, fused_outputs
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
        fused: one kernel from the first step to the last.
    """

    chunk_size: int | None
    eps: float
    sigmoid_input: bool = False
    normalize: bool = True
    fused: bool = False


def mlstm_chunkwise(
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
    chunk_size: int = 64,
    *,
    fused: bool = False,
    mask: mx.array | None = None,
    backend: str | None = None,
) -> Result:
    """The mLSTM over a sequence, in chunks: the form for training and for prompts.

    Any length: the last chunk may be shorter. Nothing is padded. float32 inside; exponents in twice
    its digits, so that gates of 100 cost no accuracy; a forget gate of -inf resets, an input gate
    of -inf admits nothing.

    Args:
        q: (B, NH, S, DK); float32, float16 or bfloat16. Like k, v and the gates it may lie in
            memory as it will, such as a transposed (B, S, NH, DK): nothing is copied.
        k: (B, NH, S, DK) of the same dtype.
        v: (B, NH, S, DV) of the same dtype.
        i: (B, NH, S), input gates before the exponential function.
        f: (B, NH, S), forget gates before the sigmoid.
        c_initial: (B, NH, DK, DV), the state to begin with. The three come together, or not at all.
        n_initial: (B, NH, DK).
        m_initial: (B, NH, 1).
        return_last_states: whether to return the last states as well.
        eps: added to the normaliser. It counts in units of exp(-m): it weighs more where input
            gates were large.
        chunk_size: steps of a chunk, at least 1; 64 to 256 is fast.
        fused: run one kernel, which keeps the state in registers and writes none between chunks:
            for inference with many heads or long prompts. The chunk size is its own then, and DK
            must be at most 512. The same numbers but for rounding.
        mask: (B, S) booleans. Where False the step is skipped: the state stays, h is zero,
            whatever stands in q, k, v and the gates.
        backend: `"metal"`, `"native"` (MLX operations), or None for Metal where it is available and
            the GPU is the default device. Inside `mx.vmap` and `mx.jvp` it must be `"native"`,
            since MLX refuses kernels there.

    Returns:
        h (B, NH, S, DV) in the dtype of v; or (h, (c, n, m)) with float32 states.

    Raises:
        TypeError: for a dtype that is not listed, an eps or chunk size that is no number.
        ValueError: for shapes that do not fit, states that are incomplete, a chunk size below 1,
            an eps that is negative or not finite, a DK too wide for `fused`, an unknown backend.
        RuntimeError: for a backend that cannot run here.
    """
    operator = "mlstm_chunkwise"
    form = Form(
        require_chunk_size(operator, chunk_size), require_eps(operator, eps), fused=bool(fused)
    )
    if fused and isinstance(q, mx.array) and q.ndim and q.shape[-1] > KEY_WIDTH_LIMIT:
        raise ValueError(
            f"{operator}: fused=True takes a DK of at most {KEY_WIDTH_LIMIT}, got {q.shape[-1]}"
        )
    given = (c_initial, n_initial, m_initial)
    return run(operator, form, (q, k, v, i, f), given, return_last_states, mask, backend)


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
    states = initial_states(operator, q, v, given)
    require_mask(operator, q, mask)
    resolved = executors.resolve(backend)
    if not q.shape[2]:
        h, last = mx.zeros(v.shape, dtype=v.dtype), states or zero_states(q, v)
    else:
        operation = _operation(form, resolved, states is not None, mask is not None)
        masks = () if mask is None else (mask,)
        h, *after = operation(*inputs, *(states or ()), *masks)
        last = States(*after)
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


@functools.cache
def _operation(form: Form, backend: str, carried: bool, masked: bool) -> Operation:
    """The differentiable operation (q, k, v, i, f[, c, n, m][, mask]) -> (h, c, n, m)."""

    def compute(arrays: Arrays, mask: mx.array | None, executor: str) -> Arrays:
        states = States(*arrays[5:]) if carried else None
        return _compute(*arrays[:5], states, mask, form=form, backend=executor)

    def forward(*arrays: mx.array) -> Arrays:
        mask = arrays[-1] if masked else None
        return compute(arrays[:-1] if masked else arrays, mask, backend)

    def gradient(primals: Arrays, cotangents: Arrays) -> Arrays:
        mask = primals[-1] if masked else None
        differentiated = list(primals[:-1] if masked else primals)
        _, gradients = mx.vjp(
            lambda *arrays: compute(arrays, mask, executors.NATIVE),
            differentiated,
            list(cotangents),
        )
        return (*gradients, *(() if mask is None else (mx.zeros_like(mask),)))

    return differentiable(forward, gradient)


def _compute(
    q: mx.array,
    k: mx.array,
    v: mx.array,
    i: mx.array,
    f: mx.array,
    states: States | None,
    mask: mx.array | None,
    *,
    form: Form,
    backend: str,
) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """h, c, n and m; what nobody looks at of them is never evaluated."""
    steps = q.shape[2]
    eps = mx.array(form.eps, dtype=mx.float32)
    is_fused = form.fused and backend != executors.NATIVE
    chunk_size = steps if form.chunk_size is None else min(form.chunk_size, steps)
    if is_fused:
        chunk_size = TIME
    before = zero_states(q, v) if states is None else states
    gates = log_gates(
        i,
        f,
        before.m,
        mask,
        chunk_size=chunk_size,
        sigmoid_input=form.sigmoid_input,
        backend=backend,
    )
    if is_fused:
        h, c, n = fused_outputs(
            q, k, v, gates, before, eps, normalize=form.normalize, backend=backend
        )
        return h, c, n, gates.m
    c, n = chunk_states(k, v, gates, before.c, before.n, chunk_size=chunk_size, backend=backend)
    # A single chunk that begins with nothing reads no state: its kernel need not wait for one.
    read = None if states is None and chunk_size == steps else (c, n)
    h = chunk_outputs(
        q,
        k,
        v,
        gates,
        read,
        eps,
        chunk_size=chunk_size,
        normalize=form.normalize,
        backend=backend,
    )
    return h, c[:, :, -1], n[:, :, -1], gates.m
