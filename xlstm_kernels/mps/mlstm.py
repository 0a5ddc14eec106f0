"""The mLSTM of tensors, in chunks, step by step, and by one step: see `xlstm_kernels.mlstm`."""

from __future__ import annotations

from typing import Any, TypeAlias

import mlx.core as mx
import torch

from xlstm_kernels.arguments import non_negative, require_shape
from xlstm_kernels.mlstm import choice
from xlstm_kernels.mlstm.chunked.operation import require_chunk_size
from xlstm_kernels.mlstm.sequence_kernel import KERNELS as SEQUENCE_KERNELS
from xlstm_kernels.mlstm.step import KERNELS as STEP_KERNELS
from xlstm_kernels.mps.first_order import first_order
from xlstm_kernels.mps.launching import (
    FLOATING,
    launched,
    require_mask,
    require_tensors,
)
from xlstm_kernels.mps.mlstm_passes import Call, backward_pass, forward_pass

#: c (B, NH, DK, DV), n (B, NH, DK) and m (B, NH, 1), float32; c and n are scaled by exp(-m).
States: TypeAlias = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


def mlstm_chunkwise(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    i: torch.Tensor,
    f: torch.Tensor,
    c_initial: torch.Tensor | None = None,
    n_initial: torch.Tensor | None = None,
    m_initial: torch.Tensor | None = None,
    return_last_states: bool = False,
    eps: float = 1e-6,
    chunk_size: int | None = None,
) -> torch.Tensor | tuple[torch.Tensor, States]:
    """The mLSTM over a sequence, in chunks: the form for training and for prompts.

    Any length. All sums, states and products of matrices are float32. The gradient is exact: it
    includes the normaliser.

    Args:
        q: (B, NH, S, DK), not empty; float32, float16 or bfloat16. Like k, v and the gates it may
            lie in memory as it will, such as a transposed (B, S, NH, DK).
        k: (B, NH, S, DK) of the same dtype.
        v: (B, NH, S, DV) of the same dtype.
        i: (B, NH, S), input gates before the exponential function.
        f: (B, NH, S), forget gates before the sigmoid.
        c_initial: (B, NH, DK, DV), the state to begin with. The three come together, or not at all.
        n_initial: (B, NH, DK).
        m_initial: (B, NH, 1).
        return_last_states: whether to return the last states as well.
        eps: added to the normaliser.
        chunk_size: steps of a chunk, at least 1, at most 256 of which are taken; None chooses.

    Returns:
        h (B, NH, S, DV) in the dtype of v; or (h, (c, n, m)) with float32 states.

    Raises:
        TypeError: for a dtype that is not listed, an eps or chunk size that is not a number.
        ValueError: for shapes that do not fit, states that are incomplete, a chunk size below 1,
            an eps that is negative or not finite, a tensor on another device than "mps".
    """
    operator = "mlstm_chunkwise"
    c, n, m = _checked(operator, (q, k, v, i, f), (c_initial, n_initial, m_initial))
    epsilon, size = non_negative(operator, "eps", eps), require_chunk_size(operator, chunk_size)
    length = _chunk_length(q, v, size)
    h, *last = _Chunkwise.apply(q, k, v, i, f, c, n, m, epsilon, length)
    return (h, (last[0], last[1], last[2])) if return_last_states else h


def mlstm_sequence(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    i: torch.Tensor,
    f: torch.Tensor,
    c_initial: torch.Tensor | None = None,
    n_initial: torch.Tensor | None = None,
    m_initial: torch.Tensor | None = None,
    return_last_states: bool = False,
    eps: float = 1e-6,
    dtype_state: torch.dtype = torch.float32,
    *,
    normalizer_grad: bool = True,
    mask: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, States]:
    """Run the mLSTM over a sequence, one step after the other, by one kernel.

    Computed in float32 and rounded once. The gradient is computed in chunks.

    Args:
        q: (B, NH, S, DK), the queries; float32, float16 or bfloat16. Any S, 0 included. Tensors
            that are transposed are read as they lie.
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
        normalizer_grad: whether gradients flow through the normaliser and m.
        mask: (B, S), booleans; a step that is False leaves the states as they are and has an h of
            zero, whatever q, k, v, i and f hold. None for all True.

    Returns:
        h (B, NH, S, DV) in the dtype of v; with `return_last_states` the pair of it and the states
        c (B, NH, DK, DV), n (B, NH, DK), m (B, NH, 1).

    Raises:
        TypeError: for a dtype that is not listed, or an `eps` that is not a number.
        ValueError: for shapes that do not fit, initial states of which one is missing, an `eps`
            that is negative or infinite, a DK beyond 16384, a tensor on another device than "mps".
    """
    operator = "mlstm_sequence"
    given = (c_initial, n_initial, m_initial)
    c, n, m = _checked(operator, (q, k, v, i, f), given, may_be_empty=True)
    require_mask(operator, mask, (q.shape[0], q.shape[2]), "(B, S)")
    if dtype_state not in FLOATING:
        raise TypeError(
            f"{operator}: dtype_state must be float32, float16 or bfloat16, got {dtype_state}"
        )
    epsilon = non_negative(operator, "eps", eps)
    if q.numel():
        h, c, n, m = _Sequence.apply(q, k, v, i, f, c, n, m, epsilon, mask, bool(normalizer_grad))
    else:
        h = torch.zeros_like(v)
    if not return_last_states:
        return h
    # What the rounding of m has changed.
    scale = torch.exp(torch.nan_to_num(m - m.to(dtype_state).float(), 0.0, 0.0, 0.0))
    c, n = scale[..., None] * c, scale * n
    return h, (c.to(dtype_state), n.to(dtype_state), m.to(dtype_state))


def mlstm_step(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    i: torch.Tensor,
    f: torch.Tensor,
    c: torch.Tensor,
    n: torch.Tensor,
    m: torch.Tensor,
    eps: float = 1e-6,
) -> tuple[torch.Tensor, States]:
    """Take the mLSTM one step further, by one kernel.

    Args:
        q: (B, NH, DK), the query, not empty; float32, float16 or bfloat16.
        k: (B, NH, DK), the key, not scaled; the dtype of q.
        v: (B, NH, DV), the value; the dtype of q.
        i: (B, NH), the input gate before its exp.
        f: (B, NH), the forget gate before its sigmoid.
        c: (B, NH, DK, DV), the state C, scaled by exp(-m).
        n: (B, NH, DK), the normaliser's state, likewise.
        m: (B, NH, 1), the logarithm of their scale.
        eps: a number, zero or positive, added to the denominator.

    Returns:
        h (B, NH, DV) in the dtype of v, and the states, float32.

    Raises:
        TypeError: for a dtype that is not listed, or an `eps` that is not a number.
        ValueError: for shapes that do not fit, a negative or infinite `eps`, a tensor on another
            device than "mps".
    """
    operator = "mlstm_step"
    c, n, m = _checked(operator, (q, k, v, i, f), (c, n, m), axes=3)
    h, *last = _Step.apply(q, k, v, i, f, c, n, m, non_negative(operator, "eps", eps))
    return h, (last[0], last[1], last[2])


def _chunk_length(q: torch.Tensor, v: torch.Tensor, size: int | None = None) -> int:
    """Steps of a chunk: at most `size`, or what the table has for None."""
    if size is None:
        size = choice.chosen(q, v, "metal", form=choice.CHUNKWISE).chunk_size
    steps: int = q.shape[2]
    return min(size, steps, choice.GREATEST)


def _checked(
    operator: str,
    inputs: tuple[torch.Tensor, ...],
    given: tuple[torch.Tensor | None, ...],
    *,
    axes: int = 4,
    may_be_empty: bool = False,
) -> tuple[torch.Tensor, ...]:
    """The initial states, of inputs and states that fit each other."""
    named = dict(zip("qkvif", inputs, strict=True))
    require_tensors(operator, **named, **dict(zip("cnm", given, strict=True)))
    q, k, v, i, f = inputs
    if q.ndim != axes:
        layout = "(B, NH, S, DK)" if axes == 4 else "(B, NH, DK)"
        raise ValueError(f"{operator}: q must be a tensor {layout}")
    if not q.dtype == k.dtype == v.dtype:
        raise TypeError(
            f"{operator}: q, k and v must have one dtype, got {q.dtype}, {k.dtype}, {v.dtype}"
        )
    if not may_be_empty and not (q.numel() and v.numel()):
        raise ValueError(f"{operator}: q, k and v must not be empty")
    require_shape(operator, "k", k, tuple(q.shape), "that of q")
    require_shape(operator, "v", v, (*q.shape[:-1], v.shape[-1]), "that of q but for DV")
    require_shape(operator, "i", i, tuple(q.shape[:-1]), "that of q without DK")
    require_shape(operator, "f", f, tuple(q.shape[:-1]), "that of q without DK")
    if not q.shape[-1] or not v.shape[-1]:
        raise ValueError(f"{operator}: q, k and v need a last axis that is not empty")
    leading, keys, values = tuple(q.shape[:2]), q.shape[-1], v.shape[-1]
    shapes = ((*leading, keys, values), (*leading, keys), (*leading, 1))
    present = [state for state in given if state is not None]
    if len(present) not in {0, len(given)}:
        missing = [name for name, state in zip("cnm", given, strict=True) if state is None]
        raise ValueError(
            f"{operator}: the initial states c, n and m come together, missing "
            f"{' and '.join(missing)}: c and n are scaled by exp(-m)"
        )
    if not present:
        return tuple(torch.zeros(shape, device=q.device) for shape in shapes)
    if present[2].shape == leading:
        present[2] = present[2].unsqueeze(2)
    for name, state, shape in zip("cnm", present, shapes, strict=True):
        require_shape(operator, name, state, shape, "that of the state")
    return tuple(state.float().contiguous() for state in present)


class _Chunkwise(torch.autograd.Function):
    """(q, k, v, i, f, c, n, m, eps, steps of a chunk) to (h, c, n, m)."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
        *tensors, ctx.eps, ctx.length = arguments
        results = forward_pass(Call(*arguments))
        ctx.save_for_backward(*tensors, *results)
        return results[:-1]

    @staticmethod
    @first_order
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        saved = ctx.saved_tensors
        call = Call(*(*saved[:8], ctx.eps, ctx.length))
        return *backward_pass(call, saved[8:], cotangents), None, None


class _Sequence(torch.autograd.Function):
    """(q, k, v, i, f, c, n, m, eps, mask, normaliser's gradient?) to (h, c, n, m)."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
        *tensors, ctx.eps, mask, ctx.normalizer_grad = arguments
        ctx.save_for_backward(*tensors, mask)
        masks = () if mask is None else (mask,)
        return launched(SEQUENCE_KERNELS[True][len(masks)], *tensors, *masks, ctx.eps)

    @staticmethod
    @first_order
    def backward(ctx: Any, *cotangents: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        *tensors, mask = ctx.saved_tensors
        length = _chunk_length(tensors[0], tensors[2])
        call = Call(*(*tensors, ctx.eps, length, mask, ctx.normalizer_grad))
        return *backward_pass(call, forward_pass(call), cotangents), None, None, None


class _Step(torch.autograd.Function):
    """(q, k, v, i, f, c, n, m, eps) to (h, c, n, m): a sequence of one step."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[torch.Tensor, ...]:
        *tensors, ctx.eps = arguments
        ctx.save_for_backward(*tensors)
        return launched(STEP_KERNELS[mx.float32], *tensors, ctx.eps)

    @staticmethod
    @first_order
    def backward(
        ctx: Any, h: torch.Tensor, *states: torch.Tensor
    ) -> tuple[torch.Tensor | None, ...]:
        *inputs, c, n, m = ctx.saved_tensors
        call = Call(*(*(tensor.unsqueeze(2) for tensor in inputs), c, n, m, ctx.eps, 1))
        gradients = backward_pass(call, forward_pass(call), (h.unsqueeze(2), *states))
        return *(gradient.squeeze(2) for gradient in gradients[:5]), *gradients[5:], None
